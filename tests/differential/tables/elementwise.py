"""Elementwise operators: of one input, of two and more with broadcasting, casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from differential import element_types as types
from differential.draft import Draft, Unfit, Value
from differential.element_types import Array
from differential.tables.row import Row

Draw = Callable[[Draft, str], object]


def unary(low: float | None = None, high: float | None = None, exact: bool = False,
          steps: bool = False, nonzero: bool = False, **attributes: object) -> Draw:
  """One input within bounds.

  Args:
    low: its least number.
    high: its greatest number.
    exact: whether nothing is rounded.
    steps: whether the operator jumps, so that inputs must be the same in every engine.
    nonzero: whether no number may be 0 or close to it.
    **attributes: bounds of attributes that may be given.
  """
  def draw(d: Draft, op: str) -> object:
    x = d.take(d.types(op), low=low, high=high, exact=True if steps else None, nonzero=nonzero)
    chosen = {name: d.rng.uniform(*bounds) for name, bounds in attributes.items()
              if d.has_attribute(op, name) and d.chance(0.6)}  # type: ignore[misc]
    return d.add(op, [x], exact=exact, **chosen)
  return draw


def partner(d: Draft, first: Value, dtypes: tuple[str, ...], low: float | None = None,
            high: float | None = None, exact: bool | None = None,
            nonzero: bool = False) -> Value:
  """A value that broadcasts with another."""
  def broadcasts(array: Array) -> bool:
    try:
      shape = np.broadcast_shapes(array.shape, first.shape)
    except ValueError:
      return False
    return bool(np.prod(shape) <= 4000)

  there = d.chance(0.5) and any(v.dtype in dtypes and broadcasts(v.array) for v in d.values)
  return d.take(dtypes, None if there else broadcast_shape(d, first.shape), low, high, exact,
                fits=broadcasts, nonzero=nonzero, reuse=1 if there else 0.75)


def broadcast_shape(d: Draft, shape: tuple[int, ...]) -> tuple[int, ...]:
  """A shape that broadcasts with another."""
  kind = d.integer(0, 5)
  if kind <= 1:
    return shape
  if kind == 2:
    return ()
  kept = shape[d.integer(0, len(shape)):] if kind == 3 else shape
  drawn = tuple(1 if d.chance(0.3) else extent for extent in kept)
  if kind == 4 and np.prod(shape) < 400:
    drawn = tuple(d.extent(1, 4) if extent == 1 else extent for extent in drawn)
    drawn = (d.extent(1, 3), *drawn) if len(drawn) < 4 else drawn
  return drawn


def binary(exact: bool = True, steps: bool = False, low: float | None = None,
           high: float | None = None) -> Draw:
  """Two inputs of one type that broadcast."""
  def draw(d: Draft, op: str) -> object:
    same = True if steps else None
    a = d.take(d.types(op), low=low, high=high, exact=same)
    b = partner(d, a, (a.dtype,), low, high, same)
    return d.add(op, [a, b] if d.chance(0.5) else [b, a], exact=exact)
  return draw


def divide(d: Draft, op: str) -> object:
  a = d.take(d.types(op), fits=not_least)
  return d.add(op, [a, partner(d, a, (a.dtype,), nonzero=True)])


def not_least(array: Array) -> bool:
  """Whether no integer is the least of its type, whose quotient by -1 overflows."""
  return not (array.dtype.kind == "i" and bool((array == np.iinfo(array.dtype).min).any()))


def modulo(d: Draft, op: str) -> object:
  fmod = d.integer(0, 1)
  dtypes = d.types(op) if fmod else tuple(t for t in d.types(op) if t in types.INTEGERS)
  a = d.take(dtypes, exact=True, fits=not_least)
  b = partner(d, a, (a.dtype,), exact=True, nonzero=True)
  return d.add(op, [a, b], exact=True, fmod=fmod if fmod or d.chance(0.5) else None)


def power(d: Draft, op: str) -> object:
  a = d.take(d.types(op), low=0.25, high=6)
  dtypes = d.types(op, 1) if d.opset >= 12 else (a.dtype,)
  low = 0 if a.dtype in types.INTEGERS else -3
  return d.add(op, [a, partner(d, a, dtypes, low=low, high=3)])


def several(d: Draft, op: str) -> object:
  a = d.take(d.types(op))
  inputs = [a] + [partner(d, a, (a.dtype,)) for _ in range(d.integer(0, 3))]
  return d.add(op, inputs, exact=op != "Mean")


def where(d: Draft, op: str) -> object:
  a = d.take(d.types(op, 1))
  b = partner(d, a, (a.dtype,))
  return d.add(op, [partner(d, a, ("bool",)), a, b], exact=True)


def clip(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  low, high = sorted(d.rng.integers(-4, 6, 2).tolist())
  if x.dtype.startswith("u"):
    low, high = abs(low), abs(low) + 3
  given = d.some([0, 1], 0)
  if d.has_attribute(op, "min"):
    limits = {("min", "max")[i]: float((low, high)[i]) for i in given}
    return d.add(op, [x], exact=True, **limits)
  bounds = [d.new(np.array((low, high)[i], x.array.dtype)) if i in given else None for i in (0, 1)]
  return d.add(op, [x, *bounds], exact=True)


def shift(d: Draft, op: str) -> object:
  a = d.take(d.types(op))
  most = 8 * a.array.itemsize - 1
  return d.add(op, [a, partner(d, a, (a.dtype,), 0, min(most, 9))], exact=True,
               direction=d.choose("LEFT", "RIGHT"))


def prelu(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  shape = tuple(1 if d.chance(0.4) else extent for extent in x.shape[d.integer(0, x.rank):])
  return d.add(op, [x, d.take((x.dtype,), shape)], exact=True)


def cast(d: Draft, op: str) -> object:
  allowed = tuple(name for name in map(types.schema_type, d.schema(op).outputs[0].types)
                  if name in types.ALL + types.STORED)
  to = str(d.choose(*sorted(allowed)))
  x = castable(d, op, to)
  # To and from narrow floats ONNX Runtime rounds twice.
  inputs = [x]
  attributes: dict[str, Any] = {}
  if op == "CastLike":
    inputs.append(d.take((to,)))
  else:
    attributes["to"] = helper.np_dtype_to_tensor_dtype(types.numpy_type(to))
  return d.add(op, inputs, exact=True, **attributes)


def castable(d: Draft, op: str, to: str) -> Value:
  """A value whose numbers a type can hold: what becomes of others differs."""
  low, high = (0 if to.startswith("u") else -7, 7)
  if to == "float8_e8m0fnu":
    raise Unfit("no such numbers")
  bounded = to not in types.FLOATS + ("bool",)
  jumps = to not in types.FLOATS
  return d.take(d.types(op), low=low if bounded else None, high=high if bounded else None,
                exact=True if jumps else None)


def bit_cast(d: Draft, op: str) -> object:
  x = d.take(("float32", "int32", "uint32", "int64", "float64", "uint8", "int8"), exact=True)
  size = x.array.itemsize
  whole = [t for t in types.INTEGERS if types.numpy_type(t).itemsize == size]
  to = types.numpy_type(str(d.choose(*whole)))
  return d.add(op, [x], exact=True, to=helper.np_dtype_to_tensor_dtype(to))


def special(d: Draft, op: str) -> object:
  """Numbers that are none, which no other operator gets."""
  array = d.numbers(str(d.choose(*d.types(op))), d.shape())
  chosen = d.rng.integers(0, 4, array.shape)
  wide = array.astype(np.float64)
  for i, number in enumerate((np.nan, np.inf, -np.inf)):
    wide = np.where(chosen == i, number, wide)
  if array.dtype.name.startswith("float8"):
    raise Unfit("types without infinity")
  x = d.new(wide.astype(array.dtype))
  attributes: dict[str, Any] = {}
  if op == "IsInf" and d.chance(0.5):
    attributes = {"detect_positive": d.integer(0, 1), "detect_negative": d.integer(0, 1)}
  made = d.add(op, [x], exact=True, **attributes)
  made[0].exact = True
  made[0].coarseness = 0
  d.values.remove(x)
  return made


ROWS = [
  Row("Abs Neg Identity", unary(exact=True), 2),
  Row("Sign", unary(exact=True, steps=True)),
  Row("Relu", unary(exact=True), 2),
  Row("Not BitwiseNot", unary(exact=True)),
  Row("Floor Ceil Round", unary(exact=True, steps=True)),
  Row("Exp Sinh Cosh", unary(-4, 4), 2),
  Row("Sin Cos Atan Asinh Erf Tanh Sigmoid", unary(-9, 9), 3),
  Row("HardSwish Mish Softplus Softsign", unary(-9, 9)),
  Row("Tan", unary(-1.2, 1.2)),
  Row("Acos Asin", unary(-1, 1)),
  Row("Atanh", unary(-0.9, 0.9)),
  Row("Acosh", unary(1, 8)),
  Row("Log", unary(0.1, 50)),
  Row("Sqrt", unary(0, 50)),
  Row("Reciprocal", unary(nonzero=True)),
  Row("Celu Elu LeakyRelu", unary(-9, 9, alpha=(0.1, 2)), 2),
  Row("ThresholdedRelu", unary(steps=True, alpha=(0.1, 2))),
  Row("HardSigmoid", unary(alpha=(0.1, 1), beta=(-0.5, 1))),
  Row("Selu", unary(-9, 9, alpha=(0.5, 2), gamma=(0.5, 2))),
  Row("Shrink", unary(steps=True, bias=(-1, 1), lambd=(0, 2))),
  Row("Swish", unary(-9, 9, alpha=(0.5, 2))),
  Row("Gelu", lambda d, op: d.add(op, [d.take(d.types(op), low=-9, high=9)],
                                  approximate=d.choose(None, "none", "tanh"))),
  Row("IsNaN IsInf", special),
  Row("Add Sub Mul", binary(), 8),
  Row("Div", divide, 3),
  Row("And Or Xor BitwiseAnd BitwiseOr BitwiseXor", binary()),
  Row("Equal Greater Less GreaterOrEqual LessOrEqual", binary(steps=True), 2),
  Row("Mod", modulo),
  Row("Pow", power),
  Row("Max Min Sum Mean", several, 3),
  Row("Where", where, 2),
  Row("Clip", clip, 2),
  Row("BitShift", shift),
  Row("PRelu", prelu),
  Row("Cast CastLike", cast, 4),
  Row("BitCast", bit_cast),
]
