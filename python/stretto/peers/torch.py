"""PyTorch: torch.compile with frozen weights. The ONNX file becomes a module through onnx2torch;
whoever has the original module passes it to Runner instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np

PACKAGES = ("torch", "onnx2torch")


class Runner:
  setting = "torch.compile, inductor, frozen weights"

  def __init__(self, model: Path | None, inputs: dict[str, np.ndarray], threads: int, module=None):
    import torch
    import torch._inductor.config

    torch.set_num_threads(threads)
    torch._inductor.config.freezing = True
    if module is None:
      import onnx2torch

      module = onnx2torch.convert(str(model))
    module = module.eval()
    self._inputs = [torch.from_numpy(np.ascontiguousarray(a)) for a in inputs.values()]
    self._torch = torch
    self._function = torch.compile(module)
    self._result = None

  def run(self) -> None:
    with self._torch.inference_mode():
      self._result = self._function(*self._inputs)

  def outputs(self) -> list[np.ndarray]:
    result = self._result
    results = result if isinstance(result, (tuple, list)) else [result]
    return [r.detach().numpy() for r in results]


load = Runner
