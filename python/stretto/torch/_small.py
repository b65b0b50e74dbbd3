"""All-reduces of one tensor in few steps of the interpreter. These take longer than a small
operation does, above all after a while of computing, when nothing of them is in the caches."""

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
TORCH_SUM, SUM = dist.ReduceOp.SUM, 0  # the other is the engine's
Options = dist.AllreduceOptions


class Finished(Work):
  """That was over when the process group returned it. `_group` and `_result` are set by it."""

  _done = True
  _what, _keep, _finish = "", None, None
  __init__ = dist._Work.__init__  # a call of Python less


def all_reduce_small(group: ProcessGroup, tensors, opts) -> Work | None:
  """ProcessGroup.allreduce() as torch's functions call it, for one tensor that the engine can read
  by itself. None: it cannot, and nothing was started."""
  if type(opts) is not Options or type(tensors) is not list or len(tensors) != 1:
    return None
  tensor, engine = tensors[0], group.engine
  if (type(tensor) not in DENSE or group.codec != "none" or group._destroyed or engine._dropped
      or not group.feeder.idle() or graph_task() != -1):
    return None
  operation, blocking = opts.reduceOp, not getattr(opts, "asyncOp", True)
  number = SUM if operation == TORCH_SUM else group.reduction(operation, tensor, "all_reduce")
  begun: list[int] = []  # the handle, from the moment when the operation runs
  arguments = group.group, tensor, number, group.limit_s(opts), blocking, begun
  if not blocking:
    work = waiting(group, tensor, begun)
    if not engine.native.all_reduce(*arguments):
      return None
    group._sequence += 1
    return work
  group._sequence += 1
  try:
    if not engine.native.all_reduce(*arguments):
      group._sequence -= 1  # the other way counts it
      return None
  except BaseException as error:
    if not begun:
      group._sequence -= 1
    elif isinstance(error, Error):
      group.job.error = error
    else:  # Ctrl-C: the operation goes on, and the Work keeps the memory for it
      waiting(group, tensor, begun)
    raise
  work = Finished()
  work._group, work._result = group, [tensor]
  return work


def waiting(group: ProcessGroup, tensor: torch.Tensor, handles: list[int]) -> Work:
  return Work(group, "all_reduce", [tensor], [tensor], None, -1.0).waiting_for(handles)
