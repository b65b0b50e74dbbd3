#!/bin/sh
# Written by `stretto cluster compile` from tests/cluster/sites/cloud.toml.
# Shares and limits of users and queues live in Slurm's accounting database (slurmdbd). Run
# this once it is set up, and slurm.conf includes accounting.conf. Every other user needs
# a line `sacctmgr -i add user NAME account=lab cluster=lab fairshare=100`.
set -eu
sacctmgr -i add account lab cluster=lab
# tests/cluster/sites/cloud.toml:52
sacctmgr -i add user ann account=lab cluster=lab fairshare=200
