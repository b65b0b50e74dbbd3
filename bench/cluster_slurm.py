"""The same jobs through Slurm and the simulator: do they start in one order, and wait as long?

    python -m bench.cluster_slurm --command build/dev/cli/stretto --jobs 200

Starts a cluster of Slurm's own daemons on this machine, without rights and on free ports; "chips"
are cores there, of which Slurm counts as many as it is told. Jobs sleep. Slurm's builtin scheduler
starts jobs in the order of their submission and lets nobody overtake: the policy fifo. The
simulator gets what Slurm has recorded: when jobs were submitted, and how long they held their
chips, longer by the time for which Slurm leaves chips idle between two jobs, which is measured
before. Slurm records whole seconds; two of them are the resolution.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

NODES, CHIPS = 4, 8
SIZES = (1, 1, 1, 1, 2, 4, 8, 16)
NEEDED = ("slurmctld", "slurmd", "sbatch", "squeue", "sinfo")
CONF = """\
ClusterName=bench
SlurmctldHost=localhost
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={port}
SlurmdPort={next_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.txt
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/basic
NodeName=DEFAULT CPUs={chips} Boards=1 Sockets=1 CoresPerSocket={chips} RealMemory=1000
{nodes}
PartitionName=all Nodes=n[0-{last}] Default=YES MaxTime=60 DefaultTime=1 State=UP
"""


def absent() -> list[str]:
  """The programs of Slurm that this machine lacks."""
  path = os.environ.get("PATH", "") + ":/usr/sbin"
  return [name for name in NEEDED if shutil.which(name, path=path) is None]


def free_ports(count: int) -> int:
  """The first of so many free ports in a row."""
  for base in random.sample(range(20000, 29000), 200):
    sockets = []
    try:
      for port in range(base, base + count):
        sockets.append(socket.socket())
        sockets[-1].bind(("127.0.0.1", port))
      return base
    except OSError:
      continue
    finally:
      for each in sockets:
        each.close()
  raise RuntimeError(f"no {count} free ports in a row")


class Slurm:
  """A cluster on this machine, gone at the end of a `with` block."""

  def __init__(self, folder: Path) -> None:
    self.folder = folder
    base = free_ports(NODES + 2)
    nodes = "\n".join(f"NodeName=n{i} NodeHostname=localhost NodeAddr=127.0.0.1 Port={base + 2 + i}"
                      for i in range(NODES))
    (folder / "slurm.conf").write_text(CONF.format(
      user=getpass.getuser(), port=base, next_port=base + 1, folder=folder, chips=CHIPS,
      nodes=nodes, last=NODES - 1))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    for part in ("state", *(f"spool/n{i}" for i in range(NODES))):
      (folder / part).mkdir(parents=True)
    self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"),
                        "PATH": os.environ.get("PATH", "") + ":/usr/sbin"}

  def call(self, *words: object) -> str:
    done = subprocess.run([*map(str, words)], env=self.environment, capture_output=True, text=True,
                          timeout=60)
    if done.returncode != 0:
      raise RuntimeError(f"{words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()

  def __enter__(self) -> Slurm:
    try:
      self.call("slurmctld", "-i")
      for i in range(NODES):
        self.call("slurmd", "-N", f"n{i}")
      until = time.monotonic() + 60
      while self.call("sinfo", "-h", "-t", "idle", "-o", "%D") not in (str(NODES),):
        if time.monotonic() > until:
          raise RuntimeError("Slurm's nodes do not become idle within 60 s")
        time.sleep(0.1)
    except BaseException:
      self.stop()
      raise
    return self

  def __exit__(self, *_: object) -> None:
    self.stop()

  def stop(self) -> None:
    for file in sorted(self.folder.glob("slurmd.*.pid")) + [self.folder / "slurmctld.pid"]:
      try:
        os.kill(int(file.read_text()), signal.SIGTERM)
      except (OSError, ValueError):
        continue
    until = time.monotonic() + 20
    while any(self.folder.glob("slurm*.pid")) and time.monotonic() < until:
      time.sleep(0.05)


def make_jobs(count: int, seed: int) -> list[tuple[float, int, int]]:
  """When, how many chips, how many seconds: more than the nodes can do at once."""
  draw = random.Random(seed)
  jobs, when = [], 0.0
  for _ in range(count):
    when += draw.choice((0.1, 0.2, 0.3, 0.6))
    jobs.append((when, draw.choice(SIZES), draw.choice((2, 3, 4, 6))))
  return jobs


def through_slurm(slurm: Slurm,
                  jobs: list[tuple[float, int, int]]) -> list[tuple[float, float, float]]:
  """Submission, start and end of every job, in seconds from the first submission."""
  numbers, began = [], time.time()
  for when, chips, seconds in jobs:
    time.sleep(max(0.0, began + when - time.time()))
    numbers.append(submit(slurm, chips, seconds))
  return wait_for(slurm, numbers, 120 + 4 * sum(seconds for _, _, seconds in jobs))


def submit(slurm: Slurm, chips: int, seconds: int, *more: str) -> str:
  (slurm.folder / "job.sh").write_text("#!/bin/sh\nexec sleep $1\n")
  return slurm.call("sbatch", "--parsable", "-N", -(-chips // CHIPS), "--ntasks-per-node=1",
                    f"--cpus-per-task={min(chips, CHIPS)}", "-o", "/dev/null", "-D", slurm.folder,
                    *more, slurm.folder / "job.sh", seconds)


def wait_for(slurm: Slurm, numbers: list[str],
             limit_s: float) -> list[tuple[float, float, float]]:
  records, until = slurm.folder / "jobs.txt", time.monotonic() + limit_s
  found: dict[str, dict[str, str]] = {}
  while not found.keys() >= set(numbers):
    if time.monotonic() > until:
      raise RuntimeError("Slurm does not end the jobs")
    time.sleep(0.2)
    found = recorded(records.read_text()) if records.exists() else {}
  times = [[datetime.fromisoformat(found[number][f"{kind}Time"]).timestamp()
            for kind in ("Submit", "Start", "End")] for number in numbers]
  first = times[0][0]
  return [(at - first, start - first, end - first) for at, start, end in times]


def gap(slurm: Slurm) -> float:
  """Seconds for which a node is idle between the jobs of a chain, the mean."""
  times = wait_for(slurm, [submit(slurm, CHIPS, 1, "-w", "n0") for _ in range(9)], 120)
  return sum(b[1] - a[2] for a, b in zip(times, times[1:])) / (len(times) - 1)


def recorded(text: str) -> dict[str, dict[str, str]]:
  """Number of a job to what jobcomp/filetxt says about it, of whole lines."""
  lines = text.splitlines() if text.endswith("\n") else text.splitlines()[:-1]
  fields = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
  return {each["JobId"]: each for each in fields}


def through_simulator(command: str, folder: Path, jobs: list[tuple[float, int, int]],
                      times: list[tuple[float, float, float]], gap_s: float) -> list[float]:
  """The starts of the same jobs, which take as long as they did there, and the gap behind them."""
  site = folder / "site.toml"
  site.write_text(f'name = "slurm"\n[[nodes]]\nnames = "n[0-{NODES - 1}]"\nchip = "core"\n'
                  f'chips = {CHIPS}\ncores = {CHIPS}\n')
  trace = folder / "jobs.csv"
  lines = ["job_id,num_gpu,submit_time,iterations,model_name,duration,interval"]
  for number, ((_, chips, _), (at, start, end)) in enumerate(zip(jobs, times)):
    lines.append(f"{number},{chips},{at:.3f},0,m,{end - start + gap_s:.3f},0")
  trace.write_text("\n".join(lines) + "\n")
  done = subprocess.run([command, "cluster", "simulate", site, "--trace", trace, "--policy", "fifo",
                         "--times", "--json"], check=True, capture_output=True, text=True)
  return [job["start_s"] for job in json.loads(done.stdout)["simulations"][0]["times"]]


def compare(times: list[tuple[float, float, float]], simulated: list[float],
            apart_s: float = 2.0) -> dict[str, float]:
  """How many pairs of jobs that the simulator starts at least so far apart start in the same order,
  and the mean waits."""
  same = pairs = 0
  for a in range(len(times)):
    for b in range(a):
      if abs(simulated[a] - simulated[b]) < apart_s:
        continue
      pairs += 1
      same += (simulated[a] < simulated[b]) == (times[a][1] < times[b][1])
  waits = [start - at for at, start, _ in times]
  ours = [start - time_of[0] for start, time_of in zip(simulated, times)]
  return {"jobs": len(times), "same_order": same / max(1, pairs),
          "slurm_mean_wait_s": sum(waits) / len(waits), "mean_wait_s": sum(ours) / len(ours),
          "mean_difference_s": sum(abs(x - y) for x, y in zip(waits, ours)) / len(waits)}


def run(command: str, count: int, seed: int = 1) -> dict[str, float]:
  with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    jobs = make_jobs(count, seed)
    with Slurm(folder) as slurm:
      gap_s = gap(slurm)
      times = through_slurm(slurm, jobs)
    simulated, slower = (through_simulator(command, folder, jobs, times, gap_s + more_s)
                         for more_s in (0, 1))
    # A second more per job has to show, or the comparison would say nothing.
    return {"gap_s": gap_s, **compare(times, simulated), "one_second_more_s":
            sum(b - a for a, b in zip(simulated, slower)) / count}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--command", default="stretto")
  parser.add_argument("--jobs", type=int, default=200)
  parser.add_argument("--seed", type=int, default=1)
  given = parser.parse_args()
  if absent():
    raise SystemExit(f"Slurm is not installed: there is no {', '.join(absent())}")
  print(json.dumps({"date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
                    **run(given.command, given.jobs, given.seed)}, indent=1))


if __name__ == "__main__":
  main()
