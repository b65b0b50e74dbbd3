"""Stretto's engine without PyTorch."""

from __future__ import annotations

import numpy as np

from bench.comm.peers import Context


def connect(context: Context) -> Driver:
  return Driver(context)


class Driver:

  def __init__(self, context: Context):
    import stretto
    from stretto import comm
    self._version = stretto.__version__
    options = comm.Options.from_environment()
    options.interfaces = context.interfaces
    self._engine = comm.Engine(f"{context.folder}/store", context.rank, context.size, options)

  def version(self) -> str:
    return self._version

  def buffers(self, size_bytes: int, count: int) -> list:
    return [np.empty(size_bytes // 4, np.float32) for _ in range(count)]

  def each(self, buffers: list) -> None:
    for array in buffers:
      self._engine.all_reduce(array, "sum")

  def burst(self, buffers: list) -> None:
    for handle in [self._engine.start_all_reduce(array, "sum") for array in buffers]:
      self._engine.wait(handle)

  def broadcast(self, buffers: list) -> None:
    for array in buffers:
      self._engine.broadcast(array)

  def step(self) -> None:
    self._engine.step()

  def barrier(self) -> None:
    self._engine.barrier()

  def close(self) -> None:
    self._engine.close()
