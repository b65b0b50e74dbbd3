"""The random numbers that models draw."""

from __future__ import annotations

import operator

from stretto import _stretto
from stretto._checks import expected


def manual_seed(seed: int) -> None:
  """Seeds the random numbers that models of this process draw, as `torch.manual_seed` does
  PyTorch's: the same runs in the same order give the same results. Without it every process draws
  others.

  Operators of ONNX with a `seed` of their own draw the same in every run, whatever is set here.
  What `torch.compile` leaves to PyTorch follows `torch.manual_seed`.

  Args:
    seed: from 0 to 2^64 - 1.

  Raises:
    InvalidArgumentError: `seed` is no such number.

  Examples:
    >>> stretto.manual_seed(7)
    >>> first = stretto.ops.RandomNormal(shape=[3])
    >>> stretto.manual_seed(7)
    >>> bool((stretto.ops.RandomNormal(shape=[3]) == first).all())
    True
  """
  try:
    number = operator.index(seed)
  except TypeError:
    number = -1
  if not 0 <= number < 1 << 64:
    raise expected("manual_seed: seed", "a number from 0 to 2^64 - 1", seed)
  _stretto.manual_seed(number)
