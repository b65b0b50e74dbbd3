"""ONNX Runtime's CPU provider: all graph optimisations, no memory copies outside the run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

PACKAGES = ("onnxruntime",)


class Runner:
  setting = "CPUExecutionProvider, ORT_ENABLE_ALL, I/O binding"

  def __init__(self, model: Path, inputs: dict[str, np.ndarray], threads: int):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    self._session = onnxruntime.InferenceSession(str(model), options,
                                                 providers=["CPUExecutionProvider"])
    self._binding = self._session.io_binding()
    for name, array in inputs.items():
      self._binding.bind_cpu_input(name, array)
    for output in self._session.get_outputs():
      self._binding.bind_output(output.name)

  def run(self) -> None:
    self._session.run_with_iobinding(self._binding)

  def outputs(self) -> list[np.ndarray]:
    return self._binding.copy_outputs_to_cpu()


load = Runner
