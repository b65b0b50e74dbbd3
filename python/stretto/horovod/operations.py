"""Named collectives that ranks may submit in different orders."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import torch
import torch.distributed as dist

from stretto.horovod.compression import Compression
from stretto.horovod.coordinator import Handle, kJoin, wait
from stretto.horovod.state import job, kOperations

Average, Sum, Min, Max, Product = "Average", "Sum", "Min", "Max", "Product"
kCounters: dict[str, itertools.count] = defaultdict(itertools.count)


def submit(operation: str, name: str | None, tensors: list[torch.Tensor], start, finish,
           op: str = "", **details) -> Handle:
  # Without a name, the n-th of its kind on one rank is the n-th on all.
  name = f"{operation}.{name}" if name else f"{operation}.noname.{next(kCounters[operation])}"
  description = json.dumps({"operation": operation, "op": op, "dtype": str(tensors[0].dtype),
                            **details})
  return job().coordinator.submit(Handle(name, description, start, finish))


def operation_of(average: bool | None, op: str | None) -> str:
  if average is not None and op is not None:
    raise ValueError("allreduce: give `op` or `average`, not both")
  op = op or (Sum if average is False else Average)
  if op not in kOperations:
    raise ValueError(f"allreduce: no operation '{op}'; there are: {', '.join(kOperations)}")
  return op


def reduce_tensors(tensors, outputs, average, name, compression, op, prescale, postscale) -> Handle:
  op = operation_of(average, op)
  packed = [compression.compress(t * prescale if prescale != 1.0 else t) for t in tensors]
  # Reduced in place, so never in the caller's own memory unless it is the output.
  wires = [wire.clone() if wire.data_ptr() == t.data_ptr() and out is not t else wire
           for (wire, _), t, out in zip(packed, tensors, outputs or [None] * len(tensors))]
  options = dist.AllreduceOptions()
  options.reduceOp = kOperations[op]

  def finish(work):
    work.wait()
    results = []
    for wire, (_, context), out in zip(wires, packed, outputs or [None] * len(wires)):
      result = compression.decompress(wire, context)
      result = result * postscale if postscale != 1.0 else result
      if out is not None and out is not result:
        with torch.no_grad():
          out.copy_(result)
        result = out
      results.append(result)
    return results

  return submit("allreduce", name, wires,
                lambda: job().data.allreduce_coalesced(wires, options), finish, op,
                shapes=[list(w.shape) for w in wires])


def first(handle: Handle) -> Handle:
  finish = handle.finish
  handle.finish = lambda work: finish(work)[0]
  return handle


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                    postscale_factor=1.0, compression=Compression.none) -> Handle:
  return first(reduce_tensors([tensor.detach()], None, average, name, compression, op,
                              prescale_factor, postscale_factor))


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0,
                     postscale_factor=1.0, compression=Compression.none) -> Handle:
  return first(reduce_tensors([tensor], [tensor], average, name, compression, op, prescale_factor,
                              postscale_factor))


def grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                            postscale_factor=1.0, compression=Compression.none) -> Handle:
  return reduce_tensors([t.detach() for t in tensors], None, average, name, compression, op,
                        prescale_factor, postscale_factor)


def grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0,
                             postscale_factor=1.0, compression=Compression.none) -> Handle:
  return reduce_tensors(list(tensors), list(tensors), average, name, compression, op,
                        prescale_factor, postscale_factor)


class AllReduce(torch.autograd.Function):
  """The gradient of a sum over ranks is the sum of their gradients."""

  @staticmethod
  def forward(ctx, tensor, options):
    ctx.options = {**options, "name": None, "compression": Compression.none}
    return wait(allreduce_async(tensor, **options))

  @staticmethod
  def backward(ctx, grad):
    return wait(allreduce_async(grad, **ctx.options)), None


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None,
              prescale_factor=1.0, postscale_factor=1.0) -> torch.Tensor:
  options = {"average": average, "name": name, "op": op, "prescale_factor": prescale_factor,
             "postscale_factor": postscale_factor, "compression": compression}
  return AllReduce.apply(tensor, options) if tensor.requires_grad else \
      wait(allreduce_async(tensor, **options))


def allreduce_(tensor, *args, **options) -> torch.Tensor:
  return wait(allreduce_async_(tensor, *args, **options))


def grouped_allreduce(tensors, *args, **options) -> list[torch.Tensor]:
  return wait(grouped_allreduce_async(tensors, *args, **options))


def grouped_allreduce_(tensors, *args, **options) -> list[torch.Tensor]:
  return wait(grouped_allreduce_async_(tensors, *args, **options))


def allgather_async(tensor, name=None) -> Handle:
  """Ranks may differ in the first dimension."""
  tensor = tensor.detach()
  group = job().data

  def start():
    rows = torch.zeros(group.size(), dtype=torch.int64)
    group.all_gather_single(rows, torch.tensor([len(tensor)])).wait()
    outputs = [tensor.new_empty((int(n), *tensor.shape[1:])) for n in rows]
    return outputs, group.allgather([outputs], [tensor])

  def finish(running):
    outputs, work = running
    work.wait()
    return torch.cat(outputs)

  return submit("allgather", name, [tensor], start, finish, shape=list(tensor.shape[1:]))


def allgather(tensor, name=None) -> torch.Tensor:
  return wait(allgather_async(tensor, name))


def broadcast_async_(tensor, root_rank, name=None) -> Handle:
  options = dist.BroadcastOptions()
  options.rootRank = root_rank
  values = tensor.detach()

  def finish(work):
    work.wait()
    return tensor

  return submit("broadcast", name, [tensor], lambda: job().data.broadcast([values], options),
                finish, root=root_rank, shape=list(tensor.shape))


def broadcast_async(tensor, root_rank, name=None) -> Handle:
  return broadcast_async_(tensor.detach().clone(), root_rank, name)


def broadcast(tensor, root_rank, name=None) -> torch.Tensor:
  return wait(broadcast_async(tensor, root_rank, name))


def broadcast_(tensor, root_rank, name=None) -> torch.Tensor:
  return wait(broadcast_async_(tensor, root_rank, name))


def alltoall_async(tensor, splits=None, name=None) -> Handle:
  """With `splits` (rows for every rank) the result is (tensor, received splits)."""
  group = job().data
  size = group.size()
  tensor = tensor.detach()
  if splits is None and len(tensor) % size:
    raise ValueError(f"alltoall: {len(tensor)} rows cannot be cut evenly for {size} ranks")
  sends = [len(tensor) // size] * size if splits is None else [int(n) for n in splits]

  def start():
    receives = torch.zeros(size, dtype=torch.int64)
    group.all_to_all_single(receives, torch.tensor(sends)).wait()
    output = tensor.new_empty((int(receives.sum()), *tensor.shape[1:]))
    return output, receives, group.all_to_all_single(output, tensor, receives.tolist(), sends)

  def finish(running):
    output, receives, work = running
    work.wait()
    return output if splits is None else (output, receives.to(torch.int32))

  return submit("alltoall", name, [tensor], start, finish, shape=list(tensor.shape[1:]))


def alltoall(tensor, splits=None, name=None):
  return wait(alltoall_async(tensor, splits, name))


def barrier() -> None:
  tensor = torch.zeros(1)
  wait(submit("barrier", None, [tensor], job().data.barrier, lambda work: work.wait()))


def join(device: int = -1) -> int:
  """This rank has no more to reduce; the others go on with zeros in its place. Returns when all
  have joined: the last rank that did."""
  del device
  group = job().data
  description = json.dumps({"operation": "join"})
  wait(job().coordinator.submit(Handle(kJoin, description, lambda: None, lambda _: None)))
  return group.size() - 1


def poll(handle: Handle) -> bool:
  """True when synchronize would not block."""
  if not handle.started.is_set():
    return False
  running = handle.running[-1] if isinstance(handle.running, tuple) else handle.running
  return handle.error is not None or running.is_completed()


def synchronize(handle: Handle):
  return wait(handle)
