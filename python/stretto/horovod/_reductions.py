"""Named reductions, which ranks may submit in different orders. All average by default."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.distributed as dist

from stretto._checks import expected, shown
from stretto._errors import InvalidArgumentError
from stretto.horovod._adasum import adasum_tensors
from stretto.horovod._arguments import check_compression, check_factors, dense_list
from stretto.horovod._compression import Compression
from stretto.horovod._handles import Handle, describe, full_name, submit, submit_call, synchronize
from stretto.horovod._members import OPERATIONS, Members
from stretto.horovod._process_sets import members_of
from stretto.horovod._state import job
from stretto.torch._buffers import usable
from stretto.torch._process_group import CODEC_ELEMENTS, WIRE_CODECS

TENSORS = (torch.Tensor, torch.nn.Parameter)  # subclasses may mean something else by their memory

Average, Sum, Min, Max, Product, Adasum = "Average", "Sum", "Min", "Max", "Product", "Adasum"


def operation_of(average: bool | None, op: str | None) -> str:
  if average is not None and op is not None:
    raise InvalidArgumentError("allreduce: give `op` or `average`, not both")
  op = op or (Sum if average is False else Average)
  try:
    if op == Adasum or op in OPERATIONS:
      return op
  except TypeError:  # it has no hash
    pass
  raise InvalidArgumentError(
      f"allreduce: op: expected one of {', '.join(OPERATIONS)}, Adasum, got {shown(op)}")


def reduce_tensors(tensors, outputs, average, name, compression, op, prescale, postscale,
                   process_set) -> Handle:
  op = operation_of(average, op)
  members = members_of(process_set)
  tensors = dense_list("allreduce", tensors)
  check_compression("allreduce", compression)
  check_factors("allreduce", prescale, postscale)
  if op == Adasum:
    return adasum_tensors(members, tensors, outputs, name, compression, prescale, postscale)
  packed = [compression.compress(t.detach() * prescale if prescale != 1.0 else t.detach())
            for t in tensors]
  # Tensors are reduced in place, so the caller's memory is copied unless it is the output.
  wires = [wire.clone() if wire.data_ptr() == t.data_ptr() and out is not t else wire
           for (wire, _), t, out in zip(packed, tensors, outputs or [None] * len(tensors))]
  options = dist.AllreduceOptions()
  options.reduceOp = OPERATIONS[op]
  prepared = members.prepare.allreduce_coalesced(wires, options)
  codec = getattr(compression, "codec", "")
  if codec in WIRE_CODECS:
    for operation in prepared.operations:
      if operation["dtype"] == "float32" and operation["count"] >= CODEC_ELEMENTS and \
          op in (Average, Sum):
        operation["codec"] = codec

  def finish():
    results = []
    for wire, (_, context), out in zip(wires, packed, outputs or [None] * len(wires)):
      result = compression.decompress(wire, context)
      result = result * postscale if postscale != 1.0 else result
      if out is not None and result.data_ptr() != out.data_ptr():
        with torch.no_grad():
          out.copy_(result)
      results.append(result if out is None else out)
    return results

  description = description_of(wires[0].dtype, op, tuple(tuple(w.shape) for w in wires))
  return submit(members, full_name(members, "allreduce", name), description, prepared, finish)


def reduce_in_place(members: Members, tensor: torch.Tensor, op: str, name: str):
  """The short way of what training asks for by the thousand: one tensor, in place, as it is.
  Returns what allreduce_async_ does. None: the engine cannot work on this tensor itself."""
  if len(members.abandoned) >= members.most_abandoned:
    members.let_go()
  handle = members.again("allreduce.", name, tensor, op, members.abandoned)
  if handle is None and op in OPERATIONS and type(tensor) in TENSORS and usable(tensor) and \
      add_template(members, tensor, op):
    handle = members.again("allreduce.", name, tensor, op, members.abandoned)
  return handle


def add_template(members: Members, tensor: torch.Tensor, op: str) -> bool:
  options = dist.AllreduceOptions()
  options.reduceOp = OPERATIONS[op]
  prepared = members.prepare.allreduce_coalesced([tensor], options)
  return members.unordered.add_template(
      tensor, op, description_of(tensor.dtype, op, (tuple(tensor.shape),)), members.group.group,
      prepared.operations[0])


@functools.lru_cache(maxsize=4096)
def description_of(dtype: torch.dtype, op: str, shapes: tuple) -> str:
  """The description of an allreduce; training asks for the same ones in every step."""
  return describe("allreduce", dtype, op=op, shapes=shapes)


def first(results: list):
  return results[0]


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                    postscale_factor=1.0, process_set=None, compression=Compression.none) -> Handle:
  """Starts `allreduce` and returns at once. It has no gradient.

  Args:
    tensor: as in `allreduce`.
    average: as in `allreduce`.
    name: as in `allreduce`.
    op: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.
    process_set: as in `allreduce`.
    compression: as in `allreduce`.

  Returns:
    A handle for `synchronize`.
  """
  return reduce_tensors([tensor], None, average, name, compression, op, prescale_factor,
                        postscale_factor, process_set).then(first)


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                     postscale_factor=1.0, process_set=None,
                     compression=Compression.none) -> Handle:
  """Starts `allreduce_` and returns at once.

  Args:
    tensor: as in `allreduce`.
    average: as in `allreduce`.
    name: as in `allreduce`.
    op: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.
    process_set: as in `allreduce`.
    compression: as in `allreduce`.

  Returns:
    A handle for `synchronize`.
  """
  if name and compression is Compression.none and prescale_factor == postscale_factor == 1.0:
    known = op if average is None and type(op) is str else operation_of(average, op)
    members = job().everyone if process_set is None else members_of(process_set)
    handle = None
    if len(members.abandoned) < members.most_abandoned:  # every call of Python counts here
      handle = members.again("allreduce.", name, tensor, known, members.abandoned)
    if handle is None:
      handle = reduce_in_place(members, tensor, known, name)
    if handle is not None:
      return handle
  return reduce_tensors([tensor], [tensor], average, name, compression, op, prescale_factor,
                        postscale_factor, process_set).then(first)


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                            postscale_factor=1.0, process_set=None,
                            compression=Compression.none) -> Handle:
  """Starts `grouped_allreduce` and returns at once. It has no gradient.

  Args:
    tensors: as in `grouped_allreduce`.
    average: as in `allreduce`.
    name: as in `allreduce`.
    op: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.
    process_set: as in `allreduce`.
    compression: as in `allreduce`.

  Returns:
    A handle for `synchronize`.
  """
  return reduce_tensors(tensors, None, average, name, compression, op, prescale_factor,
                        postscale_factor, process_set)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                             postscale_factor=1.0, process_set=None,
                             compression=Compression.none) -> Handle:
  """Starts `grouped_allreduce_` and returns at once.

  Args:
    tensors: as in `grouped_allreduce`.
    average: as in `allreduce`.
    name: as in `allreduce`.
    op: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.
    process_set: as in `allreduce`.
    compression: as in `allreduce`.

  Returns:
    A handle for `synchronize`.
  """
  tensors = dense_list("allreduce", tensors)
  return reduce_tensors(tensors, tensors, average, name, compression, op, prescale_factor,
                        postscale_factor, process_set)


class Differentiable(torch.autograd.Function):
  """`forward(tensors)` and `backward(gradients)` are collectives."""

  @staticmethod
  def forward(ctx, forward, backward, *tensors):
    ctx._backward = backward
    return tuple(forward([t.detach() for t in tensors]))

  @staticmethod
  def backward(ctx, *gradients):
    return None, None, *ctx._backward([g.contiguous() for g in gradients])


def differentiable(forward: Callable, backward: Callable, tensors: list[torch.Tensor]) -> list:
  if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
    return list(Differentiable.apply(forward, backward, *tensors))
  return forward(tensors)


def grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None,
                      prescale_factor=1.0, postscale_factor=1.0,
                      process_set=None) -> list[torch.Tensor]:
  """Combines several tensors of all ranks in one go; otherwise as `allreduce`.

  Args:
    tensors: of the same shapes and types on every rank.
    average: as in `allreduce`.
    name: as in `allreduce`.
    compression: as in `allreduce`.
    op: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    New tensors, in the order given.

  Raises:
    InvalidArgumentError: as in `allreduce`.
    CommError: a rank or a link is lost.
  """
  options = (op, prescale_factor, postscale_factor, process_set)

  def forward(ts):
    return reduce_tensors(ts, None, average, name, compression, *options).wait()

  def backward(gs):
    return reduce_tensors(gs, None, average, None, Compression.none, *options).wait()

  return differentiable(forward, backward, dense_list("allreduce", tensors))


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None,
              prescale_factor=1.0, postscale_factor=1.0, process_set=None) -> torch.Tensor:
  """Combines a tensor of all ranks, element by element. The gradient of a sum over ranks is the sum
  of their gradients.

  Args:
    tensor: of the same shape and type on every rank. A sparse COO tensor is combined as by
      `sparse_allreduce_async`.
    average: Horovod's older way to say it: True is `Average`, False is `Sum`.
    name: tells which calls belong together where ranks call in different orders. None: the n-th
      call of one rank goes with the n-th call of the others.
    compression: how the tensor crosses the wire, a member of `Compression`.
    op: `Average` (the default), `Sum`, `Min`, `Max`, `Product`, or `Adasum`, which adds what
      differs between ranks and averages what is alike. `Adasum` needs memory for the tensors of
      all ranks.
    prescale_factor: factor for the tensor before it is combined.
    postscale_factor: factor for the result.
    process_set: the ranks that take part; None: all of them.

  Returns:
    A new tensor.

  Raises:
    InvalidArgumentError: both `op` and `average` are given, the operation is unknown, this rank is
      not in the process set, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.

  Examples:
    ```python
    loss = hvd.allreduce(loss, name="loss")
    ```
  """
  if getattr(tensor, "is_sparse", False):
    return synchronize(sparse_allreduce_async(tensor, name, op or Average, process_set))
  return grouped_allreduce([tensor], average, name, compression, op, prescale_factor,
                           postscale_factor, process_set)[0]


def allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
               process_set=None) -> torch.Tensor:
  """The same as `allreduce`, in place and without a gradient.

  Args:
    tensor: as in `allreduce`.
    average: as in `allreduce`.
    name: as in `allreduce`.
    op: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    The tensor given.
  """
  return allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor,
                          process_set=process_set).wait()


def grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                       postscale_factor=1.0, process_set=None) -> list[torch.Tensor]:
  """The same as `grouped_allreduce`, in place and without a gradient.

  Args:
    tensors: as in `grouped_allreduce`.
    average: as in `allreduce`.
    name: as in `allreduce`.
    op: as in `allreduce`.
    prescale_factor: as in `allreduce`.
    postscale_factor: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    The tensors given.
  """
  return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor,
                                  process_set=process_set).wait()


def sparse_allreduce_async(tensor, name=None, op: str = Average, process_set=None) -> Handle:
  """Starts to combine a sparse tensor of all ranks: every rank gets the rows of all, summed where
  their indices are the same.

  Args:
    tensor: a sparse COO tensor of the same shape on every rank.
    name: as in `allreduce`.
    op: `Average` or `Sum`.
    process_set: as in `allreduce`.

  Returns:
    A handle for `synchronize`, which returns a sparse COO tensor.

  Raises:
    InvalidArgumentError: `op` is something else.
  """
  if op not in (Average, Sum):
    raise InvalidArgumentError(f"allreduce: sparse tensors can only have Average or Sum, not {op}")
  if not isinstance(tensor, torch.Tensor):
    raise expected("sparse_allreduce_async: tensor", "a sparse COO tensor", tensor)
  if tensor.layout is not torch.sparse_coo:
    raise InvalidArgumentError("sparse_allreduce_async: tensor: expected a sparse COO tensor, got "
                               f"{tensor.layout}; allreduce_async() takes dense ones")
  members = members_of(process_set)
  tensor = tensor.detach().coalesce()
  indices, values = tensor.indices().t().contiguous(), tensor.values()

  def start():
    return [*gather_rows(members, [indices, values])]

  def finish(gathered):
    all_indices, all_values = (works_end(g) for g in gathered)
    if op == Average:
      all_values = all_values / members.size
    return torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.shape,
                                   check_invariants=False).coalesce()

  return submit_call(members, full_name(members, "sparse_allreduce", name),
                     describe("sparse_allreduce", values.dtype, op=op, shape=list(tensor.shape)),
                     start, finish, [indices, values])


def gather_rows(members: Members, tensors: list[torch.Tensor]) -> list[tuple]:
  """Starts to gather tensors with different first dimensions; returns (outputs, work) for each."""
  group = members.group
  rows = torch.zeros((members.size, len(tensors)), dtype=torch.int64, device="cpu")
  group.all_gather_single(rows, torch.tensor([len(t) for t in tensors], device="cpu")).wait()
  started = []
  for i, tensor in enumerate(tensors):
    outputs = [tensor.new_empty((int(n), *tensor.shape[1:])) for n in rows[:, i]]
    started.append((outputs, group.allgather([outputs], [tensor])))
  return started


def works_end(started: tuple) -> torch.Tensor:
  outputs, work = started
  work.wait()
  return torch.cat(outputs)


