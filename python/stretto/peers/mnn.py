"""MNN, converted by the converter inside its wheel; precision high, so that it computes in fp32.

The mnnconvert program around that converter is not used: it installs a package and reports each
conversion to a server.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PACKAGES = ("mnn", "onnx")
CONVERT = "import sys, _tools; _tools.mnnconvert(['mnnconvert'] + sys.argv[1:])"


def convert(model: Path, target: Path) -> None:
  """Raises RuntimeError with the converter's last words."""
  done = subprocess.run(
    [sys.executable, "-c", CONVERT, "-f", "ONNX", "--modelFile", str(model), "--MNNModel",
     str(target), "--bizCode", "stretto"], capture_output=True, text=True)
  if not target.exists():
    last = (done.stdout + done.stderr).strip().splitlines()
    raise RuntimeError(f"conversion: {last[-1] if last else f'exit code {done.returncode}'}")


def output_names(model: Path) -> list[str]:
  import onnx

  return [o.name for o in onnx.load(str(model), load_external_data=False).graph.output]


class Runner:
  setting = "CPU, precision high"

  def __init__(self, model: Path, inputs: dict[str, np.ndarray], threads: int):
    import MNN.expr as expr
    import MNN.nn as nn

    with tempfile.TemporaryDirectory() as folder:
      converted = Path(folder, "m.mnn")
      convert(model, converted)
      self._module = nn.load_module_from_file(
        str(converted), list(inputs), output_names(model), thread_num=threads,
        precision_mode=expr.PrecisionMode.High, shape_mutable=False)
    self._expr = expr
    self._inputs = [self._place(name, array) for name, array in inputs.items()]
    self._results: list[np.ndarray] = []

  def _place(self, name: str, array: np.ndarray):
    expr = self._expr
    if array.dtype == np.float32:
      return expr.const(array, list(array.shape), expr.NCHW, expr.float)
    if array.dtype in (np.int32, np.int64):
      return expr.const(array.astype(np.int32), list(array.shape), expr.NCHW, expr.int)
    raise RuntimeError(f"MNN takes no {array.dtype} ({name})")

  def run(self) -> None:
    # MNN computes when somebody reads, and may keep results in its blocked layout.
    expr = self._expr
    self._results = [expr.convert(result, expr.NCHW).read()
                     for result in self._module.onForward(self._inputs)]

  def outputs(self) -> list[np.ndarray]:
    return [np.array(result) for result in self._results]


load = Runner
