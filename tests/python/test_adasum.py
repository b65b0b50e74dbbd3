"""The arithmetic of Adasum for any number of ranks; jobs use it in horovod_checks.py."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="Adasum is for torch, which is not installed")

from stretto.horovod import _adasum as adasum  # noqa: E402

SEED = 11


def reference(arrays):
  """As the paper has it: f(all) = f(f(first half), f(second half)), the first half being the
  largest power of two below the number of ranks; in fp64."""
  if len(arrays) == 1:
    return arrays[0].astype(np.float64)
  half = 1 << (len(arrays) - 1).bit_length() - 1
  a, b = reference(arrays[:half]), reference(arrays[half:])
  return (1 - a @ b / (2 * (a @ a))) * a + (1 - a @ b / (2 * (b @ b))) * b


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6, 7, 8, 13])
def test_any_number_of_ranks(ranks):
  arrays = [np.random.default_rng([SEED, r]).standard_normal(1000).astype(np.float32)
            for r in range(ranks)]
  got = adasum.adasum(arrays)
  assert got.dtype == np.float32
  # Four rounds at most, each of which rounds values of about 4 to fp32 a few times.
  np.testing.assert_allclose(got, reference(arrays), rtol=1e-5, atol=1e-5)


def test_dot_products_are_in_fp64():
  """In fp32 the small products would be lost beside the large one."""
  a = np.ones(adasum.BLOCK * 3 + 5, np.float32)
  a[0] = 2.0**15
  assert adasum.dot(a, a) == 2.0**30 + a.size - 1


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_orthogonal_adds_and_parallel_averages(ranks):
  assert (adasum.adasum(list(np.eye(ranks, dtype=np.float32))) == 1).all()
  same = np.full(16, 0.375, np.float32)
  assert (adasum.adasum([same] * ranks) == same).all()
  # Of different lengths in one direction: their mean.
  np.testing.assert_allclose(adasum.combine(same, 3 * same), 2 * same, rtol=1e-6)


def test_nan_is_not_hidden():
  a = np.array([np.nan, 1.0], np.float32)
  assert np.isnan(adasum.combine(a, np.ones(2, np.float32))).any()
