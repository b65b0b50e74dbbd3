#!/bin/sh
# Written by `stretto cluster compile` from tests/cluster/sites/off.toml.
set -eu
# tests/cluster/sites/off.toml:7
kubectl label --overwrite node n1 stretto/group=one stretto/chip=a100
# tests/cluster/sites/off.toml:13
kubectl label --overwrite node n2 stretto/group=more stretto/chip=a100
# tests/cluster/sites/off.toml:18
kubectl label --overwrite node n3 stretto/group=reserve stretto/chip=a100
