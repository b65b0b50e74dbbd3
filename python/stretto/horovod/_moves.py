"""Named operations that move tensors, and join() and barrier()."""

from __future__ import annotations

import torch
import torch.distributed as dist

from stretto._checks import expected
from stretto._errors import InvalidArgumentError
from stretto.horovod._arguments import check_root, dense, dense_list
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
  """Starts `grouped_allgather` and returns at once.

  Args:
    tensors: as in `grouped_allgather`.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    A handle for `synchronize`.
  """
  members = members_of(process_set)
  values = [t.detach().contiguous().reshape(t.shape or (1,))
            for t in dense_list("allgather", tensors)]
  return submit_call(
      members, full_name(members, "allgather", name),
      describe("allgather", values[0].dtype, shapes=[["*", *t.shape[1:]] for t in values]),
      lambda: gather_rows(members, values),
      lambda started: [works_end(each) for each in started], values)


def allgather_async(tensor, name=None, process_set=None) -> Handle:
  """Starts `allgather` and returns at once.

  Args:
    tensor: as in `allgather`.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    A handle for `synchronize`.
  """
  return grouped_allgather_async([tensor], name, process_set).then(first)


def grouped_allgather(tensors, name=None, process_set=None) -> list[torch.Tensor]:
  """Collects the rows of several tensors of all ranks in one go. It has no gradient.

  Args:
    tensors: tensors as for `allgather`.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    New tensors, in the order given.

  Raises:
    InvalidArgumentError: ranks disagree on types or on other dimensions than the first.
    CommError: a rank or a link is lost.
  """
  return grouped_allgather_async(tensors, name, process_set).wait()


def allgather(tensor, name=None, process_set=None) -> torch.Tensor:
  """Collects the rows of all ranks on every rank. Gradients go back to the rank whose rows they
  are for.

  Args:
    tensor: at least one dimension; ranks may differ in the first one.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    A new tensor: the rows, one rank after another.

  Raises:
    InvalidArgumentError: ranks disagree on types or on other dimensions.
    CommError: a rank or a link is lost.
  """
  members = members_of(process_set)
  dense("allgather", tensor)

  def backward(gradients):
    own = torch.tensor([len(tensor)], device="cpu")
    rows = grouped_allgather_async([own], None, process_set).wait()[0].tolist()
    total = reduce_sum(gradients[0], process_set)
    return [total.split(rows)[members.rank]]

  return differentiable(lambda ts: [allgather_async(ts[0], name, process_set).wait()], backward,
                        [tensor])[0]


def reduce_sum(tensor, process_set) -> torch.Tensor:
  return allreduce_async(tensor, op=Sum, process_set=process_set).wait()


def broadcast_async_(tensor, root_rank, name=None, process_set=None) -> Handle:
  """Starts `broadcast_` and returns at once.

  Args:
    tensor: as in `broadcast`.
    root_rank: as in `broadcast`.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    A handle for `synchronize`.

  Raises:
    InvalidArgumentError: the root is no member.
  """
  members = members_of(process_set)
  dense("broadcast", tensor)
  check_root("broadcast", root_rank, members.ranks)
  options = dist.BroadcastOptions()
  options.rootRank = members.ranks.index(root_rank)
  prepared = members.prepare.broadcast([tensor.detach()], options)
  return submit(members, full_name(members, "broadcast", name),
                describe("broadcast", tensor.dtype, root=root_rank, shape=list(tensor.shape)),
                prepared, lambda: tensor)


def broadcast_async(tensor, root_rank, name=None, process_set=None) -> Handle:
  """Starts `broadcast` and returns at once.

  Args:
    tensor: as in `broadcast`.
    root_rank: as in `broadcast`.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    A handle for `synchronize`.
  """
  copy = dense("broadcast", tensor).detach().clone()
  return broadcast_async_(copy, root_rank, name, process_set)


