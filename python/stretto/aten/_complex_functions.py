"""Elementary functions of complex numbers, of their real and imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from stretto.aten import _elementwise as elementwise
from stretto.aten._builder import Builder, Operand, Value
from stretto.aten._pairs import both_parts, is_complex, marked, together

# Beyond it a hyperbolic tangent is 1, and a hyperbolic cosine is still in the range of float32.
_FLAT = 60.0


def _half(b: Builder, x: Value) -> Value:
  return b.node("Mul", x, b.scalar(0.5, x.dtype))


def _twice(b: Builder, x: Value) -> Value:
  return b.node("Add", x, x)


def polar(b: Builder, size: Value, angle: Value) -> Value:
  return together(b, b.node("Mul", size, b.node("Cos", angle)),
                  b.node("Mul", size, b.node("Sin", angle)))


def absolute(b: Builder, x: Value) -> Value:
  return b.node("ReduceL2", x, b.ints([x.rank - 1]), keepdims=0)


def angle(b: Builder, x: Value) -> Value:
  real, imaginary = both_parts(b, x)
  return elementwise.arc_tangent(b, imaginary, real)


def exponential(b: Builder, x: Value) -> Value:
  real, imaginary = both_parts(b, x)
  return polar(b, b.node("Exp", real), imaginary)


def expm1(b: Builder, x: Value) -> Value:
  """Without the difference of nearly equal numbers: cos(y) = 1 - 2 sin(y / 2)^2."""
  real, imaginary = both_parts(b, x)
  sine = b.node("Sin", _half(b, imaginary))
  first = b.node("Mul", elementwise.expm1(b, real), b.node("Cos", imaginary))
  return together(b, b.node("Sub", first, _twice(b, b.node("Mul", sine, sine))),
                  b.node("Mul", b.node("Exp", real), b.node("Sin", imaginary)))


def logarithm(base: float | None = None) -> Callable[[Builder, Value], Value]:
  def build(b: Builder, x: Value) -> Value:
    found = together(b, b.node("Log", absolute(b, x)), angle(b, x))
    return found if base is None else b.node("Mul", found, b.scalar(1 / math.log(base), b.dtype))
  return build


def log1p(b: Builder, x: Value) -> Value:
  """log |1 + z| is half of log1p(2 x + x^2 + y^2)."""
  real, imaginary = both_parts(b, x)
  rest = b.node("Add", _twice(b, real), b.node("Add", b.node("Mul", real, real),
                                               b.node("Mul", imaginary, imaginary)))
  shifted = b.node("Add", real, b.scalar(1.0, b.dtype))
  return together(b, _half(b, elementwise.log1p(b, rest)),
                  elementwise.arc_tangent(b, imaginary, shifted))


def root(b: Builder, x: Value) -> Value:
  """The one on the right; the larger part is computed first, the other by division."""
  real, imaginary = both_parts(b, x)
  zero = b.scalar(0.0, b.dtype)
  large = b.node("Sqrt", _half(b, b.node("Add", absolute(b, x), b.node("Abs", real))))
  safe = b.node("Where", b.node("Equal", large, zero), b.scalar(1.0, b.dtype), large)
  small = b.node("Div", _half(b, b.node("Abs", imaginary)), safe)
  right = b.node("GreaterOrEqual", real, zero)
  below = elementwise.is_negative(b, imaginary)
  height = b.node("Where", right, small, large)
  return together(b, b.node("Where", right, large, small),
                  b.node("Where", below, b.node("Neg", height), height))


def power(b: Builder, x: Operand, y: Operand, multiply: Callable[..., Value],
          divide: Callable[..., Value]) -> Value:
  """x^y = exp(y log x), and products for small whole y."""
  assert isinstance(x, Value) or isinstance(y, Value)
  if not isinstance(y, Value) and is_complex(x):
    if y == 0.5:
      return root(b, x)
    whole = int(y) if not isinstance(y, complex) and y == int(y) else 0
    if whole and abs(whole) <= 4:
      found = x
      for _ in range(abs(whole) - 1):
        found = marked(b, multiply(b, found, x))
      return found if whole > 0 else divide(b, 1.0, found)
  if not isinstance(x, Value):
    base = complex(x)
    if base == 0:
      return b.expand(together(b, b.scalar(0.0, b.dtype), b.scalar(0.0, b.dtype)), b.shape)
    log = complex(math.log(abs(base)), math.atan2(base.imag, base.real))
    return exponential_of(b, multiply(b, y, log))
  if not is_complex(x):
    x = marked(b, together(b, *both_parts(b, x)))
  log = together(b, b.node("Log", absolute(b, x)), angle(b, x))
  return exponential_of(b, multiply(b, marked(b, log), y))


def exponential_of(b: Builder, x: Value) -> Value:
  return exponential(b, marked(b, x))


# Circular and hyperbolic functions.


def _product_form(first: tuple[str, str], second: tuple[str, str],
                  sign: float = 1.0) -> Callable[[Builder, Value], Value]:
  """first[0](x) first[1](y) + i sign second[0](x) second[1](y)."""
  def build(b: Builder, x: Value) -> Value:
    real, imaginary = both_parts(b, x)
    parts = [b.node("Mul", b.node(of_real, real), b.node(of_imaginary, imaginary))
             for of_real, of_imaginary in (first, second)]
    return together(b, parts[0], parts[1] if sign > 0 else b.node("Neg", parts[1]))
  return build


sine = _product_form(("Sin", "Cosh"), ("Cos", "Sinh"))
cosine = _product_form(("Cos", "Cosh"), ("Sin", "Sinh"), -1.0)
hyperbolic_sine = _product_form(("Sinh", "Cos"), ("Cosh", "Sin"))
hyperbolic_cosine = _product_form(("Cosh", "Cos"), ("Sinh", "Sin"))


def _tangent_parts(b: Builder, real: Value, imaginary: Value) -> tuple[Value, Value]:
  """tanh: of twice the parts, (sinh x, sin y) / (cosh x + cos y)."""
  x = b.node("Clip", _twice(b, real), b.scalar(-_FLAT, b.dtype), b.scalar(_FLAT, b.dtype))
  y = _twice(b, imaginary)
  under = b.node("Add", b.node("Cosh", x), b.node("Cos", y))
  return (b.node("Div", b.node("Sinh", x), under), b.node("Div", b.node("Sin", y), under))


def hyperbolic_tangent(b: Builder, x: Value) -> Value:
  return together(b, *_tangent_parts(b, *both_parts(b, x)))


def tangent(b: Builder, x: Value) -> Value:
  real, imaginary = both_parts(b, x)
  of_imaginary, of_real = _tangent_parts(b, imaginary, real)
  return together(b, of_real, of_imaginary)


def sigmoid(b: Builder, x: Value) -> Value:
  """(1 + tanh(z / 2)) / 2."""
  real, imaginary = (_half(b, part) for part in both_parts(b, x))
  first, second = (_half(b, part) for part in _tangent_parts(b, real, imaginary))
  return together(b, b.node("Add", first, b.scalar(0.5, b.dtype)), second)


# Comparisons.


def of_either(function: Callable[[Builder, Value], Value]) -> Callable[[Builder, Value], Value]:
  """Whether a predicate holds for one of the parts."""
  def build(b: Builder, x: Value) -> Value:
    real, imaginary = b.nodes("Split", [x, b.ints([1, 1])], 2, axis=x.rank - 1)
    found = b.node("Or", function(b, real), function(b, imaginary))
    return b.squeeze(found, x.rank - 1)
  return build


def equality(invert: bool) -> Callable[[Builder, Operand, Operand], Value]:
  def build(b: Builder, x: Operand, y: Operand) -> Value:
    results = b.results
    given = x if isinstance(x, Value) and is_complex(x) else y
    assert isinstance(given, Value)
    b.results = [(given.torch_dtype, results[0][1] if results[0] else ())]
    (a, p), (c, q) = both_parts(b, x), both_parts(b, y)
    b.results = results
    same = b.node("And", b.node("Equal", a, c), b.node("Equal", p, q))
    return b.node("Not", same) if invert else same
  return build


def product_along(multiply: Callable[..., Value]) -> Callable[..., Value]:
  """prod: halves of what is left are multiplied."""
  def build(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False,
            **_: Any) -> Value:
    x = b.cast(x, b.dtype)
    if dim is None:
      x = marked(b, b.reshape(x, (math.prod(x.shape[:-1]), 2)))
      dim = 0
    axis = dim % max(x.rank - 1, 1)
    if x.rank == 1:
      return x
    if x.shape[axis] == 0:
      one = together(b, b.scalar(1.0, b.dtype), b.scalar(0.0, b.dtype))
      return b.expand(one, b.shape)
    while (size := x.shape[axis]) > 1:
      half = size // 2
      low, high = (marked(b, b.slice(x, axis, begin, begin + half)) for begin in (0, half))
      met = multiply(b, low, high)
      x = marked(b, met if size % 2 == 0 else b.concat(
        [met, b.slice(x, axis, size - 1, size)], axis))
    return x if keepdim else b.squeeze(x, axis)
  return build


def norm(function: Callable[..., Value]) -> Callable[..., Value]:
  """Of the sizes of elements."""
  def build(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
    return function(b, b.cast(absolute(b, x), b.dtype), *args, **kwargs)
  return build


