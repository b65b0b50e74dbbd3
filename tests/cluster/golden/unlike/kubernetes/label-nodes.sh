#!/bin/sh
# Written by `stretto cluster compile` from tests/cluster/sites/unlike.toml.
set -eu
# tests/cluster/sites/unlike.toml:33
kubectl label --overwrite node c0 stretto/group=no-chips stretto/chip=none
kubectl label --overwrite node c1 stretto/group=no-chips stretto/chip=none
# tests/cluster/sites/unlike.toml:38
kubectl label --overwrite node m08 stretto/group=small stretto/chip=v100 stretto/rack=a
# tests/cluster/sites/unlike.toml:43
kubectl label --overwrite node a0 stretto/group=large stretto/chip=ascend910 stretto/rack=b
kubectl label --overwrite node a1 stretto/group=large stretto/chip=ascend910 stretto/rack=b
# tests/cluster/sites/unlike.toml:43
kubectl label --overwrite node m09 stretto/group=large stretto/chip=v100 stretto/rack=a
kubectl label --overwrite node m10 stretto/group=large stretto/chip=v100 stretto/rack=a
# tests/cluster/sites/unlike.toml:48
kubectl label --overwrite node m11 stretto/group=reserve stretto/chip=v100 stretto/rack=a
