"""Pools and resampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from stretto._errors import UnsupportedError
from stretto.aten._builder import Builder, Value


def _each(values: int | Sequence[int], count: int) -> list[int]:
  values = [values] if isinstance(values, int) else list(values)
  return values * count if len(values) == 1 else values


def _batched(b: Builder, x: Value, rank: int) -> tuple[Value, bool]:
  """With a batch of 1 where the input has none, and whether it had none."""
  return (b.unsqueeze(x, 0), True) if x.rank == rank + 1 else (x, False)


def max_pool(rank: int, with_indices: bool = False) -> Callable[..., Any]:
  def build(b: Builder, x: Value, kernel: int | Sequence[int], stride: int | Sequence[int] = (),
            padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1,
            ceil_mode: bool = False) -> Any:
    size = _each(kernel, rank)
    x, alone = _batched(b, x, rank)
    step = _each(stride, rank) if isinstance(stride, int) or len(stride) else size
    found = b.nodes("MaxPool", [x], 2 if with_indices else 1, kernel_shape=size, strides=step,
                    pads=_each(padding, rank) * 2, dilations=_each(dilation, rank),
                    ceil_mode=int(ceil_mode))
    if with_indices:  # PyTorch counts within a channel
      area = 1
      for length in x.shape[2:]:
        area *= length
      found[1] = b.node("Mod", found[1], b.scalar(area, "int64"))
    found = [b.squeeze(y, 0) if alone else y for y in found]
    return found if with_indices else found[0]
  return build


def average_pool(rank: int) -> Callable[..., Value]:
  def build(b: Builder, x: Value, kernel: int | Sequence[int], stride: int | Sequence[int] = (),
            padding: int | Sequence[int] = 0, ceil_mode: bool = False,
            count_include_pad: bool = True, divisor_override: int | None = None) -> Value:
    size = _each(kernel, rank)
    x, alone = _batched(b, x, rank)
    step = _each(stride, rank) if isinstance(stride, int) or len(stride) else size
    if divisor_override is not None and (ceil_mode or not count_include_pad):
      if ceil_mode:
        raise UnsupportedError("divisor_override with ceil_mode is not supported")
      count_include_pad = True
    y = b.node("AveragePool", x, kernel_shape=size, strides=step, pads=_each(padding, rank) * 2,
               ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad))
    if divisor_override is not None:
      count = 1
      for length in size:
        count *= length
      y = b.node("Mul", y, b.scalar(count / divisor_override, y.dtype))
    return b.squeeze(y, 0) if alone else y
  return build


def _window(i: int, size: int, parts: int) -> tuple[int, int]:
  """The part of an axis that output i of an adaptive pool sees."""
  return i * size // parts, -(-(i + 1) * size // parts)


def _mixed(b: Builder, x: Value, axis: int, shares: torch.Tensor) -> Value:
  """An axis times a matrix: the share of each element in each result."""
  order = list(range(x.rank))
  order[axis], order[-1] = order[-1], order[axis]
  return b.transpose(b.node("MatMul", b.transpose(x, order), b.cast(b.tensor(shares), x.dtype)),
                     order)


def adaptive_average_pool(rank: int) -> Callable[..., Value]:
  def build(b: Builder, x: Value, output_size: Sequence[int | None]) -> Value:
    wanted = b.shape[-rank:]
    sizes = x.shape[-rank:]
    x, alone = _batched(b, x, rank)
    if all(w == 1 for w in wanted):
      y = b.node("GlobalAveragePool", x)
    elif all(w and s % w == 0 for s, w in zip(sizes, wanted)):
      kernel = [s // w for s, w in zip(sizes, wanted)]
      y = b.node("AveragePool", x, kernel_shape=kernel, strides=kernel)
    else:
      # Windows of unequal size: an axis is a product with a matrix of their shares.
      y = x
      for axis, (size, parts) in enumerate(zip(sizes, wanted), start=2):
        if size == parts:
          continue
        shares = torch.zeros(size, parts)
        for i in range(parts):
          begin, end = _window(i, size, parts)
          shares[begin:end, i] = 1 / (end - begin)
        y = _mixed(b, y, axis, shares)
    return b.squeeze(y, 0) if alone else y
  return build


def _unequal_max(b: Builder, x: Value, sizes: Sequence[int],
                 wanted: Sequence[int]) -> list[Value]:
  """Windows become rows as long as the longest: short ones repeat their last element."""
  rank, lead = len(sizes), x.shape[:-len(sizes)]
  places = torch.zeros([1] * (2 * rank), dtype=torch.int64)  # in a map, by window and place in it
  for axis, (size, parts) in enumerate(zip(sizes, wanted)):
    bounds = torch.tensor([_window(i, size, parts) for i in range(parts)])
    longest = int((bounds[:, 1] - bounds[:, 0]).max())
    along = torch.minimum(bounds[:, :1] + torch.arange(longest), bounds[:, 1:] - 1)
    shape = [1] * (2 * rank)
    shape[axis], shape[rank + axis] = along.shape
    places = places + along.reshape(shape) * math.prod(sizes[axis + 1:])
  windows = math.prod(wanted)
  table = places.reshape(windows, -1)
  rows = b.node("Gather", b.reshape(x, (*lead, math.prod(sizes))),
                b.tensor(table.reshape(-1)), axis=len(lead))
  rows = b.reshape(rows, (*lead, *table.shape))
  largest = b.node("ReduceMax", rows, b.ints([len(lead) + 1]), keepdims=0)
  starts = b.tensor(torch.arange(windows) * table.shape[1])
  first = b.node("Add", b.node("ArgMax", rows, axis=len(lead) + 1, keepdims=0), starts)
  found = b.node("Gather", b.tensor(table.reshape(-1)), first, axis=0)
  return [b.reshape(y, (*lead, *wanted)) for y in (largest, found)]


def adaptive_max_pool(rank: int) -> Callable[..., list[Value]]:
  def build(b: Builder, x: Value, output_size: Sequence[int]) -> list[Value]:
    result = b.results[0]
    assert result is not None
    wanted, sizes = result[1][-rank:], x.shape[-rank:]
    if any(not w for w in wanted):
      raise UnsupportedError(f"outputs without elements are not supported: {sizes} to {wanted}")
    if any(s % w for s, w in zip(sizes, wanted)):
      return _unequal_max(b, x, sizes, wanted)
    kernel = [s // w for s, w in zip(sizes, wanted)]
    return max_pool(rank, with_indices=True)(b, x, kernel)
  return build


def upsample(mode: str, rank: int, exact: bool = False) -> Callable[..., Value]:
  """F.interpolate: to sizes or by factors, with corners aligned or not."""
  smooth = mode != "nearest"

  def build(b: Builder, x: Value, output_size: Sequence[int] | None, *rest: Any) -> Value:
    align, factors = bool(rest[0]) and smooth, rest[-1]
    scales, sizes = None, b.ints(b.shape)
    # PyTorch places samples by the factor that was asked for, not by the sizes it led to.
    if factors is not None and not align:
      scales, sizes = b.tensor(torch.tensor([1, 1, *factors], dtype=torch.float32)), None
    attributes: dict[str, Any] = {}
    if not smooth:
      attributes["nearest_mode"] = "round_prefer_ceil" if exact else "floor"
    if mode == "cubic":
      attributes["cubic_coeff_a"] = -0.75
    coordinates = "align_corners" if align else "half_pixel" if smooth or exact else "asymmetric"
    return b.nodes("Resize", [x, None, scales, sizes], 1, mode=mode,
                   coordinate_transformation_mode=coordinates, **attributes)[0]
  return build


def upsample_smoothed(operator: str) -> Callable[..., Value]:
  """F.interpolate with antialias, of two axes: each is a product with a matrix of shares, which
  PyTorch's own operator tells when it gets a unit matrix."""
  def build(b: Builder, x: Value, output_size: Sequence[int], align_corners: bool,
            *scales: float | None) -> Value:
    resize = getattr(torch.ops.aten, operator).default
    for axis, parts, scale in zip((2, 3), b.shape[2:], scales or (None, None)):
      size = x.shape[axis]
      unit = torch.eye(size, dtype=torch.float64).reshape(1, 1, size, size)
      shares = resize(unit, [parts, size], align_corners, scale, None)
      x = _mixed(b, x, axis, shares.reshape(parts, size).t().contiguous())
    return x
  return build


def grid_sample(b: Builder, x: Value, grid: Value, interpolation: int, padding: int,
                align_corners: bool) -> Value:
  return b.node("GridSample", x, grid, mode=("linear", "nearest", "cubic")[interpolation],
                padding_mode=("zeros", "border", "reflection")[padding],
                align_corners=int(align_corners))
