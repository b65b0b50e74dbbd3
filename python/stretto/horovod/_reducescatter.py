"""Named reductions of which every rank gets a part. All average by default."""

from __future__ import annotations

import torch
import torch.distributed as dist

from stretto._errors import InvalidArgumentError
from stretto.horovod._arguments import check_compression, check_factors, dense_list
from stretto.horovod._compression import Compression
from stretto.horovod._handles import Handle, describe, full_name, submit
from stretto.horovod._members import OPERATIONS
from stretto.horovod._process_sets import members_of
from stretto.horovod._reductions import Adasum, Average, first, operation_of


def row_shares(rows: int, size: int) -> list[int]:
  """Rows for each rank; the first ranks get one more if they cannot be divided evenly."""
  return [rows // size + (rank < rows % size) for rank in range(size)]


def grouped_reducescatter_async(tensors, name=None, op: str = Average, process_set=None,
                                prescale_factor=1.0, postscale_factor=1.0) -> Handle:
  """Starts `grouped_reducescatter` and returns at once.

  Args:
    tensors: as in `reducescatter`, several.
    name: as in `allreduce`.
    op: as in `allreduce`.
    process_set: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.

  Returns:
    A handle for `synchronize`.

  Raises:
    InvalidArgumentError: a tensor is a scalar, or `op` is `Adasum`.
  """
  op = operation_of(None, op)
  if op == Adasum:
    raise InvalidArgumentError("reducescatter: Adasum is for allreduce only")
  tensors = dense_list("reducescatter", tensors)
  check_factors("reducescatter", prescale_factor, postscale_factor)
  members = members_of(process_set)
  size = members.size
  options = dist.ReduceScatterOptions()
  options.reduceOp = OPERATIONS[op]
  outputs, pieces = [], []
  for tensor in tensors:
    if tensor.dim() == 0:
      raise InvalidArgumentError("reducescatter: a scalar cannot be divided among ranks")
    values = (tensor.detach() * prescale_factor).contiguous()
    shares = row_shares(len(values), size)
    each = values[0].numel() if len(values) else 0
    outputs.append(values.new_empty((shares[members.rank], *values.shape[1:])))
    pieces.append((outputs[-1], values.cpu(), [n * each for n in shares]))
  prepared = members.prepare.scatter_sums(pieces, options)
  description = describe("reducescatter", outputs[0].dtype, op=op,
                         shapes=[list(t.shape) for t in tensors])

  def finish():
    return [o * postscale_factor for o in outputs] if postscale_factor != 1.0 else outputs

  return submit(members, full_name(members, "reducescatter", name), description, prepared, finish)


def reducescatter_async(tensor, name=None, op: str = Average, process_set=None,
                        prescale_factor=1.0, postscale_factor=1.0) -> Handle:
  """Starts `reducescatter` and returns at once.

  Args:
    tensor: as in `reducescatter`.
    name: as in `allreduce`.
    op: as in `allreduce`.
    process_set: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.

  Returns:
    A handle for `synchronize`.
  """
  return grouped_reducescatter_async([tensor], name, op, process_set, prescale_factor,
                                     postscale_factor).then(first)


def grouped_reducescatter(tensors, name=None, compression=Compression.none, op: str = Average,
                          process_set=None, prescale_factor=1.0,
                          postscale_factor=1.0) -> list[torch.Tensor]:
  """Combines several tensors of all ranks; every rank gets its part of each result.

  Args:
    tensors: as in `reducescatter`, several.
    name: as in `allreduce`.
    compression: as in `allreduce`.
    op: as in `allreduce`.
    process_set: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.

  Returns:
    New tensors, in the order given.
  """
  check_compression("reducescatter", compression)
  packed = [compression.compress(t) for t in dense_list("reducescatter", tensors)]
  parts = grouped_reducescatter_async([wire for wire, _ in packed], name, op, process_set,
                                      prescale_factor, postscale_factor).wait()
  return [compression.decompress(part, context) for part, (_, context) in zip(parts, packed)]


def reducescatter(tensor, name=None, compression=Compression.none, op: str = Average,
                  process_set=None, prescale_factor=1.0, postscale_factor=1.0) -> torch.Tensor:
  """Combines a tensor of all ranks; every rank gets its part of the first dimension.

  Args:
    tensor: of the same shape and type on every rank, with at least one dimension. If the rows do
      not divide evenly, the first ranks get one more.
    name: as in `allreduce`.
    compression: as in `allreduce`.
    op: as in `allreduce`.
    process_set: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.

  Returns:
    A new tensor: this rank's rows of the result.

  Raises:
    InvalidArgumentError: the tensor is a scalar, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.
  """
  return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor,
                               postscale_factor)[0]
