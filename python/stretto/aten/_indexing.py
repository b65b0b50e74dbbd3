"""Operators that look elements up by their place, or put them there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from stretto._errors import UnsupportedError
from stretto.aten._builder import Builder, Operand, Value
from stretto.aten._counted import true_places
from stretto.aten._elementwise import divide, is_float


def embedding(b: Builder, weight: Value, indices: Value, *_: Any) -> Value:
  return b.node("Gather", weight, _integers(b, indices), axis=0)


def embedding_bag(b: Builder, weight: Value, indices: Value, offsets: Value,
                  scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
                  per_sample_weights: Value | None = None, include_last_offset: bool = False,
                  padding_idx: int = -1) -> list[Value]:
  """Sums and means of rows, and maxima of bags whose sizes are known and equal."""
  rows = b.node("Gather", weight, _integers(b, indices), axis=0)
  if per_sample_weights is not None:
    rows = b.node("Mul", rows, b.unsqueeze(per_sample_weights, 1))
  if offsets.tensor is None or padding_idx >= 0:
    if mode == 2:
      raise UnsupportedError("maxima of bags whose sizes depend on the values of tensors are not "
                             "supported; give the bags as the rows of a matrix")
    shares = _shares_of_run(b, indices, offsets, include_last_offset, padding_idx)
    shares = b.cast(shares, rows.dtype)
    if mode == 1:
      counts = b.node("ReduceSum", shares, b.ints([1]), keepdims=1)
      shares = b.node("Div", shares, b.node("Max", counts, b.scalar(1.0, rows.dtype)))
    return [b.node("MatMul", shares, rows)]
  begins = [int(i) for i in offsets.tensor]
  ends = [*begins[1:], *([] if include_last_offset else [indices.shape[0]])]
  sizes = [end - begin for begin, end in zip(begins, ends)]
  width = weight.shape[1]
  if mode == 2 or len(set(sizes)) == 1:
    if len(set(sizes)) != 1 or not sizes[0]:
      raise UnsupportedError("maxima of bags of unequal sizes are not supported")
    rows = b.reshape(rows, (len(sizes), sizes[0], width))
    op = ("ReduceSum", "ReduceMean", "ReduceMax")[mode]
    return [b.node(op, rows, b.ints([1]), keepdims=0)]
  shares = torch.zeros(len(sizes), indices.shape[0])
  for i, (begin, end) in enumerate(zip(begins, ends)):
    shares[i, begin:end] = 1.0 if mode == 0 or end == begin else 1 / (end - begin)
  return [b.node("MatMul", b.cast(b.tensor(shares), rows.dtype), rows)]


def _shares_of_run(b: Builder, indices: Value, offsets: Value, include_last_offset: bool,
                   padding_idx: int) -> Value:
  """[bags, indices]: which indices are in which bag, where only a run tells."""
  count, bags = indices.shape[0], offsets.shape[0] - int(include_last_offset)
  offsets = b.cast(offsets, "int64")
  ends = b.slice(offsets, 0, 1, offsets.shape[0])
  if not include_last_offset:
    ends = b.node("Concat", ends, b.ints([count]), axis=0)
  places = b.tensor(torch.arange(count)[None])
  inside = b.node("And",
                  b.node("GreaterOrEqual", places, b.unsqueeze(b.slice(offsets, 0, 0, bags), 1)),
                  b.node("Less", places, b.unsqueeze(ends, 1)))
  if padding_idx < 0:
    return inside
  padding = b.node("Equal", indices, b.scalar(padding_idx, indices.dtype))
  return b.node("And", inside, b.node("Not", padding))


def index_select(b: Builder, x: Value, dim: int, index: Value) -> Value:
  if x.rank == 0:
    return x
  index = _integers(b, index)
  return b.node("Gather", x, index if index.rank else b.reshape(index, (1,)), axis=x.axis(dim))


def _integers(b: Builder, index: Value) -> Value:
  return index if index.dtype in ("int32", "int64") else b.cast(index, "int64")


def _places(b: Builder, x: Value,
            indices: Sequence[Value | None]) -> tuple[list[int], list[Value]]:
  """The axes that have an index, and their indices, as integers."""
  axes: list[int] = []
  found: list[Value] = []
  axis = 0
  for index in indices:
    if index is None:
      axis += 1
      continue
    if index.dtype == "bool":
      for part in true_places(b, index, _count(b, x, indices)):
        axes.append(axis)
        found.append(part)
        axis += 1
      continue
    axes.append(axis)
    found.append(_integers(b, index))
    axis += 1
  return axes, found


def _count(b: Builder, x: Value, indices: Sequence[Value | None]) -> int:
  """How many results an index of truth values has, by the shape of all results."""
  given = [(i, index.rank if index.dtype == "bool" else 1) for i, index in enumerate(indices)
           if index is not None]
  others = x.rank - sum(rank for _, rank in given)  # axes without an index
  together = [i for i, _ in given] == list(range(given[0][0], given[0][0] + len(given)))
  return b.shape[(given[0][0] if together else 0) + len(b.shape) - others - 1]


def _indexed_first(b: Builder, x: Value, axes: Sequence[int],
                   indices: Sequence[Value]) -> tuple[Value, Value, tuple[int, ...]]:
  """`x` with the indexed axes in front, the indices side by side, and their common shape."""
  shape = torch.broadcast_shapes(*(index.shape for index in indices))
  rest = [a for a in range(x.rank) if a not in axes]
  last = len(shape)
  parts = []
  for axis, index in zip(axes, indices):
    size = x.shape[axis]
    index = b.cast(index, "int64")
    if index.tensor is None:  # indices count from the end when negative
      zero = b.scalar(0, "int64")
      index = b.node("Where", b.node("Less", index, zero),
                     b.node("Add", index, b.scalar(size, "int64")), index)
    else:
      index = b.tensor(torch.where(index.tensor < 0, index.tensor + size, index.tensor).long())
    parts.append(b.unsqueeze(b.expand(index, shape), last))
  return b.transpose(x, [*axes, *rest]), b.concat(parts, last), tuple(shape)


def index(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value:
  axes, found = _places(b, x, indices)
  if len(axes) == 1:
    return b.node("Gather", x, found[0], axis=axes[0])
  front, places, shape = _indexed_first(b, x, axes, found)
  y = b.node("GatherND", front, places)
  # Next to each other, the indexed axes leave theirs where they were, otherwise in front.
  if axes == list(range(axes[0], axes[0] + len(axes))) and axes[0] > 0:
    width, before = len(shape), axes[0]
    y = b.transpose(y, [*range(width, width + before), *range(width),
                        *range(width + before, y.rank)])
  return y


def index_put(b: Builder, x: Value, indices: Sequence[Value | None], values: Value,
              accumulate: bool = False, *_: Any) -> Value:
  values = b.cast(values, x.dtype)
  mask = indices[0] if len(indices) == 1 else None
  if mask is not None and mask.dtype == "bool":
    if accumulate:
      raise UnsupportedError("nothing can be added where an index of truth values is true; "
                             "torch.where chooses between a sum and the tensor")
    if values.rank > x.rank - mask.rank and values.shape[0] != 1:
      return _put_in_order(b, x, mask, values)
    wide = b.reshape(mask, mask.shape + (1,) * (x.rank - mask.rank))
    values = b.reshape(values, values.shape[-(x.rank - mask.rank):] if x.rank > mask.rank else ())
    return b.node("Where", wide, values, x)
  axes, found = _places(b, x, indices)
  front, places, shape = _indexed_first(b, x, axes, found)
  rest = front.shape[len(axes):]
  if axes == list(range(axes[0], axes[0] + len(axes))) and axes[0] > 0:
    # Values come with the axes before the indexed ones in front.
    before, width = axes[0], len(shape)
    values = b.expand(values, (*rest[:before], *shape, *rest[before:]))
    values = b.transpose(values, [*range(before, before + width), *range(before),
                                  *range(before + width, values.rank)])
  else:
    values = b.expand(values, (*shape, *rest))
  y = b.node("ScatterND", front, places, values, reduction="add" if accumulate else "none")
  order = [*axes, *(a for a in range(x.rank) if a not in axes)]
  return b.transpose(y, [order.index(a) for a in range(x.rank)])


def _put_in_order(b: Builder, x: Value, mask: Value, values: Value) -> Value:
  """Rows of `values` one after the other, where the mask is true."""
  size = math.prod(mask.shape)
  flat = b.reshape(mask, (size,))
  one = b.scalar(1, "int64")
  place = b.node("Sub", b.node("CumSum", b.cast(flat, "int64"), b.scalar(0, "int64")), one)
  # So that there is one to take where none is put.
  values = b.concat([values, b.expand(b.scalar(0, values.dtype), (1, *values.shape[1:]))], 0)
  rows = b.node("Gather", values, b.node("Max", place, b.scalar(0, "int64")), axis=0)
  rest = x.shape[mask.rank:]
  rows = b.expand(b.reshape(rows, (*mask.shape, *rows.shape[1:])), (*mask.shape, *rest))
  wide = b.reshape(mask, mask.shape + (1,) * len(rest))
  return b.node("Where", wide, rows, x)


def gather(b: Builder, x: Value, dim: int, index: Value, **_: Any) -> Value:
  if x.rank == 0:
    return b.expand(x, index.shape)
  index = _integers(b, index)
  shape = index.shape
  if not shape:
    index = b.reshape(index, (1,))
  # PyTorch lets the index be smaller than x along the other axes.
  for axis, size in enumerate(index.shape):
    if axis != x.axis(dim) and size < x.shape[axis]:
      x = b.slice(x, axis, 0, size)
  return b.reshape(b.node("GatherElements", x, index, axis=x.axis(dim)), shape)


def _scatter(b: Builder, x: Value, dim: int, index: Value, source: Operand,
             reduction: str) -> Value:
  index = _integers(b, index)
  updates = b.cast(source, x.dtype)
  if updates.rank == 0 and index.rank:
    updates = b.expand(updates, index.shape)
  for axis, size in enumerate(index.shape):
    if size < updates.shape[axis]:
      updates = b.slice(updates, axis, 0, size)
  if x.rank == 0:
    y = _scatter(b, b.reshape(x, (1,)), 0, b.reshape(index, (1,)), b.reshape(updates, (1,)),
                 reduction)
    return b.reshape(y, ())
  return b.node("ScatterElements", x, index, updates, axis=x.axis(dim), reduction=reduction)


def scatter(b: Builder, x: Value, dim: int, index: Value, source: Operand, *,
            reduce: str | None = None) -> Value:
  return _scatter(b, x, dim, index, source,
                  {None: "none", "add": "add", "multiply": "mul"}[reduce])


def scatter_add(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
  return _scatter(b, x, dim, index, source, "add")


# ONNX's names, and what changes nothing.
_REDUCTIONS = {"sum": ("add", 0), "mean": ("add", 0), "prod": ("mul", 1),
               "amax": ("max", -math.inf), "amin": ("min", math.inf)}


def _start(dtype: str, number: float) -> float | bool:
  """The number, or the one of this type that is next to it."""
  if dtype == "bool":
    return number > 0
  if math.isinf(number) and not dtype.startswith("float"):
    limits = torch.iinfo(getattr(torch, dtype))
    return limits.min if number < 0 else limits.max
  return number


def scatter_reduce(b: Builder, x: Value, dim: int, index: Value, source: Value, reduce: str, *,
                   include_self: bool = True) -> Value:
  op, start = _REDUCTIONS[reduce]
  if include_self and reduce != "mean":
    return _scatter(b, x, dim, index, source, op)
  nothing = b.expand(b.scalar(0, "int64"), x.shape)
  count = _scatter(b, nothing, dim, index, 1, "add")  # of what is put at each place
  if not include_self:
    met = b.node("Greater", count, b.scalar(0, "int64"))
    x = b.node("Where", met, b.scalar(_start(x.dtype, start), x.dtype), x)
  y = _scatter(b, x, dim, index, source, op)
  if reduce != "mean":
    return y
  one = b.scalar(1, "int64")
  count = b.node("Add", count, one) if include_self else b.node("Max", count, one)
  return divide(b, y, count, rounding_mode=None if is_float(y.dtype) else "floor")
