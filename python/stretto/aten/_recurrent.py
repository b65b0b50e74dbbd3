"""nn.LSTM, nn.GRU and nn.RNN: a recurrent operator of the engine per layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from stretto.aten._builder import Builder, Value

# Where the engine's gates are among PyTorch's: of an LSTM i o f c among i f g o, of a GRU z r h
# among r z n.
_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _ordered(b: Builder, op: str, weight: Value) -> Value:
  """The rows of a weight, or the numbers of a bias, in the engine's order of gates."""
  order = _GATES[op]
  if len(order) == 1:
    return weight
  size = weight.shape[0] // len(order)
  if weight.tensor is not None:
    parts = weight.tensor.detach().split(size)
    return b.tensor(torch.cat([parts[i] for i in order]))
  return b.concat([b.slice(weight, 0, i * size, (i + 1) * size) for i in order], 0)


def _stacked(b: Builder, parts: Sequence[Value]) -> Value:
  return b.concat([b.unsqueeze(part, 0) for part in parts], 0)


def _joined(b: Builder, parts: Sequence[Value], axis: int) -> Value:
  """Side by side; at once where all of them are known."""
  if len(parts) > 1 and all(part.tensor is not None for part in parts):
    return b.tensor(torch.cat([part.tensor.detach() for part in parts], axis))
  return b.concat(list(parts), axis)


def _layer(b: Builder, op: str, x: Value, states: Sequence[Value],
           directions: Sequence[Sequence[Value]], attributes: dict[str, Any]) -> list[Value]:
  """Of x [steps, batch, inputs]: outputs [steps, batch, directions x hidden], and final states.

  Args:
    states: one or, of an LSTM, two tensors [directions, batch, hidden].
    directions: weights of the inputs and of the state, and two biases where there are some.
  """
  weights = [_stacked(b, [_ordered(b, op, part[i]) for part in directions]) for i in (0, 1)]
  biases = None
  if len(directions[0]) == 4:
    biases = _stacked(b, [_joined(b, [_ordered(b, op, part[i]) for i in (2, 3)], 0)
                          for part in directions])
  hidden = weights[1].shape[2]
  found = b.nodes(op, [x, *weights, biases, None, *states], 1 + len(states), hidden_size=hidden,
                  direction="bidirectional" if len(directions) == 2 else "forward", **attributes)
  y = found[0]
  if len(directions) == 1:
    return [b.squeeze(y, 1), *found[1:]]
  steps, _, batch, _ = y.shape
  return [b.reshape(b.transpose(y, [0, 2, 1, 3]), (steps, batch, 2 * hidden)), *found[1:]]


def _projected(b: Builder, x: Value, hidden: Value, cell: Value, weights: Sequence[Value],
               backwards: bool) -> list[Value]:
  """One direction of an LSTM whose output is a product of its state, step by step: the engine's
  operator has no such form."""
  steps, batch, _ = x.shape
  width = cell.shape[-1]
  own, other, *biases, projection = weights
  gates = b.node("MatMul", x, b.transpose(own, [1, 0]))
  for bias in biases:
    gates = b.node("Add", gates, bias)
  hidden, cell = b.squeeze(hidden, 0), b.squeeze(cell, 0)
  outputs = []
  for step in reversed(range(steps)) if backwards else range(steps):
    row = b.reshape(b.slice(gates, 0, step, step + 1), (batch, 4 * width))
    row = b.node("Add", row, b.node("Gemm", hidden, other, None, transB=1))
    i, f, g, o = b.nodes("Split", [row, b.ints([width] * 4)], 4, axis=1)
    cell = b.node("Add", b.node("Mul", b.node("Sigmoid", f), cell),
                  b.node("Mul", b.node("Sigmoid", i), b.node("Tanh", g)))
    hidden = b.node("Mul", b.node("Sigmoid", o), b.node("Tanh", cell))
    hidden = b.node("Gemm", hidden, projection, None, transB=1)
    outputs.append(b.unsqueeze(hidden, 0))
  if backwards:
    outputs.reverse()
  return [b.concat(outputs, 0), b.unsqueeze(hidden, 0), b.unsqueeze(cell, 0)]


def _layers(b: Builder, op: str, x: Value, states: Sequence[Value], weights: Sequence[Value],
            has_biases: bool, count: int, bidirectional: bool, batch_first: bool,
            attributes: dict[str, Any]) -> list[Value]:
  """All layers, each on the outputs of the one before."""
  ways = 2 if bidirectional else 1
  projected = len(states) == 2 and states[0].shape[-1] != states[1].shape[-1]
  each = 2 + 2 * has_biases + projected
  if batch_first:
    x = b.transpose(x, [1, 0, 2])
  last: list[list[Value]] = [[] for _ in states]
  for layer in range(count):
    first = layer * ways
    mine = [weights[i * each:(i + 1) * each] for i in range(first, first + ways)]
    begin = [state if count == 1 else b.slice(state, 0, first, first + ways) for state in states]
    if projected:
      parts = [_projected(b, x, *(b.slice(s, 0, i, i + 1) if ways == 2 else s for s in begin),
                          mine[i], i == 1) for i in range(ways)]
      x = b.concat([part[0] for part in parts], 2)
      final = [b.concat([part[i] for part in parts], 0) for i in (1, 2)]
    else:
      x, *final = _layer(b, op, x, begin, mine, attributes)
    for kept, state in zip(last, final):
      kept.append(state)
  y = b.transpose(x, [1, 0, 2]) if batch_first else x
  return [y, *(b.concat(kept, 0) for kept in last)]


def lstm(b: Builder, x: Value, states: Sequence[Value], weights: Sequence[Value],
         has_biases: bool, layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> list[Value]:
  return _layers(b, "LSTM", x, states, weights, has_biases, layers, bidirectional, batch_first, {})


def recurrent(op: str, **attributes: Any) -> Callable[..., list[Value]]:
  """What has one state: GRU, or RNN with an activation."""
  def build(b: Builder, x: Value, state: Value, weights: Sequence[Value], has_biases: bool,
            layers: int, dropout: float, train: bool, bidirectional: bool,
            batch_first: bool) -> list[Value]:
    own = dict(attributes)
    if "activations" in own:
      own["activations"] = [own["activations"]] * (2 if bidirectional else 1)
    return _layers(b, op, x, [state], weights, has_biases, layers, bidirectional, batch_first, own)
  return build
