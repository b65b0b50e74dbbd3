"""Many models: child processes that draw and check them, and the count of what became of them."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BATCH = 200  # models per process
_PATIENCE_S = 600  # for one model; machines that are shared stop now and then


@dataclass
class Finding:
  """A model that shows a defect."""
  number: int
  kind: str
  text: str
  ops: list[str]
  folder: str = ""


@dataclass
class Summary:
  """What became of the models.

  Attributes:
    kinds: how many models were the same, refused, undecided and so on.
    ops: nodes by operator and by what became of their model.
    peers: nodes by the peer that computed them.
    refusals: models by why Stretto refused them.
    unfit: nodes that were drawn in vain, by operator and reason.
    findings: the models that show a defect.
  """
  kinds: Counter[str] = field(default_factory=Counter)
  ops: Counter[tuple[str, str]] = field(default_factory=Counter)
  peers: Counter[str] = field(default_factory=Counter)
  refusals: Counter[str] = field(default_factory=Counter)
  unfit: Counter[tuple[str, str]] = field(default_factory=Counter)
  findings: dict[int, Finding] = field(default_factory=dict)

  def add(self, line: dict[str, Any]) -> None:
    """Counts what a worker says of a model."""
    if "shrunk" in line:
      finding = self.findings[line["shrunk"]]
      finding.ops, finding.text, finding.folder = line["ops"], line["text"], line["folder"]
      return
    kind = line["kind"]
    self.kinds[kind] += 1
    for op, count in line["ops"].items():
      self.ops[op, kind] += count
    self.peers.update(line["peers"])
    for op, why, count in line["unfit"]:
      self.unfit[op, why] += count
    if kind == "refused":
      self.refusals[reason_of(line["text"])] += 1
    elif kind not in ("same", "undecided", "empty"):
      self.findings[line["number"]] = Finding(line["number"], kind, line["text"], list(line["ops"]))


def reason_of(text: str) -> str:
  """A refusal without the names of one model."""
  words = [word for word in text.replace("model: ", "").split() if '"' not in word]
  return " ".join(word for word in words if not any(c.isdigit() for c in word))[:110]


def run(seed: int, first: int, count: int, only: str, jobs: int, folder: Path,
        progress: Callable[[Summary], None], minutes: float = 0) -> Summary:
  """Draws and checks models in child processes.

  Args:
    seed: of the run.
    first: number of the first model.
    count: how many.
    only: an operator that every row must be of; empty: any.
    jobs: how many processes at a time.
    folder: where models that show a defect are written.
    progress: is called after every model.
    minutes: when to stop; 0: after `count` models.
  """
  summary, lock = Summary(), threading.Lock()
  batches: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
  for start in range(first, first + count, _BATCH):
    batches.put((start, min(_BATCH, first + count - start)))
  end = time.monotonic() + 60 * minutes if minutes else float("inf")

  def hear(line: dict[str, Any]) -> None:
    with lock:
      summary.add(line)
      progress(summary)

  def work() -> None:
    while time.monotonic() < end:
      try:
        start, size = batches.get_nowait()
      except queue.Empty:
        return
      while size > 0 and time.monotonic() < end:
        crashed = _run_batch(seed, start, size, only, folder, hear, end)
        if crashed is None:
          break
        size -= crashed + 1 - start
        start = crashed + 1

  with ThreadPoolExecutor(jobs) as pool:
    for done in [pool.submit(work) for _ in range(jobs)]:
      done.result()
  return summary


def _command(seed: int, first: int, count: int, only: str, folder: Path) -> list[str]:
  return [sys.executable, "-m", "differential.worker", "--seed", str(seed), "--first", str(first),
          "--count", str(count), "--only", only, "--folder", str(folder)]


def _environment() -> dict[str, str]:
  """With the folder of this package, which pytest finds by itself."""
  paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
  return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _run_batch(seed: int, first: int, count: int, only: str, folder: Path,
               hear: Callable[[dict[str, Any]], None], end: float) -> int | None:
  """Runs one process to its end.

  Returns:
    The model at which it crashed or hung, or None.
  """
  process = subprocess.Popen(_command(seed, first, count, only, folder), stdout=subprocess.PIPE,
                             text=True, env=_environment())
  watch = threading.Timer(_PATIENCE_S, process.kill)
  watch.start()
  current, phase, told = first, "start", False
  assert process.stdout is not None
  for text in process.stdout:
    line = json.loads(text)
    if "begin" in line:
      current, phase, told = line["begin"], "draw", False
      watch.cancel()
      watch = threading.Timer(_PATIENCE_S, process.kill)
      watch.start()
      if time.monotonic() > end:
        process.kill()
        watch.cancel()
        process.wait()
        return None
    elif "phase" in line:
      phase = line["phase"]
    else:
      told = True
      hear(line)
  watch.cancel()
  code = process.wait()
  if code == 0:
    return None
  if phase == "start":
    raise RuntimeError(f"a worker process did not start: exit status {code}")
  if not told:
    kind = "crash" if phase == "stretto" else f"crash of a peer ({phase})"
    hear({"number": current, "kind": kind, "text": f"exit status {code}", "ops": {}, "peers": {},
          "unfit": []})
    if phase == "stretto":
      subprocess.run([*_command(seed, current, 1, only, folder), "--save-only"],
                     stdout=subprocess.DEVNULL, env=_environment())
      hear({"shrunk": current, "ops": [], "text": f"exit status {code}",
            "folder": str(folder / f"{seed}-{current}")})
  return current
