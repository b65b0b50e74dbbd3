"""MNN, converted by mnnconvert; precision high, so that it computes in fp32 as well."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PACKAGES = ("mnn",)


class Runner:
  setting = "mnnconvert, CPU, precision high"

  def __init__(self, model: Path, inputs: dict[str, np.ndarray], threads: int):
    import MNN
    import onnx

    graph = onnx.load(str(model), load_external_data=False).graph
    self._output_names = [output.name for output in graph.output]
    with tempfile.TemporaryDirectory() as folder:
      converted = Path(folder, "m.mnn")
      done = subprocess.run(
        [sys.executable, "-m", "MNN.tools.mnnconvert", "-f", "ONNX", "--modelFile", str(model),
         "--MNNModel", str(converted), "--bizCode", "stretto"],
        capture_output=True, text=True)
      if not converted.exists():
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise RuntimeError(f"mnnconvert: {last[-1] if last else f'exit code {done.returncode}'}")
      self._runtime = MNN.nn.create_runtime_manager(
        ({"backend": "CPU", "precision": "high", "numThread": threads},))
      self._module = MNN.nn.load_module_from_file(
        str(converted), list(inputs), self._output_names, runtime_manager=self._runtime)
    self._mnn = MNN
    self._inputs = [self._place(array) for array in inputs.values()]
    self._results: list[np.ndarray] = []

  def _place(self, array: np.ndarray):
    if str(array.dtype) not in ("float32", "int32", "int64"):
      raise RuntimeError(f"MNN takes no {array.dtype} input")
    narrow = array.astype(np.int32) if array.dtype == np.int64 else array
    expr = self._mnn.expr
    return expr.const(np.ascontiguousarray(narrow), list(array.shape), expr.NCHW,
                      expr.float if array.dtype == np.float32 else expr.int)

  def run(self) -> None:
    # MNN computes when somebody reads.
    self._results = [result.read() for result in self._module.onForward(self._inputs)]

  def outputs(self) -> list[np.ndarray]:
    return [np.array(result) for result in self._results]


load = Runner
