"""Normalisation and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from stretto.aten._builder import Builder, Value


def _ones(b: Builder, size: Sequence[int], dtype: str) -> Value:
  return b.cast(b.tensor(torch.ones(tuple(size))), dtype)


def _zeros(b: Builder, size: Sequence[int], dtype: str) -> Value:
  return b.cast(b.tensor(torch.zeros(tuple(size))), dtype)


def batch_norm(b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value,
               variance: Value, momentum: float, epsilon: float) -> list[Value]:
  channels = (x.shape[1],)
  weight = weight or _ones(b, channels, x.dtype)
  bias = bias or _zeros(b, channels, x.dtype)
  return [b.node("BatchNormalization", x, weight, bias, mean, variance, epsilon=epsilon)]


def batch_norm_of_batch(b: Builder, x: Value, weight: Value | None, bias: Value | None,
                        training: bool, momentum: float, epsilon: float) -> list[Value]:
  """BatchNorm without running statistics: those of the batch, as of one group of an image that has
  the batch's elements side by side."""
  channels, size = x.shape[1], math.prod((x.shape[0], *x.shape[2:]))
  order = [1, 0, *range(2, x.rank)]
  y = b.reshape(b.transpose(x, order), (1, channels, size))
  weight = weight or _ones(b, (channels,), x.dtype)
  bias = bias or _zeros(b, (channels,), x.dtype)
  y = b.node("InstanceNormalization", y, weight, bias, epsilon=epsilon)
  return [b.transpose(b.reshape(y, (channels, x.shape[0], *x.shape[2:])), order)]


def layer_norm(b: Builder, x: Value, shape: Sequence[int], weight: Value | None = None,
               bias: Value | None = None, epsilon: float = 1e-5, *_: Any) -> Value:
  weight = weight or _ones(b, shape, x.dtype)
  return b.node("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=epsilon)


def layer_norm_native(b: Builder, x: Value, shape: Sequence[int], weight: Value | None,
                      bias: Value | None, epsilon: float) -> list[Value]:
  weight = weight or _ones(b, shape, x.dtype)
  return b.nodes("LayerNormalization", [x, weight, bias], 3, axis=-len(shape), epsilon=epsilon)


def group_norm(b: Builder, x: Value, groups: int, weight: Value | None = None,
               bias: Value | None = None, epsilon: float = 1e-5, *_: Any) -> Value:
  channels = (x.shape[1],)
  weight = weight or _ones(b, channels, x.dtype)
  bias = bias or _zeros(b, channels, x.dtype)
  return b.node("GroupNormalization", x, weight, bias, num_groups=groups, epsilon=epsilon)


def instance_norm(b: Builder, x: Value, weight: Value | None, bias: Value | None,
                  mean: Value | None, variance: Value | None, use_input_stats: bool,
                  momentum: float, epsilon: float, *_: Any) -> Value:
  if not use_input_stats:
    assert mean is not None and variance is not None
    return batch_norm(b, x, weight, bias, mean, variance, momentum, epsilon)[0]
  channels = (x.shape[1],)
  weight = weight or _ones(b, channels, x.dtype)
  bias = bias or _zeros(b, channels, x.dtype)
  return b.node("InstanceNormalization", x, weight, bias, epsilon=epsilon)


def rms_norm(b: Builder, x: Value, shape: Sequence[int], weight: Value | None = None,
             epsilon: float | None = None) -> Value:
  weight = weight or _ones(b, shape, x.dtype)
  if epsilon is None:
    epsilon = torch.finfo(x.torch_dtype).eps
  return b.node("RMSNormalization", x, weight, axis=-len(shape), epsilon=epsilon)


def _rows(op: str, b: Builder, x: Value, dim: int) -> Value:
  x = b.cast(x, b.dtype)
  if x.rank == 0:
    return b.reshape(b.node(op, b.reshape(x, (1,)), axis=0), ())
  return b.node(op, x, axis=x.axis(dim))


def softmax(b: Builder, x: Value, dim: int, *_: Any, **__: Any) -> Value:
  return _rows("Softmax", b, x, dim)


def log_softmax(b: Builder, x: Value, dim: int, *_: Any, **__: Any) -> Value:
  return _rows("LogSoftmax", b, x, dim)
