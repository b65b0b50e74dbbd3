"""What a call of a single operator costs: stretto.ops against NumPy and PyTorch, on one thread.

python -m bench.ops [--rounds 30] [--page bench/results/operators.md]

Results are compared before anything is timed. All functions of a row take turns; the median of the
rounds is shown, and how far the middle half of them lies apart."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from bench.machine import describe, name
from stretto import ops

SEED = 3
# Sums in another order, and Winograd.
TOLERANCE = 1e-4

Row = tuple[str, dict[str, Callable[[], object]]]


def rows(context: ops.Context) -> list[Row]:
  """What is compared: a title, and functions by engine."""
  rng = np.random.default_rng(SEED)

  def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]

  def both(title: str, shapes: list[tuple[int, ...]], ours: Callable, numpy: Callable | None,
           theirs: Callable) -> Row:
    given = arrays(*shapes)
    tensors = [torch.from_numpy(a.copy()) for a in given]
    functions = {"ops, NumPy": lambda: ours(*given), "ops, PyTorch": lambda: ours(*tensors),
                 "NumPy": lambda: numpy(*given), "PyTorch": lambda: theirs(*tensors)}
    if numpy is None:
      del functions["NumPy"]
    return title, functions

  f = torch.nn.functional
  found = [
    both("Relu, 1 element", [(1,)], context.Relu, lambda x: np.maximum(x, 0), torch.relu),
    both("Add, 8 x 8", [(8, 8), (8, 8)], context.Add, np.add, torch.add),
    both("MatMul, 16 x 16", [(16, 16), (16, 16)], context.MatMul, np.matmul, torch.matmul),
    both("Softmax, 32 x 32", [(32, 32)], context.Softmax, None, lambda x: f.softmax(x, -1)),
    both("Relu, 256 x 256", [(256, 256)], context.Relu, lambda x: np.maximum(x, 0), torch.relu),
  ]
  x, w, b = arrays((1, 16, 14, 14), (16, 16, 3, 3), (16,))
  tensors = [torch.from_numpy(a) for a in (x, w, b)]
  cw, cb = ops.constant(w), ops.constant(b)
  pads = [1, 1, 1, 1]
  found += [
    ("Conv 3 x 3, 16 channels, 14 x 14, constant weights",
     {"ops, NumPy": lambda: context.Conv(x, cw, cb, pads=pads),
      "ops, PyTorch": lambda: context.Conv(tensors[0], cw, cb, pads=pads),
      "PyTorch": lambda: f.conv2d(*tensors, padding=1)}),
    ("the same, plain weights",
     {"ops, NumPy": lambda: context.Conv(x, w, b, pads=pads),
      "ops, PyTorch": lambda: context.Conv(*tensors, pads=pads),
      "PyTorch": lambda: f.conv2d(*tensors, padding=1)}),
  ]
  return found


def check(title: str, functions: dict[str, Callable[[], object]]) -> None:
  """Compares what the functions return."""
  want = np.asarray(functions["PyTorch"]())
  for engine, function in functions.items():
    got = np.asarray(function())
    if got.shape != want.shape or np.abs(got - want).max() > TOLERANCE * np.abs(want).max():
      raise SystemExit(f"{title}: {engine} computes something else")


def measured(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, np.ndarray]:
  """Microseconds per call in each round."""
  found: dict[str, list[float]] = {engine: [] for engine in functions}
  for _ in range(rounds):
    for engine, function in functions.items():
      count = 0
      start = time.perf_counter()
      while (elapsed := time.perf_counter() - start) < 2e-3:
        for _ in range(20):
          function()
        count += 20
      found[engine].append(elapsed / count * 1e6)
  return {engine: np.array(times) for engine, times in found.items()}


def table(results: list[tuple[str, dict[str, np.ndarray]]]) -> str:
  engines = ["ops, NumPy", "ops, PyTorch", "NumPy", "PyTorch"]
  lines = ["| us per call | " + " | ".join(engines) + " | PyTorch / ops |", "|---" * 6 + "|"]
  for title, times in results:
    cells = []
    for engine in engines:
      if engine not in times:
        cells.append("")
        continue
      low, middle, high = np.percentile(times[engine], [25, 50, 75])
      cells.append(f"{middle:.2f} ({high - low:.2f})")
    ratio = np.median(times["PyTorch"] / times["ops, PyTorch"])
    lines.append(f"| {title} | " + " | ".join(cells) + f" | {ratio:.2f} |")
  return "\n".join(lines)


def page(text: str) -> str:
  return "\n".join([
    "# What a call of one operator costs", "",
    "This page has what `python -m bench.ops` measured: the median of the rounds and, in",
    "parentheses, how far the middle half of them lies apart. One thread. The first row is what a",
    "call costs beside its kernel. [Call single operators](../../docs/howto/operators.md) explains",
    "the functions.", "",
    f"{name(describe())}; PyTorch {torch.__version__}, NumPy {np.__version__}.", "", text, ""])


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--rounds", type=int, default=30)
  parser.add_argument("--page", type=Path, help="write the page of results")
  options = parser.parse_args()
  torch.set_num_threads(1)
  context = ops.Context(threads=1, tuning_cache="none")
  results = []
  with torch.no_grad():
    for title, functions in rows(context):
      check(title, functions)
      results.append((title, measured(functions, options.rounds)))
  text = table(results)
  print(text)
  if options.page:
    options.page.write_text(page(text))


if __name__ == "__main__":
  main()
