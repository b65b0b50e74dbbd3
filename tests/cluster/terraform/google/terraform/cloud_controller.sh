#!/bin/bash
# The controller of a Slurm site in a cloud, as root, once, by cloud-init: slurmctld, and the file
# server of the users' home folders. Written by `stretto cluster compile`.
set -euo pipefail
. /etc/stretto/site.env
export DEBIAN_FRONTEND=noninteractive
grep -q ' controller$' /etc/hosts || cat /etc/stretto/hosts >>/etc/hosts

apt-get update
apt-get install -y --no-install-recommends \
  slurmctld slurm-client munge nfs-kernel-server iptables python3 python3-venv git rsync

# What users read from the metadata service would include the key below.
cat >/etc/systemd/system/stretto-metadata.service <<'UNIT'
[Unit]
Description=Only root reads the metadata of this machine
After=network.target
[Service]
Type=oneshot
ExecStart=/usr/sbin/iptables -I OUTPUT -d 169.254.169.254 -p tcp -m owner ! --uid-owner root --dport 80 -j REJECT
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable --now stretto-metadata.service

# The disk outlives this machine. Only one that is certainly empty is formatted.
for _ in $(seq 600); do
  [ -b "$STRETTO_DISK" ] && break
  sleep 1
done
found=0
blkid -p "$STRETTO_DISK" >/dev/null || found=$?
if [ "$found" = 2 ]; then
  mkfs.ext4 -q "$STRETTO_DISK"
elif [ "$found" != 0 ]; then
  echo "$STRETTO_DISK: blkid cannot read it (exit code $found)" >&2
  exit 1
fi
mkdir -p /shared
grep -q ' /shared ' /etc/fstab || echo "$STRETTO_DISK /shared ext4 defaults,nofail 0 2" >>/etc/fstab
mountpoint -q /shared || mount /shared

home=/shared/home/$STRETTO_USER
id "$STRETTO_USER" >/dev/null 2>&1 ||
  useradd --uid 2000 --user-group --no-create-home --home-dir "$home" --shell /bin/bash \
    "$STRETTO_USER"
mkdir -p "$home/.ssh" /shared/home/.stretto /shared/slurm
install -m 600 /etc/stretto/authorized_keys "$home/.ssh/authorized_keys"
chmod 700 "$home" "$home/.ssh"
chown "$STRETTO_USER:" "$home" "$home/.ssh" "$home/.ssh/authorized_keys"
install -m 644 /etc/stretto/hosts /shared/home/.stretto/hosts
echo "/shared/home $STRETTO_SUBNET(rw,sync,no_subtree_check,root_squash)" >/etc/exports
exportfs -ra
systemctl enable --now nfs-server

install -o munge -g munge -m 400 /etc/stretto/munge.key /etc/munge/munge.key
rm /etc/stretto/munge.key
mkdir -p /etc/slurm /var/log/slurm
install -m 644 /etc/stretto/slurm/* /etc/slurm/
chown -R slurm: /shared/slurm /var/log/slurm
systemctl enable munge slurmctld
systemctl restart munge slurmctld
# Nodes that are there already take the new configuration.
sleep 5
scontrol reconfigure || true
