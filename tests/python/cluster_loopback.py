"""A Slurm cluster on this machine, by what `stretto cluster compile` writes: a slurmctld and a
slurmd for each node, of this user, on 127.0.0.1."""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

PATIENCE_S = 90  # on a busy machine
SBIN = os.environ["PATH"] + ":/usr/sbin:/sbin"


def installed() -> bool:
  return all(shutil.which(program, path=SBIN) for program in ("slurmctld", "slurmd", "sbatch"))


def program() -> str:
  """The command that was built."""
  build = os.environ.get("STRETTO_BUILD")
  if not build:
    pytest.skip("no stretto program: set STRETTO_BUILD to a build folder (./dev test does)")
  return str(Path(build).resolve() / "cli/stretto")


def free_ports(count: int) -> int:
  """The first of `count` ports in a row that nobody listens on."""
  for first in range(20000 + os.getpid() % 8000, 32000, count):
    sockets = []
    try:
      for port in range(first, first + count):
        sockets.append(socket.socket())
        sockets[-1].bind(("127.0.0.1", port))
      return first
    except OSError:
      continue
    finally:
      for each in sockets:
        each.close()
  raise OSError(f"no {count} free ports")


def settings(folder: Path, port: int) -> str:
  """What a site's own slurm.conf says; compile writes the rest. auth/none believes every user of
  this machine."""
  user = pwd.getpwuid(os.geteuid()).pw_name
  return f"""ClusterName=policy
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
SlurmctldPort={port}
SlurmdPort={port + 1}
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
ReturnToService=2
SlurmctldTimeout=300
SlurmdTimeout=300
KillWait=5
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_resolution=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
EnforcePartLimits=ALL
"""


class Loopback:
  def __init__(self, folder: Path, site: str):
    self.folder = folder
    self.environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")} | {
      "SLURM_CONF": str(folder / "etc/slurm.conf"), "PATH": SBIN}
    for name in ("etc", "state", "run", "log", "spool"):
      (folder / name).mkdir()
    port = free_ports(16)
    (folder / "site.toml").write_text(site)
    subprocess.run([program(), "cluster", "compile", "site.toml", "-o", "out", "--for", "slurm",
                    "--loopback-port", str(port + 2)], cwd=folder, check=True, capture_output=True,
                   timeout=PATIENCE_S)
    for path in (folder / "out/slurm").iterdir():
      shutil.copy(path, folder / "etc" / path.name)
    conf = folder / "etc/slurm.conf"
    conf.write_text(settings(folder, port) + conf.read_text())
    (folder / "etc/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

  def __enter__(self):
    try:
      self.must("slurmctld", "-i")
      names = re.findall(r"^NodeName=(\S+)", (self.folder / "etc/slurm.conf").read_text(), re.M)
      nodes = self.must("scontrol", "show", "hostnames", ",".join(names)).split()
      for node in nodes:
        (self.folder / "spool" / node).mkdir()
        self.must("slurmd", "-N", node)
      self.wait(lambda: len(set(self.must("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()))
                == len(nodes))
    except BaseException:
      self.stop()
      raise
    return self

  def __exit__(self, *_):
    self.stop()

  def run(self, *words):
    return subprocess.run(words, env=self.environment, capture_output=True, text=True,
                          cwd=self.folder, timeout=PATIENCE_S)

  def must(self, *words) -> str:
    done = self.run(*words)
    assert done.returncode == 0, f"{words}: {done.stderr}{done.stdout}{self.logs()}"
    return done.stdout.strip()

  def logs(self) -> str:
    path = self.folder / "log/slurmctld.log"
    return "\n" + path.read_text()[-5000:] if path.exists() else ""

  def submit(self, *words, script: str = "sleep 60") -> str:
    return self.must("sbatch", "--parsable", "-o", "log/%x-%j.out", *words, "--wrap", script)

  def refusal(self, *words) -> str:
    done = self.run("sbatch", "-o", "log/%x-%j.out", *words, "--wrap", "true")
    assert done.returncode != 0, f"{words} was taken: {done.stdout}"
    return done.stderr

  def jobs(self) -> dict[str, tuple[str, str, str]]:
    """State, partition and nodes of each job, by its name."""
    lines = self.must("squeue", "-h", "-o", "%j|%T|%P|%N").splitlines()
    return {name: tuple(rest) for name, *rest in (line.split("|") for line in lines)}

  def wait(self, what, patience_s=PATIENCE_S):
    end = time.monotonic() + patience_s
    while not what():
      if time.monotonic() > end:
        raise TimeoutError(f"{self.run('squeue').stdout}{self.logs()}")
      time.sleep(0.1)

  def empty(self):
    self.run("scancel", "-u", pwd.getpwuid(os.geteuid()).pw_name)
    self.wait(lambda: not self.must("squeue", "-h"))

  def stop(self):
    """Jobs first, or their slurmstepd would outlive the slurmd."""
    try:
      self.empty()
    except (AssertionError, TimeoutError, subprocess.TimeoutExpired):
      pass
    numbers = []
    for path in (self.folder / "run").glob("*.pid"):
      try:
        numbers.append(int(path.read_text()))
        os.kill(numbers[-1], signal.SIGTERM)
      except (OSError, ValueError):
        continue
    end = time.monotonic() + 20
    while numbers and time.monotonic() < end:
      numbers = [n for n in numbers if Path(f"/proc/{n}").exists()]
      time.sleep(0.05)
    for number in numbers:
      os.kill(number, signal.SIGKILL)