def broadcast(tensor, root_rank, name=None, process_set=None) -> torch.Tensor:
  """Gives every rank the tensor of one rank. All gradients go back to that rank.

  Args:
    tensor: of the same shape and type on every rank.
    root_rank: the rank whose values the others get; a rank of the job, also for a process set.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    A new tensor.

  Raises:
    InvalidArgumentError: the root is no member, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.
  """

  def backward(gradients):
    total = reduce_sum(gradients[0], process_set)
    return [total if job().place.rank == root_rank else torch.zeros_like(total)]

  return differentiable(
      lambda ts: [broadcast_async(ts[0], root_rank, name, process_set).wait()], backward,
      [dense("broadcast", tensor)])[0]


def broadcast_(tensor, root_rank, name=None, process_set=None) -> torch.Tensor:
  """The same as `broadcast`, in place.

  Args:
    tensor: as in `broadcast`.
    root_rank: as in `broadcast`.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    The tensor given.
  """
  return broadcast_async_(tensor, root_rank, name, process_set).wait()


def alltoall_async(tensor, splits=None, name=None, process_set=None) -> Handle:
  """Starts `alltoall` and returns at once.

  Args:
    tensor: as in `alltoall`.
    splits: as in `alltoall`.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    A handle for `synchronize`.

  Raises:
    InvalidArgumentError: the rows cannot be cut that way.
  """
  members = members_of(process_set)
  size = members.size
  tensor = dense("alltoall", tensor).detach().contiguous()
  if tensor.dim() == 0:
    raise InvalidArgumentError("alltoall: tensor: a scalar has no rows to send")
  if splits is None and len(tensor) % size:
    raise InvalidArgumentError(
        f"alltoall: {len(tensor)} rows cannot be divided evenly by {size} ranks; give `splits`")
  try:
    sends = [len(tensor) // size] * size if splits is None else [int(n) for n in splits]
  except (TypeError, ValueError):
    raise expected("alltoall: splits", f"{size} numbers of rows", splits) from None
  if len(sends) != size or sum(sends) != len(tensor):
    raise InvalidArgumentError(
        f"alltoall: splits must be {size} numbers that add up to {len(tensor)} rows, got {sends}")

  def start():
    receives = torch.zeros(size, dtype=torch.int64, device="cpu")
    members.group.all_to_all_single(receives, torch.tensor(sends, device="cpu")).wait()
    output = tensor.new_empty((int(receives.sum()), *tensor.shape[1:]))
    work = members.group.all_to_all_single(output, tensor, receives.tolist(), sends)
    return output, receives, work

  def finish(running):
    output, receives, work = running
    work.wait()
    return output if splits is None else (output, receives.to(torch.int32))

  return submit_call(members, full_name(members, "alltoall", name),
                     describe("alltoall", tensor.dtype, shape=["*", *tensor.shape[1:]]), start,
                     finish, tensor)


def alltoall(tensor, splits=None, name=None, process_set=None):
  """Sends some rows to every rank and receives some from each.

  Args:
    tensor: at least one dimension.
    splits: numbers of rows for every rank, in rank order. None: the same number for each.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    The rows received, by rank; with `splits`, those and the numbers of rows received.

  Raises:
    InvalidArgumentError: the rows cannot be cut that way.
    CommError: a rank or a link is lost.
  """
  return alltoall_async(tensor, splits, name, process_set).wait()


def barrier(process_set=None) -> None:
  """Waits until every rank has called it.

  Args:
    process_set: as in `allreduce`.

  Raises:
    CommError: a rank or a link is lost.
  """
  members = members_of(process_set)
  nothing = torch.zeros(1, device="cpu")
  submit(members, full_name(members, "barrier", None), describe("barrier", nothing.dtype),
         members.prepare.barrier(), lambda: None).wait()


def join(device: int = -1) -> int:
  """Tells the other ranks that this one has nothing left to reduce; they use zeros in its place.

  Args:
    device: Horovod's; not used.

  Returns:
    The last rank that joined, as soon as all have.

  Raises:
    CommError: a rank or a link is lost.
  """
  del device
  return job().everyone.join()
