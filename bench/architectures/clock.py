"""Times what `check` left, in turns, with one thread: Stretto's artefacts and, with the same file
and inputs, ONNX Runtime.

One process runs them all, because with one thread none disturbs the other; the order changes every
round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.architectures.row import Architecture

BURST_S = 0.02


def clock(row: Architecture, batch: int, ways: list[str], seconds: float, folder: Path) -> dict:
  """Median milliseconds per engine, and how often it ran."""
  stem = f"{folder}/{row.name}.b{batch}"
  with np.load(f"{stem}.npz") as archive:
    inputs = [archive[f"arr_{i}"] for i in range(len(archive.files))]
  engines: dict[str, Callable[[], Any]] = {}
  why: dict[str, str] = {}
  for way in ways:
    if Path(f"{stem}.{way}.stretto").exists():
      engines[way] = _stretto(f"{stem}.{way}.stretto", inputs, way)
  for way in ("onnx", "classic"):
    if Path(f"{stem}.{way}.onnx").exists():
      try:
        engines[f"onnxruntime.{way}"] = _onnxruntime(f"{stem}.{way}.onnx", inputs)
      except Exception as error:
        why[f"onnxruntime.{way}"] = " ".join(str(error).split())[:300]
  return {**in_turns(engines, seconds), "failed": why}


def in_turns(engines: dict[str, Callable[[], Any]], seconds: float) -> dict:
  """Bursts of each in an order that changes; at least three runs of each."""
  counts: dict[str, int] = {}
  for name, run in engines.items():
    run()
    begin = time.perf_counter()
    run()
    counts[name] = max(1, int(BURST_S / max(time.perf_counter() - begin, 1e-7)))
  times: dict[str, list[float]] = {name: [] for name in engines}
  names, stop, turn = list(engines), time.perf_counter() + seconds * len(engines), 0
  while turn < 3 or time.perf_counter() < stop:
    for name in names[turn % len(names):] + names[:turn % len(names)] if names else []:
      run = engines[name]
      run()  # the caches hold what the other left
      for _ in range(counts[name]):
        begin = time.perf_counter()
        run()
        times[name].append(time.perf_counter() - begin)
    turn += 1
  def quantile(at: float) -> dict[str, float]:
    return {name: round(float(np.quantile(t, at)) * 1e3, 4) for name, t in times.items()}

  return {"ms": quantile(0.5), "fifth_ms": quantile(0.2),
          "runs": {name: len(t) for name, t in times.items()}}


def _named(names: list[str], inputs: list[np.ndarray]) -> dict[str, np.ndarray]:
  given = {f"in{i}": x for i, x in enumerate(inputs)}
  if not set(names) <= set(given):
    return dict(zip(names, inputs))
  return {name: given[name] for name in names}


def _stretto(path: str, inputs: list[np.ndarray], way: str) -> Callable[[], Any]:
  import stretto

  model = stretto.load(path, threads=1)
  given = _named([spec.name for spec in model.inputs], inputs)
  return lambda: model.run(given)


def _onnxruntime(path: str, inputs: list[np.ndarray]) -> Callable[[], Any]:
  import onnxruntime

  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = options.inter_op_num_threads = 1
  options.log_severity_level = 4
  session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
  given = _named([i.name for i in session.get_inputs()], inputs)
  outputs = [o.name for o in session.get_outputs()]
  return lambda: session.run(outputs, given)
