"""Open MPI. Its ranks are started by mpirun (see bench.comm.processes)."""

from __future__ import annotations

import numpy as np

from bench.comm.peers import Context


def connect(context: Context) -> Driver:
  del context  # mpirun has told the library
  return Driver()


class Driver:

  def __init__(self):
    from mpi4py import MPI
    self._mpi, self._world = MPI, MPI.COMM_WORLD
    self.rank = self._world.rank

  def version(self) -> str:
    return ".".join(map(str, self._mpi.get_vendor()[1]))

  def buffers(self, size_bytes: int, count: int) -> list:
    return [np.empty(size_bytes // 4, np.float32) for _ in range(count)]

  def each(self, buffers: list) -> None:
    for array in buffers:
      self._world.Allreduce(self._mpi.IN_PLACE, array)

  def burst(self, buffers: list) -> None:
    self._mpi.Request.Waitall(
        [self._world.Iallreduce(self._mpi.IN_PLACE, array) for array in buffers])

  def broadcast(self, buffers: list) -> None:
    for array in buffers:
      self._world.Bcast(array)

  def barrier(self) -> None:
    self._world.Barrier()

  def close(self) -> None:
    pass  # mpi4py finalises at exit
