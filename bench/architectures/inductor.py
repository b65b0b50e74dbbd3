"""torch.compile with Stretto's backend against PyTorch's own, Inductor, on one thread.

Inductor needs a C++ compiler. All compiled modules live in one process and take turns.
"""

from __future__ import annotations

import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import stretto
from bench.architectures import make
from bench.architectures.check import shortened, verdict
from bench.architectures.clock import in_turns
from bench.architectures.row import Architecture


def _separate(module: make.Call) -> make.Call:
  """The same module with a forward function of its own: PyTorch keeps what it compiled by function,
  and would look through the others' at every call."""
  forward = make.Call.forward
  own = types.FunctionType(forward.__code__.replace(), forward.__globals__, "forward",
                           forward.__defaults__, forward.__closure__)
  module.__class__ = type("Call", (make.Call,), {"forward": own})
  return module


def compare(row: Architecture, batch: int, tuning: str, seconds: float, peers: list[str]) -> dict:
  """Milliseconds per way, what went wrong, and the seconds of the first call."""
  lacking = make.missing(row)
  if lacking:
    return {"skipped": lacking}
  torch.set_num_threads(1)
  warnings.simplefilter("ignore")
  from stretto.aten._compile import backend

  inputs = make.tensors(row, batch)
  with torch.no_grad():
    expected = _leaves(make.module(row)(*inputs))
  options = {"tuning": tuning, "threads": 1}
  ways: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "eager": lambda m: m,
    "stretto": lambda m: torch.compile(m, backend=backend, options=options),
    "inductor": torch.compile,
    "stretto.optimize": lambda m: stretto.optimize(m, inputs, **options),
  }
  if "max-autotune" in peers:
    ways["inductor max-autotune"] = lambda m: torch.compile(m, mode="max-autotune")
  runs: dict[str, Callable[[], Any]] = {}
  failed: dict[str, str] = {}
  first: dict[str, float] = {}
  with torch.no_grad():
    for name, prepare in ways.items():
      begin = time.monotonic()
      try:
        compiled = prepare(_separate(make.module(row)))
        found = verdict(_leaves(compiled(*inputs)), expected)
      except Exception as error:
        failed[name] = shortened(error, 200)
        continue
      first[name] = round(time.monotonic() - begin, 2)
      if found["status"] == "runs":
        runs[name] = lambda compiled=compiled: compiled(*inputs)
      else:
        failed[name] = found["reason"]
    return {**in_turns(runs, seconds), "failed": failed, "first_call_s": first}


def _leaves(value: Any) -> list[torch.Tensor]:
  return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]
