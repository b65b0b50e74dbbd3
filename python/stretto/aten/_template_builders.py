"""Builders that write down what they are asked for, and that compute sizes in the graph."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import torch

from stretto import _stretto
from stretto._errors import UnsupportedError
from stretto.aten._builder import COMPLEX, Builder, Value
from stretto.aten._expressions import Expression, Found


@dataclass(frozen=True)
class Call:
  """What a function of the table asked the builder for.

  Attributes:
    form: what is the same in graphs of one form.
    numbers: what may differ between them.
    rest: what may not, though the graphs have one form.
    place: for messages.
  """

  form: tuple[Any, ...]
  place: str
  numbers: tuple[Any, ...] = ()
  rest: Any = field(default=None)


class Recorder(Builder):
  """Writes down what it is asked for."""

  def __init__(self, graph: _stretto.GraphBuilder, calls: list[Call],
               weights: AbstractSet[int]) -> None:
    super().__init__(graph)
    self._calls = calls
    self._weights = weights

  def nodes(self, op: str, inputs: Sequence[Value | None], outputs: int,
            **attributes: Any) -> list[Value]:
    ids = tuple(None if x is None else x.id for x in inputs)
    self._calls.append(Call((op, ids, outputs), f"{op} of {self.name}", rest=attributes))
    return super().nodes(op, inputs, outputs, **attributes)

  def counted(self, op: str, inputs: Sequence[Value | None],
              outputs: Sequence[tuple[str, tuple[int, ...]]], along: int,
              **attributes: Any) -> list[Value]:
    ids = tuple(None if x is None else x.id for x in inputs)
    self._calls.append(Call((op, ids, len(outputs)), f"{op} of {self.name}", rest=attributes))
    ids = self.graph.assumed_node(op, ids, attributes, list(outputs), self.name)
    return [Value(id, *self.graph.spec(id)) for id in ids]

  def reshape(self, x: Value, shape: Sequence[int]) -> Value:
    return _reshape(self, x, shape)

  def ints(self, values: Any) -> Value:
    values = tuple(values)
    self._calls.append(Call(("ints", len(values)), self.name, values))
    return super().tensor(torch.tensor(values, dtype=torch.int64), f"{self.name}.sizes")

  def scalar(self, number: float | bool, dtype: str) -> Value:
    self._calls.append(Call(("scalar", dtype), self.name, (number,)))
    return super().tensor(_scalar(number, dtype), f"{number}")

  def causal(self, rows: int, columns: int) -> Value:
    return _causal(self, rows, columns)

  def tensor(self, tensor: torch.Tensor, name: str = "") -> Value:
    value = super().tensor(tensor, name)
    # Memory of the module is the same in all graphs.
    same = tensor.untyped_storage().data_ptr() in self._weights
    content = (tensor.data_ptr(), tensor.shape, tensor.stride()) if same else _content(tensor)
    self._calls.append(Call(("tensor", value.id), name or self.name, rest=content))
    return value


class Writer(Builder):
  """Computes the numbers that depend on sizes in the graph.

  Args:
    plan: per call of the recorder the numbers that it had, or what they are made of.
    symbols: an input and an axis of each size that inputs have.
  """

  def __init__(self, graph: _stretto.GraphBuilder, plan: Sequence[tuple[Found, ...] | None],
               symbols: Mapping[Any, tuple[str, int]]) -> None:
    super().__init__(graph)
    self._plan = iter(plan)
    # A value, or the name of an input, and an axis of it.
    self._symbols: dict[Any, tuple[str | Value, int]] = dict(symbols)
    self._inputs: dict[str, Value] = {}
    self._made: dict[Expression, Value] = {}

  def input(self, name: str, dtype: torch.dtype, shape: Sequence[int]) -> Value:
    self._inputs[name] = super().input(name, dtype, shape)
    return self._inputs[name]

  def nodes(self, op: str, inputs: Sequence[Value | None], outputs: int,
            **attributes: Any) -> list[Value]:
    next(self._plan)
    return super().nodes(op, inputs, outputs, **attributes)

  def tensor(self, tensor: torch.Tensor, name: str = "") -> Value:
    next(self._plan)
    return super().tensor(tensor, name)

  def counted(self, op: str, inputs: Sequence[Value | None],
              outputs: Sequence[tuple[str, tuple[int, ...]]], along: int,
              **attributes: Any) -> list[Value]:
    next(self._plan)
    ids = self.graph.assumed_node(op, [None if x is None else x.id for x in inputs], attributes,
                                  list(outputs), self.name)
    made = [Value(id, *self.graph.spec(id)) for id in ids]
    for symbol in self.counts:
      self._symbols[symbol] = (made[0], along)
    return made

  def count_is(self, symbol: Any, value: Value, number: int) -> None:
    # Of a tensor of this size the graph knows, while it is built, that its size is the number.
    start, step = super().tensor(torch.tensor(0), "0"), super().tensor(torch.tensor(1), "1")
    end = self._own("Reshape", self._own("Cast", value, to="int64"), self._numbers([]))
    (id,) = self.graph.assumed_node("Range", [start.id, end.id, step.id], {},
                                    [("int64", (number,))], self.name or "count")
    self._symbols[symbol] = (Value(id, *self.graph.spec(id)), 0)

  def reshape(self, x: Value, shape: Sequence[int]) -> Value:
    return _reshape(self, x, shape)

  def ints(self, values: Any) -> Value:
    found = next(self._plan)
    assert found is not None
    if all(isinstance(one, int) for one in found):
      return super().tensor(torch.tensor(found, dtype=torch.int64), f"{self.name}.sizes")
    return self._computed(found)

  def scalar(self, number: float | bool, dtype: str) -> Value:
    found = next(self._plan)
    assert found is not None
    if not isinstance(found[0], Expression):
      return super().tensor(_scalar(number, dtype), f"{number}")
    size = self._own("Squeeze", self._size(found[0]))
    return size if dtype == "int64" else self._own("Cast", size, to=dtype)

  def causal(self, rows: int, columns: int) -> Value:
    return _causal(self, rows, columns)

  def _own(self, op: str, *inputs: Value, **attributes: Any) -> Value:
    """A node that no call of the recorder stands for."""
    name, self.name = self.name, f"{self.name}.{op.lower()}_of_sizes"
    made = super().nodes(op, inputs, 1, **attributes)[0]
    self.name = name
    return made

  def _numbers(self, numbers: Sequence[int]) -> Value:
    return super().tensor(torch.tensor(numbers, dtype=torch.int64), f"{self.name}.sizes")

  def _computed(self, found: Sequence[Found]) -> Value:
    """A list of integers."""
    parts: list[Value] = []
    plain: list[int] = []
    for one in (*found, None):
      if isinstance(one, int):
        plain.append(one)
        continue
      if plain:
        parts.append(self._numbers(plain))
        plain = []
      if isinstance(one, Expression):
        parts.append(self._size(one))
    return parts[0] if len(parts) == 1 else self._own("Concat", *parts, axis=0)

  def _size(self, expression: Expression) -> Value:
    """A list of this one integer."""
    if expression not in self._made:
      if expression.op == "size":
        made = self._symbol(expression.parts[0])
      else:
        parts = [self._numbers([part]) if isinstance(part, int) else self._size(part)
                 for part in expression.parts]
        if expression.op == "FloorDiv":
          # Rounds down, where a division of integers in ONNX rounds towards zero.
          rest = self._own("Mod", *parts)
          made = self._own("Div", self._own("Sub", parts[0], rest), parts[1])
        else:
          made = parts[0]
          for part in parts[1:]:
            made = self._own(expression.op, made, part)
      self._made[expression] = made
    return self._made[expression]


  def _symbol(self, symbol: Any) -> Value:
    if symbol not in self._symbols:
      raise UnsupportedError(f"the size {symbol} is needed before what has it")
    holder, axis = self._symbols[symbol]
    value = holder if isinstance(holder, Value) else self._inputs[holder]
    return self._own("Shape", value, start=axis, end=axis + 1)


def _reshape(b: Builder, x: Value, shape: Sequence[int]) -> Value:
  """Where sizes may be 0: then 0 is no word for the size of the input."""
  if x.shape == tuple(shape):
    return x
  return b.node("Reshape", x, b.ints(shape), allowzero=1)


def _scalar(number: float | bool, dtype: str) -> torch.Tensor:
  return torch.tensor(number, dtype=getattr(torch, dtype))


def _causal(b: Builder, rows: int, columns: int) -> Value:
  seen = b.node("Expand", b.scalar(True, "bool"), b.ints((rows, columns)))
  return b.node("Trilu", seen, b.scalar(0, "int64"), upper=0)


def _content(tensor: torch.Tensor) -> tuple[Any, ...]:
  plain = tensor.detach().resolve_conj().resolve_neg()
  if plain.dtype in COMPLEX:
    plain = torch.view_as_real(plain)
  data = plain.contiguous().reshape(-1).view(torch.uint8).numpy()
  return str(tensor.dtype), tuple(tensor.shape), hashlib.blake2b(data.tobytes()).digest()
