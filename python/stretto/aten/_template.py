"""One graph for all sizes that a program leaves open, so that an artefact can hold it.

The functions of the table see plain sizes. So the program is translated for several sets of sizes,
and every number that differs between the graphs is looked for among the sizes of the program's
tensors, their multiples and products. The graph that comes out computes these numbers from the
shapes of its inputs. A number that is none of these is refused.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.export import ExportedProgram

from stretto import _stretto
from stretto._errors import Error, InternalError, InvalidArgumentError, UnsupportedError
from stretto.aten._builder import COMPLEX, Builder, Value, engine_shape
from stretto.aten._expressions import Expression, Found, find, sizes_of, value_of
from stretto.aten._sizes import at_sizes, input_sizes, size_ranges
from stretto.aten._translate import OpenSizes, translate_program

# Graphs that have to agree on an expression, and how few may.
_GRAPHS, _FEWEST = 5, 3
# Sets of sizes that are tried for them. Some, such as those with a 1, may lead to another graph.
_TRIES = 12
# What is drawn from where the range allows it: small sizes, but hardly those of weights.
_LEAST, _MOST = 11, 97


@dataclass(frozen=True)
class Template:
  """The graph, finished, and shapes to try it with.

  Attributes:
    graph: to be written as ONNX.
    trials: shapes of the inputs, and of the outputs that they lead to.
  """

  graph: _stretto.GraphBuilder
  trials: list[tuple[list[tuple[int, ...]], list[tuple[int, ...]]]]


def make_template(program: ExportedProgram, name: str, output_names: Sequence[str],
                  first: Mapping[Any, int]) -> Template:
  """The graph of a program with symbolic sizes.

  Args:
    program: its nodes have been through `decomposed`.
    name: of the model.
    output_names: one per result.
    first: the sizes that the model was optimised for.

  Raises:
    UnsupportedError: the program is another one for other sizes; the text says which part.
  """
  for input_name, sizes in input_sizes(program):
    for size in sizes:
      if not isinstance(size, int) and not size.is_Symbol:
        raise UnsupportedError(f"{name}: dimension {size} of input {input_name} is computed from "
                               "another one")
  nodes = _depending(program)
  weights = {tensor.untyped_storage().data_ptr()
             for tensor in (*program.state_dict.values(), *program.constants.values())
             if isinstance(tensor, torch.Tensor)}
  alike: dict[Any, list[tuple[dict[Any, int], list[_Call]]]] = {}
  chosen: list[tuple[dict[Any, int], list[_Call]]] = []
  failure: Error | None = None

  def recorded(values: Mapping[Any, int]) -> list[_Call]:
    calls: list[_Call] = []
    translate_program(program, name, output_names, values,
                      OpenSizes(nodes, partial(_Recorder, calls=calls, weights=weights)))
    return calls

  for values in _points(program, first):
    try:
      calls = recorded(values)
    except (InternalError, InvalidArgumentError, UnsupportedError) as error:
      failure = error
      continue
    group = alike.setdefault(tuple(call.form for call in calls), [])
    group.append((values, calls))
    chosen = max(chosen, group, key=len)
    if len(chosen) == _GRAPHS:
      break
  if len(chosen) < _FEWEST:
    raise failure or UnsupportedError(f"{name}: dynamic sizes decide which operators it has")
  known = sizes_of(program, [values for values, _ in chosen])
  plan = [_planned(name, same, known) for same in zip(*(calls for _, calls in chosen))]
  # What is drawn is neither very small nor large, where remainders and limits show.
  ends = [first, *_ends(program, first)]
  for end in ends:
    _check(name, recorded(end), chosen[0][1], plan, end)
  symbols = {size: (input_name, axis) for input_name, sizes in reversed(input_sizes(program))
             for axis, size in reversed(list(enumerate(sizes))) if not isinstance(size, int)}
  made = translate_program(program, name, output_names, chosen[0][0],
                           OpenSizes(nodes, partial(_Writer, plan=plan, symbols=symbols)))
  return Template(made.graph, [_trial(program, end) for end in ends])


def _depending(program: ExportedProgram) -> set[str]:
  """Names of the nodes whose results depend on sizes that are open."""
  found: set[str] = set()
  for node in program.graph.nodes:
    described = node.meta.get("val")
    described = described if isinstance(described, (list, tuple)) else [described]
    symbolic = any(isinstance(one, (torch.SymInt, torch.SymFloat, torch.SymBool))
                   or (isinstance(one, torch.Tensor)
                       and not all(isinstance(size, int) for size in one.shape))
                   for one in described)
    if symbolic or any(other.name in found for other in node.all_input_nodes):
      found.add(node.name)
  return found


def _points(program: ExportedProgram, first: Mapping[Any, int]) -> Iterator[dict[Any, int]]:
  """Sets of sizes, all different."""
  draw = random.Random(0)
  seen: set[tuple[int, ...]] = set()
  ranges = size_ranges(program, first)
  for _ in range(50 * _TRIES):
    values = {}
    for symbol, (least, most) in ranges.items():
      low = max(least, _LEAST)
      high = max(least, _MOST) if most is None else min(most, low + _MOST - _LEAST)
      if high - low < 2 * _GRAPHS:
        # A narrow range: sizes beyond it have the same expressions.
        low, high = max(least, 2), max(least, 2) + 4 * _GRAPHS
      values[symbol] = draw.randint(low, high)
    key = tuple(values.values())
    if key not in seen:
      seen.add(key)
      yield values
    if len(seen) == _TRIES:
      return


def _ends(program: ExportedProgram, first: Mapping[Any, int]) -> Iterator[dict[Any, int]]:
  """The smallest sizes, a few that follow, and the largest."""
  ranges = size_ranges(program, first)
  for more in range(4):
    yield {symbol: least + more if most is None else min(least + more, most)
           for symbol, (least, most) in ranges.items()}
  yield {symbol: first[symbol] if most is None else most
         for symbol, (_, most) in ranges.items()}


def _trial(program: ExportedProgram, values: Mapping[Any, int]
           ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
  inputs, outputs = [], []
  names = {name for name, _ in input_sizes(program)}
  for node in program.graph.nodes:
    if node.op == "placeholder" and node.name in names:
      inputs.append(node)
    elif node.op == "output":
      outputs = [x for x in node.args[0] if isinstance(x, torch.fx.Node)]

  def shape(node: torch.fx.Node) -> tuple[int, ...]:
    described = node.meta["val"]
    return engine_shape(described.dtype, at_sizes(described.shape, values))

  return [shape(node) for node in inputs], [shape(node) for node in outputs]


@dataclass(frozen=True)
class _Call:
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


class _Recorder(Builder):
  """Writes down what it is asked for."""

  def __init__(self, graph: _stretto.GraphBuilder, calls: list[_Call],
               weights: AbstractSet[int]) -> None:
    super().__init__(graph)
    self._calls = calls
    self._weights = weights

  def nodes(self, op: str, inputs: Sequence[Value | None], outputs: int,
            **attributes: Any) -> list[Value]:
    ids = tuple(None if x is None else x.id for x in inputs)
    self._calls.append(_Call((op, ids, outputs), f"{op} of {self.name}", rest=attributes))
    return super().nodes(op, inputs, outputs, **attributes)

  def ints(self, values: Any) -> Value:
    values = tuple(values)
    self._calls.append(_Call(("ints", len(values)), self.name, values))
    return super().tensor(torch.tensor(values, dtype=torch.int64), f"{self.name}.sizes")

  def scalar(self, number: float | bool, dtype: str) -> Value:
    self._calls.append(_Call(("scalar", dtype), self.name, (number,)))
    return super().tensor(_scalar(number, dtype), f"{number}")

  def causal(self, rows: int, columns: int) -> Value:
    return _causal(self, rows, columns)

  def tensor(self, tensor: torch.Tensor, name: str = "") -> Value:
    value = super().tensor(tensor, name)
    # Memory of the module is the same in all graphs.
    same = tensor.untyped_storage().data_ptr() in self._weights
    content = (tensor.data_ptr(), tensor.shape, tensor.stride()) if same else _content(tensor)
    self._calls.append(_Call(("tensor", value.id), name or self.name, rest=content))
    return value


class _Writer(Builder):
  """Computes the numbers that depend on sizes in the graph.

  Args:
    plan: per call of the recorder the numbers that it had, or what they are made of.
    symbols: an input and an axis of each size.
  """

  def __init__(self, graph: _stretto.GraphBuilder, plan: Sequence[tuple[Found, ...] | None],
               symbols: Mapping[Any, tuple[str, int]]) -> None:
    super().__init__(graph)
    self._plan = iter(plan)
    self._symbols = symbols
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
        name, axis = self._symbols[expression.parts[0]]
        made = self._own("Shape", self._inputs[name], start=axis, end=axis + 1)
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


def _check(name: str, calls: Sequence[_Call], like: Sequence[_Call],
           plan: Sequence[tuple[Found, ...] | None], sizes: Mapping[Any, int]) -> None:
  """Refuses a plan that gives other numbers for these sizes, if they lead to a graph of the same
  form."""
  if [call.form for call in calls] != [call.form for call in like]:
    return
  for call, other, found in zip(calls, like, plan):
    if call.rest != other.rest or found and any(
        number != value_of(one, sizes) and repr(number) != repr(one)  # not numbers are unequal
        for one, number in zip(found, call.numbers)):
      raise UnsupportedError(f"{name}: {call.place} has a number that depends on dynamic sizes in "
                             "a way that an artefact cannot hold")


def _planned(name: str, same: Sequence[_Call],
             known: Sequence[tuple[Expression, Sequence[int]]]) -> tuple[Found, ...] | None:
  """What the numbers of one call are made of, which all graphs have."""
  if any(call.rest != same[0].rest for call in same):
    raise UnsupportedError(f"{name}: {same[0].place} has attributes or tables that depend on "
                           "dynamic sizes, which an artefact cannot hold")
  plan = []
  for numbers in zip(*(call.numbers for call in same)):
    found = find(numbers, known)
    if found is None:
      raise UnsupportedError(f"{name}: {same[0].place} has a number that depends on dynamic sizes "
                             "in a way that an artefact cannot hold")
    plan.append(found)
  return tuple(plan) or None
