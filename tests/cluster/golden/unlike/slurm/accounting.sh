#!/bin/sh
# Written by `stretto cluster compile` from tests/cluster/sites/unlike.toml.
# Shares and limits of users and queues live in Slurm's accounting database (slurmdbd). Run
# this once it is set up, and slurm.conf includes accounting.conf. Every other user needs
# a line `sacctmgr -i add user NAME account=Big_Lab cluster="$cluster" fairshare=100`.
set -eu
cluster=$(scontrol show config | sed -n 's/^ClusterName *= *//p')
add() {  # what is there already is no error, so that this can run again
  out=$(sacctmgr -i add "$@" 2>&1) || case $out in
    *'Nothing new added'*) ;;
    *) echo "$out" >&2; exit 1 ;;
  esac
}
add account Big_Lab cluster="$cluster"
# tests/cluster/sites/unlike.toml:73
add user eva account=Big_Lab cluster="$cluster"
sacctmgr -i modify user eva where account=Big_Lab cluster="$cluster" set fairshare=250 GrpTRES=gres/gpu=16,gres/npu=16
# tests/cluster/sites/unlike.toml:64
# and let its partitions in slurm.conf have QOS=day
add qos day
sacctmgr -i modify qos day set GrpTRES=gres/gpu=8,gres/npu=8
