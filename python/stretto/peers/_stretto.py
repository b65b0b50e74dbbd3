"""Stretto itself, through the Python package a user has."""

from __future__ import annotations

from stretto.peers import Cap, Run, Task

PACKAGES = ()


def refuses(task: Task) -> str | None:
  return None


def cap(isa: str) -> Cap:
  return Cap({"STRETTO_ISA": isa})


def load(task: Task) -> Run:
  import stretto

  if task.model.suffix == ".stretto":
    model = stretto.load(task.model)
  else:
    model = stretto.optimize(task.model, inputs=task.inputs, threads=task.threads,
                             tuning=task.tuning)
  if task.save:
    model.save(task.save)
  arguments = list(task.inputs.values())

  def run():
    outputs = model(*arguments)
    return list(outputs) if isinstance(outputs, tuple) else [outputs]

  return run
