"""Operators that draw random numbers: of the engine's streams, not of PyTorch's generator.

Numbers have the distributions that PyTorch's have, and others in every call. `stretto.manual_seed`
starts the engine's streams again, as `torch.manual_seed` does PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from stretto._errors import UnsupportedError
from stretto.aten._builder import Builder, Operand, Value

# Numbers that must not be 0, of which a logarithm is taken, are this at least: half of the step of
# uniform numbers in float32.
_LEAST = 2.0 ** -25


def _drawn(b: Builder, kind: str, shape: Sequence[int], dtype: str, **attributes: float) -> Value:
  """`kind` is Normal or Uniform."""
  like = b.expand(b.scalar(False, "bool"), shape)
  return b.node(f"Random{kind}Like", like, dtype=dtype, **attributes)


def _uniform(b: Builder, low: float = 0.0, high: float = 1.0,
             shape: Sequence[int] | None = None) -> Value:
  """Of the result's element type and, unless told otherwise, of its shape."""
  return _drawn(b, "Uniform", b.shape if shape is None else shape, b.dtype, low=float(low),
                high=float(high))


def _normal(b: Builder, mean: float = 0.0, std: float = 1.0) -> Value:
  if std < 0:
    raise UnsupportedError(f"a negative standard deviation: {std}")
  return _drawn(b, "Normal", b.shape, b.dtype, mean=float(mean), scale=float(std))


def _waited(b: Builder, shape: Sequence[int] | None = None) -> Value:
  """Times between events of which there is one in a unit of time."""
  return b.node("Neg", b.node("Log", _uniform(b, _LEAST, 1.0, shape)))


def rand(b: Builder, *_: Any, **__: Any) -> Value:
  return _uniform(b)


def randn(b: Builder, *_: Any, **__: Any) -> Value:
  return _normal(b)


def uniform(b: Builder, x: Value, low: float = 0.0, high: float = 1.0, **_: Any) -> Value:
  return _uniform(b, low, high)


def normal(b: Builder, x: Value, mean: float = 0.0, std: float = 1.0, **_: Any) -> Value:
  return _normal(b, mean, std)


def normal_around(b: Builder, mean: Operand, std: Operand = 1.0, **_: Any) -> Value:
  """Mean and standard deviation of every element."""
  mean, std = b.operands(mean, std)
  return b.node("Add", mean, b.node("Mul", std, _normal(b)))


def log_normal(b: Builder, x: Value, mean: float = 1.0, std: float = 2.0, **_: Any) -> Value:
  return b.node("Exp", _normal(b, mean, std))


def cauchy(b: Builder, x: Value, median: float = 0.0, sigma: float = 1.0, **_: Any) -> Value:
  slope = b.node("Tan", _uniform(b, -math.pi / 2, math.pi / 2))
  return b.node("Add", b.node("Mul", slope, b.scalar(sigma, b.dtype)), b.scalar(median, b.dtype))


def exponential(b: Builder, x: Value, lambd: float = 1.0, **_: Any) -> Value:
  return b.node("Div", _waited(b), b.scalar(lambd, b.dtype))


def geometric(b: Builder, x: Value, p: float, **_: Any) -> Value:
  """How many trials it takes until one succeeds, with a chance of p each."""
  trials = b.node("Div", _waited(b), b.scalar(-math.log1p(-p), b.dtype))
  return b.node("Max", b.node("Ceil", trials), b.scalar(1, b.dtype))


def integers(b: Builder, low: int, high: int, *_: Any, **__: Any) -> Value:
  """Whole numbers from low to below high."""
  drawn = _drawn(b, "Uniform", b.shape, "float64", low=float(low), high=float(high))
  return b.cast(b.node("Floor", drawn), b.dtype)


def integers_below(b: Builder, high: int, *_: Any, **__: Any) -> Value:
  return integers(b, 0, high)


def integers_like(b: Builder, x: Value, low: int, high: int, **_: Any) -> Value:
  return integers(b, low, high)


def integers_below_like(b: Builder, x: Value, high: int, **_: Any) -> Value:
  return integers(b, 0, high)


def bernoulli(b: Builder, x: Value, p: float = 0.5, **_: Any) -> Value:
  below = b.node("Less", _drawn(b, "Uniform", b.shape, "float32", low=0.0, high=1.0),
                 b.scalar(p, "float32"))
  return b.cast(below, b.dtype)


def dropout(b: Builder, x: Value, p: float, train: bool | None = True) -> list[Value]:
  """With the mask of what stays."""
  if not train or p == 0:
    return [x, b.expand(b.scalar(True, "bool"), x.shape)]
  drawn = _drawn(b, "Uniform", x.shape, "float32", low=0.0, high=1.0)
  stays = b.node("GreaterOrEqual", drawn, b.scalar(p, "float32"))
  scale = b.scalar(0.0 if p == 1 else 1 / (1 - p), x.dtype)
  zero = b.scalar(0.0, x.dtype)
  return [b.node("Where", stays, b.node("Mul", x, scale), zero), stays]


def multinomial(b: Builder, x: Value, num_samples: int, replacement: bool = False,
                **_: Any) -> Value:
  """Of weights, [classes] or [batch, classes]: the classes whose logarithms are largest after a
  number with Gumbel's distribution has been added to each."""
  weights = x if x.rank == 2 else b.unsqueeze(x, 0)
  logs = b.node("Log", weights)
  again = replacement and num_samples > 1
  shape = list(weights.shape)
  if again:
    logs = b.unsqueeze(logs, 1)
    shape.insert(1, num_samples)
  waited = b.node("Neg", b.node("Log", _drawn(b, "Uniform", shape, x.dtype, low=_LEAST, high=1.0)))
  scores = b.node("Sub", logs, b.node("Log", waited))
  if again:
    found = b.node("ArgMax", scores, axis=2, keepdims=0)
  else:
    found = b.nodes("TopK", [scores, b.ints([num_samples])], 2, axis=1)[1]
  return found if x.rank == 2 else b.squeeze(found, 0)


def permutation(b: Builder, n: int, **_: Any) -> Value:
  """Of the numbers below n: the order of as many that are drawn."""
  drawn = _drawn(b, "Uniform", b.shape, "float64", low=0.0, high=1.0)
  return b.cast(b.nodes("TopK", [drawn, b.ints([b.shape[0]])], 2, axis=0)[1], b.dtype)


TABLE: dict[str, Callable[..., Any]] = {
  "bernoulli.p": bernoulli,
  "cauchy.default": cauchy,
  "exponential.default": exponential,
  "geometric.default": geometric,
  "log_normal.default": log_normal,
  "multinomial.default": multinomial,
  "native_dropout.default": dropout,
  "normal.Tensor_Tensor": normal_around,
  "normal.Tensor_float": normal_around,
  "normal.float_Tensor": normal_around,
  "normal_functional.default": normal,
  "rand.default": rand,
  "rand.generator": rand,
  "rand_like.default": rand,
  "rand_like.generator": rand,
  "randint.default": integers_below,
  "randint.generator": integers_below,
  "randint.low": integers,
  "randint.low_generator": integers,
  "randint_like.default": integers_below_like,
  "randint_like.generator": integers_below_like,
  "randint_like.low_dtype": integers_like,
  "randint_like.low_generator_dtype": integers_like,
  "randn.default": randn,
  "randn.generator": randn,
  "randn_like.default": randn,
  "randn_like.generator": randn,
  "randperm.default": permutation,
  "randperm.generator": permutation,
  "uniform.default": uniform,
}
