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
  torch._inductor.config.freezing = task.setting == "best"
  module = torch.compile(models.build(models.find(task.model), task.seed))
  arguments = [torch.from_numpy(value) for value in task.inputs.values()]

  def run():
    with torch.no_grad():
      outputs = module(*arguments)
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    return [value.numpy() for value in outputs]

  run()  # compiles
  return run
