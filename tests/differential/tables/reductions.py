"""Reductions, running sums, and what is done along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential import element_types as types
from differential.draft import Draft, Unfit, Value
from differential.tables.row import Row

# What peers make of integers that are too large differs.
_BOUNDS = {"ReduceLogSum": (0.25, 9), "ReduceLogSumExp": (-4, 4), "ReduceProd": (-1.5, 1.5),
           "ReduceL1": (-9, 9), "ReduceL2": (-9, 9), "ReduceSumSquare": (-9, 9)}


def axis_of(d: Draft, x: Value) -> int:
  """An axis, also counted from the end."""
  axis = d.integer(0, x.rank - 1)
  return axis - x.rank if d.opset >= 13 and d.chance(0.4) else axis


def axes_of(d: Draft, x: Value) -> list[int]:
  """Some axes, in any order."""
  axes = d.some(list(range(x.rank)))
  if d.opset >= 13:
    axes = [axis - x.rank if d.chance(0.3) else axis for axis in axes]
  return [axes[i] for i in d.rng.permutation(len(axes))]


def of_rank(d: Draft, op: str, exact: bool | None = None, least: int = 1, port: int = 0,
            low: float | None = None, high: float | None = None, nonempty: bool = False) -> Value:
  """A value with at least one axis."""
  return d.take(d.types(op, port), low=low, high=high, exact=exact,
                fits=lambda a: a.ndim >= least and (a.size > 0 or not nonempty), reuse=0.8)


def reduce(d: Draft, op: str) -> object:
  low, high = _BOUNDS.get(op, (None, None))
  x = d.take(d.types(op), low=low, high=high)
  attributes: dict[str, Any] = {"keepdims": d.choose(None, 0, 1)}
  if op in ("ReduceMean", "ReduceLogSumExp") and 0 in x.shape:
    raise Unfit("the mean of nothing")
  axes = axes_of(d, x) if x.rank and d.chance(0.8) else None
  inputs: list[Value | None] = [x]
  if d.has_attribute(op, "axes"):
    attributes["axes"] = axes
  else:
    if axes is not None:
      inputs.append(d.new(np.array(axes, np.int64), d.known()))
    if d.chance(0.2):
      attributes["noop_with_empty_axes"] = d.integer(0, 1)
  exact = op in ("ReduceMax", "ReduceMin") or (
    op in ("ReduceSum", "ReduceL1", "ReduceSumSquare") and types.summable(x.array))
  return d.add(op, inputs, exact=exact, **attributes)


def arg(d: Draft, op: str) -> object:
  x = of_rank(d, op, exact=True, nonempty=True)
  last = d.choose(None, 0, 1) if d.has_attribute(op, "select_last_index") else None
  return d.add(op, [x], exact=True, axis=axis_of(d, x), keepdims=d.choose(None, 0, 1),
               select_last_index=last)


def softmax(d: Draft, op: str) -> object:
  x = of_rank(d, op, exact=True if op == "Hardmax" else None, low=-20, high=20)
  return d.add(op, [x], axis=axis_of(d, x) if d.chance(0.8) else None, exact=op == "Hardmax")


def running(d: Draft, op: str) -> object:
  product = op == "CumProd"
  x = of_rank(d, op, low=-1.5 if product else None, high=1.5 if product else None)
  axis = d.constant(axis_of(d, x), d.choose(*types.INDICES))
  return d.add(op, [x, axis], exact=types.summable(x.array) and not product,
               exclusive=d.choose(None, 0, 1), reverse=d.choose(None, 0, 1))


def top(d: Draft, op: str) -> object:
  x = of_rank(d, op, exact=True)
  axis = axis_of(d, x) if d.opset >= 11 else d.integer(0, x.rank - 1)
  k = d.integer(0, x.shape[axis])
  if d.has_attribute(op, "k"):
    if x.shape[axis] == 0:
      raise Unfit("an attribute k is at least 1")
    return d.add(op, [x], 2, exact=True, axis=axis, k=max(k, 1))
  attributes: dict[str, Any] = {}
  if d.has_attribute(op, "largest"):
    attributes = {"largest": d.choose(None, 0, 1), "sorted": d.choose(None, 1)}
  return d.add(op, [x, d.constant([k])], 2, exact=True, axis=axis, **attributes)


ROWS = [
  Row("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
      "ReduceSum ReduceSumSquare", reduce, 6),
  Row("ArgMax ArgMin", arg, 2),
  Row("Softmax LogSoftmax Hardmax", softmax, 3),
  Row("CumSum CumProd", running),
  Row("TopK", top),
]
