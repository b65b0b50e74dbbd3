"""ONNX Runtime's CPU provider. Its defaults (every optimisation, spinning threads) are its best."""

from __future__ import annotations

from bench.peers import Cap, Run, Task


def version() -> str:
  import onnxruntime

  return onnxruntime.__version__


def available(task: Task) -> str | None:
  return None


def cap(isa: str) -> Cap:
  return Cap(caveat="no public switch; runs at the machine's full width")


def load(task: Task) -> Run:
  import onnxruntime as ort

  options = ort.SessionOptions()
  options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
  options.intra_op_num_threads = task.threads
  options.inter_op_num_threads = 1
  options.log_severity_level = 3
  session = ort.InferenceSession(str(task.onnx), options, providers=["CPUExecutionProvider"])
  return lambda: session.run(task.outputs, task.inputs)
