"""Keeps what torch calls of a process group out of torch.compile.

While a compiled module runs, torch.compile looks at every function of Python that C++ calls, such
as ProcessGroup.broadcast by DistributedDataParallel, tries to compile it and fails at the process
group. A decorator that prevents it takes time in every call, and importing torch._dynamo takes
seconds, so the functions' code is marked.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator

import torch

from stretto import _comm_arguments, _completions, _non_finite, comm
from stretto.torch import (
  _attach,
  _buffers,
  _calls,
  _described,
  _jobs,
  _names,
  _policies,
  _process_group,
  _segments,
  _small,
  _transfers,
  _work,
)

# What DDP's reducer and torch's collectives call, and what that calls.
CALLED = (_attach, _buffers, _calls, _comm_arguments, _completions, _described, _jobs, _names,
          _non_finite, _policies, _process_group, _segments, _small, _transfers, _work, comm)


def marker() -> Callable[[types.CodeType], object]:
  """What this version of torch has for it; what it does in others is to skip nothing."""
  frames = torch._C._dynamo.eval_frame
  if hasattr(frames, "set_code_exec_strategy"):
    skip = frames._FrameAction.SKIP
    strategy = frames._FrameExecStrategy(skip, skip)
    return lambda code: frames.set_code_exec_strategy(code, strategy)
  return getattr(frames, "skip_code", lambda code: None)


def codes(owner: object, module: str) -> Iterator[types.CodeType]:
  """Of the functions and classes that a module, or a class of it, defines."""
  for value in vars(owner).values():
    if isinstance(value, type) and value.__module__ == module:
      yield from codes(value, module)
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    if isinstance(value, types.FunctionType) and value.__module__ == module:
      yield from nested(value.__code__)


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
  yield code
  for constant in code.co_consts:
    if isinstance(constant, types.CodeType):
      yield from nested(constant)


def keep_out() -> None:
  mark = marker()
  for module in CALLED:
    for code in codes(module, module.__name__):
      mark(code)
