"""What the daemons of a loopback cluster read: slurm.conf with its ports and folders. Nodes,
partitions and rules are those of a site."""

from __future__ import annotations

import json
import os
import pwd
import random
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from stretto.cluster._host import ClusterError

LOWEST, HIGHEST = 12000, 32000  # below those that systems give to clients
NODES = 10  # slurmctld has the first port, every node one from here on
TRIES = 200
MOST_NODES = 200
COMPILE_S = 60.0


def free_base(nodes: int) -> int:
  """A first port, of which those that the daemons listen on are free."""
  draw = random.Random(os.urandom(8))
  for _ in range(TRIES):
    base = draw.randrange(LOWEST, HIGHEST - NODES - MOST_NODES)
    if all(is_free(port) for port in [base, *range(base + NODES, base + NODES + nodes)]):
      return base
  raise OSError(f"no {nodes + 1} free ports between {LOWEST} and {HIGHEST}")


def is_free(port: int) -> bool:
  with socket.socket() as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
      s.bind(("127.0.0.1", port))
    except OSError:
      return False
    return True


class Site(NamedTuple):
  nodes: list[str]
  conf: str  # lines of slurm.conf: nodes, partitions and rules
  gres: str  # gres.conf
  other: dict[str, str]  # further files, such as job_submit.lua


def compiled_site(site: Path, folder: Path, base: int) -> Site:
  """What `stretto cluster compile` writes for the site, with all of its nodes on this machine."""
  words = [sys.executable, "-m", "stretto", "cluster", "compile", str(site.absolute()), "-o",
           str(folder / "site"), "--for", "slurm", "--loopback-port", str(base + NODES), "--json"]
  done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                        timeout=COMPILE_S)
  if done.returncode != 0:
    lines = (done.stderr or done.stdout).strip().splitlines()
    raise ClusterError(lines[-1].removeprefix("stretto: ") if lines else f"{site}: not compiled")
  nodes = json.loads(done.stdout)["nodes"]
  if len(nodes) > MOST_NODES:
    raise ClusterError(f"{site}: {len(nodes)} nodes; a cluster on one machine has {MOST_NODES} at "
                       "most")
  place = folder / "site/slurm"
  other = {name: text.read_text() for name in ("job_submit.lua", "topology.conf")
           if (text := place / name).exists()}
  return Site(nodes, (place / "slurm.conf").read_text(), (place / "gres.conf").read_text(), other)


def default_site(base: int) -> Site:
  """This machine as two nodes, so that a job of several can be tried. A cluster on one machine
  promises no speed: each node has all cores, and four at least."""
  cores = max(4, len(os.sched_getaffinity(0)))
  memory_mb = max(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20, 256)
  first = base + NODES
  return Site(["n0", "n1"], "\n".join([
    f"NodeName=n[0-1] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{first + 1}] "
    f"CPUs={cores} Boards=1 Sockets=1 CoresPerSocket={cores} ThreadsPerCore=1 "
    f"RealMemory={memory_mb} State=UNKNOWN",
    "PartitionName=all Nodes=n[0-1] Default=YES MaxTime=UNLIMITED State=UP", ""]),
    "AutoDetect=off\n", {})


def version() -> tuple[int, int]:
  """Of the Slurm that is installed; (0, 0) if it does not say."""
  done = subprocess.run(["sinfo", "--version"], capture_output=True, text=True, timeout=10)
  found = re.search(r"(\d+)\.(\d+)", done.stdout)
  return (int(found[1]), int(found[2])) if found else (0, 0)


def head(folder: Path, base: int, name: str) -> str:
  """Daemons of this user that listen on 127.0.0.1 only. auth/none believes whoever connects: every
  user of this machine could submit jobs that run as this one, which docs/howto/cluster.md says.

  No SrunPortRange: srun takes any free port. From a range it draws one, binds it and listens; if
  another srun drew the same one in between, it goes through the range with a socket that cannot be
  bound again, and the job fails ("all ports in range exhausted")."""
  try:
    user = pwd.getpwuid(os.geteuid()).pw_name
  except KeyError:  # in a container: Slurm takes the number, too
    user = str(os.geteuid())
  return f"""# Written by stretto cluster up.
ClusterName={re.sub('[^a-z0-9]', '', name.lower()) or 'local'}
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=10
SlurmctldPort={base}
SlurmdPort={base + 1}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp.txt
EnforcePartLimits=ALL
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=5
Epilog={shutil.which("true") or "/bin/true"}
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MinJobAge=600
MaxJobCount=50000
"""


def rules() -> str:
  """What a site may say otherwise."""
  return ("SchedulerParameters=bf_interval=1,bf_resolution=1,sched_interval=2,"
          "batch_sched_delay=0\n")


def cgroups() -> str:
  """Jobs are no cgroups here; the file must not be empty."""
  return f"CgroupPlugin={'disabled' if version() >= (23, 11) else 'cgroup/v1'}\n"
