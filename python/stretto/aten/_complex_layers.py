"""Products with complex weights, as products of real numbers that are twice as wide.

Parts lie beside each other: to a real layer, n complex numbers are 2 n real ones. A weight w
becomes the square [[re w, im w], [-im w, re w]] of the parts that come in and go out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stretto.aten import _convolution as convolution
from stretto.aten import _products as products
from stretto.aten._builder import Builder, Value
from stretto.aten._pairs import both_parts, is_complex, of_both


def _widened(b: Builder, weight: Value, rows_come_in: bool) -> Value:
  """A weight [a, b, ...] as [2 a, 2 b, ...].

  Args:
    rows_come_in: a counts what comes in, not what goes out.
  """
  known = weight.tensor
  a, c, *rest = weight.shape[:-1] if is_complex(weight) else weight.shape
  if known is not None:
    known = known.to(b.torch_dtype).resolve_conj()
    real, imaginary = known.real, known.imag
    square = torch.stack([torch.stack([real, imaginary], 2 if rows_come_in else 1),
                          torch.stack([-imaginary, real], 2 if rows_come_in else 1)],
                         1 if rows_come_in else 3)
    return b.tensor(square.reshape(2 * a, 2 * c, *rest).contiguous(), f"{b.name}.parts")
  of_real, of_imaginary = both_parts(b, weight)
  of_imaginary = b.expand(of_imaginary, of_real.shape)
  out, into = (2, 1) if rows_come_in else (1, 3)

  def pair(first: Value, second: Value, axis: int) -> Value:
    return b.concat([b.unsqueeze(first, axis), b.unsqueeze(second, axis)], axis)

  square = pair(pair(of_real, of_imaginary, out),
                pair(b.node("Neg", of_imaginary), of_real, out), into)
  return b.reshape(square, (2 * a, 2 * c, *rest))


def _flat(b: Builder, x: Value | None) -> Value | None:
  """[..., n] of pairs as [..., 2 n]."""
  if x is None:
    return None
  x = of_both(b, x)
  return b.reshape(x, (*x.shape[:-2], 2 * x.shape[-2]))


def _pairs(b: Builder, x: Value) -> Value:
  return b.reshape(x, (*x.shape[:-1], x.shape[-1] // 2, 2))


def linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
  wide = _widened(b, weight, False)
  flat = _flat(b, x)
  assert flat is not None
  return _pairs(b, products.linear(b, flat, wide, _flat(b, bias)))


def product_with(weight: Value, b: Builder, x: Value) -> Value:
  """x times a matrix."""
  flat = _flat(b, x)
  assert flat is not None
  return _pairs(b, b.node("MatMul", flat, _widened(b, weight, True)))


def conv(function: Callable[..., Value], rows_come_in: bool) -> Callable[..., Value]:
  """A convolution: channels of parts lie beside each other, also within groups."""
  def build(b: Builder, x: Value, weight: Value, bias: Value | None = None, *args: Any,
            **kwargs: Any) -> Value:
    wide = _widened(b, weight, rows_come_in)
    x = of_both(b, x)
    rank = wide.rank - 2
    last, channel = x.rank - 1, x.rank - 2 - rank
    axes = list(range(last))
    x = b.transpose(x, [*axes[:channel + 1], last, *axes[channel + 1:]])
    shape = x.shape
    x = b.reshape(x, (*shape[:channel], 2 * shape[channel], *shape[channel + 2:]))
    y = function(b, x, wide, _flat(b, bias), *args, **kwargs)
    shape = y.shape
    y = b.reshape(y, (*shape[:channel], shape[channel] // 2, 2, *shape[channel + 1:]))
    rest = [a for a in range(y.rank) if a != channel + 1]
    return b.transpose(y, [*rest, channel + 1])
  return build


forward = conv(convolution.forward, False)
transposed = conv(convolution.transposed, True)
