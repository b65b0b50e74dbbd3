"""Operators that arrange elements and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from stretto._errors import UnsupportedError
from stretto.aten._builder import Builder, Value


def to_shape(b: Builder, x: Value, *_: Any, **__: Any) -> Value:
  """view, reshape, unsqueeze and so on: PyTorch has said what shape comes out."""
  return b.reshape(x, b.shape)


def permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
  return b.transpose(x, [d % x.rank for d in dims])


def expand(b: Builder, x: Value, *_: Any, **__: Any) -> Value:
  return b.expand(x, b.shape)


def repeat(b: Builder, x: Value, repeats: Sequence[int]) -> Value:
  x = b.reshape(x, (1,) * (len(repeats) - x.rank) + x.shape)
  return x if all(r == 1 for r in repeats) else b.node("Tile", x, b.ints(repeats))


def concatenate(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
  dtype = b.dtype
  # PyTorch lets one-dimensional tensors without elements stand among others.
  parts = [b.cast(x, dtype) for x in tensors if x.shape != (0,)] or [b.cast(tensors[0], dtype)]
  return b.concat(parts, parts[0].axis(dim))


def stack(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
  axis = dim % (tensors[0].rank + 1)
  return b.concat([b.unsqueeze(b.cast(x, b.dtype), axis) for x in tensors], axis)


def split_by_sizes(b: Builder, x: Value, sizes: Sequence[int], dim: int = 0) -> list[Value]:
  if len(sizes) == 1:
    return [x]
  return b.nodes("Split", [x, b.ints(sizes)], len(sizes), axis=x.axis(dim))


def split(b: Builder, x: Value, size: int, dim: int = 0) -> list[Value]:
  total = x.shape[x.axis(dim)]
  sizes = [min(size, total - start) for start in range(0, total, size)] or [0]
  return split_by_sizes(b, x, sizes, dim)


def unbind(b: Builder, x: Value, dim: int = 0) -> list[Value]:
  axis = x.axis(dim)
  parts = split_by_sizes(b, x, [1] * x.shape[axis], dim)
  return [b.squeeze(part, axis) for part in parts]


def _range(size: int, start: int | None, end: int | None) -> tuple[int, int]:
  start, end, _ = slice(start, end).indices(size)
  return start, max(start, end)


def slice_axis(b: Builder, x: Value, dim: int = 0, start: int | None = None,
               end: int | None = None, step: int = 1) -> Value:
  axis = x.axis(dim)
  start, end = _range(x.shape[axis], start, end)
  if (start, end, step) == (0, x.shape[axis], 1):
    return x
  return b.slice(x, axis, start, end, step)


def select(b: Builder, x: Value, dim: int, index: int) -> Value:
  axis = x.axis(dim)
  return b.node("Gather", x, b.scalar(index % x.shape[axis], "int64"), axis=axis)


def _between(b: Builder, x: Value, middle: Value, axis: int, start: int, end: int) -> Value:
  """`x` whose part from `start` to `end` is `middle`."""
  parts = [middle]
  if start > 0:
    parts.insert(0, b.slice(x, axis, 0, start))
  if end < x.shape[axis]:
    parts.append(b.slice(x, axis, end, x.shape[axis]))
  return b.concat(parts, axis)


def select_scatter(b: Builder, x: Value, source: Value, dim: int, index: int) -> Value:
  axis = x.axis(dim)
  index %= x.shape[axis]
  return _between(b, x, b.unsqueeze(b.cast(source, x.dtype), axis), axis, index, index + 1)


def slice_scatter(b: Builder, x: Value, source: Value, dim: int = 0, start: int | None = None,
                  end: int | None = None, step: int = 1) -> Value:
  axis = x.axis(dim)
  start, end = _range(x.shape[axis], start, end)
  source = b.cast(source, x.dtype)
  if start == end:
    return x
  if step == 1:
    return _between(b, x, source, axis, start, end)
  places = torch.arange(start, end, step)
  places = places.reshape(-1, *(1,) * (x.rank - axis - 1)).expand(source.shape)
  return b.node("ScatterElements", x, b.tensor(places.contiguous()), source, axis=axis)


def flip(b: Builder, x: Value, dims: Sequence[int]) -> Value:
  axes = [x.axis(d) for d in dims]
  if not axes or x.rank == 0:
    return x
  # -1 - size lies before the first element, so that the element itself is included.
  return b.node("Slice", x, b.ints([-1] * len(axes)), b.ints([-1 - x.shape[a] for a in axes]),
                b.ints(axes), b.ints([-1] * len(axes)))


def roll(b: Builder, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
  if not dims:
    flat = b.reshape(x, (-1,))
    return b.reshape(roll(b, flat, shifts, [0]), x.shape)
  for shift, dim in zip(shifts, dims):
    axis = x.axis(dim)
    size = x.shape[axis]
    shift = shift % size if size else 0
    if shift:
      x = b.concat([b.slice(x, axis, size - shift, size), b.slice(x, axis, 0, size - shift)], axis)
  return x


def _pads(x: Value, pad: Sequence[int]) -> list[int]:
  """Before every axis, then after it. PyTorch lists pairs from the last axis on."""
  before, after = [0] * x.rank, [0] * x.rank
  for i in range(len(pad) // 2):
    before[x.rank - 1 - i], after[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
  return before + after


def pad_constant(b: Builder, x: Value, pad: Sequence[int], value: float = 0) -> Value:
  if not any(pad):
    return x
  return b.node("Pad", x, b.ints(_pads(x, pad)), b.scalar(value, x.dtype), mode="constant")


def pad_by(mode: str) -> Callable[..., Value]:
  """reflection_pad, replication_pad and circular padding."""
  def build(b: Builder, x: Value, padding: Sequence[int]) -> Value:
    return b.node("Pad", x, b.ints(_pads(x, padding)), mode=mode)
  return build


def pixel_shuffle(b: Builder, x: Value, factor: int) -> Value:
  batch, (channels, height, width) = x.shape[:-3], x.shape[-3:]
  y = b.reshape(x, (-1, channels, height, width))
  y = b.node("DepthToSpace", y, blocksize=factor, mode="CRD")
  return b.reshape(y, (*batch, *y.shape[1:]))


def pixel_unshuffle(b: Builder, x: Value, factor: int) -> Value:
  batch, (channels, height, width) = x.shape[:-3], x.shape[-3:]
  y = b.reshape(x, (-1, channels, height // factor, factor, width // factor, factor))
  y = b.transpose(y, [0, 1, 3, 5, 2, 4])
  return b.reshape(y, (*batch, channels * factor**2, height // factor, width // factor))


def channel_shuffle(b: Builder, x: Value, groups: int) -> Value:
  y = b.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
  order = [0, 2, 1, *range(3, y.rank)]
  return b.reshape(b.transpose(y, order), x.shape)


def diagonal(b: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
  """Where the last axis counts the elements of the diagonal."""
  first, second = x.axis(dim1), x.axis(dim2)
  rest = [a for a in range(x.rank) if a not in (first, second)]
  y = b.transpose(x, [first, second, *rest])
  rows, columns = y.shape[:2]
  count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
  at = torch.arange(count)
  places = torch.stack([at - min(offset, 0), at + max(offset, 0)], -1)
  y = b.node("GatherND", y, b.tensor(places))
  return b.transpose(y, [*range(1, y.rank), 0])


def triangle(upper: bool) -> Callable[..., Value]:
  def build(b: Builder, x: Value, diagonal: int = 0) -> Value:
    return b.node("Trilu", x, b.scalar(diagonal, "int64"), upper=int(upper))
  return build


def windows(b: Builder, x: Value, dimension: int, size: int, step: int) -> Value:
  """Tensor.unfold: windows of an axis, whose elements become the last axis."""
  axis = x.axis(dimension)
  count = (x.shape[axis] - size) // step + 1
  places = torch.arange(count)[:, None] * step + torch.arange(size)
  y = b.node("Gather", x, b.tensor(places), axis=axis)
  order = [a for a in range(y.rank) if a != axis + 1] + [axis + 1]
  return b.transpose(y, order)


def fold(b: Builder, x: Value, output_size: Sequence[int], kernel: Sequence[int],
         dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]) -> Value:
  """col2im: windows are added where they came from."""
  y = x if x.rank == 3 else b.unsqueeze(x, 0)
  y = b.node("Col2Im", y, b.ints(output_size), b.ints(kernel), dilations=list(dilation),
             pads=[*padding, *padding], strides=list(stride))
  return y if x.rank == 3 else b.squeeze(y, 0)


def strided(b: Builder, x: Value, size: Sequence[int], stride: Sequence[int],
            storage_offset: int | None = None) -> Value:
  """as_strided, where the tensor's memory is dense: elements by their place in it."""
  if any(s < 0 for s in stride):
    raise UnsupportedError("as_strided with negative strides is not supported")
  assert b.memory is not None
  held, begin = b.memory
  order = sorted(range(x.rank), key=lambda axis: -held[axis])  # of axes in memory
  step = 1
  for axis in reversed(order):
    if x.shape[axis] != 1 and held[axis] != step:
      raise UnsupportedError(f"as_strided of a tensor with gaps in its memory (strides {held}) is "
                             "not supported; call contiguous() before")
    step *= x.shape[axis]
  x = b.transpose(x, order)
  first = 0 if storage_offset is None else storage_offset - begin
  last = first + sum((length - 1) * step for length, step in zip(size, stride))
  if first < 0 or last >= math.prod(x.shape):
    raise UnsupportedError("as_strided beyond the tensor itself, in memory that it shares with "
                           "another, is not supported")
  places = torch.full(tuple(size), first)
  for axis, (length, step) in enumerate(zip(size, stride)):
    places += (torch.arange(length) * step).reshape(-1, *(1,) * (len(size) - axis - 1))
  return b.node("Gather", b.reshape(x, (-1,)), b.tensor(places), axis=0)
