"""Pictures per second and core: Stretto's loader beside others, on the same files.

    python -m bench.photographs build/photographs --copies 22
    python -m bench.data build/photographs --cores 1,2 --rounds 3 --json data.json
    python -m bench.data --page bench/results/data.md data.json

Each loader is a process that is pinned to one core or two. It first has to show the same pixels as
Pillow; then the loaders take turns, in an order that changes every round, and the median of the
rounds counts. --json adds rounds to those that the file has, so that a run can be made in pieces; a
ratio is of loaders in the same piece, and the median over pieces counts.

    python -m bench.data build/photographs --promises all --json promises.json
    python -m bench.data --page bench/results/data.md promises.json

measures what the loader promises beside its speed (bench/data_promises.py); the page keeps what the
file has not.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import stretto
from bench import data_page, data_promises, machine
from stretto.data import _peers as data_loaders

WARM_UP_BATCHES = 4  # more than any loader makes ahead: those were made while it was not timed


def expected(job: data_loaders.Job) -> np.ndarray:
  """The first batch in order, by Pillow."""
  from PIL import Image

  pictures = [Image.open(file).convert("RGB").resize((data_loaders.SIZE,) * 2,
                                                     Image.Resampling.BILINEAR)
              for file in job.files()[:job.batch]]
  pixels = np.stack([np.asarray(picture) for picture in pictures]).astype(np.float32)
  return ((pixels / 255 - data_loaders.MEAN) / data_loaders.STD).transpose(0, 3, 1, 2)


def difference(images: Any, job: data_loaders.Job) -> tuple[float, float]:
  """Mean and largest |difference| to Pillow, in 255ths."""
  scale = 255 * np.array(data_loaders.STD, np.float32).reshape(1, 3, 1, 1)
  off = np.abs(np.asarray(images) - expected(job)) * scale
  return float(off.mean()), float(off.max())


def serve(row: data_loaders.Row, folder: Path, cores: int, batch: int, pack: Path | None) -> None:
  """The process of one loader: answers lines from standard input with JSON."""
  out = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)  # what libraries print goes elsewhere
  cpus = sorted(os.sched_getaffinity(0))
  if cores > len(cpus):
    raise SystemExit(f"{cores} cores: this machine has {len(cpus)}")
  os.sched_setaffinity(0, cpus[-cores:])
  job = data_loaders.Job(folder, cores, batch, check=True, pack=pack)
  checked = row.start(job)
  mean, most = difference(next(checked), job)
  del checked
  start = time.perf_counter()
  batches = row.start(data_loaders.Job(folder, cores, batch, pack=pack))
  next(batches)
  first_s = time.perf_counter() - start
  print(json.dumps({"mean": mean, "most": most, "first_s": first_s}), file=out, flush=True)
  for line in sys.stdin:
    for _ in range(WARM_UP_BATCHES):
      next(batches)
    seconds, count = float(line), 0
    cpu = cpu_seconds()
    start = now = time.perf_counter()
    while now - start < seconds:
      next(batches)
      count += batch
      now = time.perf_counter()
    print(json.dumps({"rate": count / (now - start), "busy": (cpu_seconds() - cpu) / (now - start),
                      "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}),
          file=out, flush=True)


def cpu_seconds() -> float:
  """Of this process. Workers of a DataLoader are other processes, which are not counted."""
  return time.process_time()


class Server:
  def __init__(self, row: data_loaders.Row, options: argparse.Namespace, cores: int) -> None:
    self.row = row
    self.log = Path(options.logs) / f"{row.name}.log"
    self.log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bench.data", str(options.folder), "--serve", row.name,
               "--cores", str(cores), "--batch", str(options.batch)]
    if options.pack:
      command += ["--pack", str(options.pack)]
    self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=self.log.open("w"), text=True)
    self.checked = self.answer()

  def answer(self) -> dict | None:
    line = self.process.stdout.readline()
    return json.loads(line) if line else None

  def ask(self, seconds: float) -> dict | None:
    with contextlib.suppress(BrokenPipeError):
      print(seconds, file=self.process.stdin, flush=True)
      return self.answer()
    return None

  def why(self) -> str:
    lines = self.log.read_text().strip().splitlines() or ["ended"]
    return lines[-1][:200]

  def close(self) -> None:
    self.process.kill()
    self.process.wait()


def measure(options: argparse.Namespace, cores: int, found: dict) -> None:
  chosen = [row for row in data_loaders.rows()
            if options.loaders is None or row.name in options.loaders.split(",")]
  running: list[Server] = []
  try:
    for row in chosen:
      entry = found.setdefault(f"{row.name}/{cores}", {"about": row.about, "rounds": []})
      server = Server(row, options, cores)
      if server.checked is None:
        entry["failed"] = server.why()
        print(f"{row.name}: left out: {entry['failed']}", file=sys.stderr)
        server.close()
        continue
      entry.pop("failed", None)
      entry |= server.checked
      with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        entry["version"] = (stretto.__version__ if row.package == "stretto"
                            else importlib.metadata.version(row.package))
      if entry["mean"] > row.allowed:
        entry["failed"] = f"mean |difference| to Pillow {entry['mean']:.2f} of 255"
        print(f"{row.name}: wrong pixels: {entry['failed']}", file=sys.stderr)
        server.close()
        continue
      running.append(server)
    piece = time.strftime("%Y-%m-%dT%H:%M:%S")
    shuffle = random.Random(len(next(iter(found.values()))["rounds"]))
    for _ in range(options.rounds):
      shuffle.shuffle(running)
      for server in list(running):
        answer = server.ask(options.seconds)
        entry = found[f"{server.row.name}/{cores}"]
        if answer is None:
          entry["failed"] = server.why()
          running.remove(server)
        else:
          entry["rounds"].append(answer | {"piece": piece})
  finally:
    for server in running:
      server.close()


def keep_promises(options: argparse.Namespace, result: dict[str, Any]) -> None:
  for row in data_promises.find(options.promises):
    entry = data_promises.measure(row, options.folder)
    result.setdefault("promises", {})[row.name] = entry | {
      "machine": machine.describe(), "date": time.strftime("%Y-%m-%d")}
    print(f"{row.name}: {'kept' if entry['kept'] else 'NOT KEPT'}: "
          f"{data_promises.reached(entry)}, promised {row.limit:g} {row.unit}; "
          f"{data_promises.details(entry)}", flush=True)
    if options.json:
      options.json.write_text(json.dumps(result, indent=1))
  print("\n".join(data_promises.table(result["promises"])))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("folder", type=Path, nargs="?", help="as bench.photographs writes it")
  parser.add_argument("--pack", type=Path, help="the same pictures as a pack")
  parser.add_argument("--cores", default="1")
  parser.add_argument("--batch", type=int, default=64)
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--seconds", type=float, default=1.0, help="of a round")
  parser.add_argument("--loaders", help="names with commas; all")
  parser.add_argument("--promises", help="measure these instead: all, or names with commas")
  parser.add_argument("--logs", default="build/bench-data")
  parser.add_argument("--json", type=Path)
  parser.add_argument("--page", type=Path, nargs=2, metavar=("OUT", "JSON"))
  parser.add_argument("--note", default="", help="for the page: how Stretto was built")
  parser.add_argument("--serve", help=argparse.SUPPRESS)
  options = parser.parse_args()
  if options.page:
    out, source = options.page
    before = out.read_text() if out.exists() else ""
    out.write_text(data_page.page(json.loads(source.read_text()), options.note, before))
    return
  if options.folder is None:
    parser.error("a folder of photographs is needed: python -m bench.photographs makes one")
  if options.serve:
    row = next(row for row in data_loaders.rows() if row.name == options.serve)
    serve(row, options.folder, int(options.cores), options.batch, options.pack)
    return
  files = list(options.folder.glob("*/*.jpg"))
  if not files:
    parser.error(f"{options.folder}: there are no */*.jpg: python -m bench.photographs makes them")
  result: dict[str, Any] = {}
  if options.json and options.json.exists():
    result = json.loads(options.json.read_text())
  if options.promises:
    keep_promises(options, result)
    return
  result.setdefault("loaders", {})
  result |= {"machine": machine.describe(), "date": time.strftime("%Y-%m-%d"),
             "files": len(files), "mean_bytes": statistics.mean(f.stat().st_size for f in files),
             "batch": options.batch, "seconds": options.seconds}
  for cores in map(int, options.cores.split(",")):
    measure(options, cores, result["loaders"])
    if options.json:
      options.json.write_text(json.dumps(result, indent=1))
  print("\n".join(data_page.table(result)))


if __name__ == "__main__":
  main()
