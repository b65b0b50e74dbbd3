"""One graph for all sizes that a program leaves open, so that an artefact can hold it.

The functions of the table see plain sizes. So the program is translated for several sets of sizes,
and every number that differs between the graphs is looked for among the sizes of the program's
tensors, their multiples and products. The graph that comes out computes these numbers from the
shapes of its inputs. A number that is none of these is refused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from sympy import Integer
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from stretto._errors import Error, InternalError, InvalidArgumentError, UnsupportedError
from stretto.aten._builder import engine_shape
from stretto.aten._dimension_names import named
from stretto.aten._expressions import Expression, Found, find, sizes_of
from stretto.aten._sizes import at_sizes, expression_of, input_sizes, run_sizes, size_ranges
from stretto.aten._state import changed_state
from stretto.aten._template_builders import Call, Recorder, Writer
from stretto.aten._translate import OpenSizes, Translation, translate_program

# Graphs that have to agree on an expression, and how few may.
_GRAPHS, _FEWEST = 5, 3
# Sets of sizes that are tried for them. Some, such as those with a 1, may lead to another graph.
_TRIES = 12
# What is drawn from where the range allows it: small sizes, but hardly those of weights.
_LEAST, _MOST = 11, 97
# Sizes without a limit are looked at this far. Only numbers are made of them.
_LARGE = (4099, 2**20 + 7)
# Numbers of the program, and sets of sizes past those that are drawn, that are looked at.
_NUMBERS, _BEYOND = 8, 24
# Elements of the largest tensor where the graph is run to see what it gives: that take moments, and
# at most.
_QUICK, _TRIED = 2**22, 2**27

# The least and the most size of every symbol.
_Ranges = Mapping[Any, tuple[int, int | None]]


@dataclass(frozen=True)
class Template:
  """How the graph is made, and what to try it with.

  Attributes:
    trials: shapes of the inputs, and of the outputs that they lead to.
    doubtful: sizes for which the program itself becomes a graph of another form, so that nothing
      but its results can be compared.
  """

  trials: list[tuple[list[tuple[int, ...]], list[tuple[int, ...]]]]
  doubtful: list[dict[Any, int]]
  _written: Callable[[], Translation]

  def written(self) -> Translation:
    """The graph, finished, to be written as ONNX, with inputs and outputs of one of the shapes:
    another one for every call, for whoever uses it up."""
    return self._written()


def make_template(program: ExportedProgram, name: str, output_names: Sequence[str],
                  first: Mapping[Any, int]) -> Template:
  """The graph of a program with symbolic sizes.

  Args:
    program: its nodes have been through `decomposed`.
    name: of the model.
    output_names: one per result.
    first: the sizes that the model was optimised for, and any for those that only a run tells.

  Raises:
    UnsupportedError: the program is another one for other sizes; the text says which part.
  """
  symbols = {size: (input_name, axis) for input_name, sizes in reversed(input_sizes(program))
             for axis, size in reversed(list(enumerate(sizes)))
             if not isinstance(size, int) and size.is_Symbol}
  for input_name, sizes in input_sizes(program):
    for size in sizes:
      missing = () if isinstance(size, int) else size.free_symbols - symbols.keys()
      if missing:
        raise UnsupportedError(f"{name}: dimension {named(program, size)} of input {input_name} is "
                               f"computed from {named(program, next(iter(missing)))}, which is no "
                               "dimension of an input")
  nodes = _depending(program)
  weights = {tensor.untyped_storage().data_ptr()
             for tensor in (*program.state_dict.values(), *program.constants.values())
             if isinstance(tensor, torch.Tensor)}
  alike: dict[Any, list[tuple[dict[Any, int], list[Call]]]] = {}
  chosen: list[tuple[dict[Any, int], list[Call]]] = []
  failure: Error | None = None

  def recorded(values: Mapping[Any, int]) -> list[Call]:
    calls: list[Call] = []
    translate_program(program, name, output_names, values,
                      OpenSizes(nodes, partial(Recorder, calls=calls, weights=weights)))
    return calls

  ranges = size_ranges(program, first)
  runs = run_sizes(program)
  for values in (*_points(ranges), *_tied(_points(ranges), runs)):
    try:
      calls = recorded(values)
    except (InternalError, InvalidArgumentError, UnsupportedError) as error:
      failure = error
      continue
    group = alike.setdefault(_form(calls), [])
    group.append((values, calls))
    chosen = max(chosen, group, key=len)
    if len(chosen) == _GRAPHS:
      break
  if len(chosen) < _FEWEST:
    raise failure or UnsupportedError(f"{name}: dynamic sizes decide which operators it has")
  planned = partial(_plan, program, name)
  planned(chosen)  # refuses tables that depend on sizes before they are made for large ones
  # What is drawn is neither very small nor large, where remainders and limits show.
  ends = [dict(first), *_ends(first, ranges)]
  beyond = list(_beyond(_numbers_of(program, nodes), chosen[0][0], ranges))
  if runs:  # those of a run may be too large for the sizes of inputs
    ends, beyond = [], [*ends, *beyond]
  looked = [(values, recorded(values)) for values in ends]
  for values in beyond:
    try:
      looked.append((values, recorded(values)))
    except (InternalError, InvalidArgumentError, UnsupportedError):
      continue  # the program is not for these sizes either
  form = _form(chosen[0][1])
  plan = planned([*chosen, *(one for one in looked if _form(one[1]) == form)])
  doubtful: list[dict[Any, int]] = []
  for values, calls in looked:
    if _form(calls) != form and values != first and _allowed(values, ranges) and not runs:
      tried = _small_enough(program, name, values, calls, ranges, recorded)
      if tried not in doubtful:
        doubtful.append(tried)
  written = partial(translate_program, program, name, output_names, chosen[0][0],
                    OpenSizes(nodes, partial(Writer, plan=plan, symbols=symbols)))
  return Template([_trial(program, end) for end in ends], doubtful, written)


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


def _points(ranges: _Ranges) -> Iterator[dict[Any, int]]:
  """Sets of sizes, all different."""
  draw = random.Random(0)
  seen: set[tuple[int, ...]] = set()
  for i in range(50 * _TRIES):
    values = {}
    for symbol, (least, most) in ranges.items():
      low = max(least, _LEAST)
      high = max(least, _MOST) if most is None else min(most, low + _MOST - _LEAST)
      if high - low < 2 * _GRAPHS:
        # A narrow range: sizes beyond it mostly have the same expressions, which adds to the few
        # in it.
        low, high = max(least, 2), max(least, 2) + 4 * _GRAPHS
        if most is not None and i % 2:
          low, high = min(low, most), most
      values[symbol] = draw.randint(low, high)
    key = tuple(values.values())
    if key not in seen:
      seen.add(key)
      yield values
    if len(seen) == _TRIES:
      return


def _tied(points: Iterator[dict[Any, int]], symbols: Sequence[Any]) -> Iterator[dict[Any, int]]:
  """The same with equal sizes for these symbols, as a sum of what two masks pick out needs."""
  if len(symbols) > 1:
    for values in points:
      yield {**values, **dict.fromkeys(symbols, values[symbols[0]])}


def _ends(first: Mapping[Any, int], ranges: _Ranges) -> Iterator[dict[Any, int]]:
  """The smallest sizes, a few that follow, and the largest."""
  for more in range(4):
    yield {symbol: least + more if most is None else min(least + more, most)
           for symbol, (least, most) in ranges.items()}
  yield {symbol: first[symbol] if most is None else most
         for symbol, (_, most) in ranges.items()}


def _beyond(numbers: Sequence[int], usual: Mapping[Any, int],
            ranges: _Ranges) -> Iterator[dict[Any, int]]:
  """The usual sizes but for one, which is large, as small as it may be, or where a number of the
  program may be a limit."""
  several: dict[Any, list[int]] = {}
  for symbol, (least, most) in ranges.items():
    if most is None:
      large = [max(least, size) for size in _LARGE]
    else:
      large = [most, math.isqrt(max(least, _MOST) * most)]
    limits = [size for number in numbers for size in (number, number + 1)]
    several[symbol] = [size for size in (*large, least, *limits)
                       if size >= least and (most is None or size <= most)]
  seen: list[dict[Any, int]] = []
  for i in range(max(map(len, several.values()), default=0)):
    for symbol, sizes in several.items():
      values = {**usual, symbol: sizes[i]} if i < len(sizes) else dict(usual)
      if values != usual and values not in seen:
        seen.append(values)
  yield from seen[:_BEYOND]


def _numbers_of(program: ExportedProgram, nodes: AbstractSet[str]) -> list[int]:
  """Numbers that sizes may be compared with: those in expressions of sizes come first."""
  found: dict[int, None] = {}
  given: dict[int, None] = {}
  for node in program.graph.nodes:
    described = node.meta.get("val")
    for one in described if isinstance(described, (list, tuple)) else [described]:
      for size in one.shape if isinstance(one, torch.Tensor) else [one]:
        expression = expression_of(size) if isinstance(size, torch.SymInt) else 0
        if not isinstance(expression, int):
          found.update((int(number), None) for number in expression.atoms(Integer))
    if node.name in nodes:
      given.update((one, None) for one in pytree.tree_leaves((node.args, node.kwargs))
                   if type(one) is int)
  wanted = dict.fromkeys(abs(number) for number in (*found, *given) if 4 < abs(number) < 2**31)
  return list(wanted)[:_NUMBERS]


def _allowed(values: Mapping[Any, int], ranges: _Ranges) -> bool:
  return all(size >= ranges[symbol][0] and (ranges[symbol][1] or size) >= size
             for symbol, size in values.items())


def _small_enough(program: ExportedProgram, name: str, values: dict[Any, int],
                  calls: Sequence[Call], ranges: _Ranges,
                  recorded: Callable[[Mapping[Any, int]], list[Call]]) -> dict[Any, int]:
  """These sizes, or some of which but one are smaller and that lead to a graph of the same form.

  Raises:
    UnsupportedError: none are small enough to run the graph.
  """
  if _largest(program, values) <= _QUICK:
    return values
  for symbol in values:
    smaller = {other: size if other == symbol else min(size, max(ranges[other][0], 3))
               for other, size in values.items()}
    if (_largest(program, smaller) <= _TRIED
        and _form(recorded(smaller)) == _form(calls)):
      return smaller
  if _largest(program, values) <= _TRIED:
    return values
  sizes = ", ".join(f"{named(program, symbol)} = {size}" for symbol, size in values.items())
  raise UnsupportedError(f"{name}: dynamic sizes decide which operators it has, and sizes such as "
                         f"{sizes} are too large to try; give the dimensions a smaller maximum")


def _largest(program: ExportedProgram, values: Mapping[Any, int]) -> int:
  """Elements of the largest tensor."""
  most = 0
  for node in program.graph.nodes:
    described = node.meta.get("val")
    for one in described if isinstance(described, (list, tuple)) else [described]:
      if isinstance(one, torch.Tensor):
        most = max(most, math.prod(at_sizes(one.shape, values)))
  return most


def _trial(program: ExportedProgram, values: Mapping[Any, int]
           ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
  inputs, outputs = [], []
  state = set(changed_state(program))
  names = {name for name, _ in input_sizes(program)}
  names |= {spec.arg.name for spec in program.graph_signature.input_specs if spec.target in state}
  for node in program.graph.nodes:
    if node.op == "placeholder" and node.name in names:
      inputs.append(node)
    elif node.op == "output":
      outputs = [x for x in node.args[0] if isinstance(x, torch.fx.Node)]

  def shape(node: torch.fx.Node) -> tuple[int, ...]:
    described = node.meta["val"]
    return engine_shape(described.dtype, at_sizes(described.shape, values))

  return [shape(node) for node in inputs], [shape(node) for node in outputs]


def _form(calls: Sequence[Call]) -> tuple[Any, ...]:
  return tuple(call.form for call in calls)


def _plan(program: ExportedProgram, name: str, alike: Sequence[tuple[dict[Any, int], list[Call]]]
          ) -> list[tuple[Found, ...] | None]:
  """Per call of graphs of one form what its numbers are made of."""
  known = sizes_of(program, [values for values, _ in alike])
  return [_planned(name, same, known) for same in zip(*(calls for _, calls in alike))]


def _planned(name: str, same: Sequence[Call],
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
