"""Real and imaginary parts of complex tensors, which lie along one more axis, the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stretto.aten._builder import COMPLEX, Builder, Operand, Value


def is_complex(x: Any) -> bool:
  return isinstance(x, Value) and x.torch_dtype in COMPLEX


def is_real(x: Operand) -> bool:
  return not is_complex(x) and not isinstance(x, complex)


def parts_of(b: Builder, x: Operand) -> tuple[Value, Value | None]:
  """Real and imaginary part; None for that of a real number or tensor."""
  if not isinstance(x, Value):
    real = b.scalar(complex(x).real, b.dtype)
    return real, b.scalar(complex(x).imag, b.dtype) if isinstance(x, complex) else None
  if not is_complex(x):
    return b.cast(x, b.dtype), None
  # A transpose works on vectors, and the halves of its result need no copy.
  last = x.rank - 1
  parts = b.nodes("Split", [b.transpose(x, [last, *range(last)]), b.ints([1, 1])], 2, axis=0)
  return b.squeeze(parts[0], 0), b.squeeze(parts[1], 0)


def both_parts(b: Builder, x: Operand) -> tuple[Value, Value]:
  real, imaginary = parts_of(b, x)
  return real, b.scalar(0.0, real.dtype) if imaginary is None else imaginary


def together(b: Builder, real: Value, imaginary: Value) -> Value:
  shape = torch.broadcast_shapes(real.shape, imaginary.shape)
  parts = b.concat([b.unsqueeze(b.expand(x, shape), 0) for x in (real, imaginary)], 0)
  return b.transpose(parts, [*range(1, len(shape) + 1), 0])


def marked(b: Builder, x: Value) -> Value:
  """As complex numbers, which the node's result is."""
  return Value(x.id, x.dtype, x.shape, b.torch_dtype)


def of_both(b: Builder, x: Operand) -> Value:
  """With an axis of parts, also of real numbers."""
  if is_complex(x):
    assert isinstance(x, Value)
    return b.cast(x, b.dtype)
  return together(b, *both_parts(b, x))


def by_parts(function: Callable[..., Value], *numbers: int) -> Callable[..., Value]:
  """A function of real tensors, once of the real parts and once of the imaginary ones.

  Args:
    function: linear in its complex arguments, such as one that moves elements.
    numbers: which positional arguments, counted without the builder, may be a real number that
      stands for a complex one.
  """
  def build(b: Builder, *args: Any, **kwargs: Any) -> Value:
    results = b.results
    assert results[0] is not None
    split = {i: both_parts(b, x) for i, x in enumerate(args)
             if i in numbers or is_complex(x) or isinstance(x, complex)}
    b.results = [(results[0][0].to_real(), results[0][1])]
    found = [function(b, *(split[i][k] if i in split else x for i, x in enumerate(args)), **kwargs)
             for k in range(2)]
    b.results = results
    return together(b, *found)
  return build
