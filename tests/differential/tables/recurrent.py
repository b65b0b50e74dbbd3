"""Recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.draft import Draft, Value
from differential.tables.row import Row

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_FUNCTIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}


def layer(d: Draft, op: str) -> object:
  batch, inputs, hidden = d.extent(1, 3), d.extent(1, 8), d.choose(1, 2, 3, 4, 8, 17)
  steps = d.extent(1, 7)
  direction = d.choose("forward", "reverse", "bidirectional")
  count = 2 if direction == "bidirectional" else 1
  gates = _GATES[op] * hidden
  x = d.take(d.types(op), (steps, batch, inputs), -3, 3)
  known = True if d.chance(0.7) else None

  def weight(*shape: int) -> Value:
    return d.take((x.dtype,), shape, -0.5, 0.5, constant=known, reuse=0.1)

  w, r = weight(count, gates, inputs), weight(count, gates, hidden)
  bias = weight(count, 2 * gates) if d.chance(0.6) else None
  lengths = None
  if d.chance(0.3):
    lengths = d.new(d.rng.integers(1, steps + 1, batch).astype(np.int32))
  state = d.take((x.dtype,), (count, batch, hidden), -1, 1) if d.chance(0.5) else None
  given: list[Value | None] = [x, w, r, bias, lengths, state]
  if op == "LSTM":
    given.append(d.take((x.dtype,), (count, batch, hidden), -1, 1) if d.chance(0.5) else None)
    given.append(weight(count, 3 * hidden) if d.chance(0.3) else None)
  forms: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
  if d.chance(0.2):
    names = [d.choose("Relu", "Tanh", "Sigmoid") for _ in range(_FUNCTIONS[op])]
    forms["activations"] = names * count
  if op == "GRU":
    forms["linear_before_reset"] = d.choose(None, 0, 1)
  if op == "LSTM" and d.chance(0.1):
    forms["input_forget"] = 1
  return d.add(op, given, 3 if op == "LSTM" else 2, **forms)


ROWS = [Row("RNN GRU LSTM", layer, 2)]
