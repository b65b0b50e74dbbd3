#!/bin/bash
# A node of a Slurm site in a cloud, as root, once, by cloud-init: slurmd, which gets its
# configuration from the controller. Written by `stretto cluster compile`.
set -euo pipefail
. /etc/stretto/site.env
export DEBIAN_FRONTEND=noninteractive
/usr/local/sbin/stretto-hosts

# A mirror may fail, and another program may hold the lock: without packages this machine is no use.
until apt-get -o DPkg::Lock::Timeout=600 update &&
  apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends \
    slurmd slurm-client munge nfs-common iptables python3 python3-venv git; do
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

mkdir -p /shared/home
grep -q ' /shared/home ' /etc/fstab ||
  echo "controller:/shared/home /shared/home nfs defaults,_netdev,nofail 0 0" >>/etc/fstab
until mountpoint -q /shared/home; do
  mount /shared/home || sleep 10 # the controller may need longer than this node
done
id "$STRETTO_USER" >/dev/null 2>&1 ||
  useradd --uid 2000 --user-group --no-create-home --home-dir "/shared/home/$STRETTO_USER" \
    --shell /bin/bash "$STRETTO_USER"

# Names of the other nodes, also of those that come later.
cat >/etc/systemd/system/stretto-hosts.service <<'UNIT'
[Unit]
Description=Names of the nodes of this site
[Service]
Type=oneshot
TimeoutStartSec=120
ExecStart=/usr/local/sbin/stretto-hosts
UNIT
cat >/etc/systemd/system/stretto-hosts.timer <<'UNIT'
[Unit]
Description=Names of the nodes of this site, every minute
[Timer]
OnBootSec=10s
OnUnitActiveSec=60s
[Install]
WantedBy=timers.target
UNIT

install -o munge -g munge -m 400 /etc/stretto/munge.key /etc/munge/munge.key
rm /etc/stretto/munge.key
mkdir -p /var/log/slurm /var/lib/slurm/slurmd
echo "SLURMD_OPTIONS='--conf-server controller:6817 -N $STRETTO_NODE'" >/etc/default/slurmd
mkdir -p /etc/systemd/system/slurmd.service.d
# There is no file of configuration here, and the controller may not be up yet.
cat >/etc/systemd/system/slurmd.service.d/stretto.conf <<'UNIT'
[Unit]
ConditionPathExists=
StartLimitIntervalSec=0
[Service]
Restart=on-failure
RestartSec=10
UNIT
systemctl daemon-reload
systemctl enable --now stretto-metadata.service stretto-hosts.timer
# The driver makes its device files when it is first used.
if command -v nvidia-smi >/dev/null; then nvidia-smi >/dev/null || true; fi
systemctl enable munge slurmd
systemctl restart munge slurmd
