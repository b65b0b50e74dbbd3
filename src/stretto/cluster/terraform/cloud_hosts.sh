#!/bin/bash
# Writes the names of the machines of this site into /etc/hosts, as root, at first and then every
# minute on nodes: machines may come, and a mount may have failed. Written by `stretto cluster
# compile`.
set -euo pipefail
. /etc/stretto/site.env
if grep -q ' /shared/home ' /etc/fstab; then # on a node
  mountpoint -q /shared/home || timeout 30 mount /shared/home || true
  # A copy, because the controller may be away when this machine starts.
  if mountpoint -q /shared/home && [ -s /shared/home/.stretto/hosts ]; then
    cp /shared/home/.stretto/hosts /etc/stretto/hosts.part
    mv /etc/stretto/hosts.part /etc/stretto/hosts
  fi
fi
[ -s /etc/stretto/hosts ] || echo "$STRETTO_CONTROLLER controller" >/etc/stretto/hosts
# A name of this machine must not lead to 127.0.1.1, where others do not reach it.
{
  sed -e '/^# stretto$/,/^# end of stretto$/d' -e '/^127\.0\.1\.1[[:space:]]/d' /etc/hosts
  echo '# stretto'
  cat /etc/stretto/hosts
  echo '# end of stretto'
} >/etc/hosts.part
chmod 644 /etc/hosts.part
if cmp -s /etc/hosts.part /etc/hosts; then rm /etc/hosts.part; else mv /etc/hosts.part /etc/hosts; fi
