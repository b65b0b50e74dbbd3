#!/bin/sh
# Written by `stretto cluster compile` from tests/cluster/sites/cloud.toml.
# Shares and limits of users and queues live in Slurm's accounting database (slurmdbd). Run
# this once it is set up, and slurm.conf includes accounting.conf. Every other user needs
# a line `sacctmgr -i add user NAME account=lab cluster="$cluster" fairshare=100`.
set -eu
cluster=$(scontrol show config | sed -n 's/^ClusterName *= *//p')
add() {  # what is there already is no error, so that this can run again
  out=$(sacctmgr -i add "$@" 2>&1) || case $out in
    *'Nothing new added'*) ;;
    *) echo "$out" >&2; exit 1 ;;
  esac
}
add account lab cluster="$cluster"
# tests/cluster/sites/cloud.toml:52
add user ann account=lab cluster="$cluster"
sacctmgr -i modify user ann where account=lab cluster="$cluster" set fairshare=200
