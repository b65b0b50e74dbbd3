"""One architecture at one batch: what Stretto makes of it, compared with PyTorch.

`python -m bench.architectures` starts this in a process of its own, so that one that crashes or
takes all memory costs only its own row.
"""

from __future__ import annotations

import collections
import contextlib
import io
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import stretto
from bench.architectures import make
from bench.architectures.row import Architecture

# Of the largest value: what the product promises for float32.
TOLERANCE = 1e-3

WAYS = ("module", "onnx", "classic")


def check(row: Architecture, batch: int, ways: list[str], tuning: str, folder: Path) -> dict:
  """What happened, per way; files of what runs stay in the folder."""
  lacking = make.missing(row)
  if lacking:
    return {"skipped": lacking}
  torch.set_num_threads(1)
  warnings.simplefilter("ignore")
  try:
    module, inputs = make.module(row), make.tensors(row, batch)
    with torch.no_grad():
      expected = [x for x in pytree.tree_leaves(module(*inputs)) if isinstance(x, torch.Tensor)]
  except Exception as error:
    return {"skipped": f"PyTorch does not run it: {shortened(error)}"}
  if not all(x.isfinite().all() for x in expected if x.is_floating_point()):
    return {"skipped": "PyTorch's own output is not finite"}
  np.savez(folder / f"{row.name}.b{batch}.npz", *[x.numpy() for x in inputs])
  # PyTorch's outputs verify it, much sooner than the double-precision reference would.
  options = {"tuning": tuning, "threads": 1, "verify": False}
  result: dict[str, Any] = {}
  for way in ways:
    begin = time.monotonic()
    stem = folder / f"{row.name}.b{batch}.{way}"
    if way == "module":
      model, entry = _by_module(module, inputs, options)
    else:
      model, entry = _by_file(module, inputs, way == "classic", Path(f"{stem}.onnx"), options)
    if model is not None:
      entry = _compared(model, inputs, expected, way)
      entry["operators"] = _slowest(model)
      model.save(f"{stem}.stretto")
    result[way] = {**entry, "seconds": round(time.monotonic() - begin, 2)}
  return result


def _by_module(module: torch.nn.Module, inputs: tuple[Any, ...],
               options: dict[str, Any]) -> tuple[Any, dict]:
  try:
    return stretto.optimize(module, inputs, **options), {}
  except stretto.UnsupportedError as error:
    return None, {"status": "refused", "reason": shortened(error)}
  except Exception as error:
    return None, {"status": "failed", "reason": f"{type(error).__name__}: {shortened(error)}"}


def _by_file(module: torch.nn.Module, inputs: tuple[Any, ...], classic: bool, path: Path,
             options: dict[str, Any]) -> tuple[Any, dict]:
  names = [f"in{i}" for i in range(len(inputs))]
  try:
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):  # it prints the whole program
      if classic:
        torch.onnx.export(module, inputs, str(path), dynamo=False, input_names=names)
      else:
        torch.onnx.export(module, inputs, str(path), dynamo=True, input_names=names,
                          external_data=False, verbose=False)
  except Exception as error:
    return None, {"status": "not exported", "reason": shortened(error)}
  arrays = _arrays(path, inputs)
  try:
    return stretto.optimize(path, arrays, **options), {}
  except stretto.UnsupportedError as error:
    return None, {"status": "refused", "reason": shortened(error)}
  except Exception as error:
    return None, {"status": "failed", "reason": f"{type(error).__name__}: {shortened(error)}"}


def _arrays(path: Path, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
  """By the names that the file has; the exporter drops inputs without effect."""
  import onnx

  graph = onnx.load(str(path), load_external_data=False).graph
  weights = {w.name for w in graph.initializer}
  given = {f"in{i}": x.numpy() for i, x in enumerate(inputs)}
  names = [i.name for i in graph.input if i.name not in weights]
  if not set(names) <= set(given):
    return dict(zip(names, given.values()))
  return {name: given[name] for name in names}


def _compared(model: Any, inputs: tuple[Any, ...], expected: list[torch.Tensor],
              way: str) -> dict:
  if way == "module":
    with torch.no_grad():
      got = [x for x in pytree.tree_leaves(model(*inputs)) if isinstance(x, torch.Tensor)]
  else:
    names = {spec.name for spec in model.inputs}
    arrays = {f"in{i}": x.numpy() for i, x in enumerate(inputs)}
    if not names <= set(arrays):
      arrays = dict(zip([spec.name for spec in model.inputs], arrays.values()))
    results = model.run({name: arrays[name] for name in names})
    got = [torch.from_numpy(np.array(y)) for y in results.values()]
  return verdict(got, expected)


def verdict(got: list[torch.Tensor], expected: list[torch.Tensor]) -> dict:
  if len(got) != len(expected):
    return {"status": "wrong", "reason": f"{len(got)} results instead of {len(expected)}"}
  worst = 0.0
  for i, (g, e) in enumerate(zip(got, expected)):
    if g.shape != e.shape:
      return {"status": "wrong", "reason": f"result {i}: shape {list(g.shape)} instead of "
                                           f"{list(e.shape)}"}
    if not e.is_floating_point():
      if not torch.equal(g.to(e.dtype), e):
        return {"status": "wrong", "reason": f"result {i}: integers differ"}
    elif e.numel():
      error = float((g.double() - e.double()).abs().max() / e.double().abs().max().clamp(1e-30))
      worst = max(worst, error if error == error else float("inf"))
  if not worst <= TOLERANCE:
    return {"status": "wrong", "reason": f"off by {worst:.1e} of the largest value"}
  return {"status": "runs", "error": worst}


def _slowest(model: Any, count: int = 6) -> list[dict]:
  """Kinds of operators by their share of the run, with the kernels that ran them."""
  totals: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
  for row in model.report["operators"]:
    totals[row["op"], row["kernel"]].append(row["ms"] or 0.0)
  whole = sum(map(sum, totals.values())) or 1.0
  ordered = sorted(totals.items(), key=lambda item: -sum(item[1]))[:count]
  return [{"op": op, "kernel": kernel, "calls": len(ms), "ms": round(sum(ms), 3),
           "share": round(sum(ms) / whole, 3)} for (op, kernel), ms in ordered]


def shortened(error: BaseException, most: int = 400) -> str:
  text = " ".join(str(error).split()) or type(error).__name__
  return text if len(text) <= most else text[:most] + "..."
