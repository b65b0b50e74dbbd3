"""Operators that work on each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from stretto._errors import UnsupportedError
from stretto.aten._builder import HALF, Builder, Operand, Value


def is_float(dtype: str) -> bool:
  return dtype.startswith("float")


def unary(op: str, **attributes: Any) -> Callable[..., Value]:
  """An operator of one input, in the type of the result."""
  def build(b: Builder, x: Value) -> Value:
    return b.node(op, b.cast(x, b.dtype), **attributes)
  return build


def predicate(op: str) -> Callable[..., Value]:
  """One that says yes or no about a float; no about every integer."""
  def build(b: Builder, x: Value) -> Value:
    if not is_float(x.dtype):
      return b.expand(b.scalar(False, "bool"), x.shape)
    return b.node(op, x)
  return build


def rounding(op: str) -> Callable[..., Value]:
  """One that leaves integers alone."""
  def build(b: Builder, x: Value) -> Value:
    return b.node(op, x) if is_float(x.dtype) else x
  return build


def sign(b: Builder, x: Value) -> Value:
  """Of what is no number it is 0 in PyTorch."""
  y = b.node("Sign", x)
  if not is_float(x.dtype):
    return y
  return b.node("Where", b.node("IsNaN", x), b.scalar(0.0, x.dtype), y)


def round_to(b: Builder, x: Value, *, decimals: int = 0) -> Value:
  if not is_float(x.dtype):
    return x
  if decimals == 0:
    return b.node("Round", x)
  scale = b.scalar(10.0 ** abs(decimals), x.dtype)
  out, back = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
  return b.node(back, b.node("Round", b.node(out, x, scale)), scale)


def trunc(b: Builder, x: Value) -> Value:
  if not is_float(x.dtype):
    return x
  below = b.node("Less", x, b.scalar(0.0, x.dtype))
  return b.node("Where", below, b.node("Ceil", x), b.node("Floor", x))


def log_of_base(base: float) -> Callable[..., Value]:
  """What is a rounding error from a whole number becomes it, so that powers of the base have exact
  logarithms: people take the floor of them."""
  def build(b: Builder, x: Value) -> Value:
    x = b.cast(x, b.dtype)
    y = b.node("Mul", b.node("Log", x), b.scalar(1 / math.log(base), x.dtype))
    whole = b.node("Round", y)
    step = b.scalar(2.0**-23 if x.dtype == "float32" else 2.0**-52, x.dtype)
    near = b.node("LessOrEqual", b.node("Abs", b.node("Sub", y, whole)),
                  b.node("Mul", b.node("Abs", whole), step))
    return b.node("Where", near, whole, y)
  return build


def log1p(b: Builder, x: Value) -> Value:
  """log(1 + x) and, over 1 + x, the digits that 1 + x loses."""
  x = b.cast(x, b.dtype)
  one = b.scalar(1, x.dtype)
  # The bounds keep inf - inf and 0 / 0 out.
  low = b.node("Min", x, b.scalar(1e30, x.dtype))
  y = b.node("Add", low, one)
  lost = b.node("Div", b.node("Sub", low, b.node("Sub", y, one)),
                b.node("Max", y, b.scalar(1e-30, x.dtype)))
  return b.node("Add", b.node("Log", b.node("Add", x, one)), lost)


def expm1(b: Builder, x: Value) -> Value:
  """exp(x) - 1 as tanh(x / 2) * (exp(x) + 1), which keeps the digits of small x."""
  x = b.cast(x, b.dtype)
  half = b.node("Tanh", b.node("Mul", x, b.scalar(0.5, x.dtype)))
  return b.node("Mul", half, b.node("Add", b.node("Exp", x), b.scalar(1, x.dtype)))


def exp2(b: Builder, x: Value) -> Value:
  x = b.cast(x, b.dtype)
  return b.node("Pow", b.scalar(2.0, x.dtype), x)


def rsqrt(b: Builder, x: Value) -> Value:
  return b.node("Reciprocal", b.node("Sqrt", b.cast(x, b.dtype)))


def is_infinite(b: Builder, x: Value) -> Value:
  if not is_float(x.dtype):
    return b.expand(b.scalar(False, "bool"), x.shape)
  return b.node("Equal", b.node("Abs", x), b.scalar(math.inf, x.dtype))


def bitwise_not(b: Builder, x: Value) -> Value:
  return b.node("Not" if x.dtype == "bool" else "BitwiseNot", x)


# Activations.


def gelu(b: Builder, x: Value, *, approximate: str = "none") -> Value:
  return b.node("Gelu", x, approximate=approximate)


def elu(b: Builder, x: Value, alpha: float = 1, scale: float = 1,
        input_scale: float = 1) -> Value:
  if input_scale != 1:
    raise UnsupportedError("input_scale other than 1 is not supported")
  y = b.node("Elu", x, alpha=alpha)
  return y if scale == 1 else b.node("Mul", y, b.scalar(float(scale), x.dtype))


def leaky_relu(b: Builder, x: Value, negative_slope: float = 0.01) -> Value:
  return b.node("LeakyRelu", x, alpha=negative_slope)


def prelu(b: Builder, x: Value, weight: Value) -> Value:
  if weight.rank == 1 and x.rank > 1:  # one slope per channel, the second axis
    weight = b.reshape(weight, (weight.shape[0],) + (1,) * (x.rank - 2))
  elif weight.rank > x.rank:
    weight = b.reshape(weight, ())
  return b.node("PRelu", x, weight)


def softplus(b: Builder, x: Value, beta: float = 1, threshold: float = 20) -> Value:
  scaled = x if beta == 1 else b.node("Mul", x, b.scalar(float(beta), x.dtype))
  y = b.node("Softplus", scaled)
  if beta != 1:
    y = b.node("Div", y, b.scalar(float(beta), x.dtype))
  # Above the threshold PyTorch returns x; from 20 on that is what float32 gives anyway.
  if threshold >= 20 and x.dtype == "float32":
    return y
  return b.node("Where", b.node("Greater", scaled, b.scalar(float(threshold), x.dtype)), x, y)


def _is_plain(bound: Operand | None) -> bool:
  """Whether it is no bound, or one number that is known and not NaN."""
  if not isinstance(bound, Value):
    return bound is None or not math.isnan(bound)
  known = bound.tensor
  return bound.rank == 0 and known is not None and not known.isnan()


def clamp(b: Builder, x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
  dtype = b.dtype
  x = b.cast(x, dtype)
  bounds = [None if v is None else b.cast(v, dtype) for v in (min, max)]
  if _is_plain(min) and _is_plain(max) and not (
      min is not None and max is not None and not isinstance(min, Value)
      and not isinstance(max, Value) and min > max):
    return b.node("Clip", x, *bounds)
  if bounds[0] is not None:  # of which NaN makes all of it NaN
    x = b.node("Max", x, bounds[0])
  return x if bounds[1] is None else b.node("Min", x, bounds[1])


def hardtanh(b: Builder, x: Value, min_val: float = -1, max_val: float = 1) -> Value:
  return clamp(b, x, min_val, max_val)


# Operators of two inputs.


def hypotenuse(b: Builder, x: Operand, y: Operand) -> Value:
  """The root of x^2 + y^2, scaled by the larger one so that no square leaves the range."""
  x, y = (b.node("Abs", v) for v in b.operands(x, y))
  large, small = b.node("Max", x, y), b.node("Min", x, y)
  zero, one = b.scalar(0.0, x.dtype), b.scalar(1.0, x.dtype)
  infinite = b.scalar(math.inf, x.dtype)
  share = b.node("Div", small, b.node("Where", b.node("Equal", large, zero), one, large))
  root = b.node("Sqrt", b.node("Add", one, b.node("Mul", share, share)))
  # Beside an infinite one it does not matter what the other is, even NaN.
  endless = b.node("Or", b.node("Equal", x, infinite), b.node("Equal", y, infinite))
  return b.node("Where", endless, infinite, b.node("Mul", large, root))


def binary(op: str, on_bools: str | None = None) -> Callable[..., Value]:
  """An operator of two inputs in the type of the result, and what it is for truth values."""
  def build(b: Builder, x: Operand, y: Operand) -> Value:
    return b.node(on_bools if on_bools and b.dtype == "bool" else op, *b.operands(x, y))
  return build


def comparison(op: str, invert: bool = False) -> Callable[..., Value]:
  def build(b: Builder, x: Operand, y: Operand) -> Value:
    x, y = b.promoted(x, y)
    if x.dtype == "bool" and op != "Equal":
      x, y = b.cast(x, "uint8"), b.cast(y, "uint8")
    result = b.node(op, x, y)
    return b.node("Not", result) if invert else result
  return build


def logical(op: str) -> Callable[..., Value]:
  def build(b: Builder, *inputs: Value) -> Value:
    return b.node(op, *b.operands(*inputs, dtype="bool"))
  return build


def add(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
  if b.dtype == "bool":
    return b.node("Or", *b.operands(x, y))
  x, y = b.operands(x, y)
  return b.node("Add", x, y if alpha == 1 else b.node("Mul", y, b.scalar(alpha, y.dtype)))


def subtract(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
  x, y = b.operands(x, y)
  return b.node("Sub", x, y if alpha == 1 else b.node("Mul", y, b.scalar(alpha, y.dtype)))


def _apart(b: Builder, rest: Value, y: Operand) -> Value:
  """Where the remainder of a division towards zero has another sign than the divisor y."""
  zero = b.scalar(0, rest.dtype)
  if not isinstance(y, Value):
    return b.node("Greater" if y < 0 else "Less", rest, zero)
  signs = b.node("Xor", b.node("Less", rest, zero),
                 b.node("Less", b.cast(y, rest.dtype), zero))
  return b.node("And", b.node("Not", b.node("Equal", rest, zero)), signs)


def divide(b: Builder, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Value:
  divisor = y
  x, y = b.operands(x, y)
  if rounding_mode is None or (rounding_mode == "trunc" and not is_float(x.dtype)):
    return b.node("Div", x, y)  # of integers: towards zero
  if rounding_mode == "trunc":
    return trunc(b, b.node("Div", x, y))
  rest = b.node("Mod", x, y, fmod=1)
  if not is_float(x.dtype):
    down = b.cast(_apart(b, rest, divisor), x.dtype)
    return b.node("Sub", b.node("Div", x, y), down)
  # (x - rest) / y is whole but for its rounding error. For y = 0 it is what the division gives.
  whole = b.node("Round", b.node("Div", b.node("Sub", x, rest), y))
  one = b.scalar(1, x.dtype)
  down = b.node("Where", _apart(b, rest, divisor), b.node("Sub", whole, one), whole)
  if not isinstance(divisor, Value):
    return down if divisor else b.node("Div", x, y)
  return b.node("Where", b.node("Equal", y, b.scalar(0, x.dtype)), b.node("Div", x, y), down)


def remainder(b: Builder, x: Operand, y: Operand) -> Value:
  divisor = y
  x, y = b.operands(x, y)
  if not is_float(x.dtype):
    return b.node("Mod", x, y)
  rest = b.node("Mod", x, y, fmod=1)
  return b.node("Where", _apart(b, rest, divisor), b.node("Add", rest, y), rest)


def fmod(b: Builder, x: Operand, y: Operand) -> Value:
  return b.node("Mod", *b.operands(x, y), fmod=1)


def power(b: Builder, x: Operand, y: Operand) -> Value:
  dtype = b.dtype
  x = b.cast(x, dtype)
  wide = dtype if is_float(dtype) or dtype == "int32" else "int64"  # which Pow takes
  if isinstance(y, Value):
    return b.cast(b.node("Pow", b.cast(x, wide), b.cast(y, wide)), dtype)
  simple = {0.5: "Sqrt", -1: "Reciprocal"}.get(y)
  if simple and is_float(dtype):
    return b.node(simple, x)
  if y == -0.5 and is_float(dtype):
    return b.node("Reciprocal", b.node("Sqrt", x))
  if y == 1:
    return x
  return b.cast(b.node("Pow", b.cast(x, wide), b.scalar(y, wide)), dtype)


def is_negative(b: Builder, x: Value) -> Value:
  """The sign bit; of NaN it is never set."""
  zero = b.scalar(0, x.dtype)
  if not is_float(x.dtype):
    return b.node("Less", x, zero)
  # 1 / -0 is -inf.
  signed = b.node("Where", b.node("Equal", x, zero), b.node("Reciprocal", x), x)
  return b.node("Less", signed, zero)


def copy_sign(b: Builder, x: Operand, y: Operand) -> Value:
  x, y = b.operands(x, y)
  size = b.node("Abs", x)
  return b.node("Where", is_negative(b, y), b.node("Neg", size), size)


def sign_bit(b: Builder, x: Value) -> Value:
  if x.dtype == "bool" or x.dtype.startswith("uint"):
    return b.expand(b.scalar(False, "bool"), x.shape)
  return is_negative(b, x)


def arc_tangent(b: Builder, y: Operand, x: Operand) -> Value:
  """The angle of the point (x, y): atan(y / x) and, left of the axis, half a turn."""
  y, x = b.operands(y, x)
  zero, pi, infinite = (b.scalar(v, x.dtype) for v in (0.0, math.pi, math.inf))
  # Two infinite sides stand for a diagonal, two zeros for the axis that their signs say.
  both = b.node("And", b.node("Equal", b.node("Abs", x), infinite),
                b.node("Equal", b.node("Abs", y), infinite))
  slope = b.node("Where", both, b.node("Mul", b.node("Sign", x), b.node("Sign", y)),
                 b.node("Div", y, x))
  none = b.node("And", b.node("Equal", x, zero), b.node("Equal", y, zero))
  angle = b.node("Where", none, zero, b.node("Atan", slope))
  turn = b.node("Where", is_negative(b, y), b.node("Neg", pi), pi)
  return b.node("Where", is_negative(b, x), b.node("Add", angle, turn), angle)


def angle(b: Builder, x: Value) -> Value:
  """Of real numbers: half a turn left of zero."""
  x = b.cast(x, b.dtype)
  zero = b.scalar(0.0, x.dtype)
  turn = b.node("Where", b.node("Less", x, zero), b.scalar(math.pi, x.dtype), zero)
  return b.node("Where", b.node("IsNaN", x), x, turn)


def no_nan(op: str) -> Callable[..., Value]:
  """fmax and fmin: the other number where one is NaN."""
  def build(b: Builder, x: Operand, y: Operand) -> Value:
    x, y = b.operands(x, y)
    chosen = b.node(op, x, y)
    if not is_float(x.dtype):
      return chosen
    return b.node("Where", b.node("IsNaN", x), y, b.node("Where", b.node("IsNaN", y), x, chosen))
  return build


def shift(direction: str) -> Callable[..., Value]:
  def build(b: Builder, x: Operand, y: Operand) -> Value:
    if is_float(b.dtype):
      raise UnsupportedError("shifts of floats are not supported; multiply by a power of 2")
    return b.node("BitShift", *b.operands(x, y), direction=direction)
  return build


def view_bits(b: Builder, x: Value, dtype: torch.dtype) -> Value:
  """Tensor.view(dtype) of types of equal width."""
  if x.torch_dtype.itemsize != dtype.itemsize or dtype in HALF or x.torch_dtype in HALF:
    raise UnsupportedError(f"a view of {x.torch_dtype} as {dtype} is not supported: only types of "
                           "equal width that are no half precision are")
  if x.dtype == b.dtype:
    return x
  if "bool" in (x.dtype, b.dtype):
    return b.cast(x, b.dtype)
  return b.node("BitCast", x, **{"from": x.dtype, "to": b.dtype})


def where(b: Builder, condition: Value, x: Operand, y: Operand) -> Value:
  return b.node("Where", b.cast(condition, "bool"), *b.operands(x, y))


def masked_fill(b: Builder, x: Value, mask: Value, value: Operand) -> Value:
  return where(b, mask, value, x)


def cast(b: Builder, x: Value, *_: Any, **__: Any) -> Value:
  """Type conversions of all sorts: PyTorch has said what comes out."""
  dtype = b.dtype
  if is_float(x.dtype) and dtype in ("uint8", "int8", "int16", "int32"):
    return b.cast(b.cast(x, "int64"), dtype)  # wraps around, as PyTorch does
  return b.cast(x, dtype)


def identity(b: Builder, x: Value, *_: Any, **__: Any) -> Value:
  return x


def copy(b: Builder, x: Value, source: Value, *_: Any) -> Value:
  return b.expand(b.cast(source, b.dtype), x.shape)
