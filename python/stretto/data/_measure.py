"""How fast a dataset loads here, where the time goes, and what a training would wait for."""

from __future__ import annotations

import os
import time
from typing import Any

from stretto.data._dataset import Dataset
from stretto.data._loader import ImageLoader

STAGES = (("reading", "read_seconds"), ("decoding", "decode_seconds"),
          ("transforms", "transform_seconds"))
WIDTH = 40  # blocks of a whole bar
MOST_FILES = 20_000  # for other loaders


def measure(loader: ImageLoader, seconds: float, step_s: float) -> dict[str, Any]:
  """Takes batches for so long, with a pause of `step_s` after each in place of a model's step. The
  first batch, which nothing hides, counts by itself. Batches are padded ones."""
  start = time.perf_counter()
  batches = iter(loader)
  count = real(next(batches))
  first_s = time.perf_counter() - start
  before, begin = loader.stats(), time.perf_counter()
  taken = 0
  while (now := time.perf_counter()) - begin < seconds or taken == 0:
    batch = next(batches, None)
    if batch is None:
      batches = iter(loader)
      continue
    taken += real(batch)
    if step_s > 0:
      time.sleep(step_s)
  after = loader.stats()
  spent = {name: after[key] - before[key] for name, key in STAGES}
  return {"pictures_per_s": taken / (now - begin), "threads": after["threads"],
          "pictures_per_thread_s": (after["samples"] - before["samples"])
          / max(1e-9, sum(spent.values())),
          "first_batch_s": first_s, "batch": count, "stages_s": spent,
          "idle_s": after["idle_seconds"] - before["idle_seconds"],
          "waited_s": after["waited_seconds"] - before["waited_seconds"],
          "seconds": now - begin, "verdict": after["verdict"], "skipped": after["skipped"]}


def real(batch: tuple[Any, ...]) -> int:
  """How many samples of a padded batch are pictures."""
  return int(batch[2].sum())


def jpeg_files(dataset: Dataset) -> list[str]:
  """What other loaders are given: the JPEG files of a folder on this machine."""
  if dataset.kind != "folder" or "://" in dataset.source:
    return []
  names = (dataset.name(i) for i in range(min(len(dataset), MOST_FILES)))
  return [os.path.join(dataset.source, name) for name in names
          if name.lower().endswith((".jpg", ".jpeg"))]


def peers_text(peers: list[dict[str, Any]]) -> list[str]:
  ours = next((row["pictures_per_s"] for row in peers if row["name"] == "stretto"
               and "failed" not in row), None)
  lines = ["on one core:"] if peers else []
  for row in peers:
    rate = row.get("pictures_per_s")
    if rate is None:
      lines.append(f"{row['name']:<10} left out: {row['failed']}")
      continue
    share = f"{ours / rate:.1f} x  " if ours and row["name"] != "stretto" else ""
    lines.append(f"{row['name']:<10} {rate:>7,.0f} pictures/s  {share}{row['about']}")
  if len(peers) == 1:
    lines.append("no other loader is installed")
  return lines


def text(result: dict[str, Any]) -> str:
  """For people."""
  spent = result["stages_s"] | {"idle": result["idle_s"]}
  whole = max(1e-9, sum(spent.values()))
  threads = "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"
  lines = [f"{result['pictures_per_s']:,.0f} pictures/s with {threads}, "
           f"{result['pictures_per_thread_s']:,.0f} per second that a thread works",
           f"first batch of {result['batch']} after {result['first_batch_s'] * 1e3:.0f} ms"]
  for name, seconds in spent.items():
    share = seconds / whole
    lines.append(f"{name:<10} {'█' * round(share * WIDTH):<{WIDTH}} {100 * share:3.0f} %")
  waited = result["waited_s"] / result["seconds"]
  what = {"device": "the model: the loader is fast enough", "": "nothing: too few batches"}
  lines.append(f"batches were waited for {100 * waited:.0f} % of the time; the job waits for "
               f"{what.get(result['verdict'], result['verdict'])}")
  if result["skipped"]:
    lines.append(f"{result['skipped']} pictures could not be read")
  return "\n".join(lines + peers_text(result["peers"]))
