"""The programs that a Slurm cluster on this machine needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from stretto.cluster._host import ClusterError

DAEMONS = ("slurmctld", "slurmd")
CLIENTS = ("sbatch", "srun", "squeue", "sinfo", "scancel", "scontrol")
PACKAGES = ("slurmctld", "slurmd", "slurm-client")  # of Debian and Ubuntu
ELSEWHERE = ("/usr/sbin", "/usr/local/sbin", "/sbin")  # not in every user's PATH
INSTALL_S = 600


def search_path() -> str:
  known = os.environ.get("PATH", os.defpath)
  return os.pathsep.join([known, *(p for p in ELSEWHERE if p not in known.split(os.pathsep))])


def missing() -> list[str]:
  return [p for p in (*DAEMONS, *CLIENTS) if shutil.which(p, path=search_path()) is None]


def require(talk) -> None:
  """Installs Slurm's packages where that is possible without asking: as root, on Debian."""
  if not (absent := missing()):
    return
  command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
  if os.geteuid() != 0 or shutil.which("apt-get") is None:
    raise ClusterError(f"{', '.join(absent)}: not found. A Slurm cluster on this machine needs "
                       f"them: sudo {' '.join(command)} (on other systems slurm-slurmctld, "
                       "slurm-slurmd and slurm, or slurm-wlm)")
  talk(f"installing {' '.join(PACKAGES)}")
  try:
    done = subprocess.run(command, stdout=sys.stderr, stdin=subprocess.DEVNULL, timeout=INSTALL_S,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
  except subprocess.TimeoutExpired:
    raise ClusterError(f"{' '.join(command)}: not done after {INSTALL_S} s") from None
  if done.returncode != 0 or missing():
    raise ClusterError(f"{' '.join(command)}: failed, see above; `apt-get update` may help")
