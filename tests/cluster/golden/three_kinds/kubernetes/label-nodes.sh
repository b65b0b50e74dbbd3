#!/bin/sh
# Written by `stretto cluster compile` from examples/cluster/three_kinds.toml.
set -eu
# examples/cluster/three_kinds.toml:28
kubectl label --overwrite node s0 stretto/group=single stretto/chip=k40
kubectl label --overwrite node s1 stretto/group=single stretto/chip=k40
# examples/cluster/three_kinds.toml:34
kubectl label --overwrite node m0 stretto/group=multi stretto/chip=v100
kubectl label --overwrite node m1 stretto/group=multi stretto/chip=v100
# examples/cluster/three_kinds.toml:39
kubectl label --overwrite node r0 stretto/group=reserve stretto/chip=v100
