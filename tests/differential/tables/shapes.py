"""Operators that change shapes, ask for them, or make tensors of them."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from differential import element_types as types
from differential.draft import Draft, Unfit
from differential.tables.movement import listed
from differential.tables.reductions import axis_of, of_rank
from differential.tables.row import Row


def factors(d: Draft, count: int) -> list[int]:
  """A shape with so many elements."""
  shape: list[int] = []
  for _ in range(d.integer(0, 3)):
    divisors = [k for k in range(1, min(count, 40) + 1) if count % k == 0] or [1]
    shape.append(int(d.choose(*divisors)))
    count //= shape[-1]
  return [*shape, count]


def reshape(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  shape = factors(d, x.array.size) if x.array.size else [d.extent(1, 3), *x.shape]
  if d.chance(0.3) and x.array.size:
    shape[d.integer(0, len(shape) - 1)] = -1
  for i, extent in enumerate(shape[:x.rank]):
    if extent == x.shape[i] and d.chance(0.3):
      shape[i] = 0
  allow = None
  if d.has_attribute(op, "allowzero") and d.chance(0.3):
    allow = 1 if 0 not in shape or (0 in x.shape and -1 not in shape) else 0
  return d.add(op, [x, listed(d, shape)], exact=True, allowzero=allow)


def flatten(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  low = -x.rank if d.opset >= 11 else 0
  axis = d.integer(low, x.rank) if x.rank == 0 or d.chance(0.8) else None
  return d.add(op, [x], exact=True, axis=axis)


def squeeze(d: Draft, op: str) -> object:
  x = d.take(d.types(op), fits=lambda a: 1 in a.shape)
  ones = [i for i, e in enumerate(x.shape) if e == 1]
  axes = d.some(ones)
  if d.opset >= 11:
    axes = [a - x.rank if d.chance(0.3) else a for a in axes]
  if d.chance(0.2):
    return d.add(op, [x], exact=True)
  if d.has_attribute(op, "axes"):
    return d.add(op, [x], exact=True, axes=axes)
  return d.add(op, [x, listed(d, axes)], exact=True)


def unsqueeze(d: Draft, op: str) -> object:
  x = d.take(d.types(op), fits=lambda a: a.ndim < 5)
  rank = x.rank + d.integer(1, 2)
  axes = d.rng.permutation(rank)[:rank - x.rank].tolist()
  if d.opset >= 11:
    axes = [a - rank if d.chance(0.3) else a for a in axes]
  if d.has_attribute(op, "axes"):
    return d.add(op, [x], exact=True, axes=axes)
  return d.add(op, [x, listed(d, axes)], exact=True)


def shape_of(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  if op == "Shape" and d.has_attribute(op, "start") and d.chance(0.5):
    bounds = {"start": d.integer(-3, 3), "end": d.choose(None, d.integer(-3, 4))}
    return made_of_shape(d, d.add(op, [x], exact=True, **bounds))
  return made_of_shape(d, d.add(op, [x], exact=True))


def made_of_shape(d: Draft, outputs: list[object]) -> object:
  """What is known of shapes may be used as a shape, as exporters do."""
  (value,) = outputs
  array = value.array  # type: ignore[attr-defined]
  if array.ndim == 1 and 0 < np.prod(array) < 400 and d.chance(0.3):
    return d.add("ConstantOfShape", [value], exact=True)  # type: ignore[list-item]
  return outputs


def filled(d: Draft, op: str) -> object:
  dtype = d.choose(*[t for t in types.ALL if t != "bfloat16"])
  content = d.numbers(dtype, (1,), -3 if dtype not in types.INTEGERS else 0, 3)
  value = numpy_helper.from_array(content) if d.chance(0.8) else None
  return d.add(op, [listed(d, list(d.shape()))], exact=True, value=value)


def constant(d: Draft, op: str) -> object:
  kind = d.integer(0, 2) if d.opset >= 12 else 0
  if kind == 0:
    array = d.numbers(d.choose(*types.ALL), d.shape())
    return d.add(op, [], exact=True, value=numpy_helper.from_array(array))
  if kind == 1:
    number = d.integer(-3, 3)
    return d.add(op, [], exact=True, **d.choose({"value_float": float(number)},
                                                {"value_int": number}))
  return d.add(op, [], exact=True, value_ints=[d.integer(-3, 3) for _ in range(d.integer(1, 4))])


def counted(d: Draft, op: str) -> object:
  dtype = d.choose(*d.types(op))
  start, step = d.integer(-4, 4), d.choose(1, 2, 3, -1, -2)
  limit = start + step * d.integer(0, 12)
  if dtype in ("float16", "bfloat16"):
    raise Unfit("sums that round")
  return d.add(op, [listed(d, n, dtype) for n in (start, limit, step)], exact=True)


def eye(d: Draft, op: str) -> object:
  x = d.take(d.types(op), [None, None])
  to = types.numpy_type(d.choose("float32", "int64", "float64", "int32", "bool"))
  dtype = int(helper.np_dtype_to_tensor_dtype(to)) if d.chance(0.5) else None
  return d.add(op, [x], exact=True, k=d.choose(None, 1, -2), dtype=dtype)


def one_hot(d: Draft, op: str) -> object:
  depth = d.integer(1, 6)
  indices = d.take(d.types(op), low=-depth, high=depth - 1, exact=True,
                   fits=lambda a: a.ndim < 4 and bool((a == np.round(a.astype(float))).all()))
  axis = d.integer(-indices.rank - 1, indices.rank) if d.chance(0.7) else None
  return d.add(op, [indices, listed(d, depth, "int64"),
                    d.take(d.types(op, 2), (2,), exact=True)], exact=True, axis=axis)


def dropout(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  return d.add(op, [x], d.choose(1, 2) if d.opset >= 10 else 1, exact=True)


def concat_of_shapes(d: Draft, op: str) -> object:
  """Reshape to a shape that other shapes are joined to, as exporters write it."""
  x = of_rank(d, op)
  axis = axis_of(d, x)
  (shape,) = d.add("Shape", [x], exact=True)
  (extent,) = d.add("Gather", [shape, d.constant([axis])], exact=True, axis=0)
  (target,) = d.add("Concat", [extent, d.constant([-1])], exact=True, axis=0)
  if not x.array.size:
    raise Unfit("no element")
  return d.add("Reshape", [x, target], exact=True)


ROWS = [
  Row("Reshape", reshape, 3),
  Row("Reshape", concat_of_shapes),
  Row("Flatten", flatten),
  Row("Squeeze", squeeze),
  Row("Unsqueeze", unsqueeze, 2),
  Row("Shape Size", shape_of),
  Row("ConstantOfShape", filled),
  Row("Constant", constant),
  Row("Range", counted),
  Row("EyeLike", eye),
  Row("OneHot", one_hot),
  Row("Dropout", dropout, 0.5),
]
