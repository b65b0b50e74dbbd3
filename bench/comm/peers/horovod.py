"""Horovod's torch functions over MPI; mpirun starts its ranks (see bench.comm.processes)."""

from __future__ import annotations

import os

from bench.comm.peers import Context

kShortCycleMs = "0.1"  # the default is 1: how often its thread looks for work


def connect(context: Context) -> Driver:
  return Driver(context)


class Driver:

  def __init__(self, context: Context):
    if context.setting == "tuned":
      os.environ["HOROVOD_CYCLE_TIME"] = kShortCycleMs
    import horovod
    import horovod.torch as hvd
    import torch
    torch.set_num_threads(1)
    self.torch_, self.hvd_, self.version_ = torch, hvd, horovod.__version__
    hvd.init()

  def version(self) -> str:
    return self.version_

  def buffers(self, size_bytes: int, count: int) -> list:
    return [self.torch_.empty(size_bytes // 4) for _ in range(count)]

  def start(self, index: int, tensor) -> int:
    # Names that come again: what ranks have agreed upon is remembered by name.
    return self.hvd_.allreduce_async_(tensor, op=self.hvd_.Sum, name=f"{index} of {tensor.numel()}")

  def each(self, buffers: list) -> None:
    for index, tensor in enumerate(buffers):
      self.hvd_.synchronize(self.start(index, tensor))

  def burst(self, buffers: list) -> None:
    for handle in [self.start(index, tensor) for index, tensor in enumerate(buffers)]:
      self.hvd_.synchronize(handle)

  def barrier(self) -> None:
    self.hvd_.barrier()

  def close(self) -> None:
    self.hvd_.shutdown()
