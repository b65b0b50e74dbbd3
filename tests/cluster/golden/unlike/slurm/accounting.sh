#!/bin/sh
# Written by `stretto cluster compile` from tests/cluster/sites/unlike.toml.
# Shares and limits of users and queues live in Slurm's accounting database (slurmdbd). Run
# this once it is set up, and slurm.conf includes accounting.conf. Every other user needs
# a line `sacctmgr -i add user NAME account=Big_Lab cluster=Big_Lab fairshare=100`.
set -eu
sacctmgr -i add account Big_Lab cluster=Big_Lab
# tests/cluster/sites/unlike.toml:73
sacctmgr -i add user eva account=Big_Lab cluster=Big_Lab fairshare=250
sacctmgr -i modify user eva where account=Big_Lab set GrpTRES=gres/gpu=16,gres/npu=16
# tests/cluster/sites/unlike.toml:64
# and let its partitions in slurm.conf have QOS=day
sacctmgr -i add qos day
sacctmgr -i modify qos day set GrpTRES=gres/gpu=8,gres/npu=8
