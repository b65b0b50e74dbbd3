"""Operators that read images at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.draft import Draft
from differential.tables.movement import listed
from differential.tables.row import Row


def grid_sample(d: Draft, op: str) -> object:
  space = d.choose(2, 2, 3) if d.opset >= 20 else 2
  modes = ("linear", "nearest", "cubic") if d.opset >= 20 else ("bilinear", "nearest", "bicubic")
  mode = d.choose(*modes[:3 if space == 2 else 2])
  shape = (d.integer(1, 2), d.integer(1, 4), *(d.integer(2, 7) for _ in range(space)))
  x = d.take(d.types(op), shape)
  grid = (shape[0], *(d.integer(1, 5) for _ in range(space)), space)
  places = d.take(d.types(op, 1), grid, -1.5, 1.5, reuse=0.2)
  return d.add(op, [x, places], mode=mode, align_corners=d.choose(None, 0, 1),
               padding_mode=d.choose("zeros", "border", "reflection"))


def affine_grid(d: Draft, op: str) -> object:
  space = d.choose(2, 3)
  batch = d.integer(1, 3)
  theta = d.take(d.types(op), (batch, space, space + 1), -2, 2)
  size = [batch, d.integer(1, 3), *(d.integer(1, 5) for _ in range(space))]
  return d.add(op, [theta, listed(d, size)], align_corners=d.choose(None, 0, 1))


def roi_align(d: Draft, op: str) -> object:
  x = d.take(d.types(op), (d.integer(1, 2), d.integer(1, 3), d.integer(3, 9), d.integer(3, 9)))
  count = d.integer(1, 4)
  corners = d.rng.uniform(0, 8, (count, 2, 2))
  corners.sort(1)
  rois = d.new(corners.reshape(count, 4).astype(x.array.dtype))
  batch = d.new(d.rng.integers(0, x.shape[0], count))
  forms: dict[str, Any] = {}
  if d.has_attribute(op, "coordinate_transformation_mode"):
    forms["coordinate_transformation_mode"] = d.choose("half_pixel", "output_half_pixel")
  return d.add(op, [x, rois, batch], output_height=d.integer(1, 3), output_width=d.integer(1, 3),
               sampling_ratio=d.choose(None, 1, 2), spatial_scale=d.choose(None, 0.5),
               mode=d.choose("avg", "max"), **forms)


def deform_conv(d: Draft, op: str) -> object:
  groups = d.choose(1, 2)
  batch, channels, made = d.integer(1, 2), 2 * d.integer(1, 2), 2 * d.integer(1, 2)
  height, width, kernel = d.integer(3, 7), d.integer(3, 7), d.choose(1, 2, 3)
  x = d.take(d.types(op), (batch, channels, height, width))
  out = (height - kernel + 1, width - kernel + 1)
  offset_groups = d.choose(1, 2)
  w = d.like(x, shape=(made, channels // groups, kernel, kernel), low=-2, high=2)
  offsets = d.like(x, shape=(batch, offset_groups * 2 * kernel * kernel, *out), low=-2, high=2)
  bias = d.like(x, shape=(made,)) if d.chance(0.5) else None
  mask = None
  if d.chance(0.5):
    mask = d.like(x, shape=(batch, offset_groups * kernel * kernel, *out))
  return d.add(op, [x, w, offsets, bias, mask], group=groups, offset_group=offset_groups)


def col2im(d: Draft, op: str) -> object:
  block = [d.integer(1, 3), d.integer(1, 3)]
  size = [d.integer(block[0], 7), d.integer(block[1], 7)]
  strides = [d.integer(1, 2), d.integer(1, 2)]
  columns = [(e - b) // s + 1 for e, b, s in zip(size, block, strides)]
  x = d.take(d.types(op), (d.integer(1, 2), d.integer(1, 3) * block[0] * block[1],
                           columns[0] * columns[1]))
  return d.add(op, [x, listed(d, size), listed(d, block)], strides=strides)


def suppression(d: Draft, op: str) -> object:
  batch, classes, count = d.integer(1, 2), d.integer(1, 2), d.integer(1, 8)
  corners = np.sort(d.rng.uniform(0, 4, (batch, count, 2, 2)), 2).reshape(batch, count, 4)
  boxes = d.constant(corners, "float32")
  order = d.rng.permutation(batch * classes * count).reshape(batch, classes, count)
  scores = d.constant(order / order.size, "float32")
  limits = [d.constant([d.integer(1, 5)]), d.constant([d.choose(0.3, 0.5)], "float32")]
  if d.chance(0.5):
    limits.append(d.constant([0.33], "float32"))
  return d.add(op, [boxes, scores, *limits], exact=True, center_point_box=d.choose(None, 0, 1))


ROWS = [
  Row("GridSample", grid_sample),
  Row("AffineGrid", affine_grid),
  Row("RoiAlign", roi_align),
  Row("DeformConv", deform_conv),
  Row("Col2Im", col2im),
  Row("NonMaxSuppression", suppression),
]
