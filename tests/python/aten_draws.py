"""What the cases of ATen operators are drawn with."""

from __future__ import annotations

import torch


def reals(*shape, low=-2.0, high=2.0):
  return torch.rand(shape) * (high - low) + low


def ints(*shape, low=-9, high=9, dtype=torch.int64):
  return torch.randint(low, high, shape, dtype=dtype)


def bools(*shape):
  return torch.rand(shape) > 0.5


def over(names, *inputs):
  """One case for each function of torch, all on the same tensors."""
  return [(name, getattr(torch, name), inputs) for name in names.split()]
