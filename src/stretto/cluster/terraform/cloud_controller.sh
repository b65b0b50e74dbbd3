#!/bin/bash
# The controller of a Slurm site in a cloud, as root, once, by cloud-init: slurmctld, and the file
# server of the users' home folders. Written by `stretto cluster compile`.
set -euo pipefail
. /etc/stretto/site.env
export DEBIAN_FRONTEND=noninteractive
/usr/local/sbin/stretto-hosts

# A mirror may fail, and another program may hold the lock: without packages this machine is no use.
until apt-get -o DPkg::Lock::Timeout=600 update &&
  apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends \
    slurmctld slurm-client munge nfs-kernel-server iptables python3 python3-venv git rsync; do
  echo "stretto: apt-get has failed; again in 20 s" >&2
  sleep 20
done

# What users read from the metadata service would include the key below.
cat >/etc/systemd/system/stretto-metadata.service <<'UNIT'
[Unit]
Description=Only root reads the metadata of this machine
DefaultDependencies=no
After=local-fs.target
Before=network-pre.target
Wants=network-pre.target
[Service]
Type=oneshot
ExecStart=/usr/sbin/iptables -I OUTPUT -d 169.254.169.254 -p tcp -m owner ! --uid-owner root --dport 80 -j REJECT
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable --now stretto-metadata.service

# The disk outlives this machine. Only one that begins with a MiB of zeros, as new ones do, is
# formatted; one that cannot be read is not.
for _ in $(seq 600); do
  blockdev --getsize64 "$STRETTO_DISK" >/dev/null 2>&1 && break
  sleep 1
done
if cmp -s -n 1048576 "$STRETTO_DISK" /dev/zero; then
  mkfs.ext4 -q "$STRETTO_DISK"
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
# The queue is on /shared. Programs of the cloud may give this machine another name, with which
# slurmctld would not start.
for unit in slurmctld nfs-server; do
  mkdir -p "/etc/systemd/system/$unit.service.d"
  printf '[Unit]\nRequiresMountsFor=/shared\n' >"/etc/systemd/system/$unit.service.d/stretto.conf"
done
printf '[Service]\nExecStartPre=+/bin/hostname controller\n' \
  >>/etc/systemd/system/slurmctld.service.d/stretto.conf
systemctl daemon-reload
systemctl enable munge slurmctld
systemctl restart munge slurmctld
# Nodes that are there already take the new configuration.
sleep 5
scontrol reconfigure || true
