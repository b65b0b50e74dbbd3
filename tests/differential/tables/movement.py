"""Operators that move data and change no number."""

from __future__ import annotations

import numpy as np

from differential.draft import Draft, Unfit, Value
from differential.tables.reductions import axis_of, of_rank
from differential.tables.row import Row


def listed(d: Draft, numbers: object, dtype: str = "int64") -> Value:
  """A list that decides a shape."""
  return d.new(np.array(numbers, dtype), d.known())


def transpose(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  order = d.rng.permutation(x.rank).tolist() if d.chance(0.85) else None
  return d.add(op, [x], exact=True, perm=order)


def concat(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  axis = axis_of(d, x)
  inputs = [x]
  for _ in range(d.integer(0, 3)):
    shape: list[int | None] = list(x.shape)
    shape[axis] = None if d.chance(0.7) else x.shape[axis]
    inputs.append(x if d.chance(0.15) else d.like(x, shape=shape))
  d.rng.shuffle(inputs)  # type: ignore[arg-type]
  return d.add(op, inputs, exact=True, axis=axis)


def split(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  axis = axis_of(d, x)
  length = x.shape[axis]
  count = d.integer(1, 4)
  if d.chance(0.5):
    cuts = sorted(d.integer(0, length) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, length]).tolist()
    if d.has_attribute(op, "split"):
      return d.add(op, [x], count, exact=True, axis=axis, split=sizes)
    return d.add(op, [x, listed(d, sizes)], count, exact=True, axis=axis)
  if d.has_attribute(op, "num_outputs"):
    if -(-length // count) * (count - 1) > length:
      raise Unfit("too many parts")
    return d.add(op, [x], count, exact=True, axis=axis, num_outputs=count)
  if length % count:
    raise Unfit("parts of different sizes")
  return d.add(op, [x], count, exact=True, axis=axis)


def slice_(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  axes = d.some(list(range(x.rank)))
  starts, ends, steps = [], [], []
  for axis in axes:
    n = x.shape[axis]
    step = d.choose(1, 1, 1, 2, 3, -1, -2) if d.opset >= 10 else 1
    a, b = d.integer(-n - 1, n + 1), d.integer(-n - 1, n + 1)
    if d.chance(0.15):
      b = d.choose(2**31 - 1, 2**63 - 1) if step > 0 else -2**31
    starts.append(a)
    ends.append(b)
    steps.append(step)
  if d.has_attribute(op, "starts"):
    return d.add(op, [x], exact=True, starts=starts, ends=ends, axes=axes)
  if d.chance(0.3):
    axes = [axis - x.rank for axis in axes]
  dtype = "int64" if max(ends) > 2**31 else d.choose("int64", "int32")
  every = axes == list(range(x.rank))
  last = listed(d, steps, dtype) if any(s != 1 for s in steps) or d.chance(0.5) else None
  given = None if every and d.chance(0.7) else listed(d, axes, dtype)
  return d.add(op, [x, listed(d, starts, dtype), listed(d, ends, dtype), given, last], exact=True)


def pad(d: Draft, op: str) -> object:
  modes = ["constant", "constant", "reflect", "edge"] + (["wrap"] if d.opset >= 19 else [])
  mode = d.choose(*modes)
  x = of_rank(d, op, exact=None)
  if mode != "constant" and 0 in x.shape:
    raise Unfit("no numbers to repeat")
  axes = list(range(x.rank))
  if d.opset >= 18 and d.chance(0.3):
    axes = d.some(axes)
  pads = []
  for side in range(2):
    for axis in axes:
      most = {"reflect": x.shape[axis] - 1, "wrap": x.shape[axis]}.get(mode, 3)
      low = -1 if mode == "constant" and x.shape[axis] > 2 and d.chance(0.2) else 0
      pads.append(d.integer(low, max(0, min(3, most))) if d.chance(0.7) or side else 0)
  if d.has_attribute(op, "pads"):
    return d.add(op, [x], exact=True, mode=mode, pads=pads, value=d.choose(None, 0.5))
  fill = d.new(np.array(2, x.array.dtype)) if mode == "constant" and d.chance(0.5) else None
  given = listed(d, axes, d.choose("int64", "int32")) if len(axes) < x.rank else None
  return d.add(op, [x, listed(d, pads), fill, given], exact=True,
               mode=mode if mode != "constant" or d.chance(0.5) else None)


def tile(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  return d.add(op, [x, listed(d, [d.choose(1, 1, 2, 3, 0) for _ in x.shape])], exact=True)


def expand(d: Draft, op: str) -> object:
  x = d.take(d.types(op))
  shape = [d.extent(1, 4) if e == 1 else d.choose(1, e) for e in x.shape]
  if d.chance(0.3) and len(shape) < 4:
    shape = [d.extent(1, 3), *shape]
  elif d.chance(0.2):
    shape = shape[1:]
  return d.add(op, [x, listed(d, shape)], exact=True)


def blocks(d: Draft, op: str) -> object:
  size = d.integer(1, 3)
  n, c, h, w = d.extent(1, 3), d.extent(1, 3), d.extent(1, 4), d.extent(1, 4)
  if op == "DepthToSpace":
    mode = d.choose(None, "DCR", "CRD") if d.has_attribute(op, "mode") else None
    x = d.take(d.types(op), (n, c * size * size, h, w))
    return d.add(op, [x], exact=True, blocksize=size, mode=mode)
  return d.add(op, [d.take(d.types(op), (n, c, h * size, w * size))], exact=True, blocksize=size)


def triangle(d: Draft, op: str) -> object:
  x = of_rank(d, op, least=2)
  k = d.constant(d.integer(-3, 3)) if d.chance(0.6) else None
  return d.add(op, [x, k], exact=True, upper=d.choose(None, 0, 1))


def reverse_sequence(d: Draft, op: str) -> object:
  x = of_rank(d, op, least=2)
  time = d.integer(0, 1)
  lengths = d.rng.integers(1, max(2, x.shape[time] + 1), x.shape[1 - time])
  return d.add(op, [x, d.new(lengths)], exact=True, time_axis=time, batch_axis=1 - time)


def centre(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  axes = d.some(list(range(x.rank))) if d.chance(0.5) else None
  extents = [d.extent(1, 9) for _ in (axes or x.shape)]
  return d.add(op, [x, listed(d, extents)], exact=True, axes=axes)


def tensor_scatter(d: Draft, op: str) -> object:
  shape = (d.extent(1, 3), d.extent(1, 3), d.extent(2, 7), d.extent(1, 5))
  cache = d.take(d.types(op), shape)
  length = d.integer(1, shape[2])
  circular = d.chance(0.5)
  starts = d.rng.integers(0, shape[2] if circular else shape[2] - length + 1, shape[0])
  places = d.new(starts) if d.chance(0.8) else None
  return d.add(op, [cache, d.like(cache, shape=(*shape[:2], length, shape[3])), places], exact=True,
               mode="circular" if circular else d.choose(None, "linear"))


ROWS = [
  Row("Transpose", transpose, 4),
  Row("Concat", concat, 3),
  Row("Split", split, 2),
  Row("Slice", slice_, 4),
  Row("Pad", pad, 2),
  Row("Tile", tile),
  Row("Expand", expand),
  Row("DepthToSpace SpaceToDepth", blocks),
  Row("Trilu", triangle),
  Row("ReverseSequence", reverse_sequence),
  Row("CenterCropPad", centre),
  Row("TensorScatter", tensor_scatter),
]
