"""Small all-reduces in few steps of the interpreter, which take longer than the operation itself,
above all after a while of computing, when nothing of them is in the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from stretto._errors import Error
from stretto.torch._names import graph_task
from stretto.torch._work import Work

if TYPE_CHECKING:
  from stretto.torch._process_group import ProcessGroup

DENSE = (torch.Tensor, torch.nn.Parameter)  # not their subclasses, some of which have no memory
SUM = 0  # of the engine


class Finished(Work):
  """That was over when the process group returned it. `_group` and `_result` are set by it."""

  _done = True
  _what, _keep, _finish = "", None, None
  __init__ = dist._Work.__init__  # a call of Python less


def all_reduce_small(group: ProcessGroup, tensors: list[torch.Tensor], opts) -> Work | None:
  """What ProcessGroup.reduce_all() does, for one tensor that the engine can read by itself. None:
  it cannot, and nothing was started."""
  tensor, operation = tensors[0], opts.reduceOp
  if (type(tensor) not in DENSE or group.codec != "none" or group._destroyed
      or not group.feeder.idle() or graph_task() != -1):
    return None
  number = SUM if operation == dist.ReduceOp.SUM else group.reduction(operation, tensor,
                                                                      "all_reduce")
  blocking = not getattr(opts, "asyncOp", True)  # torch's functions say that they will wait
  handle = group.engine._all_reduce(group.group, tensor, number, group.limit_s(opts), blocking)
  if handle is None:
    return None
  group._sequence += 1
  if not blocking:
    return waiting(group, tensors, handle)
  try:
    group.engine.native.wait(handle)
  except Error as error:
    group.job.error = error
    raise
  except BaseException:  # Ctrl-C: the operation goes on, and the Work keeps the memory for it
    waiting(group, tensors, handle)
    raise
  work = Finished()
  work._group, work._result = group, tensors
  return work


def waiting(group: ProcessGroup, tensors: list[torch.Tensor], handle: int) -> Work:
  return Work(group, "all_reduce", tensors, tensors, None, -1.0).waiting_for([handle])
