"""Named operations on NumPy arrays: the checks of test_frameworks.py that need no framework."""

import random

import numpy as np
import pytest
import ranks

from stretto import _named_job as named_job


def value(rank, shape=(7,), dtype=np.float32):
  return (np.arange(np.prod(shape, dtype=int)).reshape(shape) + rank).astype(dtype)


def total(size, shape=(7,), dtype=np.float32):
  return sum(value(r, shape) for r in range(size)).astype(dtype)


def check_a_forked_child_says_so(rank, size):
  job = named_job.job()
  for call in (job.barrier, named_job.shutdown, lambda: job.all_reduce([value(0)], ["forked"]),
               lambda: job.engine.all_reduce(value(0)), job.engine.statistics):
    answer = ranks.in_child(call)
    assert "before fork()" in answer, answer
  assert ranks.in_child(named_job.at_exit) == "returned"  # a child that ends like a script
  job.barrier()


def check_all_reduce(rank, size):
  job = named_job.job()
  x = value(rank)
  [y] = job.all_reduce([x], ["x"], "sum")
  np.testing.assert_array_equal(y, total(size))
  np.testing.assert_array_equal(x, value(rank))
  read_only = value(rank, (2, 3)).T
  read_only.flags.writeable = False
  [y] = job.all_reduce([read_only], ["y"])
  np.testing.assert_allclose(y, total(size, (2, 3)).T / size, rtol=1e-6)
  [y] = job.all_reduce([np.float64(rank)], ["scalar"], "max")
  assert y.shape == () and y == size - 1


def check_engine_averages_by_default(rank, size):
  engine = named_job.job().engine
  x = np.full(3, rank, np.float32)
  engine.all_reduce(x)
  np.testing.assert_array_equal(x, np.full(3, (size - 1) / 2, np.float32))
  engine.all_reduce(x, "sum")
  np.testing.assert_array_equal(x, np.full(3, size * (size - 1) / 2, np.float32))
  with pytest.raises(ValueError, match="expected one of sum, average.*, got 'median'"):
    engine.all_reduce(x, "median")


def check_any_order(rank, size):
  job = named_job.job()
  order = list(range(30))
  random.Random(rank).shuffle(order)
  sums = job.all_reduce([value(rank, (i + 1,)) for i in order], [f"t{i}" for i in order], "sum")
  for i, got in zip(order, sums):
    np.testing.assert_array_equal(got, total(size, (i + 1,)))


def check_moves(rank, size):
  job = named_job.job()
  np.testing.assert_array_equal(job.broadcast(value(rank), 1, "b"), value(1))
  got = job.all_gather(value(rank, (rank, 2)), "rows")
  np.testing.assert_array_equal(got, np.concatenate([value(r, (r, 2)) for r in range(size)]))
  job.barrier()


def check_disagreement_is_named(rank, size):
  job = named_job.job()
  try:
    job.all_reduce([np.zeros(3 + rank, np.float32)], ["odd"], "sum")
  except ValueError as error:
    assert "'odd' differs between ranks" in str(error) and '"shape": [4]' in str(error), error
  else:
    raise AssertionError("no error")


def check_gradients(rank, size):
  """With error feedback the sum of many steps is as good as that of one."""
  job = named_job.job()
  gradients = [np.random.default_rng(r).standard_normal((64, 64)).astype(np.float32)
               for r in range(size)]
  mean = sum(gradients) / size
  arrived = np.zeros_like(mean)
  for step in range(1, 31):
    [got] = job.average_gradients([gradients[rank]], ["w"], "int8")
    arrived += got
    # Two half steps of int8 may be owed; a block's greatest value is about 4.
    assert np.abs(arrived - step * mean).max() <= 2 * 4.5 / 127, step
  [exact] = job.average_gradients([gradients[rank]], ["v"])
  np.testing.assert_allclose(exact, mean, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
  ranks.named_main(globals(), named_job)
