"""ONNX Runtime's CPU provider. Its defaults (every optimisation, spinning threads) are its best,
except that outputs can be written to memory that is there already."""

from __future__ import annotations

import numpy as np

from stretto.peers import Cap, Run, Task

PACKAGES = ("onnxruntime",)


def refuses(task: Task) -> str | None:
  return None


def cap(isa: str) -> Cap:
  return Cap(caveat="no public switch; runs at the machine's full width")


def load(task: Task) -> Run:
  import onnxruntime as ort

  options = ort.SessionOptions()
  options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
  options.intra_op_num_threads = task.threads
  options.inter_op_num_threads = 1
  options.log_severity_level = 4
  session = ort.InferenceSession(str(task.model), options, providers=["CPUExecutionProvider"])
  inputs = {name: np.ascontiguousarray(value) for name, value in task.inputs.items()}
  # Shapes of outputs may depend on the data; with the inputs fixed they are fixed as well.
  outputs = [np.empty_like(value) for value in session.run(task.outputs, inputs)]
  binding = session.io_binding()
  for name, value in inputs.items():
    binding.bind_input(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)
  for name, value in zip(task.outputs, outputs):
    binding.bind_output(name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)

  def run(keep=inputs):  # the binding holds addresses only
    session.run_with_iobinding(binding)
    return outputs

  return run
