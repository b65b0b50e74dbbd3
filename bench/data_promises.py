"""What the loader of pictures promises beside its speed, measured on its defaults.

    python -m bench.photographs build/photographs --copies 22
    python -m bench.data build/photographs --promises all --json promises.json
    python -m bench.data --page bench/results/data.md promises.json

Each measurement is a process of its own, as a training is, and the median of its runs counts. A
promise is kept where what was reached is not above the limit.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import data_pixels
from stretto import data

IMAGENET = 1_300_000  # samples
INDEX_FOLDER = Path("build/bench-data-index")
STEP = 1.1  # of a simulated device, times what a batch takes to decode
EPOCHS = 50


@dataclass(frozen=True)
class Promise:
  name: str
  text: str
  limit: float
  unit: str
  measure: Callable[[Path], dict[str, Any]]  # of a folder of photographs; "value" and what else
  runs: int = 3


def batch_seconds(loader: data.ImageLoader, batches: int = 8) -> float:
  """What a batch takes where nobody pauses: the median, behind those that were made ahead."""
  taken: list[float] = []
  skipped, before = 3, 0.0
  while len(taken) < batches:
    for _batch in loader:
      now = time.perf_counter()
      if skipped > 0:
        skipped -= 1
      else:
        taken.append(now - before)
      before = now
      if len(taken) == batches:
        break
  return statistics.median(taken)


def first_batch(folder: Path) -> dict[str, Any]:
  start = time.perf_counter()
  loader = data.ImageLoader(folder)
  next(iter(loader))
  first = time.perf_counter() - start
  each = batch_seconds(loader)
  return {"value": first / each, "first_ms": first * 1e3, "batch_ms": each * 1e3,
          "threads": loader.stats()["threads"]}


def waits(folder: Path) -> dict[str, Any]:
  """The share of a job's time that it waits for batches, whose device sleeps for each of them a
  tenth longer than one takes to decode."""
  with data.ImageLoader(folder) as loader:
    step = STEP * batch_seconds(loader)
  with data.ImageLoader(folder) as loader:
    begin = time.perf_counter()
    while time.perf_counter() - begin < 12:
      for _batch in loader:
        time.sleep(step)
    stats = loader.stats()
  waited = stats["waited_seconds"] - stats["first_wait_seconds"]
  return {"value": 100 * waited / (waited + stats["asked_seconds"]), "step_ms": step * 1e3,
          "batches": stats["batches"], "verdict": stats["verdict"]}


def products(seconds: float, matrices: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
  """Products of matrices per second, on this thread."""
  count, begin = 0, time.perf_counter()
  while (spent := time.perf_counter() - begin) < seconds:
    np.matmul(*matrices[:2], out=matrices[2])
    count += 1
  return count / spent


def beside(folder: Path) -> dict[str, Any]:
  """How much a loop of matrix products on one core loses while batches are decoded beside it."""
  rng = np.random.default_rng(0)
  matrices = tuple(rng.random((384, 384), np.float32) for _ in range(3))
  with data.ImageLoader(folder) as loader:
    step = STEP * batch_seconds(loader)
    alone: list[float] = []
    together: list[float] = []
    for _turn in range(6):
      time.sleep(3 * step)  # batches ahead are ready: the threads sleep
      alone.append(products(2 * step, matrices))
      batches = endless(loader)
      for _ in range(4):
        next(batches)
        together.append(products(step, matrices))
    threads = loader.stats()["threads"]
  slower = statistics.median(alone) / statistics.median(together) - 1
  return {"value": 100 * slower, "alone_per_s": statistics.median(alone),
          "together_per_s": statistics.median(together), "threads": threads,
          "cores": len(os.sched_getaffinity(0))}


def endless(loader: data.ImageLoader) -> Any:
  while True:
    yield from loader


def make_index() -> Path:
  """A pack of as many pictures as ImageNet has, each of one pixel; made once."""
  from PIL import Image

  packed = INDEX_FOLDER / "pack"
  if (packed / "index").exists() and not (packed / "journal").exists():
    return packed
  names = []
  for k in range(10):
    file = INDEX_FOLDER / f"n0000000{k}/n0000000{k}_00001300.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (1, 1), (k, 0, 0)).save(file)
    names.append(file.relative_to(INDEX_FOLDER).as_posix())
  listed = INDEX_FOLDER / "list.csv"
  with listed.open("w") as out:
    print("path,label", file=out)
    for i in range(IMAGENET):
      print(f"{names[i % len(names)]},{i % 1000}", file=out)
  data.pack(listed, packed)
  return packed


def memory_bytes(key: str = "VmRSS") -> int:
  """Of this process."""
  for line in Path("/proc/self/status").read_text().splitlines():
    if line.startswith(f"{key}:"):
      return 1024 * int(line.split()[1])
  raise SystemExit(f"{key} is not in /proc/self/status")


def open_index(_folder: Path) -> dict[str, Any]:
  """Then a thousand samples are looked up all over the index, of which every page that was looked
  at is mapped, and the loader's first batch is taken."""
  packed = make_index()
  gc.collect()
  keys = ("VmRSS", "RssAnon", "RssFile")
  before, start = [memory_bytes(key) for key in keys], time.perf_counter()
  dataset = data.open(packed)
  opened = time.perf_counter() - start
  whole = memory_bytes() - before[0]
  for i in range(0, len(dataset), len(dataset) // 1000):
    dataset.name(i)
  _, own, mapped = (memory_bytes(key) - was for key, was in zip(keys, before))
  start = time.perf_counter()
  with data.ImageLoader(dataset) as loader:
    next(iter(loader))
    first = time.perf_counter() - start
  return {"samples": len(dataset), "index_mb": (packed / "index").stat().st_size / 1e6,
          "seconds": opened, "first_batch_s": first, "megabytes": max(whole, own) / 1e6,
          "mapped_after_looking_up_mb": mapped / 1e6}


def index_seconds(folder: Path) -> dict[str, Any]:
  found = open_index(folder)
  return {"value": found["seconds"], **found}


def index_megabytes(folder: Path) -> dict[str, Any]:
  found = open_index(folder)
  return {"value": found["megabytes"], **found}


def flat(folder: Path) -> dict[str, Any]:
  """What resident memory grows by from the fifth epoch to the last."""
  sizes = []
  with data.ImageLoader(folder, batch=64) as loader:
    for _epoch in range(EPOCHS):
      for batch in loader:
        del batch
      gc.collect()
      sizes.append(memory_bytes())
  return {"value": (statistics.mean(sizes[-3:]) - statistics.mean(sizes[4:7])) / 1e6,
          "fifth_mb": sizes[4] / 1e6, "last_mb": sizes[-1] / 1e6, "most_mb": max(sizes) / 1e6}


PROMISES = (
  Promise("first batch", "The first batch is there within 1.2 times one batch's decode time after "
          "the loader is made", 1.2, "times", first_batch, runs=5),
  Promise("waiting", "A job whose device takes longer than decoding (by a tenth) waits for batches "
          "for less than 1 % of its time", 1, "%", waits),
  Promise("beside", "Loader threads slow a loop of matrix products beside them by 3 % at most", 3,
          "%", beside),
  Promise("index time", "An index of 1.3 million pictures opens in less than 0.2 s", 0.2, "s",
          index_seconds, runs=5),
  Promise("index memory", "It takes less than 100 MB of this process; what is looked at of it is "
          "mapped from the system's cache, which processes share", 100, "MB", index_megabytes),
  Promise("memory", f"Memory is flat over {EPOCHS} epochs: it grows by less than half a batch", 19,
          "MB", flat, runs=1),
  Promise("pixels", "Pixels differ from Pillow's by 0.5 of 255 on average at most", 0.5, "of 255",
          data_pixels.difference_to_pillow, runs=1),
  Promise("accuracy", "A small classifier is as accurate as with Pillow's pixels: the means "
          "differ by less than two standard errors", 2, "standard errors", data_pixels.accuracies,
          runs=1),
)


def find(names: str) -> list[Promise]:
  wanted = [row.name for row in PROMISES] if names == "all" else names.split(",")
  rows = {row.name: row for row in PROMISES}
  unknown = [name for name in wanted if name not in rows]
  if unknown:
    raise SystemExit(f"--promises: {unknown[0]!r}: expected all, or some of {', '.join(rows)}")
  return [rows[name] for name in wanted]


def measure(row: Promise, folder: Path) -> dict[str, Any]:
  """Runs it, each time in a process of its own."""
  # One thread computes: pools of BLAS would be a second thing beside the loader.
  environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
  found = []
  for _ in range(row.runs):
    command = [sys.executable, "-m", "bench.data_promises", str(folder), row.name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
      return {"promise": row.text, "limit": row.limit, "unit": row.unit, "runs": found,
              "failed": f"ended with {done.returncode}", "kept": False}
    found.append(json.loads(done.stdout.splitlines()[-1]))
  value = statistics.median(run["value"] for run in found)
  return {"promise": row.text, "limit": row.limit, "unit": row.unit, "reached": value,
          "least": min(run["value"] for run in found), "most": max(run["value"] for run in found),
          "kept": value <= row.limit, "runs": found}


def reached(entry: dict[str, Any]) -> str:
  if "failed" in entry:
    return str(entry["failed"])
  text = f"{entry['reached']:.3g} {entry['unit']}"
  if len(entry["runs"]) > 1:
    text += f" ({entry['least']:.3g} to {entry['most']:.3g})"
  return text


def details(entry: dict[str, Any]) -> str:
  """The other numbers of the last run, for the page and for people."""
  run = entry["runs"][-1] if entry["runs"] else {}
  parts = []
  for key, value in run.items():
    if key != "value":
      number = isinstance(value, (int, float))
      parts.append(f"{key.replace('_', ' ')} {format(value, ',.4g') if number else value}")
  return ", ".join(parts)


def table(found: dict[str, dict[str, Any]]) -> list[str]:
  lines = ["| promise | reached: median (least to most) | kept | one of the runs |",
           "|---|---|---|---|"]
  for row in PROMISES:
    if (entry := found.get(row.name)) is not None:
      lines.append(f"| {entry['promise']} | {reached(entry)} | {'yes' if entry['kept'] else 'NO'} "
                   f"| {details(entry)} |")
  return lines


def main() -> None:
  parser = argparse.ArgumentParser(description="One measurement, for bench.data --promises.")
  parser.add_argument("folder", type=Path)
  parser.add_argument("name")
  options = parser.parse_args()
  (row,) = find(options.name)
  print(json.dumps(row.measure(options.folder)))


if __name__ == "__main__":
  main()
