"""Averages NumPy gradients through the C library, without Stretto's Python package. Any language
that can call C can do the same.

  stretto run -n 3 examples/python/average_numpy.py     # or set STRETTO_RANK, _SIZE, _ADDRESS
  STRETTO_C_LIBRARY=/where/libstretto_c.so ...          # when it is not in the linker's path
"""

import ctypes
import os

import numpy as np

SUM, AVERAGE = 0, 1


class Comm:
  """stretto_c.h, as far as this example needs it."""

  def __init__(self):
    self.c = ctypes.CDLL(os.environ.get("STRETTO_C_LIBRARY", "libstretto_c.so"))
    self.c.stretto_last_error.restype = ctypes.c_char_p
    self.c.stretto_comm_from_environment.restype = ctypes.c_void_p
    self.comm = ctypes.c_void_p(self.c.stretto_comm_from_environment())
    if not self.comm:
      raise RuntimeError(self.c.stretto_last_error().decode())
    self.rank, self.size = (self.c.stretto_comm_rank(self.comm),
                            self.c.stretto_comm_size(self.comm))

  def check(self, status: int) -> None:
    if status:
      raise RuntimeError(self.c.stretto_last_error().decode())

  def start_average(self, array: np.ndarray, name: str) -> ctypes.c_uint64:
    """In place; the array must stay alive until wait()."""
    handle, data = ctypes.c_uint64(), ctypes.c_void_p(array.ctypes.data)
    self.check(self.c.stretto_all_reduce(self.comm, name.encode(), array.dtype.name.encode(),
                                         AVERAGE, data, data, ctypes.c_int64(array.size),
                                         ctypes.byref(handle)))
    return handle

  def wait(self, handle: ctypes.c_uint64) -> None:
    self.check(self.c.stretto_wait(self.comm, handle, None))

  def gather(self, array: np.ndarray) -> np.ndarray:
    output = np.empty((self.size, *array.shape), array.dtype)
    self.check(self.c.stretto_all_gather(self.comm, array.dtype.name.encode(),
                                         ctypes.c_void_p(array.ctypes.data),
                                         ctypes.c_void_p(output.ctypes.data),
                                         ctypes.c_int64(array.size), None))
    return output

  def close(self) -> None:
    self.c.stretto_comm_free(self.comm)


def main() -> None:
  comm = Comm()
  generator = np.random.default_rng(comm.rank)
  truth = np.linspace(-1, 1, 20).astype(np.float32)
  x = generator.standard_normal((500, 20)).astype(np.float32)
  y = x @ truth
  weights = np.zeros(20, np.float32)
  for _ in range(100):
    gradient = (2 / len(x)) * x.T @ (x @ weights - y)
    comm.wait(comm.start_average(gradient, "weights"))
    weights -= 0.1 * gradient
  everybody = comm.gather(weights)
  same = bool((everybody == weights).all())
  error = float(np.abs(weights - truth).max())
  if comm.rank == 0:
    print(f"{comm.size} ranks, error {'below' if error < 1e-3 else 'above'} 0.001, weights "
          f"{'the same' if same else 'different'}")
  comm.close()
  raise SystemExit(0 if same and error < 1e-3 else 1)


if __name__ == "__main__":
  main()
