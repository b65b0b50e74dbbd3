"""Compares Stretto with its peers while another program takes half of one core.

  python -m bench.shared_core resnet50 mobilenet_v2 --threads 2 --peers onnxruntime,openvino

A loop that never ends runs on one of the cores that the engines use, so that the system gives it
every other time slice there, as it would a busy neighbour. Engines are loaded and checked before it
starts, and timed in turns, as by bench.compare.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stretto.peers._machine import physical_cores, usable_cpus

from bench import compare, machine, rounds, summary, tables, truth
from stretto import peers

LOOP = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); print(flush=True)\n" \
       "while True: pass"


@contextlib.contextmanager
def busy_core(cpu: int) -> Iterator[None]:
  """Something runs on that CPU all the time."""
  with subprocess.Popen([sys.executable, "-c", LOOP, str(cpu)], stdout=subprocess.PIPE) as loop:
    try:
      loop.stdout.readline()  # until it is there
      yield
    finally:
      loop.kill()


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="python -m bench.shared_core", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("models", nargs="+", help="names from bench.models, 'all' or 'held-out'")
  parser.add_argument("--threads", type=int, default=2)
  parser.add_argument("--peers", default="onnxruntime,openvino", help="as of bench.compare")
  parser.add_argument("--cpu", type=int, help="where the loop runs; else the last one allowed")
  parser.add_argument("--runs", type=int, default=60, help="timed runs per engine")
  parser.add_argument("--burst", type=int, default=10, help="runs in a row before the next engine")
  parser.add_argument("--warm-up", type=int, default=2, help="untimed runs before each burst")
  parser.add_argument("--tuning", default="off", help="Stretto's search, made without the loop")
  parser.add_argument("--models-folder", type=Path, default=compare.DEFAULT_MODELS)
  parser.add_argument("--load-timeout", type=float, default=900, help="seconds per request")
  parser.add_argument("--quiet-lock", type=Path, help="flock this file while timing")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--json", type=Path, help="write everything measured here")
  args = parser.parse_args()
  try:
    args.entries = compare.own_entries([args.tuning])
    args.entries += [rounds.Entry(e.name, e) for e in peers.select(args.peers)]
  except ValueError as error:
    parser.error(str(error))
  cpus = sorted(usable_cpus())
  args.cpu = cpus[-1] if args.cpu is None else args.cpu
  if args.cpu not in cpus:
    parser.error(f"--cpu: this process may not run on {args.cpu}, only on {cpus}")
  if not 1 <= args.threads <= len(physical_cores()):
    parser.error(f"--threads: this process has {len(physical_cores())} core(s)")
  return args


def document(args: argparse.Namespace, about: dict, groups: list[list[dict]]) -> dict:
  return {
      "command": "python -m bench.shared_core " + shlex.join(sys.argv[1:]),
      "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
      "machine": about, "busy_cpu": args.cpu,
      "runs": args.runs, "burst": args.burst, "warm_up": args.warm_up, "tuning": args.tuning,
      "tolerance": truth.TOLERANCE,
      "results": [result for results in groups for result in results],
      "ratios": [line for results in groups for line in summary.ratios(results)],
  }


def main() -> int:
  args = arguments()
  about = machine.describe()
  print(f"{machine.name(about)}; a loop runs on CPU {args.cpu}\n")
  plan = rounds.Plan(args.runs, args.burst, args.warm_up, args.load_timeout, None, args.quiet_lock)
  groups: list[list[dict]] = []
  with tempfile.TemporaryDirectory(prefix="stretto-bench-") as folder:
    try:
      todo = compare.subjects(args, Path(folder))
    except (ValueError, ImportError) as error:
      print(f"shared_core: {error}", file=sys.stderr)
      return 2
    for subject in todo:
      groups.append(rounds.compare(subject, args.entries, args.threads, plan, Path(folder),
                                   compare.say, beside=lambda: busy_core(args.cpu)))
      compare.say("")
      print(tables.comparison(groups[-1]), flush=True)
      if args.json:
        compare.write_json(args.json, document(args, about, groups))
  print(tables.overview(groups))
  return 0


if __name__ == "__main__":
  sys.exit(main())
