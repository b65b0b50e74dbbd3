"""Tables of the cluster simulator: against the published results of FGD, and policies on Philly.

    python -m bench.cluster --command build/release/cli/stretto --philly philly.csv \
        > bench/results/cluster.md

Without --philly (82,248 jobs, github.com/petuum/adaptdl, branch osdi21-artifact) only the first
table is made. Every figure is of a simulation, the same on every machine, but for the times.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.cluster_trace import resample

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT / "tests/cluster/traces"
WORKLOADS = ("default", "multigpu50", "gpuspec33", "gpushare100")
PUBLISHED = {"random": "01-Random", "best-fit": "05-BestFit", "fgd": "06-FGD"}
COLUMNS = (50, 70, 80, 90, 95, 100, 110, 120, 130)
SEEDS = range(42, 52)
NODES, CHIPS = 110, 8


def simulate(command: str, *words: object) -> dict:
  done = subprocess.run([command, "cluster", "simulate", "--json", *map(str, words)],
                        check=True, capture_output=True, text=True)
  return json.loads(done.stdout)


def published(workload: str, policy: str) -> dict[int, float]:
  """Mean over the seeds: demand in percent -> allocation in percent."""
  with open(TRACES / "expected_alloc_fgd.csv", newline="") as file:
    rows = [row for row in csv.DictReader(file) if row["sc_policy"] == PUBLISHED[policy]
            and row["workload"] == f"openb_pod_list_{workload}"]
  return {column: statistics.mean(float(row[str(column)]) for row in rows) for column in COLUMNS}


def simulated(command: str, workload: str, seeds=SEEDS) -> dict[str, dict[int, float]]:
  """By policy: demand in percent -> allocation in percent, the mean over the seeds."""
  sums: dict[str, dict[int, list[float]]] = {policy: {} for policy in PUBLISHED}
  for seed in seeds:
    result = simulate(command, ROOT / "examples/cluster/openb.toml", "--trace",
                      TRACES / f"openb_pod_list_{workload}.csv", "--policy", ",".join(PUBLISHED),
                      "--no-departures", "--inflate", 1.3, "--seed", seed)
    for run in result["simulations"]:
      for point in run["arrivals"]:
        sums[run["policy"]].setdefault(point["demand_percent"], []).append(
            point["allocated_percent"])
  return {policy: {column: statistics.mean(values[column]) for column in COLUMNS}
          for policy, values in sums.items()}


def site(single: int, *, spill: bool, urgent: int = 0, preemption: bool = False) -> str:
  """110 nodes of 8 chips; `single` of them for jobs of one chip, `urgent` in reserve."""
  text = (f'name = "philly"\n[[nodes]]\nnames = "n[0-{NODES - 1}]"\nchip = "p100"\n'
          f"chips = {CHIPS}\ncores = 64\nmemory_gb = 512\n")
  last = NODES - urgent - 1
  if single:
    rows = (("single", f"n[0-{single - 1}]", "0-1", "multi"),
            ("multi", f"n[{single}-{last}]", "2+", "single"))
    for name, nodes, chips, other in rows:
      text += f'[[groups]]\nname = "{name}"\nnodes = "{nodes}"\nchips = "{chips}"\n'
      if spill:
        text += f'spill = ["{other}"]\n'
  if urgent:
    text += (f'[reserve]\nnodes = "n[{last + 1}-{NODES - 1}]"\nqueues = ["urgent"]\n'
             'lend = false\n')
  text += f'[preemption]\nmode = "{"requeue" if preemption else "off"}"\n'
  text += (f'[[queues]]\nname = "urgent"\npriority = 100\npreempts = {str(preemption).lower()}\n'
           '[[queues]]\nname = "normal"\npriority = 10\ndefault = true\n')
  return text


def fgd_table(command: str) -> None:
  print("## The published results of FGD\n")
  print("GPUs in use, in percent, when demand has reached so many percent of all: mean of 10 "
        "seeds, published / ours.\n")
  print("| workload | policy | " + " | ".join(map(str, COLUMNS)) + " | largest difference |")
  print("|---|---|" + "---|" * (len(COLUMNS) + 1))
  for workload in WORKLOADS:
    for policy, ours in simulated(command, workload).items():
      theirs = published(workload, policy)
      cells = [f"{theirs[column]:.1f} / {ours[column]:.1f}" for column in COLUMNS]
      worst = max(abs(theirs[column] - ours[column]) for column in COLUMNS)
      print(f"| {workload} | {policy} | {' | '.join(cells)} | {worst:.2f} |")
  print()


# What is compared on the Philly trace: a name, the site, and options.
POLICIES = (
  ("spread, FIFO", {"single": 0, "spill": False}, ["--policy", "fifo+spread"]),
  ("spread", {"single": 0, "spill": False}, ["--policy", "spread"]),
  ("best fit, FIFO", {"single": 0, "spill": False}, ["--policy", "fifo"]),
  ("best fit", {"single": 0, "spill": False}, []),
  ("hard groups, 20 and 90 nodes", {"single": 20, "spill": False}, []),
  ("hard groups, 30 and 80 nodes", {"single": 30, "spill": False}, []),
  ("soft groups, 20 and 90 nodes", {"single": 20, "spill": True}, []),
  ("shortest first", {"single": 0, "spill": False}, ["--policy", "shortest"]),
)
URGENT = (
  ("no reserve", {"single": 0, "spill": False}),
  ("6 nodes in reserve", {"single": 0, "spill": False, "urgent": 6}),
  ("12 nodes in reserve", {"single": 0, "spill": False, "urgent": 12}),
  ("preemption", {"single": 0, "spill": False, "preemption": True}),
)
CLASSES = ("1 chip", "2-7 chips", "8 chips", "over 8 chips")


def waits_of(run: dict, field: str, classes=CLASSES) -> list[str]:
  found = {wait["class"]: wait[field] for wait in run["waits"]}
  return [f"{found.get(name, 0):.0f}" for name in classes]


def policy_tables(command: str, philly: Path, folder: Path) -> None:
  print("## Policies on the Philly trace\n")
  print(f"82,248 jobs on {NODES} nodes of {CHIPS} chips, backfilling where FIFO is not named; "
        "run times are known to the scheduler. Mean waits in seconds.\n")
  print("| policy | " + " | ".join(CLASSES) + " | all | stranded |\n|---|" + "---|" * 6)
  path = folder / "site.toml"
  for name, kind, words in POLICIES:
    path.write_text(site(**kind))
    run = simulate(command, path, "--trace", philly, *words)["simulations"][0]
    print(f"| {name} | {' | '.join(waits_of(run, 'mean_s'))} | {run['wait']['mean_s']:.0f} | "
          f"{100 * run['fragmentation']:.2f} % |")
  print("\nThe same with 5 % of the jobs urgent, drawn.\n")
  print("| access of urgent jobs | urgent, mean | urgent, p99 | " + " | ".join(CLASSES) +
        " | preemptions | chip hours lost |\n|---|" + "---|" * 8)
  for name, kind in URGENT:
    path.write_text(site(**kind))
    # Without a queue that preempts, the reserve says who is urgent; without both, nobody is.
    if "urgent" not in kind and "preemption" not in kind:
      path.write_text(site(single=0, spill=False, preemption=True))
      words = ["--policy", "no-preempt"]
    else:
      words = []
    run = simulate(command, path, "--trace", philly, "--urgent", 0.05, *words)["simulations"][0]
    urgent = [f"{wait[field]:.0f}" for wait in run["waits"] if wait["class"] == "urgent"
              for field in ("mean_s", "p99_s")]
    print(f"| {name} | {' | '.join(urgent or ['-', '-'])} | "
          f"{' | '.join(waits_of(run, 'mean_s'))} | {run['preemptions']} | "
          f"{run['lost_chip_hours']:.1f} |")
  print()


def cost(command: str, *words: object) -> tuple[float, float]:
  """Seconds and the most MiB of one simulation, on one core."""
  began = time.monotonic()
  with open(os.devnull, "wb") as nothing:
    child = subprocess.Popen(["taskset", "-c", str(max(os.sched_getaffinity(0))), command,
                              "cluster", "simulate", "--json", *map(str, words)], stdout=nothing)
    _, status, usage = os.wait4(child.pid, 0)
  child.returncode = os.waitstatus_to_exitcode(status)
  if child.returncode != 0:
    raise SystemExit(f"stretto cluster simulate: exit code {child.returncode}")
  return time.monotonic() - began, usage.ru_maxrss / 1024


def speed_table(command: str, philly: Path, folder: Path) -> None:
  print("## Speed\n")
  print("Jobs drawn from the Philly trace again and again, on the same 110 nodes, best fit with "
        "backfilling; time of the whole command on one core, reading included.\n")
  print("| jobs | seconds | µs per job | MiB |\n|---|---|---|---|")
  head, *rows = philly.read_text().splitlines()
  path = folder / "site.toml"
  path.write_text(site(0, spill=False))
  for count in (100_000, 300_000, 1_000_000):
    trace = folder / "trace.csv"
    trace.write_text("\n".join([head, *resample(rows, count, 1)]) + "\n")
    seconds, most = cost(command, path, "--trace", trace)
    print(f"| {count:,} | {seconds:.1f} | {1e6 * seconds / count:.1f} | {most:.0f} |")
  print()


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--command", default="stretto")
  parser.add_argument("--philly", type=Path)
  parser.add_argument("--no-speed", action="store_true")
  parser.add_argument("--only-speed", action="store_true", help="no more than the last table")
  given = parser.parse_args()
  if given.only_speed:
    if not given.philly:
      raise SystemExit("bench.cluster: --only-speed needs --philly")
    with tempfile.TemporaryDirectory() as folder:
      speed_table(given.command, given.philly, Path(folder))
    return
  print("# Clusters, simulated\n")
  print("Made by `python -m bench.cluster`. [How the simulator works]"
        "(../../docs/design/cluster-simulator.md), "
        "[how to use it](../../docs/howto/simulate.md).\n")
  fgd_table(given.command)
  if given.philly:
    with tempfile.TemporaryDirectory() as folder:
      policy_tables(given.command, given.philly, Path(folder))
      if not given.no_speed:
        speed_table(given.command, given.philly, Path(folder))


if __name__ == "__main__":
  main()
