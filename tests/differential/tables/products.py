"""Matrix products, einsum, convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential import element_types as types
from differential.draft import Draft, Unfit, Value
from differential.tables.row import Row

EQUATIONS = (  # with the extents of each letter drawn
  "ij,jk->ik", "ij->ji", "bij,bjk->bik", "i,i->", "bhqd,bhkd->bhqk", "...ij,...jk->...ik", "ii->i",
  "ij,j", "ij->", "ij,kj->ik", "bi,bj->bij", "bhwc,hkc->bhwk", "ijk->kj", "i,j,k->kji", "ij,ij->i",
  "abc,cd,de->abe")


def exact_sums(*values: Value | None) -> bool:
  return all(v is None or types.summable(v.array) for v in values)


def weights(d: Draft, like: Value, shape: tuple[int, ...]) -> Value:
  return d.take((like.dtype,), shape, -2, 2, constant=None if d.chance(0.3) else True, reuse=0.3)


def matmul(d: Draft, op: str) -> object:
  rank = d.choose(1, 2, 2, 2, 3, 4)
  a = d.take(d.types(op), [None] * rank, -9, 9)
  inner = a.shape[-1]
  kind = d.integer(0, 4)
  if kind == 0 or a.rank == 1:
    shape: tuple[int, ...] = (inner,) if d.chance(0.3) else (inner, d.extent(0, 33))
  elif kind == 1:
    batch = tuple(1 if d.chance(0.4) else e for e in a.shape[:-2])
    shape = (*batch, inner, d.extent(1, 17))
  else:
    shape = (inner, d.extent(1, 33))
  b = weights(d, a, shape)
  return d.add(op, [a, b], exact=exact_sums(a, b))


def gemm(d: Draft, op: str) -> object:
  a = d.take(d.types(op), [None, None], -9, 9)
  trans_a, trans_b = d.integer(0, 1), d.integer(0, 1)
  rows, inner = a.shape[::-1] if trans_a else a.shape
  columns = d.extent(1, 33)
  b = weights(d, a, (columns, inner) if trans_b else (inner, columns))
  c = None
  if d.opset < 11 or d.chance(0.7):
    c = weights(d, a, d.choose((columns,), (rows, 1), (1, columns), (rows, columns), (1,), ()))
  return d.add(op, [a, b, c], exact=False, transA=d.choose(None, 0) if not trans_a else 1,
               transB=d.choose(None, 0) if not trans_b else 1, alpha=d.choose(None, 0.5),
               beta=d.choose(None, 1.0, -2.0))


def einsum(d: Draft, op: str) -> object:
  equation = d.choose(*EQUATIONS)
  terms = equation.split("->")[0].split(",")
  extents = {letter: d.extent(1, 9) for letter in "abcdehijkqw"}
  batch = (d.extent(1, 4),)
  shapes = [((batch if "..." in term else ()) + tuple(extents[c] for c in term.strip(".")))
            for term in terms]
  inputs: list[Value] = []
  for shape in shapes:
    inputs.append(d.take(d.types(op) if not inputs else (inputs[0].dtype,), shape, -2, 2))
  return d.add(op, inputs, exact=exact_sums(*inputs) and len(inputs) < 3, equation=equation)


def window(d: Draft, space: int, extents: tuple[int, ...], least_pad: int = 0) -> dict[str, Any]:
  """Kernel, strides, dilations and padding that fit an image."""
  kernel = [d.choose(*[k for k in (1, 2, 3, 3, 5) if k <= max(1, extents[i] + 2)])
            for i in range(space)]
  forms: dict[str, Any] = {"kernel_shape": kernel}
  if d.chance(0.5):
    forms["strides"] = [d.choose(1, 2, 3) for _ in range(space)]
  if d.chance(0.2):
    forms["dilations"] = [d.choose(1, 2) for _ in range(space)]
  kind = d.integer(0, 4)
  if kind == 0:
    forms["auto_pad"] = d.choose("SAME_UPPER", "SAME_LOWER", "VALID")
  elif kind == 1:
    forms["pads"] = [d.integer(0, max(0, k - 1)) for k in kernel * 2]
  elif kind < 4:
    forms["pads"] = [k // 2 for k in kernel * 2]
  for i in range(space):
    reach = (kernel[i] - 1) * forms.get("dilations", [1] * space)[i] + 1
    pads = forms.get("pads", [0] * (2 * space))
    if "SAME" not in forms.get("auto_pad", "") and extents[i] + pads[i] + pads[space + i] < reach:
      raise Unfit("the window is larger than the image")
  return forms


def image(d: Draft, dtypes: tuple[str, ...], least: int = 1, large: bool = True) -> Value:
  """Images of one to three dimensions, with sizes at which kernels change."""
  space = d.choose(1, 2, 2, 2, 2, 3)
  channels = d.choose(1, 2, 3, 4, 8, 16, 17, 32) if large else d.choose(1, 2, 3, 4)
  shape = (d.choose(1, 1, 2), channels, *(d.extent(least, {1: 33, 2: 17, 3: 5}[space])
                                         for _ in range(space)))
  if np.prod(shape) > 6000:
    raise Unfit("too large")
  if d.chance(0.5):
    return d.take(dtypes, [None] * (space + 2), -9, 9, least=max(1, least))
  return d.take(dtypes, shape, -9, 9)


def conv(d: Draft, op: str) -> object:
  x = image(d, d.types(op))
  channels = x.shape[1]
  groups = d.choose(1, 1, *[g for g in (2, 4, channels) if channels % g == 0])
  made = groups * d.choose(1, 1, 2, 3, 4, 8) if groups > 1 else d.choose(1, 3, 4, 8, 16, 17, 32)
  forms = window(d, x.rank - 2, x.shape[2:])
  w = weights(d, x, (made, channels // groups, *forms["kernel_shape"]))
  bias = weights(d, x, (made,)) if d.chance(0.5) else None
  if d.chance(0.5):
    del forms["kernel_shape"]
  return d.add(op, [x, w, bias], group=groups if groups > 1 else None, **forms)


def conv_transpose(d: Draft, op: str) -> object:
  x = image(d, d.types(op))
  space, channels = x.rank - 2, x.shape[1]
  groups = d.choose(1, 1, *[g for g in (2, 4) if channels % g == 0])
  forms = window(d, space, x.shape[2:])
  kernel = forms["kernel_shape"]
  w = weights(d, x, (channels, d.choose(1, 2, 3, 8), *kernel))
  made = w.shape[1] * groups
  strides = forms.get("strides", [1] * space)
  if "auto_pad" not in forms and d.chance(0.2):
    forms["output_padding"] = [d.integer(0, s - 1) for s in strides]
  bias = weights(d, x, (made,)) if d.chance(0.5) else None
  made_of = d.add(op, [x, w, bias], group=groups if groups > 1 else None, **forms)
  if not made_of[0].array.size:
    raise Unfit("pads cut off the whole output")
  return made_of


def det(d: Draft, op: str) -> object:
  size = d.integer(1, 5)
  return d.add(op, [d.take(d.types(op), (*d.shape(d.integer(0, 2), 1), size, size))])


ROWS = [
  Row("MatMul", matmul, 4),
  Row("Gemm", gemm, 3),
  Row("Einsum", einsum),
  Row("Conv", conv, 6),
  Row("ConvTranspose", conv_transpose, 2),
  Row("Det", det),
]
