"""Named operations that move tensors, and ranks waiting for each other."""

from __future__ import annotations

import torch
import torch.distributed as dist

from stretto.horovod._handles import Handle, describe, full_name, submit, submit_call
from stretto.horovod._process_sets import members_of
from stretto.horovod._reductions import (
  Sum,
  allreduce_async,
  differentiable,
  first,
  gather_rows,
  works_end,
)
from stretto.horovod._state import job


def grouped_allgather_async(tensors, name=None, process_set=None) -> Handle:
  """Ranks may differ in the first dimension."""
  members = members_of(process_set)
  values = [t.detach().contiguous().reshape(t.shape or (1,)) for t in tensors]
  return submit_call(
      members, full_name(members, "allgather", name),
      describe("allgather", values, shapes=[["*", *t.shape[1:]] for t in values]),
      lambda: gather_rows(members, values),
      lambda started: [works_end(each) for each in started], values)


def allgather_async(tensor, name=None, process_set=None) -> Handle:
  return grouped_allgather_async([tensor], name, process_set).then(first)


def grouped_allgather(tensors, name=None, process_set=None) -> list[torch.Tensor]:
  return grouped_allgather_async(list(tensors), name, process_set).wait()


def allgather(tensor, name=None, process_set=None) -> torch.Tensor:
  """Gradients go back to the rank whose rows they are for."""
  members = members_of(process_set)

  def backward(gradients):
    own = [len(tensor)]
    rows = grouped_allgather_async([torch.tensor(own)], None, process_set).wait()[0].tolist()
    total = reduce_sum(gradients[0], process_set)
    return [total.split(rows)[members.rank]]

  return differentiable(lambda ts: [allgather_async(ts[0], name, process_set).wait()], backward,
                        [tensor])[0]


def reduce_sum(tensor, process_set) -> torch.Tensor:
  return allreduce_async(tensor, op=Sum, process_set=process_set).wait()


def broadcast_async_(tensor, root_rank, name=None, process_set=None) -> Handle:
  """`root_rank` is a rank of the job, also for a process set."""
  members = members_of(process_set)
  if root_rank not in members.ranks:
    raise ValueError(f"broadcast: root_rank {root_rank} is none of {members.ranks}")
  options = dist.BroadcastOptions()
  options.rootRank = members.ranks.index(root_rank)
  prepared = members.prepare.broadcast([tensor.detach()], options)
  return submit(members, full_name(members, "broadcast", name),
                describe("broadcast", [tensor], root=root_rank, shape=list(tensor.shape)),
                prepared, lambda: tensor)


def broadcast_async(tensor, root_rank, name=None, process_set=None) -> Handle:
  return broadcast_async_(tensor.detach().clone(), root_rank, name, process_set)


def broadcast(tensor, root_rank, name=None, process_set=None) -> torch.Tensor:
  """All gradients go back to the root."""

  def backward(gradients):
    total = reduce_sum(gradients[0], process_set)
    return [total if job().place.rank == root_rank else torch.zeros_like(total)]

  return differentiable(
      lambda ts: [broadcast_async(ts[0], root_rank, name, process_set).wait()], backward,
      [tensor])[0]


def broadcast_(tensor, root_rank, name=None, process_set=None) -> torch.Tensor:
  return broadcast_async_(tensor, root_rank, name, process_set).wait()


def alltoall_async(tensor, splits=None, name=None, process_set=None) -> Handle:
  """With `splits` (rows for every rank) the result is (tensor, received splits)."""
  members = members_of(process_set)
  size = members.size
  tensor = tensor.detach().contiguous()
  if splits is None and len(tensor) % size:
    raise ValueError(f"alltoall: {len(tensor)} rows cannot be cut evenly for {size} ranks")
  sends = [len(tensor) // size] * size if splits is None else [int(n) for n in splits]
  if len(sends) != size or sum(sends) != len(tensor):
    raise ValueError(f"alltoall: splits {sends} do not cut {len(tensor)} rows for {size} ranks")

  def start():
    receives = torch.zeros(size, dtype=torch.int64)
    members.group.all_to_all_single(receives, torch.tensor(sends)).wait()
    output = tensor.new_empty((int(receives.sum()), *tensor.shape[1:]))
    work = members.group.all_to_all_single(output, tensor, receives.tolist(), sends)
    return output, receives, work

  def finish(running):
    output, receives, work = running
    work.wait()
    return output if splits is None else (output, receives.to(torch.int32))

  return submit_call(members, full_name(members, "alltoall", name),
                     describe("alltoall", [tensor], shape=["*", *tensor.shape[1:]]), start, finish,
                     tensor)


def alltoall(tensor, splits=None, name=None, process_set=None):
  return alltoall_async(tensor, splits, name, process_set).wait()


def barrier(process_set=None) -> None:
  members = members_of(process_set)
  nothing = torch.zeros(1)
  submit(members, full_name(members, "barrier", None), describe("barrier", [nothing]),
         members.prepare.barrier(), lambda: None).wait()


def join(device: int = -1) -> int:
  """This rank has no more to reduce; the others go on with zeros in its place. Returns when all
  have joined: the last rank that did."""
  del device
  return job().everyone.unordered.join()
