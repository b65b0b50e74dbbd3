"""What a model's outputs should be, and how far an engine's are from that.

For a model of `bench.models` the truth is its definition run in float64. For any other ONNX file it
is ONNX Runtime's answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from bench.engine_process import ROOT

# fp32 engines land between 1e-6 and 1e-4 of the largest value (Winograd with large tiles at the
# upper end), bf16 or fp16 ones above 2e-3. Beyond this an engine computes something else.
TOLERANCE = 1e-3


def of_model(name: str, onnx: Path, seed: int) -> Path | None:
  """File of float64 outputs beside the ONNX file, or None without torch. Made in a process of its
  own, so that torch's threads and memory are gone when timing starts."""
  path = onnx.with_suffix(".truth.npz")
  if path.exists() and path.stat().st_mtime >= onnx.stat().st_mtime:
    return path
  done = subprocess.run([sys.executable, "-m", "bench.truth", name, str(path), str(seed)],
                        cwd=ROOT, stderr=subprocess.PIPE, text=True)
  if done.returncode == 0:
    return path
  if "No module named 'torch'" in done.stderr:
    return None
  raise RuntimeError(f"truth: {name} failed in float64: {done.stderr.strip().splitlines()[-1]}")


def write(name: str, path: Path, seed: int) -> None:
  import torch

  from bench import models
  from bench.models import inputs

  model = models.find(name)
  arguments = [torch.from_numpy(value) for value in inputs.make_all(model, seed).values()]
  arguments = [a.double() if a.is_floating_point() else a for a in arguments]
  with torch.no_grad():
    outputs = models.build(model, seed).double()(*arguments)
  outputs = outputs if isinstance(outputs, tuple) else (outputs,)
  partial = path.with_suffix(".partial")
  with partial.open("wb") as file:
    np.savez(file, **{n: value.numpy() for n, value in zip(model.outputs, outputs)})
  os.replace(partial, path)


def error(outputs: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
  """Largest difference, relative to the largest value of that output; infinite for a missing
  output, a wrong number of elements, or anything that is not finite."""
  worst = 0.0
  for name, want in expected.items():
    got = outputs.get(name)
    if got is None or got.size != want.size or not np.isfinite(got).all():
      return float("inf")
    difference = np.abs(got.reshape(want.shape).astype(np.float64) - want).max()
    worst = max(worst, float(difference / max(np.abs(want).max(), 1e-30)))
  return worst


if __name__ == "__main__":
  write(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
