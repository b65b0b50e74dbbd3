"""How long the commands of a loopback cluster take.

    python -m bench.cluster_commands --page bench/results/cluster_commands.md

Starts a Slurm cluster on this machine, as `stretto cluster up --local-slurm` does, in a folder of
its own, and times the commands as a shell would: `up`, then `run` of a script of one line until
that line is shown, at random moments, and `ls` while as many jobs wait as are asked for. Everything
is ended and removed afterwards.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from datetime import datetime, timezone
from pathlib import Path

from bench import cluster_slurm, machine

WIDTH = 100  # of lines of the page
READY_S = 60.0
LIST_ROUNDS = 5
PAUSES_S = (0.2, 1.6)  # between two runs: slurmctld's loop wakes once a second


class Commands:
  def __init__(self, command: str, folder: Path) -> None:
    self.command = shutil.which(command) or command
    if not os.path.exists(self.command):
      raise SystemExit(f"bench.cluster_commands: {command}: there is no such command")
    self.command, self.work = os.path.abspath(self.command), folder / "work"
    self.work.mkdir()
    (self.work / "train.py").write_text('print("hello")\n')
    self.environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")}
    self.environment["STRETTO_STATE_DIR"] = str(folder / "state")
    self.conf = folder / "state/clusters/local/etc/slurm.conf"

  def call(self, *words: str) -> tuple[float, str]:
    """Seconds and output of a verb."""
    began = time.monotonic()
    done = subprocess.run([self.command, "cluster", *words], cwd=self.work, env=self.environment,
                          capture_output=True, text=True, timeout=READY_S)
    if done.returncode != 0:
      raise SystemExit(f"stretto cluster {' '.join(words)}: {done.stderr.strip()}")
    return time.monotonic() - began, done.stdout

  def first_line(self) -> tuple[float, float]:
    """Seconds until `run` shows the first line, and until it ends."""
    began = time.monotonic()
    with subprocess.Popen([self.command, "cluster", "run", "train.py"], cwd=self.work, text=True,
                          env=self.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as child:
      assert child.stdout
      line = child.stdout.readline()
      first = time.monotonic() - began
      _, err = child.communicate(timeout=READY_S)
    if line != "[0] hello\n" or child.returncode != 0:
      raise SystemExit(f"stretto cluster run: got {line!r}, exit code {child.returncode}\n{err}")
    return first, time.monotonic() - began

  def wait_with(self, count: int) -> None:
    """So many jobs in the queue, which are held."""
    environment = {**self.environment, "SLURM_CONF": str(self.conf)}
    for number in range(count):
      subprocess.run(["sbatch", "--quiet", "--hold", f"--job-name=job-{number}", "--wrap", "true"],
                     cwd=self.work, env=environment, check=True, capture_output=True)


def measure(command: str, runs: int, jobs: int) -> dict[str, list[float]]:
  draw = random.Random(1)
  with tempfile.TemporaryDirectory(prefix="stretto-") as name:
    commands = Commands(command, Path(name))
    try:
      found = {"up": [commands.call("up", "--local-slurm")[0]]}
      pairs = []
      for number in range(runs):
        if number:
          time.sleep(draw.uniform(*PAUSES_S))
        pairs.append(commands.first_line())
      found["first line of run"] = [first for first, _ in pairs]
      found["end of run"] = [end for _, end in pairs]
      if jobs:
        commands.wait_with(jobs)
        listed = [commands.call("ls") for _ in range(LIST_ROUNDS)]
        rows = len(listed[0][1].splitlines()) - 1
        if rows != jobs:
          raise SystemExit(f"stretto cluster ls: {rows} rows of {jobs} jobs")
        found[f"ls, {jobs:,} jobs"] = [seconds for seconds, _ in listed]
    finally:
      ended, _ = commands.call("down")
    return {**found, "down": [ended]}


def page(found: dict[str, list[float]], words: list[str]) -> str:
  rows = [f"| {name} | {len(times)} | {min(times):.2f} | {statistics.median(times):.2f} | "
          f"{max(times):.2f} |" for name, times in found.items()]
  return "\n".join([
    "# Commands of a loopback cluster", "", textwrap.fill(
      f"Seconds, of the whole command. `python -m bench.cluster_commands {' '.join(words)}`, "
      f"{datetime.now(timezone.utc):%Y-%m-%d}, on {machine.name(machine.describe())}, with "
      f"{version()}. `run` is started at random moments; the first one follows `up` directly. "
      "[How jobs are started](../../docs/design/cluster-jobs.md).", WIDTH), "",
    "| | times | least | median | most |", "|---|--:|--:|--:|--:|", *rows, ""])


def version() -> str:
  path = os.environ.get("PATH", "") + ":/usr/sbin"
  done = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True,
                        env={**os.environ, "PATH": path})
  return done.stdout.strip().replace("slurm-wlm", "Slurm").replace("slurm ", "Slurm ")


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--command", default="stretto")
  parser.add_argument("--runs", type=int, default=25)
  parser.add_argument("--jobs", type=int, default=10_000)
  parser.add_argument("--page", type=Path, help="write the page of results")
  given = parser.parse_args()
  if absent := cluster_slurm.absent():
    raise SystemExit(f"Slurm is not installed: there is no {', '.join(absent)}")
  found = measure(given.command, given.runs, given.jobs)
  for name, times in found.items():
    print(f"{name:24} {statistics.median(times):6.2f} s  {min(times):.2f} to {max(times):.2f}",
          file=sys.stderr)
  if given.page:
    given.page.write_text(page(found, [f"--runs {given.runs}", f"--jobs {given.jobs}"]))


if __name__ == "__main__":
  main()
