"""OpenVINO's CPU plugin: latency hint, one stream, fp32 as the model asks for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

PACKAGES = ("openvino",)


class Runner:
  setting = "CPU, LATENCY, 1 stream, f32"

  def __init__(self, model: Path, inputs: dict[str, np.ndarray], threads: int):
    import openvino

    core = openvino.Core()
    read = core.read_model(str(model))
    read.reshape({name: list(array.shape) for name, array in inputs.items()})
    compiled = core.compile_model(read, "CPU", {
      "PERFORMANCE_HINT": "LATENCY",
      "NUM_STREAMS": "1",
      "INFERENCE_NUM_THREADS": str(threads),
      "INFERENCE_PRECISION_HINT": "f32",
    })
    self._request = compiled.create_infer_request()
    self._inputs = {name: openvino.Tensor(array, shared_memory=True)
                    for name, array in inputs.items()}
    for name, tensor in self._inputs.items():
      self._request.set_tensor(name, tensor)
    self._ports = list(compiled.outputs)

  def run(self) -> None:
    self._request.infer()

  def outputs(self) -> list[np.ndarray]:
    return [np.array(self._request.get_tensor(port).data) for port in self._ports]


load = Runner
