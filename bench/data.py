"""Pictures per second and core: Stretto's loader beside others, on the same files.

    python -m bench.photographs build/photographs --copies 22
    python -m bench.data build/photographs --cores 1,2 --rounds 3 --json data.json
    python -m bench.data --page bench/results/data.md data.json

Each loader is a process that is pinned to one core or two. It first has to show the same pixels as
Pillow; then the loaders take turns, in an order that changes every round, and the median of the
rounds counts. --json adds rounds to those that the file has, so that a run can be made in pieces; a
ratio is of loaders in the same piece, and the median over pieces counts.
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
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np

import stretto
from bench import data_loaders, machine

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


def summary(entry: dict) -> tuple[float, float, float]:
  """Median, least and largest rate of the rounds."""
  rates = [r["rate"] for r in entry["rounds"]]
  return statistics.median(rates), min(rates), max(rates)


def ratio(ours: dict, other: dict) -> float:
  """How many times as fast as the other: the median over the pieces in which both were timed."""
  def pieces(entry: dict) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for r in entry["rounds"]:
      found.setdefault(r["piece"], []).append(r["rate"])
    return {piece: statistics.median(rates) for piece, rates in found.items()}

  a, b = pieces(ours), pieces(other)
  return statistics.median([a[piece] / b[piece] for piece in a.keys() & b.keys()])


def table(result: dict) -> list[str]:
  lines = []
  for cores in sorted({int(key.rpartition("/")[2]) for key in result["loaders"]}):
    entries = {row.name: result["loaders"][f"{row.name}/{cores}"] for row in data_loaders.rows()
               if f"{row.name}/{cores}" in result["loaders"]}
    timed = {name: entry for name, entry in entries.items() if entry["rounds"]}
    ours = timed.get("stretto")
    lines += [f"## {cores} core{'s' if cores > 1 else ''}",
              "| loader | pictures/s and core | least to largest round | `stretto` is faster | "
              "mean, largest difference to Pillow | first batch |",
              "|---|---|---|---|---|---|"]
    for name, entry in entries.items():
      if name not in timed:
        lines.append(f"| {name} | left out: {entry.get('failed', 'not timed')} | | | | |")
        continue
      middle, least, most = (rate / cores for rate in summary(entry))
      faster = f"{ratio(ours, entry):.2f}x" if ours else ""
      lines.append(f"| {name} | {middle:,.0f} | {least:,.0f} to {most:,.0f} | {faster} | "
                   f"{entry['mean']:.2f}, {entry['most']:.0f} of 255 | "
                   f"{entry['first_s'] * 1e3:.0f} ms |")
    lines.append("")
  return lines


def page(result: dict, note: str) -> str:
  names = {key.rpartition("/")[0]: entry for key, entry in result["loaders"].items()}
  versions = [f"- `{row.name}`: {row.about} ({row.package} {names[row.name].get('version', '')})"
              for row in data_loaders.rows() if row.name in names]
  rounds = [len(entry["rounds"]) for entry in result["loaders"].values() if entry["rounds"]]
  about = [
    "Pictures per second that a core reads, decodes, crops at random (RandomResizedCrop, 224x224), "
    "mirrors and normalises to float32, N, C, H, W. Written by `python -m bench.data --page`.",
    f"{machine.name(result['machine'])}, {result['machine']['system']}, Python "
    f"{result['machine']['python']}, {result['date']}. {result['files']} files of 500x375 pixels "
    f"and {result['mean_bytes'] / 1000:.0f} kB, batches of {result['batch']}, medians of "
    f"{min(rounds)} to {max(rounds)} rounds of {result['seconds']:g} s. A ratio is of loaders that "
    "were timed in turns within a minute, the median over such pieces: rates of different pieces "
    f"differ more. {note}".strip(),
    "\"First batch\" is the time from making a loader to its first batch; importing its package is "
    "not in it, and filling a cache is."]
  return "\n".join(["# Loaders of pictures", "",
                    *(textwrap.fill(text, 100) + "\n" for text in about),
                    *table(result), "## What was called", *versions, ""])


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("folder", type=Path, nargs="?", help="as bench.photographs writes it")
  parser.add_argument("--pack", type=Path, help="the same pictures as a pack")
  parser.add_argument("--cores", default="1")
  parser.add_argument("--batch", type=int, default=64)
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--seconds", type=float, default=1.0, help="of a round")
  parser.add_argument("--loaders", help="names with commas; all")
  parser.add_argument("--logs", default="build/bench-data")
  parser.add_argument("--json", type=Path)
  parser.add_argument("--page", type=Path, nargs=2, metavar=("OUT", "JSON"))
  parser.add_argument("--note", default="", help="for the page: how Stretto was built")
  parser.add_argument("--serve", help=argparse.SUPPRESS)
  options = parser.parse_args()
  if options.page:
    out, source = options.page
    out.write_text(page(json.loads(source.read_text()), options.note))
    return
  if options.folder is None:
    parser.error("a folder of photographs is needed: python -m bench.photographs makes one")
  if options.serve:
    row = next(row for row in data_loaders.rows() if row.name == options.serve)
    serve(row, options.folder, int(options.cores), options.batch, options.pack)
    return
  files = list(options.folder.glob("*/*.jpg"))
  result: dict[str, Any] = {"loaders": {}}
  if options.json and options.json.exists():
    result = json.loads(options.json.read_text())
  result |= {"machine": machine.describe(), "date": time.strftime("%Y-%m-%d"),
             "files": len(files), "mean_bytes": statistics.mean(f.stat().st_size for f in files),
             "batch": options.batch, "seconds": options.seconds}
  for cores in map(int, options.cores.split(",")):
    measure(options, cores, result["loaders"])
    if options.json:
      options.json.write_text(json.dumps(result, indent=1))
  print("\n".join(table(result)))


if __name__ == "__main__":
  main()
