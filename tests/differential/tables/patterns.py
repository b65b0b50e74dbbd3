"""Several nodes that exporters write and Stretto's passes make into fewer."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.draft import Draft, Unfit, Value
from differential.tables.normalization import varies
from differential.tables.products import weights
from differential.tables.row import Row

_ACTIVATIONS = ("Relu", "Sigmoid", "HardSigmoid", "LeakyRelu", "Tanh", "HardSwish", "Elu")


def activation(d: Draft, x: Value) -> Value:
  kind = d.integer(0, 3)
  if kind == 0:
    (gate,) = d.add(d.choose("Sigmoid", "HardSigmoid"), [x])
    return d.add("Mul", [x, gate])[0]
  if kind == 1 and d.opset >= 11:
    low, high = (d.constant(v, x.dtype) for v in (0, 6))
    return d.add("Clip", [x, low, high], exact=True)[0]
  op = d.choose(*_ACTIVATIONS)
  return d.add(op, [x], exact=op == "Relu")[0]


def conv_block(d: Draft, op: str) -> object:
  """Convolution, normalization, sum, activation."""
  channels, made = d.choose(1, 3, 8, 16), d.choose(3, 8, 16, 32)
  size = d.integer(3, 12)
  x = d.take(("float32",), (d.choose(1, 2), channels, size, size), -4, 4)
  kernel = d.choose(1, 3)
  forms: dict[str, Any] = {"pads": [kernel // 2] * 4, "strides": [d.choose(1, 1, 2)] * 2}
  bias = weights(d, x, (made,)) if d.chance(0.5) else None
  (y,) = d.add("Conv", [x, weights(d, x, (made, channels, kernel, kernel)), bias], **forms)
  if d.chance(0.6):
    rows = [d.new(d.numbers("float32", (made,), low, high), True)
            for low, high in ((-2, 2), (-1, 1), (-1, 1), (0.25, 2))]
    (y,) = d.add("BatchNormalization", [y, *rows])
  if d.chance(0.3):
    factor = d.take(("float32",), d.choose((made, 1, 1), (1, made, 1, 1), ()), -2, 2)
    (y,) = d.add(d.choose("Mul", "Add"), [y, factor])
  if d.chance(0.5):
    other = d.take(("float32",), y.shape, -4, 4)
    (y,) = d.add("Add", [y, other] if d.chance(0.5) else [other, y])
  y = activation(d, y)
  if d.chance(0.3):
    (mean,) = d.add("GlobalAveragePool", [y])
    (gate,) = d.add("Sigmoid", [mean])
    return d.add("Mul", [y, gate])
  return y


def sibling_convs(d: Draft, op: str) -> object:
  """Convolutions of one input, joined."""
  channels, size = d.choose(3, 8, 16), d.integer(2, 9)
  x = d.take(("float32",), (1, channels, size, size), -4, 4)
  parts = []
  for _ in range(d.integer(2, 3)):
    made = d.choose(1, 3, 8)
    (y,) = d.add("Conv", [x, weights(d, x, (made, channels, 1, 1)), weights(d, x, (made,))])
    parts.append(d.add("Relu", [y], exact=True)[0] if d.chance(0.7) else y)
  return d.add("Concat", parts, axis=1)


def linear_block(d: Draft, op: str) -> object:
  """Matrix product with constants, sum, activation, product."""
  rows, inner, columns = d.extent(1, 17), d.choose(1, 4, 8, 16, 33), d.choose(1, 4, 8, 16, 33)
  lead = d.choose((), (1,), (2,))
  x = d.take(("float32",), (*lead, rows, inner), -4, 4)
  (y,) = d.add("MatMul", [x, weights(d, x, (inner, columns))])
  if d.chance(0.8):
    bias = weights(d, y, (columns,))
    (y,) = d.add("Add", [y, bias] if d.chance(0.5) else [bias, y])
  if d.chance(0.7):
    y = gelu(d, y) if d.chance(0.4) else activation(d, y)
  if d.chance(0.4):
    (y,) = d.add("Add", [y, d.take(("float32",), y.shape, -4, 4)])
  return y


def gelu(d: Draft, x: Value) -> Value:
  """x / 2 * (1 + erf(x / sqrt(2))) in the orders that exporters use."""
  (scaled,) = d.add("Div", [x, d.constant(np.sqrt(2), x.dtype)])
  (erf,) = d.add("Erf", [scaled])
  (one,) = d.add("Add", [erf, d.constant(1, x.dtype)])
  half = d.constant(0.5, x.dtype)
  if d.chance(0.5):
    (product,) = d.add("Mul", [x, one])
    return d.add("Mul", [product, half])[0]
  (product,) = d.add("Mul", [x, half])
  return d.add("Mul", [product, one])[0]


def gelu_alone(d: Draft, op: str) -> object:
  return gelu(d, d.take(("float32", "float16", "float64"), low=-6, high=6))


def norm_by_hand(d: Draft, op: str) -> object:
  """Layer normalization as means, differences and roots."""
  x = d.take(("float32",), (*d.shape(d.integer(1, 2), 1), d.choose(4, 8, 17)), -4, 4)

  if not varies(x.array, (-1,)):
    raise Unfit("numbers that hardly vary")

  def mean(value: Value) -> Value:
    if d.has_attribute("ReduceMean", "axes"):
      return d.add("ReduceMean", [value], axes=[-1], keepdims=1)[0]
    return d.add("ReduceMean", [value, d.constant([-1])], keepdims=1)[0]

  (apart,) = d.add("Sub", [x, mean(x)])
  if d.chance(0.5):
    (square,) = d.add("Pow", [apart, d.constant(2, "float32")])
  else:
    (square,) = d.add("Mul", [apart, apart])
  (above,) = d.add("Add", [mean(square), d.constant(1e-3, "float32")])
  (root,) = d.add("Sqrt", [above])
  (y,) = d.add("Div", [apart, root])
  (y,) = d.add("Mul", [y, weights(d, y, (x.shape[-1],))])
  return d.add("Add", [y, weights(d, y, (x.shape[-1],))])


def residual_norm(d: Draft, op: str) -> object:
  """A sum and its normalization, where both go on."""
  if d.opset < 17:
    return norm_by_hand(d, op)
  x = d.take(("float32",), (*d.shape(d.integer(1, 2), 1), d.choose(4, 8, 17)), -4, 4)
  (total,) = d.add("Add", [x, d.take(("float32",), x.shape, -4, 4)])
  if not varies(total.array, (-1,)):
    raise Unfit("numbers that hardly vary")
  scale, bias = (weights(d, x, (x.shape[-1],)) for _ in range(2))
  (y,) = d.add("LayerNormalization", [total, scale, bias], epsilon=1e-3)
  return d.add("Add", [y, total])


def moves(d: Draft, op: str) -> object:
  """Transposes, reshapes and slices in a row: chains of views."""
  x = d.take(("float32", "int64", "float16", "uint8"), [None] * d.integer(2, 4), least=1)
  for _ in range(d.integer(2, 4)):
    kind = d.integer(0, 4)
    if kind == 0:
      (x,) = d.add("Transpose", [x], exact=True, perm=d.rng.permutation(x.rank).tolist())
    elif kind == 1 and x.rank > 1:
      (x,) = d.add("Reshape", [x, d.constant([*x.shape[:-2], -1])], exact=True)
    elif kind == 2:
      (x,) = d.add("Reshape", [x, d.constant([*x.shape[:1], 1, -1])], exact=True)
    elif kind == 3:
      axis = d.integer(0, x.rank - 1)
      step = d.choose(1, 2, -1)
      begin, end = (-1, -99) if step < 0 else (d.integer(0, x.shape[axis] - 1), 99)
      if d.opset >= 10:
        (x,) = d.add("Slice", [x, *(d.constant([n]) for n in (begin, end, axis, step))],
                     exact=True)
    else:
      (x,) = d.add("Identity", [x], exact=True)
  return x


def pointwise_chain(d: Draft, op: str) -> object:
  """Many elementwise operators over one shape, whose results are also read again."""
  x = d.take(("float32", "float32", "float16", "int32", "float64"), low=-3, high=3)
  parts = [x]
  for _ in range(d.integer(3, 6)):
    if x.dtype != "int32" and d.chance(0.5):
      (y,) = d.add(d.choose("Tanh", "Sigmoid", "Relu", "Neg"), [d.choose(*parts)])
    else:
      other = d.choose(*parts) if d.chance(0.6) else d.like(x, shape=d.choose((), x.shape), low=-2,
                                                            high=2)
      (y,) = d.add(d.choose("Add", "Sub", "Mul", "Max"), [d.choose(*parts), other], exact=True)
    parts.append(y)
  return parts


ROWS = [
  Row("Conv", conv_block, 3),
  Row("Conv", sibling_convs),
  Row("MatMul", linear_block, 3),
  Row("Erf", gelu_alone),
  Row("ReduceMean", norm_by_hand),
  Row("LayerNormalization", residual_norm),
  Row("Transpose", moves, 2),
  Row("Add", pointwise_chain, 3),
]
