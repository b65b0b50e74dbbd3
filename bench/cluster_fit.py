"""Does `stretto cluster simulate --fit` find the best of a full grid, at a tenth of its cost?

    python -m bench.cluster_fit --command build/release/cli/stretto [--seeds 1-4] [--jobs 600]

For each drawn trace, every setting of the grid is written as a site file and simulated: sizes of
two groups and of the reserve, with walls and with spill. Where preemption is on, only the smaller
jobs spill, because no site file may say more. The fit is told one site only. Results are the same
on every machine.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import random
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NODES, CHIPS, MOST_RESERVE = 20, 8, 4
URGENT = 0.05  # of the jobs
# The chips of jobs, of which each is as likely, the longest gap between two, and whether one job in
# ten takes four times as long.
SMALL, LARGE = (1, 1, 1, 1, 1, 1, 2, 4, 8, 16), (1, 2, 4, 4, 8, 8, 8, 16, 16, 1)
MIXES = {"small": (SMALL, 12, False), "uneven": (SMALL, 16, True), "large": (LARGE, 24, False)}
KINDS = (("small", False), ("uneven", False), ("large", False), ("small", True))


class Job(NamedTuple):
  submit_s: int
  duration_s: int
  chips: int
  urgent: bool


def draw_jobs(mix: str, seed: int, count: int) -> list[Job]:
  chips, gap, uneven = MIXES[mix]
  draw = random.Random(f"{mix} {seed}")
  time, jobs = 0, []
  for _ in range(count):
    time += draw.randrange(gap)
    duration = (20 + draw.randrange(400)) * (4 if uneven and draw.randrange(10) == 0 else 1)
    jobs.append(Job(time, duration, draw.choice(chips), draw.random() < URGENT))
  return jobs


def trace(jobs: list[Job]) -> str:
  """Of the format of Philly."""
  start = datetime.datetime(2026, 1, 1)
  lines = [f"{start + datetime.timedelta(seconds=job.submit_s)},{job.duration_s},{job.chips},"
           f"{'urgent' if job.urgent else 'normal'}" for job in jobs]
  return "\n".join(["timestamp,duration,num_gpus,cluster", *lines]) + "\n"


def nodes(first: int, count: int) -> str:
  return f"n[{first}-{first + count - 1}]"


def site(single: int, reserve: int, *, spill: bool, preemption: bool) -> str:
  """A group without nodes is left out, and the other one takes all jobs."""
  multi = NODES - single - reserve
  text = f'[[nodes]]\nnames = "n[0-{NODES - 1}]"\nchip = "v100"\nchips = {CHIPS}\n'
  rows = [("single", nodes(0, single), "1", "multi"),
          ("multi", nodes(single, multi), "2+", "single")]
  if single == 0 or multi == 0:
    rows = [("multi", nodes(0, NODES - reserve), "1+", "")]
  for name, own, sizes, other in rows:
    text += f'[[groups]]\nname = "{name}"\nnodes = "{own}"\nchips = "{sizes}"\n'
    if spill and other and (not preemption or name == "single"):
      text += f'spill = ["{other}"]\n'
  if reserve:
    text += f'[reserve]\nnodes = "{nodes(NODES - reserve, reserve)}"\nqueues = ["urgent"]\n'
  text += f'[preemption]\nmode = "{"requeue" if preemption else "off"}"\n'
  return text + ('[[queues]]\nname = "urgent"\npriority = 100\n'
                 f"preempts = {str(preemption).lower()}\n"
                 '[[queues]]\nname = "normal"\npriority = 10\ndefault = true\n')


def settings(preemption: bool) -> Iterator[tuple[int, int, bool]]:
  """Those of the grid: nodes of the first group and of the reserve, and whether jobs spill."""
  least = 1 if preemption else 0
  for spill in (False, True):
    for reserve in range(MOST_RESERVE + 1):
      for single in range(least, NODES - reserve - least + 1):
        yield single, reserve, spill


def class_of(job: Job) -> str:
  if job.urgent:
    return "urgent"
  return next(name for most, name in ((1, "1"), (7, "2-7"), (8, "8"), (1 << 20, "over 8"))
              if job.chips <= most)


def score(simulation: dict, jobs: list[Job], preemption: bool) -> float:
  """What the fit compares: the mean over the classes of their mean waits. Without preemption and
  without a reserve the simulator knows no urgent jobs, so they are told apart here."""
  if simulation["refused"]:
    return float("inf")
  if preemption:
    return statistics.fmean(wait["mean_s"] for wait in simulation["waits"])
  waits = collections.defaultdict(list)
  first = jobs[0].submit_s
  for job, times in zip(jobs, simulation["times"], strict=True):
    waits[class_of(job)].append(times["start_s"] - (job.submit_s - first))
  return statistics.fmean(map(statistics.fmean, waits.values()))


class Bench:
  def __init__(self, command: str, folder: Path):
    self.command, self.folder = command, folder

  def simulate(self, text: str, seed: int, *words: str) -> dict:
    (self.folder / "site.toml").write_text(text)
    done = subprocess.run([self.command, "cluster", "simulate", "site.toml", "--trace", "jobs.csv",
                           "--seed", str(seed), "--json", "--times", *words],
                          cwd=self.folder, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)

  def grid(self, jobs: list[Job], seed: int, preemption: bool) -> tuple[float, int]:
    """The best score, and how many settings there are. Walls around no nodes would refuse jobs."""
    best, count = float("inf"), 0
    for single, reserve, spill in settings(preemption):
      count += 1
      if not spill and single in (0, NODES - reserve):
        continue
      text = site(single, reserve, spill=spill, preemption=preemption)
      [simulation] = self.simulate(text, seed)["simulations"]
      best = min(best, score(simulation, jobs, preemption))
    return best, count

  def compare(self, mix: str, preemption: bool, seed: int, count_of_jobs: int) -> bool:
    jobs = draw_jobs(mix, seed, count_of_jobs)
    (self.folder / "jobs.csv").write_text(trace(jobs))
    best, count = self.grid(jobs, seed, preemption)
    given = site(NODES // 2, 1, spill=False, preemption=preemption)
    found = self.simulate(given, seed, "--fit")
    fit = found["fit"]
    assert fit["grid_size"] == count and 10 * fit["runs"] <= count
    before, after = (score(each, jobs, preemption) for each in found["simulations"])
    print(f"| {mix} | {'yes' if preemption else 'no'} | {seed} | {before:.1f} | {best:.2f} | "
          f"{after:.2f} | {after / best:.3f} | {count} | {fit['runs']:.1f} | {len(fit['tried'])} |",
          flush=True)
    return after <= best * (1 + 1e-9)


def main() -> None:
  parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
  parser.add_argument("--command", default="build/release/cli/stretto")
  parser.add_argument("--seeds", default="1-4", metavar="FIRST-LAST")
  parser.add_argument("--jobs", type=int, default=600, help="of each trace")
  given = parser.parse_args()
  first, _, last = given.seeds.partition("-")
  print("Waits in seconds: the mean over the classes of jobs of their means.\n")
  print("| jobs | preemption | seed | before | best of the grid | fit | fit / grid | grid's runs | "
        "cost of the fit | settings tried |")
  print("|---|---|---|---|---|---|---|---|---|---|")
  found = []
  with tempfile.TemporaryDirectory() as folder:
    bench = Bench(str(Path(given.command).resolve()), Path(folder))
    for mix, preemption in KINDS:
      for seed in range(int(first), int(last or first) + 1):
        found.append(bench.compare(mix, preemption, seed, given.jobs))
  print(f"\nThe fit is at least as good as the grid in {sum(found)} of {len(found)} traces.")


if __name__ == "__main__":
  main()
