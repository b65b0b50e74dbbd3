"""Whether a result is what was expected: the rule of tests that compare with another engine."""

import numpy as np


def difference(got, want, tolerance):
  """None where an array is the other one, otherwise why not.

  Type, shape, integers and what is not finite have to be the same. Floats may be off by `tolerance`
  of the largest expected value.
  """
  got, want = np.asarray(got), np.asarray(want)
  if got.dtype != want.dtype or got.shape != want.shape:
    return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
  if got.dtype.kind not in "fV" or not got.size:
    return None if np.array_equal(got, want) else f"{got} instead of {want}"
  got, want = got.astype(np.float64), want.astype(np.float64)
  finite = np.isfinite(want)
  if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
    return f"{got} instead of {want}"
  if not finite.any():
    return None
  if not np.isfinite(got[finite]).all():
    return f"{got} instead of {want}"
  error = np.abs(got[finite] - want[finite]).max() / max(np.abs(want[finite]).max(), 1e-6)
  return None if error <= tolerance else f"off by {error:.1e} of the largest value"
