"""Horovod's torch functions over MPI, whose ranks mpirun starts (see bench.comm.processes); and
Stretto's module of the same functions."""

from __future__ import annotations

import os

from bench.comm.peers import Context

SHORT_CYCLE_MS = "0.1"  # the default is 1: how often its thread looks for work


def connect(context: Context) -> Driver:
  return Driver(context)


class Driver:

  def __init__(self, context: Context):
    if context.setting == "tuned":
      os.environ["HOROVOD_CYCLE_TIME"] = SHORT_CYCLE_MS
    import torch
    torch.set_num_threads(1)
    if context.setting == "stretto":
      import stretto.horovod as hvd

      import stretto as package
      os.environ |= {"RANK": str(context.rank), "WORLD_SIZE": str(context.size),
                     "MASTER_ADDR": context.address, "MASTER_PORT": str(context.port),
                     "STRETTO_INTERFACES": ",".join(context.interfaces)}
    else:
      import horovod as package
      import horovod.torch as hvd
    self._torch, self._hvd, self._version = torch, hvd, package.__version__
    hvd.init()

  def version(self) -> str:
    return self._version

  def buffers(self, size_bytes: int, count: int) -> list:
    return [self._torch.empty(size_bytes // 4) for _ in range(count)]

  def start(self, index: int, tensor) -> int:
    # Names that come again: what ranks have agreed upon is remembered by name.
    return self._hvd.allreduce_async_(tensor, op=self._hvd.Sum, name=f"{index} of {tensor.numel()}")

  def each(self, buffers: list) -> None:
    for index, tensor in enumerate(buffers):
      self._hvd.synchronize(self.start(index, tensor))

  def burst(self, buffers: list) -> None:
    for handle in [self.start(index, tensor) for index, tensor in enumerate(buffers)]:
      self._hvd.synchronize(handle)

  def barrier(self) -> None:
    self._hvd.barrier()

  def close(self) -> None:
    self._hvd.shutdown()
