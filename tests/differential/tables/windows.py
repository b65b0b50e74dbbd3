"""Pooling and resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential import element_types as types
from differential.draft import Draft, Unfit, Value
from differential.tables.products import image, window
from differential.tables.row import Row


def pool(d: Draft, op: str) -> object:
  x = image(d, d.types(op), large=d.chance(0.5))
  forms = window(d, x.rank - 2, x.shape[2:])
  if not d.has_attribute(op, "dilations") and "dilations" in forms:
    del forms["dilations"]
  if d.has_attribute(op, "ceil_mode") and "auto_pad" not in forms and d.chance(0.3):
    forms["ceil_mode"] = d.integer(0, 1)
  if op == "AveragePool" and d.has_attribute(op, "count_include_pad"):
    forms["count_include_pad"] = d.choose(None, 0, 1)
  if op == "LpPool":
    forms["p"] = d.choose(None, 1, 2, 3)
  outputs = 2 if op == "MaxPool" and d.opset >= 8 and x.exact and d.chance(0.2) else 1
  return d.add(op, [x], outputs, exact=op == "MaxPool", **forms)


def global_pool(d: Draft, op: str) -> object:
  x = image(d, d.types(op))
  p = d.choose(None, 1, 2, 3) if op == "GlobalLpPool" else None
  return d.add(op, [x], exact=op == "GlobalMaxPool", p=p)


def unpool(d: Draft, op: str) -> object:
  x = d.take(d.types(op), (1, d.integer(1, 3), 2 * d.integer(1, 4), 2 * d.integer(1, 4)),
             exact=True)
  window_of_two = {"kernel_shape": [2, 2], "strides": [2, 2]}
  values, places = d.add("MaxPool", [x], 2, exact=True, **window_of_two)
  size = d.constant(x.shape) if d.chance(0.3) else None
  return d.add(op, [values, places, size], exact=True, **window_of_two)


def resize(d: Draft, op: str) -> object:
  space = d.choose(1, 2, 2, 3)
  x = d.take(d.types(op), (d.integer(1, 2), d.integer(1, 4), *(d.integer(1, 7) for _ in
                                                               range(space))), exact=True)
  mode = d.choose("nearest", "linear", "cubic" if space == 2 else "linear")
  if op == "Upsample" or d.opset < 11:
    scales = [1, 1, *(d.choose(1, 2, 3) for _ in range(space))]
    if op == "Upsample" and d.has_attribute(op, "scales"):
      return d.add(op, [x], mode="nearest", scales=[float(s) for s in scales])
    return d.add(op, [x, d.constant(scales, "float32")], mode=d.choose("nearest", "linear"))
  names = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"]
  transform = d.choose(*names)
  # A third of a sum of integers may be an integer, which rounding decides.
  whole = x.dtype in types.INTEGERS
  if whole and transform not in ("half_pixel", "asymmetric"):
    raise Unfit("integers are cut off")
  factors = [d.choose(0.5, 1, 2) if whole else d.choose(0.5, 1, 2, 3) for _ in range(space)]
  sizes = [max(1, int(e * f)) for e, f in zip(x.shape[2:], factors)]
  forms: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transform}
  if mode == "nearest":
    forms["nearest_mode"] = d.choose(None, "round_prefer_ceil", "floor", "ceil")
  elif mode == "cubic":
    forms["cubic_coeff_a"] = d.choose(None, -0.5)
    forms["exclude_outside"] = d.choose(None, 0, 1)
  none = d.constant(np.zeros(0), "float32") if d.opset < 13 else None
  if d.opset >= 18 and mode != "nearest" and d.chance(0.3):
    forms["antialias"] = 1
  inputs: list[Value | None] = [x, none]
  if d.chance(0.5) and not whole:
    inputs += [none, d.constant([*x.shape[:2], *sizes])]
  else:
    inputs += [d.constant([1, 1, *factors], "float32")]
  return d.add(op, inputs, **forms)


ROWS = [
  Row("MaxPool AveragePool LpPool", pool, 4),
  Row("GlobalAveragePool GlobalMaxPool GlobalLpPool", global_pool, 2),
  Row("MaxUnpool", unpool),
  Row("Resize Upsample", resize, 2),
]
