"""Operators whose results have a size that only a run tells."""

from __future__ import annotations

import math

import torch

from stretto._errors import UnsupportedError
from stretto.aten._builder import Builder, Value


def true_places(b: Builder, mask: Value, count: int) -> list[Value]:
  """Where a mask is true, which is assumed to be in so many places: integers for each axis."""
  if mask.rank == 0:
    raise UnsupportedError("an index of a single truth value is not supported; torch.where is")
  (places,) = b.counted("NonZero", [mask], [("int64", (mask.rank, count))], 1)
  if mask.rank == 1:
    return [b.squeeze(places, 0)]
  parts = b.nodes("Split", [places, b.ints([1] * mask.rank)], mask.rank, axis=0)
  return [b.squeeze(part, 0) for part in parts]


def nonzero(b: Builder, x: Value) -> Value:
  if x.rank == 0:
    raise UnsupportedError("nonzero of a single number is not supported; compare it with 0")
  (places,) = b.counted("NonZero", [x], [("int64", (x.rank, b.shape[0]))], 1)
  return b.transpose(places, [1, 0])


def masked_select(b: Builder, x: Value, mask: Value) -> Value:
  shape = torch.broadcast_shapes(x.shape, mask.shape)
  x, mask = (b.reshape(b.expand(v, shape), (math.prod(shape),)) for v in (x, mask))
  return b.node("Gather", x, *true_places(b, mask, b.shape[0]), axis=0)


def unique(b: Builder, x: Value, sorted: bool = True, return_inverse: bool = False,
           return_counts: bool = False, *, axis: int | None = None) -> list[Value]:
  """Values, the place of every element among them, and how often each comes."""
  given = x if x.dtype != "bool" else b.cast(x, "uint8")
  size = x.shape[axis] if axis is not None else math.prod(x.shape)
  count = b.shape[axis or 0]
  specs = [(given.dtype, b.shape), ("int64", (count,)), ("int64", (size,)), ("int64", (count,))]
  named = {} if axis is None else {"axis": axis}
  found, _, inverse, often = b.counted("Unique", [given], specs, axis or 0, sorted=1, **named)
  nothing = b.tensor(torch.zeros(0, dtype=torch.int64))
  if return_inverse and axis is None:
    inverse = b.reshape(inverse, x.shape)
  along = axis is not None  # then PyTorch gives all three in any case
  return [b.cast(found, x.dtype), inverse if return_inverse or along else nothing,
          often if return_counts or along else nothing]


def unique_along(b: Builder, x: Value, dim: int, sorted: bool = True,
                 return_inverse: bool = False, return_counts: bool = False) -> list[Value]:
  return unique(b, x, sorted, return_inverse, return_counts, axis=x.axis(dim))


def unique_consecutive(b: Builder, x: Value, return_inverse: bool = False,
                       return_counts: bool = False, dim: int | None = None) -> list[Value]:
  """Of neighbours that are equal only one."""
  size = math.prod(x.shape)
  if dim is not None or size == 0:
    raise UnsupportedError("unique_consecutive along an axis or of nothing is not supported")
  flat = b.reshape(x, (size,))
  new = b.node("Not", b.node("Equal", b.slice(flat, 0, 1, size), b.slice(flat, 0, 0, size - 1)))
  new = b.concat([b.tensor(torch.ones(1, dtype=torch.bool)), new], 0)
  (first,) = true_places(b, new, b.shape[0])
  ends = b.concat([b.slice(first, 0, 1, b.shape[0]), b.ints([size])], 0)
  place = b.node("CumSum", b.cast(new, "int64"), b.scalar(0, "int64"))
  place = b.node("Sub", place, b.scalar(1, "int64"))
  nothing = b.tensor(torch.zeros(0, dtype=torch.int64))
  return [b.node("Gather", flat, first, axis=0),
          b.reshape(place, x.shape) if return_inverse else nothing,
          b.node("Sub", ends, first) if return_counts else nothing]


def repeat_interleave(b: Builder, repeats: Value, *, output_size: int | None = None) -> Value:
  """Every place as often as its count says: the number of places that end before each."""
  ends = b.node("CumSum", b.cast(repeats, "int64"), b.scalar(0, "int64"))
  total = b.node("ReduceSum", b.cast(repeats, "int64"), b.ints([0]), keepdims=0)
  zero, one = b.scalar(0, "int64"), b.scalar(1, "int64")
  (places,) = b.counted("Range", [zero, total, one], [("int64", b.shape)], 0)
  before = b.node("LessOrEqual", b.unsqueeze(ends, 0), b.unsqueeze(places, 1))
  found = b.node("ReduceSum", b.cast(before, "int64"), b.ints([1]), keepdims=0)
  return b.cast(found, repeats.dtype)
