"""PyTorch: torch.compile with inductor, from the model's definition. Freezing folds and prepacks
the weights; without it, compile leaves convolutions in the framework's plain layout."""

from __future__ import annotations

from bench.peers import Cap, Run, Task


def version() -> str:
  import torch

  return torch.__version__


def available(task: Task) -> str | None:
  return None if task.model else "needs the model's definition, and this is only an ONNX file"


def cap(isa: str) -> Cap:
  name = isa.upper()
  return Cap({"ATEN_CPU_CAPABILITY": isa, "ONEDNN_MAX_CPU_ISA": name,
              "MKL_ENABLE_INSTRUCTIONS": name})


def load(task: Task) -> Run:
  import torch
  import torch._inductor.config

  from bench import models

  torch.set_num_threads(task.threads)
  module = models.build(models.find(task.model), task.seed)
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
