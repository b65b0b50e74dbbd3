"""Operators that make one number of many, and those that look for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stretto.aten._builder import Builder, Operand, Value
from stretto.aten._elementwise import is_float

Dims = int | Sequence[int] | None


def _axes(x: Value, dim: Dims, *, all_if_empty: bool = True) -> list[int]:
  """Axes from the front. Without any, PyTorch means all of them."""
  if dim is None or (all_if_empty and not isinstance(dim, int) and len(dim) == 0):
    return list(range(x.rank))
  dims = [dim] if isinstance(dim, int) else list(dim)
  return [x.axis(d) for d in dims] if x.rank else []


def _reduce(b: Builder, op: str, x: Value, dim: Dims, keepdim: bool, **attributes: Any) -> Value:
  axes = _axes(x, dim)
  if not axes:
    return x
  return b.node(op, x, b.ints(axes), keepdims=int(keepdim), **attributes)


def reduction(op: str) -> Callable[..., Value]:
  """Over some axes, computed in the type of the result."""
  def build(b: Builder, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
    dtype = b.dtype
    wide = "int64" if dtype in ("int8", "int16", "uint8", "bool") else dtype
    return b.cast(_reduce(b, op, b.cast(x, wide), dim, keepdim), dtype)
  return build


def extremum(op: str) -> Callable[..., Value]:
  def build(b: Builder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _reduce(b, op, x, dim, keepdim)
  return build


def any_true(b: Builder, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
  # Of uint8 it is uint8.
  return b.cast(_reduce(b, "ReduceMax", b.cast(x, "bool"), dim, keepdim), b.dtype)


def extremum_along(reduce: str, find: str) -> Callable[..., list[Value]]:
  """The largest or smallest numbers along an axis, and where they are."""
  def build(b: Builder, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    if x.rank == 0:
      return [x, b.scalar(0, "int64")]
    value = b.cast(_reduce(b, reduce, x, dim, keepdim), x.dtype)
    numbers = b.cast(x, "uint8") if x.dtype == "bool" else x
    return [value, b.node(find, numbers, axis=x.axis(dim), keepdims=int(keepdim))]
  return build


def position(op: str) -> Callable[..., Value]:
  """Where the largest or smallest number is; without an axis: in the flat tensor."""
  def build(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    if x.dtype == "bool":
      x = b.cast(x, "uint8")
    if dim is None or x.rank == 0:
      y = b.node(op, b.reshape(x, (-1,)), axis=0, keepdims=0)
      return b.reshape(y, b.shape)
    return b.node(op, x, axis=x.axis(dim), keepdims=int(keepdim))
  return build


def product(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False,
            **_: Any) -> Value:
  return reduction("ReduceProd")(b, x, dim, keepdim)


def _moments(b: Builder, x: Value, dim: Dims, correction: float,
             keepdim: bool) -> tuple[Value, Value]:
  """Variance and mean."""
  axes = _axes(x, dim)
  count = 1
  for axis in axes:
    count *= x.shape[axis]
  mean = _reduce(b, "ReduceMean", x, axes, True)
  apart = b.node("Sub", x, mean)
  variance = _reduce(b, "ReduceMean", b.node("Mul", apart, apart), axes, keepdim)
  if correction:
    variance = b.node("Mul", variance, b.scalar(count / max(count - correction, 0.0)
                                                if count > correction else float("nan"), x.dtype))
  if not keepdim and axes:
    mean = b.squeeze(mean, *axes)
  return variance, mean


def variance_corrected(b: Builder, x: Value, dim: Dims = None, *,
                       correction: float | None = None, keepdim: bool = False) -> Value:
  return _moments(b, x, dim, 1 if correction is None else correction, keepdim)[0]


def variance_and_mean(b: Builder, x: Value, dim: Dims = None, *, correction: float | None = None,
                      keepdim: bool = False) -> list[Value]:
  return list(_moments(b, x, dim, 1 if correction is None else correction, keepdim))


def distances(b: Builder, x: Value, y: Value, p: float, _: int | None = None) -> Value:
  """cdist: of every row of x to every row of y."""
  apart = b.node("Sub", b.unsqueeze(x, x.rank - 1), b.unsqueeze(y, y.rank - 2))
  return vector_norm(b, apart, p, [-1])


def vector_norm(b: Builder, x: Value, ord: float = 2, dim: Dims = None, keepdim: bool = False,
                **_: Any) -> Value:
  x = b.cast(x, b.dtype)
  if ord == 2:
    return _reduce(b, "ReduceL2", x, dim, keepdim)
  if ord == 1:
    return _reduce(b, "ReduceL1", x, dim, keepdim)
  size = b.node("Abs", x)
  if ord in (float("inf"), float("-inf")):
    return _reduce(b, "ReduceMax" if ord > 0 else "ReduceMin", size, dim, keepdim)
  if ord == 0:
    there = b.cast(b.node("Not", b.node("Equal", size, b.scalar(0.0, x.dtype))), x.dtype)
    return _reduce(b, "ReduceSum", there, dim, keepdim)
  power = b.scalar(float(ord), x.dtype)
  total = _reduce(b, "ReduceSum", b.node("Pow", size, power), dim, keepdim)
  return b.node("Pow", total, b.scalar(1 / ord, x.dtype))


def log_sum_exp(b: Builder, x: Value, dim: Dims, keepdim: bool = False) -> Value:
  return _reduce(b, "ReduceLogSumExp", b.cast(x, b.dtype), dim, keepdim)


def cumulative_sum(b: Builder, x: Value, dim: int, **_: Any) -> Value:
  x = b.cast(x, b.dtype)
  return x if x.rank == 0 else b.node("CumSum", x, b.scalar(x.axis(dim), "int64"))


def cumulative_product(b: Builder, x: Value, dim: int, **_: Any) -> Value:
  x = b.cast(x, b.dtype)
  return x if x.rank == 0 else b.node("CumProd", x, b.scalar(x.axis(dim), "int64"))


def top_k(b: Builder, x: Value, k: int, dim: int = -1, largest: bool = True,
          sorted: bool = True) -> list[Value]:
  if x.rank == 0:
    return [x, b.scalar(0, "int64")]
  return b.nodes("TopK", [x, b.ints([k])], 2, axis=x.axis(dim), largest=int(largest))


def sort(b: Builder, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
  """All of them as the largest: TopK keeps the order of equal ones."""
  if x.dtype == "bool":
    values, places = sort(b, b.cast(x, "uint8"), dim, descending)
    return [b.cast(values, "bool"), places]
  size = x.shape[x.axis(dim)] if x.rank else 1
  return top_k(b, x, size, dim, descending)


def _places_among(b: Builder, x: Operand, boundaries: Value, right: bool) -> Value:
  """How many of the boundaries, which are in order along the last axis, are below x; with `right`,
  or equal to it. NaN is above all of them."""
  alone = not isinstance(x, Value)
  rank = 0 if alone else x.rank
  rows = boundaries.rank > 1  # of boundaries, one for every row of x
  if rows:
    boundaries = b.unsqueeze(boundaries, boundaries.rank - 1)
  wide, limits = b.promoted(x if alone else b.unsqueeze(x, rank), boundaries)
  above = "Greater" if right else "GreaterOrEqual"
  if rows or alone or boundaries.shape[0] < _FEW_BOUNDARIES:
    met = b.cast(b.node("Not", b.node(above, limits, wide)), "int64")
    count = b.node("ReduceSum", met, b.ints([rank]), keepdims=0)
  else:
    count = b.squeeze(_searched(b, above, limits, wide), rank)
  return b.cast(count, b.dtype)


# From so many on, halving what is searched beats a look at all of them.
_FEW_BOUNDARIES = 8


def _searched(b: Builder, above: str, limits: Value, x: Value) -> Value:
  """How many of the limits, which are in order, are not above x: bit by bit, the highest first. The
  last limit stands for those behind it."""
  count = limits.shape[0]
  bits = count.bit_length()
  limits = b.node("Gather", limits, b.ints(min(i, count - 1) for i in range(2**bits - 1)), axis=0)
  found = b.scalar(0, "int64")
  for bit in reversed(range(bits)):
    more = b.node("Add", found, b.scalar(2**bit, "int64"))
    last = b.node("Add", found, b.scalar(2**bit - 1, "int64"))
    found = b.node("Where", b.node(above, b.node("Gather", limits, last, axis=0), x), found, more)
  return b.node("Min", found, b.scalar(count, "int64"))


def bucketize(b: Builder, x: Operand, boundaries: Value, *, out_int32: bool = False,
              right: bool = False) -> Value:
  return _places_among(b, x, boundaries, right)


def searchsorted(b: Builder, boundaries: Value, x: Operand, *, out_int32: bool = False,
                 right: bool = False, side: str | None = None,
                 sorter: Value | None = None) -> Value:
  if sorter is not None:
    boundaries = b.node("GatherElements", boundaries, sorter, axis=boundaries.rank - 1)
  return _places_among(b, x, boundaries, right or side == "right")


def sort_stable(b: Builder, x: Value, *, stable: bool | None = None, dim: int = -1,
                descending: bool = False) -> list[Value]:
  return sort(b, x, dim, descending)


def mean(b: Builder, x: Value, dim: Dims = None, keepdim: bool = False, **_: Any) -> Value:
  x = b.cast(x, b.dtype)
  assert is_float(x.dtype)
  return _reduce(b, "ReduceMean", x, dim, keepdim)
