"""Normalizations."""

from __future__ import annotations

import numpy as np

from differential import element_types as types
from differential.draft import Draft, Unfit, Value
from differential.tables.reductions import axis_of
from differential.tables.row import Row


def varies(array: types.Array, axes: tuple[int, ...]) -> bool:
  """Whether the numbers along axes differ: else rounding decides what their quotient by their
  deviation is."""
  wide = array.astype(np.float64)
  if not array.size:
    return False
  return bool((wide.std(axes) > 0.05 * max(1.0, float(np.abs(wide).max()))).all())


def epsilon(d: Draft) -> float | None:
  return d.choose(None, 1e-2, 1e-3)  # type: ignore[no-any-return]


def images(d: Draft, op: str, least: int = 2) -> Value:
  """A batch of anything with channels."""
  shape = (d.extent(1, 3), d.extent(1, 17), *(d.extent(1, 9) for _ in range(d.integer(
    max(0, least - 2), 3))))
  return d.take(d.types(op), shape if d.chance(0.5) else [None] * d.integer(least, 4), least=1)


def per_channel(d: Draft, x: Value, port: tuple[str, ...], low: float, high: float,
                count: int | None = None, constant: bool | None = True) -> Value:
  dtype = x.dtype if x.dtype in port else "float32"
  return d.take((dtype,), (x.shape[1] if count is None else count,), low, high, constant=constant,
                reuse=0.2)


def batch_norm(d: Draft, op: str) -> object:
  x = images(d, op)
  known = d.chance(0.9)
  given = [per_channel(d, x, d.types(op, i + 1), low, high, constant=known)
           for i, (low, high) in enumerate(((-2, 2), (-1, 1), (-1, 1), (0.25, 2)))]
  return d.add(op, [x, *given], epsilon=epsilon(d))


def instance_norm(d: Draft, op: str) -> object:
  x = images(d, op, 3)
  if not varies(x.array, tuple(range(2, x.rank))):
    raise Unfit("numbers that hardly vary")
  return d.add(op, [x, *(per_channel(d, x, d.types(op, 1), -2, 2, constant=None)
                         for _ in range(2))], epsilon=epsilon(d))


def group_norm(d: Draft, op: str) -> object:
  x = images(d, op, 3)
  channels = x.shape[1]
  groups = d.choose(*[g for g in range(1, channels + 1) if channels % g == 0])
  count = channels if d.opset >= 21 else groups
  if not varies(x.array.reshape(x.shape[0], groups, -1), (2,)):
    raise Unfit("numbers that hardly vary")
  return d.add(op, [x, *(per_channel(d, x, d.types(op, 1), -2, 2, count, None)
                         for _ in range(2))], num_groups=groups, epsilon=epsilon(d))


def layer_norm(d: Draft, op: str) -> object:
  x = d.take(d.types(op), fits=lambda a: a.ndim >= 1, least=1)
  axis = axis_of(d, x)
  shape = x.shape[axis % x.rank:]
  if op == "LayerNormalization" and not varies(x.array, tuple(range(axis % x.rank, x.rank))):
    raise Unfit("numbers that hardly vary")
  bias = d.take((x.dtype,), shape, -2, 2) if op == "LayerNormalization" and d.chance(0.6) else None
  return d.add(op, [x, d.take((x.dtype,), shape, -2, 2), bias],
               axis=axis if axis != -1 or d.chance(0.5) else None, epsilon=epsilon(d))


def local_response(d: Draft, op: str) -> object:
  x = images(d, op, 3 if d.chance(0.5) else 4)
  return d.add(op, [x], size=d.choose(1, 3, 5), alpha=d.choose(None, 0.1), beta=d.choose(None, 0.5),
               bias=d.choose(None, 2.0))


def lp_norm(d: Draft, op: str) -> object:
  x = d.take(d.types(op), fits=lambda a: a.ndim >= 1, least=1)
  return d.add(op, [x], axis=axis_of(d, x), p=d.choose(None, 1, 2))


def mean_variance(d: Draft, op: str) -> object:
  x = d.take(d.types(op), [None] * 4, least=2)
  axes = d.choose(None, [0, 2, 3], [1, 2, 3], [2, 3])
  if not varies(x.array, tuple(axes or [0, 2, 3])):
    raise Unfit("numbers that hardly vary")
  return d.add(op, [x], axes=axes)


ROWS = [
  Row("BatchNormalization", batch_norm, 2),
  Row("InstanceNormalization", instance_norm),
  Row("GroupNormalization", group_norm),
  Row("LayerNormalization RMSNormalization", layer_norm, 2),
  Row("LRN", local_response),
  Row("LpNormalization", lp_norm),
  Row("MeanVarianceNormalization", mean_variance),
]
