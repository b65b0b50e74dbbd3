"""PyTorch: torch.compile with inductor, from the model's definition or, for a mere ONNX file, from
what onnx2torch makes of it. Freezing folds and prepacks the weights; without it, compile leaves
convolutions in the framework's plain layout."""

from __future__ import annotations

import importlib.util

from stretto.peers import Cap, Run, Task

PACKAGES = ("torch",)


def refuses(task: Task) -> str | None:
  needed = () if task.definition else ("onnx2torch", "torchvision")  # which imports the other
  missing = [name for name in needed if not importlib.util.find_spec(name)]
  if not missing:
    return None
  return f"reads ONNX files by onnx2torch only (pip install {' '.join(missing)})"


def cap(isa: str) -> Cap:
  name = isa.upper()
  return Cap({"ATEN_CPU_CAPABILITY": isa, "ONEDNN_MAX_CPU_ISA": name,
              "MKL_ENABLE_INSTRUCTIONS": name})


def load(task: Task) -> Run:
  import torch
  import torch._inductor.config

  torch.set_num_threads(task.threads)
  module = task.definition() if task.definition else from_onnx(task)
  if task.setting == "best":
    torch._inductor.config.freezing = True
    fold_transposed(module)
  module = torch.compile(module)
  arguments = [torch.from_numpy(value) for value in task.inputs.values()]

  def run():
    with torch.no_grad():
      outputs = module(*arguments)
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    return [value.numpy() for value in outputs]

  run()  # compiles
  return run


def from_onnx(task: Task):
  import onnx2torch

  return onnx2torch.convert(str(task.model)).eval()


def fold_transposed(module) -> None:
  """Folds BatchNorm into transposed convolutions before freezing does: freezing scales the weight's
  first axis, which for these holds the input channels, and computes something else (seen in torch
  2.13 whenever input and output channels are equally many)."""
  from torch import nn
  from torch.nn.utils.fusion import fuse_conv_bn_eval

  for layers in module.modules():
    if not isinstance(layers, nn.Sequential):
      continue
    for i in range(len(layers) - 1):
      if isinstance(layers[i], nn.ConvTranspose2d) and isinstance(layers[i + 1], nn.BatchNorm2d):
        layers[i] = fuse_conv_bn_eval(layers[i], layers[i + 1], transpose=True)
        layers[i + 1] = nn.Identity()
