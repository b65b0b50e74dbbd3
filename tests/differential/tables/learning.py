"""Losses, and the operators of training."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.draft import Draft, Unfit, Value
from differential.tables.row import Row


def loss(d: Draft, op: str) -> object:
  classes = d.integer(1, 7)
  space = tuple(d.extent(1, 5) for _ in range(d.integer(0, 2)))
  x = d.take(d.types(op), (d.extent(1, 5), classes, *space), -9, 9)
  labels = d.rng.integers(0, classes, (x.shape[0], *space))
  ignored = d.choose(None, 0)
  if ignored is not None and (labels == 0).all():
    raise Unfit("every label is ignored: 0 / 0")
  target = d.new(labels.astype(d.choose("int64", "int32")))
  weight = d.like(x, shape=(classes,), low=0.25, high=2) if d.chance(0.5) else None
  outputs = d.choose(1, 2) if op == "SoftmaxCrossEntropyLoss" else 1
  return d.add(op, [x, target, weight], outputs, reduction=d.choose(None, "none", "sum", "mean"),
               ignore_index=ignored)


def optimizer(d: Draft, op: str) -> object:
  rate, count = d.constant(0.125, "float32"), d.constant(d.integer(0, 3))
  x = d.take(("float32", "float64"), low=-4, high=4)
  if x.dtype != "float32":
    rate = d.constant(0.125, x.dtype)
  gradient = d.like(x, shape=x.shape, low=-2, high=2)
  states: list[Value] = [d.new(np.abs(d.numbers(x.dtype, x.shape, 0.25, 2)))
                         for _ in range(2 if op == "Adam" else 1)]
  forms: dict[str, Any] = {"norm_coefficient": 0.01}
  if op == "Momentum":
    forms |= {"alpha": 0.9, "beta": 1.0, "mode": d.choose("standard", "nesterov")}
  else:
    forms["epsilon"] = 1e-3
  return d.add(op, [rate, count, x, gradient, *states], 1 + len(states),
               domain="ai.onnx.preview.training", **forms)


ROWS = [
  Row("SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss", loss),
  Row("Adagrad Adam Momentum", optimizer, 0.5),
]
