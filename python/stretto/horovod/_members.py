"""The ranks that take part in an operation: all ranks of the job, or a process set."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from stretto._errors import Error, InvalidArgumentError
from stretto._unordered import Unordered
from stretto.horovod._gradients import GradientSet
from stretto.torch._process_group import ProcessGroup

# The engine's numbers of Horovod's operations; the engine forms the average.
OPERATIONS = {"Average": dist.ReduceOp.AVG, "Sum": dist.ReduceOp.SUM, "Min": dist.ReduceOp.MIN,
               "Max": dist.ReduceOp.MAX, "Product": dist.ReduceOp.PRODUCT}

ABANDONED = 64  # so many abandoned operations are kept before anybody looks


def is_over(started: list | None) -> bool:
  """Whether the Work that a call has started, if it is one, is over."""
  return not started or not hasattr(started[0], "is_completed") or started[0].is_completed()


@dataclass
class Prepared:
  """A collective that is ready to start: the engine's operations, the memory that they use, and the
  function that copies their results to the caller's tensors."""
  operations: list[dict]
  keep: list
  finish: object


class Preparing(ProcessGroup):
  """A process group whose methods prepare operations without starting them."""

  def start(self, what, opts, operations, result, keep, finish=None, arrivals=()) -> Prepared:
    del what, opts
    for event in arrivals:
      event.synchronize()
    return Prepared(operations, [result, keep], finish)


class Members:
  """All ranks of the job make it, also those that are not in `ranks`."""

  def __init__(self, ranks: list[int] | None = None):
    self.group = dist.new_group(ranks, backend="stretto")
    self.ranks = list(range(dist.get_world_size())) if ranks is None else list(ranks)
    self.included = dist.get_rank() in self.ranks
    self.counters: dict[str, itertools.count] = defaultdict(itertools.count)  # of unnamed tensors
    # Operations that nobody waits for: handle, memory, and what a call has started or None.
    self.abandoned: list[tuple[int, object, list | None]] = []
    self.most_abandoned = ABANDONED
    self._stand_ins: list = []
    self.gradients: list[GradientSet] = []  # by number
    if not self.included:
      return
    g = self.group
    self.prepare = Preparing(g.job, g.group, g.name(), g.members, g.rank(), g.codec, g.timeout_s)
    self.unordered = Unordered(g.engine, f"horovod {g.group_name}", g.members, self.stand_in)
    self.again = self.unordered.native.submit_again
    g.users.add(self)
    everyone = dist.group.WORLD
    if isinstance(everyone, ProcessGroup):  # scripts set the timeout of this group
      everyone.followers.add(self)
      self.set_timeout(timedelta(seconds=everyone.timeout_s))
    else:
      self.unordered.set_timeout(g.timeout_s)

  def set_timeout(self, timeout: timedelta) -> None:
    self.group.set_timeout(timeout)
    with contextlib.suppress(InvalidArgumentError):  # closed
      self.unordered.set_timeout(timeout.total_seconds())

  @property
  def rank(self) -> int:
    return self.group.rank()

  @property
  def size(self) -> int:
    return len(self.ranks)

  def add_gradients(self, codec: str) -> GradientSet:
    """The gradients of one optimizer; ranks make them in the same order."""
    self.gradients.append(GradientSet(self.group, len(self.gradients), codec))
    return self.gradients[-1]

  def stand_in(self, description: str) -> None:
    """Starts an operation of the other ranks on a rank that has joined, with zeros."""
    what = json.loads(description)
    if what["operation"] == "gradient":
      self.gradients[what["optimizer"]].stand_in(what)
      return
    self._stand_ins = [work for work in self._stand_ins if not work.is_completed()]
    if what["operation"] != "allreduce":
      raise InvalidArgumentError(
          f"join: the other ranks do an {what['operation']}; after join() only "
          "allreduce can go on")
    options = dist.AllreduceOptions()
    options.reduceOp = OPERATIONS[what["op"]]
    dtype = getattr(torch, what["dtype"])
    tensors = [torch.zeros(shape, dtype=dtype, device="cpu") for shape in what["shapes"]]
    self._stand_ins.append(self.group.allreduce_coalesced(tensors, options))

  def join(self) -> int:
    last = self.unordered.join()
    for gradients in self.gradients:
      gradients.finish_stand_ins()
    return last

  def let_go(self) -> None:
    """Releases abandoned operations that are over, when there are many."""
    if len(self.abandoned) < self.most_abandoned:
      return
    rest = []
    with contextlib.suppress(IndexError):  # another thread takes some, destructors add some
      for _ in range(len(self.abandoned)):
        entry = self.abandoned.pop()
        if not self._has_ended(entry[0]) or not is_over(entry[2]):
          rest.append(entry)
    self.abandoned += rest
    self.most_abandoned = max(ABANDONED, 2 * len(self.abandoned))

  def _has_ended(self, number: int) -> bool:
    try:
      if not self.unordered.poll(number):
        return False
    except InvalidArgumentError:  # closed: the engine may go on
      return False
    with contextlib.suppress(Error):
      self.unordered.wait(number)
    return True

  def leave(self) -> None:
    """Waits until the other members have called it too."""
    self._leave()
    if dist.is_initialized():  # the script may have destroyed all groups
      with contextlib.suppress(ValueError):  # or this one
        dist.destroy_process_group(self.group)

  def close(self) -> None:
    """Waits as leave() does. The end of the group calls it, also where the script destroys it
    without shutdown()."""
    if not self.group.engine.forked:
      self._leave()

  def _leave(self) -> None:
    if self.included and self.prepare is not None:
      self.prepare = None
      self.unordered.leave()
      for gradients in self.gradients:
        gradients.close()
