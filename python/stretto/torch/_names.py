"""Finds the parameter to which a NaN belongs, for reductions of torch's own: those of
DistributedDataParallel, of FSDP and of optimizers over them. What attach() reduces has names.

A reduction in a backward pass gets a name that says where to look. The parameter is only looked for
when there is a NaN."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import torch

from stretto import comm
from stretto._errors import InternalError
from stretto._non_finite import FindName

graph_task = torch._C._current_graph_task_id  # the backward pass on this thread, or -1

REDUCTIONS = (comm.ALL_REDUCE, comm.REDUCE_SCATTER)
DEPTH = 9  # calls between FSDP and the process group, and a few

MODULES: weakref.WeakSet = weakref.WeakSet()  # every DistributedDataParallel module

# Name and place in it of an element of what a reduction has as its input.
Find = Callable[[int], "tuple[str, int] | None"]


class Reduction(NamedTuple):
  step: int
  number: int  # in the step, from 0
  count: int  # of elements of the result
  find: Find | None  # of FSDP


class Backward:
  """The backward passes of a group that reduce something. `step` counts them."""

  def __init__(self):
    self.step, self._task = 0, -1
    self._now: dict[str, Reduction] = {}
    self._before: dict[str, Reduction] = {}  # reports may come a step late

  def tag(self, task: int, operations: list[dict]) -> None:
    """Names the reductions among the operations, which the backward pass `task` starts."""
    for operation in operations:
      kind = operation["kind"]
      # The engine keeps residuals for operations with a name and a codec.
      if kind not in REDUCTIONS or operation.get("codec", "none") != "none":
        continue
      if task != self._task:
        self.step, self._task = self.step + 1, task
        self._now, self._before = {}, self._now
      number = len(self._now)
      operation["name"] = name = f"operation {number} of step {self.step}"
      count = operation["count"]
      self._now[name] = Reduction(self.step, number, count, fsdp(sys._getframe(3), kind, count))

  def find(self, name: str) -> Reduction | None:
    """Of an operation that has just ended."""
    return self._now.get(name) or self._before.get(name)


def find_name(groups: weakref.WeakValueDictionary) -> FindName:
  """What comm.Engine.find_name is, for process groups by their numbers in the engine."""

  def find(report: dict[str, Any]) -> Callable[[dict[str, Any]], bool] | None:
    group = groups.get(report["group"])
    reduction = group.backward.find(report["name"]) if group is not None else None
    return None if reduction is None else partial(set_name, group, reduction)

  return find


def set_name(group, reduction: Reduction, report: dict[str, Any]) -> bool:
  at = report["first_offset"]
  if reduction.find is not None:
    found = reduction.find(at)
  elif graph_task() != -1:
    return False  # the reducer's lock may be this thread's
  else:
    found = ddp(group, reduction, at)
  if found is not None:
    report["name"], report["first_offset"] = f"{found[0]} at step {reduction.step}", found[1]
  return True


# DistributedDataParallel

def ddp(group, reduction: Reduction, at: int) -> tuple[str, int] | None:
  """Buckets are reduced by number. Where several fit, it is the one with a NaN there."""
  found = []
  for module in list(MODULES):
    if module.process_group is not group:
      continue
    for number, bucket in enumerate(buckets(module)):
      if sum(parameter.numel() for _, parameter in bucket) == reduction.count:
        name, parameter, offset = place(bucket, at)
        found.append((not has_nan(parameter, offset), number != reduction.number, name, offset))
  return min(found)[2:] if found else None


def buckets(module) -> list[list[tuple[str, torch.nn.Parameter]]]:
  """The parameters of each bucket. They stay the same once DDP has seen a backward pass."""
  known = BUCKETS.get(module)
  if known is None:
    names = {parameter: name for name, parameter in module.module.named_parameters()}
    known = [[(names.get(p, "?"), p) for p in bucket.parameters()]
             for bucket in module.reducer._get_zeros_like_grad_buckets()]
    if getattr(module, "_has_rebuilt_buckets", False):
      BUCKETS[module] = known
  return known


BUCKETS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def place(bucket: list[tuple[str, Any]], at: int) -> tuple[str, Any, int]:
  left = at
  for name, parameter in bucket:
    if left < parameter.numel():
      return name, parameter, left
    left -= parameter.numel()
  raise InternalError(f"element {at} is not in the bucket")


def has_nan(parameter, at: int) -> bool:
  grad = parameter.grad
  return grad is not None and not bool(grad.detach().reshape(-1)[at].isfinite())


# FSDP: its functions are on the stack when the group is called.

def fsdp(frame: FrameType | None, kind: int, count: int) -> Find | None:
  for _ in range(DEPTH):
    if frame is None:
      return None
    if frame.f_code.co_name in FSDP:
      wanted, make = FSDP[frame.f_code.co_name]
      return make(frame.f_locals, count) if kind == wanted else None
    frame = frame.f_back
  return None


def flat_parameter(words: dict[str, Any], count: int) -> Find | None:
  """FSDP 1: the gradients of a module, one after another, with padding between and behind."""
  del count
  handle = weakref.ref(words["handle"])
  order = weakref.ref(words["state"]._exec_order_data)

  def find(at: int) -> tuple[str, int] | None:
    if handle() is None:
      return None
    flat = handle().flat_param
    # With the module's place in the whole model, which FSDP knows by the parameters that users see.
    known = order().param_to_fqn if order() is not None else {}
    whole = [name for seen in flat._params or [flat] for name in known.get(seen, [])]
    names = iter(whole if len(whole) == len(flat._fqns) else flat._fqns)
    for size, padding in zip(flat._numels_with_padding, flat._is_padding_mask):
      name = "padding" if padding else next(names)
      if at < size:
        return name, at
      at -= size
    return None

  return find


def sharded_parameters(words: dict[str, Any], count: int) -> Find | None:
  """FSDP 2: a row per rank, of the parts of all gradients that it gets."""
  sizes = [(p._param_fqn, p.padded_sharded_param_size.numel()) for p in words["fsdp_params"]]

  def find(at: int) -> tuple[str, int] | None:
    row, at = divmod(at, count)
    for name, size in sizes:
      if at < size:
        return name or "?", row * size + at
      at -= size
    return None

  return find


FSDP = {"_reduce_grad": (comm.REDUCE_SCATTER, flat_parameter),
        "_reduce_grad_no_shard": (comm.ALL_REDUCE, flat_parameter),
        "foreach_reduce": (comm.REDUCE_SCATTER, sharded_parameters)}
