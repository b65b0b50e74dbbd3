"""Quantisation and products of integers."""

from __future__ import annotations

import numpy as np

from differential import element_types as types
from differential.draft import Draft, Unfit, Value
from differential.tables.products import image, window
from differential.tables.row import Row

_SCALES = (0.25, 0.5, 1.0, 2.0)  # powers of 2: quotients are exact


def scales(d: Draft, shape: tuple[int, ...], dtype: str = "float32") -> Value:
  return d.new(np.asarray(d.rng.choice(_SCALES, shape)).astype(types.numpy_type(dtype)),
               not d.chance(0.1))


def zeros(d: Draft, shape: tuple[int, ...], dtype: str) -> Value:
  return d.new(d.numbers(dtype, shape, 0 if dtype.startswith("u") else -3, 5), not d.chance(0.1))


def grouping(d: Draft, x: Value) -> tuple[tuple[int, ...], int | None]:
  """The shape of the scales, and the axis."""
  if x.rank == 0 or d.chance(0.5) or d.opset < 13:
    return (), None
  axis = d.integer(0, x.rank - 1)
  return (x.shape[axis],), axis


def quantize(d: Draft, op: str) -> object:
  x = d.take(tuple(t for t in d.types(op) if t in types.FLOATS), low=-300, high=300, exact=True)
  shape, axis = grouping(d, x)
  kinds = ["uint8", "int8"]
  if d.opset >= 21:
    kinds += ["uint16", "int16", "int4", "uint4"]
  if d.opset >= 19:
    kinds += ["float8_e4m3fn", "float8_e5m2"]
  kind = d.choose(*kinds)
  zero: Value | None = zeros(d, shape, kind)
  if kind == "uint8" and d.chance(0.3):
    zero = None
  if kind.startswith("float8"):
    zero = d.new(np.zeros(shape, types.numpy_type(kind)), True)
  dtype = x.dtype if d.opset >= 19 else "float32"
  return d.add(op, [x, scales(d, shape, dtype), zero], exact=True, axis=axis)


def dequantize(d: Draft, op: str) -> object:
  kinds = tuple(t for t in d.types(op) if t in types.INTEGERS + types.STORED)
  x = d.take(kinds, low=-60, high=100)
  shape, axis = grouping(d, x)
  zero = None if x.dtype == "int32" or d.chance(0.3) else (
    d.new(np.zeros(shape, x.array.dtype), True) if x.dtype.startswith("float8")
    else zeros(d, shape, x.dtype))
  dtype = d.choose("float32", "float16", "bfloat16") if d.opset >= 21 else "float32"
  return d.add(op, [x, scales(d, shape, dtype), zero], exact=True, axis=axis)


def dynamic(d: Draft, op: str) -> object:
  x = d.take(d.types(op), exact=True, least=1)
  made = d.add(op, [x], 3)
  made[0].exact = False  # a rounding of the scale may move a number by one
  return made


def matmul_integer(d: Draft, op: str) -> object:
  rank = d.choose(2, 2, 3)
  a = d.take(d.types(op), [None] * rank)
  b = d.take(d.types(op, 1), (a.shape[-1], d.extent(1, 17)))
  zero_a = zeros(d, (), a.dtype) if d.chance(0.5) else None
  zero_b = zeros(d, d.choose((), (b.shape[1],)), b.dtype) if d.chance(0.5) else None
  return d.add(op, [a, b, zero_a, zero_b], exact=True)


def qlinear_matmul(d: Draft, op: str) -> object:
  a = d.take(("uint8", "int8"), [None] * d.choose(2, 3), least=1)
  b = d.like(a, shape=(a.shape[-1], d.extent(1, 9)))
  one = (scales(d, ()), zeros(d, (), a.dtype))
  two = (scales(d, ()), zeros(d, (), a.dtype))
  return d.add(op, [a, *one, b, *two, scales(d, ()), zeros(d, (), a.dtype)], exact=True)


def conv_integer(d: Draft, op: str) -> object:
  x = image(d, ("uint8", "int8"), large=False)
  forms = window(d, x.rank - 2, x.shape[2:])
  made = d.integer(1, 4)
  w = d.take((x.dtype,), (made, x.shape[1], *forms["kernel_shape"]))
  if op == "ConvInteger":
    zero = zeros(d, (), x.dtype) if d.chance(0.6) else None
    return d.add(op, [x, w, zero, None], exact=True, **forms)
  bias = d.take(("int32",), (made,), -20, 20) if d.chance(0.5) else None
  return d.add(op, [x, scales(d, ()), zeros(d, (), x.dtype), w, scales(d, ()),
                    zeros(d, (), w.dtype), scales(d, ()), zeros(d, (), x.dtype), bias],
               exact=True, **forms)


def there_and_back(d: Draft, op: str) -> object:
  """A rounding to 8 bits in the middle of a model."""
  x = d.take(("float32",), low=-30, high=30, exact=True)
  scale, zero = d.constant(0.5, "float32"), d.constant(3, "uint8")
  (q,) = d.add("QuantizeLinear", [x, scale, zero], exact=True)
  return d.add("DequantizeLinear", [q, scale, zero], exact=True)


def blocked(d: Draft, op: str) -> object:
  """Scales per block of an axis."""
  if d.opset < 21:
    raise Unfit("blocks came with opset 21")
  size = d.integer(2, 4)
  shape = (d.extent(1, 4), size * d.integer(1, 3))
  factor = scales(d, (shape[0], shape[1] // size))
  zero = zeros(d, factor.shape, "int8")
  if op == "QuantizeLinear":
    x = d.take(("float32",), shape, exact=True)
  else:
    x = d.take(("int8",), shape, low=-60, high=60)
  return d.add(op, [x, factor, zero], exact=True, axis=d.choose(1, -1), block_size=size)


ROWS = [
  Row("QuantizeLinear", quantize, 2),
  Row("DequantizeLinear", dequantize, 2),
  Row("QuantizeLinear DequantizeLinear", blocked, 0.5),
  Row("DequantizeLinear", there_and_back),
  Row("DynamicQuantizeLinear", dynamic),
  Row("MatMulInteger", matmul_integer),
  Row("QLinearMatMul", qlinear_matmul),
  Row("ConvInteger QLinearConv", conv_integer),
]
