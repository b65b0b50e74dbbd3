"""Operators that pick and place by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from differential import element_types as types
from differential.draft import Draft, Unfit, Value
from differential.tables.reductions import axis_of, of_rank
from differential.tables.row import Row


def indices(d: Draft, shape: tuple[int, ...], extent: int, negative: bool) -> Value:
  """Places below an extent."""
  if extent == 0 and 0 not in shape:
    raise Unfit("no place to point at")
  low = -extent if negative else 0
  array = d.rng.integers(low, max(extent, low + 1), shape)
  return d.new(array.astype(d.choose(*types.INDICES)), d.choose(None, True))


def gather(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  axis = axis_of(d, x)
  places = indices(d, d.shape(d.integer(0, 2)), x.shape[axis], d.opset >= 11)
  return d.add(op, [x, places], exact=True, axis=axis if axis or d.chance(0.5) else None)


def gather_elements(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  axis = axis_of(d, x)
  shape = [d.integer(min(1, e), e) for e in x.shape]
  shape[axis] = d.extent(0, 5)
  return d.add(op, [x, indices(d, tuple(shape), x.shape[axis], True)], exact=True, axis=axis)


def gather_nd(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  batch = d.integer(0, min(1, x.rank - 1)) if d.opset >= 12 else 0
  depth = d.integer(1, x.rank - batch)
  shape = (*x.shape[:batch], *d.shape(1), depth)
  places = nd_indices(d, shape, x.shape[batch:batch + depth], True)
  return d.add(op, [x, d.new(places)], exact=True, batch_dims=batch or None)


def nd_indices(d: Draft, shape: tuple[int, ...], extents: tuple[int, ...], negative: bool
               ) -> types.Array:
  if 0 in extents and 0 not in shape:
    raise Unfit("no place to point at")
  columns = [d.rng.integers(-e if negative else 0, max(e, 1), shape[:-1]) for e in extents]
  return np.stack(columns, -1).astype(np.int64)


def reduction(d: Draft, op: str) -> str | None:
  if not d.has_attribute(op, "reduction"):
    return None
  names = ["none", "add", "mul"] + (["max", "min"] if d.opset >= 18 else [])
  return str(d.choose(*names)) if d.chance(0.6) else None


def scatter_elements(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  axis = axis_of(d, x) if op == "ScatterElements" else d.integer(0, x.rank - 1)
  how = reduction(d, op)
  shape = [d.integer(min(1, e), e) for e in x.shape]
  if how in (None, "none"):  # every place once: which of several updates wins is undefined
    order = np.argsort(d.rng.random(x.shape), axis) if 0 not in x.shape else np.zeros(x.shape)
    places = order[tuple(slice(0, e) for e in shape)].astype(np.int64)
  else:
    places = indices(d, tuple(shape), x.shape[axis], True).array
  updates = d.like(x, shape=places.shape)
  exact = how != "mul" and (how != "add" or types.summable(x.array))
  return d.add(op, [x, d.new(places), updates], exact=exact, axis=axis, reduction=how)


def scatter_nd(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  depth = d.integer(1, x.rank)
  how = reduction(d, op)
  count = int(np.prod(x.shape[:depth]))
  if how in (None, "none"):
    chosen = d.rng.permutation(count)[:d.integer(0, min(count, 6))]
    places = np.stack(np.unravel_index(chosen, x.shape[:depth]), -1) if count else \
        np.zeros((0, depth))
  else:
    places = nd_indices(d, (*d.shape(1), depth), x.shape[:depth], False)
  places = places.astype(np.int64)
  updates = d.like(x, shape=(*places.shape[:-1], *x.shape[depth:]))
  exact = how != "mul" and (how != "add" or types.summable(x.array))
  return d.add(op, [x, d.new(places), updates], exact=exact, reduction=how)


def compress(d: Draft, op: str) -> object:
  x = of_rank(d, op)
  axis = axis_of(d, x) if d.chance(0.7) else None
  length = x.array.size if axis is None else x.shape[axis]
  condition = d.rng.integers(0, 2, d.integer(0, min(length, 40))).astype(np.bool_)
  return d.add(op, [x, d.new(condition, d.known())], exact=True, axis=axis)


def found(d: Draft, op: str) -> object:
  """Operators whose result's shape depends on numbers: of constants, inputs or results."""
  x = d.take(d.types(op), low=-2, high=2, exact=True, constant=d.known() or None,
             fits=lambda a: a.ndim >= (1 if op == "Unique" else 0), reuse=0.2)
  if op == "NonZero":
    return d.add(op, [x], exact=True)
  forms: dict[str, Any] = {"axis": axis_of(d, x) if d.chance(0.4) and x.array.size else None,
           "sorted": d.choose(None, 0, 1)}
  return d.add(op, [x], d.integer(1, 4), exact=True, **forms)


def features(d: Draft, op: str) -> object:
  domain = "ai.onnx.ml"
  x = d.take(("float32", "int64", "float64", "int32"), [None, None], exact=True, least=1)
  if op == "Binarizer":
    if x.dtype.startswith("int"):
      raise Unfit("a threshold between integers")
    return d.add(op, [x], exact=True, domain=domain, threshold=float(d.integer(-2, 2)))
  columns = d.rng.integers(0, x.shape[1], (1, d.integer(1, 5))).astype(np.int64)
  return d.add(op, [x, d.new(columns)], exact=True, domain=domain)


def trees(d: Draft, op: str) -> object:
  """Trees of three branches and four leaves."""
  count, features, targets = d.integer(1, 3), d.integer(1, 4), d.integer(1, 3)
  x = d.take(("float32", "float64"), (d.extent(1, 5), features), exact=True)

  def tensor(values: object, dtype: str) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(values, dtype))

  branches, leaves = 3 * count, 4 * count
  first = [3 * (n // 3) if n % 3 == 0 else 4 * (n // 3) + 2 * (n % 3 - 1) for n in range(branches)]
  is_leaf = [int(n % 3 != 0) for n in range(branches)]
  return d.add(
    op, [x], domain="ai.onnx.ml", n_targets=targets, aggregate_function=d.integer(0, 3),
    post_transform=d.choose(None, 0, 1, 2), tree_roots=list(range(0, branches, 3)),
    nodes_modes=tensor(d.rng.integers(0, 6, branches), "uint8"),
    nodes_featureids=d.rng.integers(0, features, branches).tolist(),
    nodes_splits=tensor(d.rng.integers(-8, 9, branches) / 4, x.dtype),
    nodes_trueleafs=is_leaf, nodes_falseleafs=is_leaf,
    nodes_truenodeids=[at + 1 + (n % 3 == 0) for n, at in enumerate(first)],
    nodes_falsenodeids=[at + (n % 3 == 0) for n, at in enumerate(first)],
    leaf_targetids=d.rng.integers(0, targets, leaves).tolist(),
    leaf_weights=tensor(d.rng.integers(-8, 9, leaves) / 4, x.dtype))


ROWS = [
  Row("Gather", gather, 3),
  Row("GatherElements", gather_elements),
  Row("GatherND", gather_nd),
  Row("ScatterElements Scatter", scatter_elements),
  Row("ScatterND", scatter_nd),
  Row("Compress", compress),
  Row("NonZero Unique", found),
  Row("Binarizer ArrayFeatureExtractor", features, 0.5),
  Row("TreeEnsemble", trees, 0.5),
]
