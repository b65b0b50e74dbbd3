"""MNN. Its published wheel has kernels up to AVX2 only.

The model is converted by calling the converter inside the wheel. The `mnnconvert` program around it
is not used: on start it runs `pip install` for a logging client in whatever Python comes first in
PATH, and reports each conversion to a server.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from stretto.peers import Cap, Run, Task

PACKAGES = ("mnn",)
CONVERT = "import sys, _tools; _tools.mnnconvert(['mnnconvert'] + sys.argv[1:])"


def refuses(task: Task) -> str | None:
  for name, value in task.inputs.items():
    if value.dtype not in (np.float32, np.int32, np.int64):
      return f"takes no {value.dtype} ({name})"
  return None


def cap(isa: str) -> Cap:
  return Cap()


def load(task: Task) -> Run:
  import MNN.expr as expr
  import MNN.nn as nn

  precision = expr.PrecisionMode.High if task.setting == "best" else expr.PrecisionMode.Normal
  with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "m.mnn")
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, "-f", "ONNX", "--modelFile", str(task.model), "--MNNModel",
         str(path), "--bizCode", "stretto"], capture_output=True, text=True)
    if not path.exists():
      lines = (done.stdout + done.stderr).strip().splitlines()
      reason = lines[-1][:200] if lines else f"exit status {done.returncode}"
      raise RuntimeError(f"MNN cannot convert the model: {reason}")
    module = nn.load_module_from_file(
        str(path), list(task.inputs), list(task.outputs), precision_mode=precision,
        thread_num=task.threads, shape_mutable=False)

  def variable(value: np.ndarray):
    if value.dtype == np.float32:
      return expr.const(value, list(value.shape), expr.NCHW, expr.float)
    return expr.const(value.astype(np.int32), list(value.shape), expr.NCHW, expr.int)

  arguments = [variable(value) for value in task.inputs.values()]

  def run():
    # MNN computes when somebody reads; outputs may be in its blocked layout.
    return [expr.convert(out, expr.NCHW).read() for out in module.onForward(arguments)]

  return run
