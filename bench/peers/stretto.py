"""Stretto itself, through the Python package a user has."""

from __future__ import annotations

import numpy as np

from bench.peers import Cap, Run, Task


def version() -> str:
  import stretto

  return stretto.__version__


def available(task: Task) -> str | None:
  return None


def cap(isa: str) -> Cap:
  return Cap({"STRETTO_ISA": isa})


def load(task: Task) -> Run:
  import stretto

  model = stretto.optimize(task.onnx, inputs=task.inputs, threads=task.threads, tune=task.tune)
  arguments = list(task.inputs.values())

  def run() -> list[np.ndarray]:
    outputs = model(*arguments)
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]

  return run
