"""Programs with symbolic sizes, made into programs with plain ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from sympy import solve, sympify
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, TensorArgument

from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto.aten._dimension_names import named
from stretto.aten._signature import Input

# A size of an input: a number, or the symbol that stands for it.
Size = Any


def input_sizes(program: ExportedProgram) -> list[tuple[str, list[Size]]]:
  """Name and sizes of every tensor that the program takes; symbolic sizes as sympy expressions."""
  nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
  sizes = []
  for spec in program.graph_signature.input_specs:
    if spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument):
      fake = nodes[spec.arg.name].meta["val"]
      sizes.append((spec.arg.name, [expression_of(size) for size in fake.shape]))
  return sizes


def is_open(sizes: Sequence[Size]) -> bool:
  return not all(isinstance(size, int) for size in sizes)


def is_symbolic(program: ExportedProgram) -> bool:
  return any(is_open(sizes) for _, sizes in input_sizes(program))


def run_sizes(program: ExportedProgram) -> list[Any]:
  """Symbols of the sizes that depend on the values of tensors, so that only a run tells them."""
  return list(dict.fromkeys(symbol for node in program.graph.nodes
                            for symbol in node.meta.get("unbacked_bindings") or {}))


def text(program: ExportedProgram, sizes: Sequence[Size], dtype: torch.dtype | None = None,
         computed: bool = True) -> str:
  """The sizes in the form that `stretto.optimize` takes as shapes: "batch:1..8x3x224x224". With an
  element type, those of the engine's tensor: complex numbers have an axis of their parts.
  `computed`: also say how sizes are computed from others, which is for messages only."""
  words = []
  for size in sizes:
    if isinstance(size, int):
      words.append(str(size))
      continue
    if not computed and not size.is_Symbol:
      words.append("1..")
      continue
    least, most = _range(program, size)
    words.append(f"{named(program, size)}:{least}..{'' if most is None else most}")
  if dtype is not None and dtype.is_complex:
    words.append("2")
  return "x".join(words) or "scalar"


def shape_texts(program: ExportedProgram, inputs: Sequence[Input]) -> dict[str, str]:
  """What the inputs of a graph take, by name and in order, as text. Sizes that are computed from
  others have no name."""
  tensors = [spec for spec in inputs if spec.dtype is not None]
  sizes = iter(input_sizes(program))
  return {spec.name: text(program, spec.shape if spec.state is not None else next(sizes)[1],
                          spec.dtype, computed=False) for spec in tensors}


def bind(program: ExportedProgram, shapes: Sequence[Sequence[int]]) -> dict[Any, int]:
  """The numbers that symbols stand for when the inputs have these shapes.

  Raises:
    InvalidArgumentError: a shape is not what the program was exported for; the text names the
      input.
  """
  values: dict[Any, int] = {}
  inputs = input_sizes(program)
  for (name, sizes), shape in zip(inputs, shapes):
    if len(sizes) != len(shape):
      raise InvalidArgumentError(f"input {name}: expected shape {text(program, sizes)}, got "
                                 f"{'x'.join(map(str, shape))}")
    for size, number in zip(sizes, shape):
      if not isinstance(size, int) and size.is_Symbol:
        values.setdefault(size, int(number))
  for (name, sizes), shape in zip(inputs, shapes):
    for size, number in zip(sizes, shape):
      if not isinstance(size, int):
        values.update(_solved(size, int(number), values))
      symbols = set() if isinstance(size, int) else size.free_symbols
      unknown = symbols - values.keys()
      outside = any(not _inside(values[symbol], *_range(program, symbol))
                    for symbol in symbols - unknown)
      if outside or unknown or _value(size, values) != number:
        raise InvalidArgumentError(
          f"input {name}: expected shape {text(program, sizes)}, got "
          f"{'x'.join(map(str, shape))}; dimensions of one name are equal")
  return values


def _solved(size: Any, number: int, values: Mapping[Any, int]) -> dict[Any, int]:
  """The only unknown symbol of a size such as 2 * length."""
  unknown = size.free_symbols - values.keys()
  if len(unknown) != 1:
    return {}
  symbol = unknown.pop()
  found = [x for x in solve(size.xreplace(values) - number, symbol) if x.is_Integer and x > 0]
  return {symbol: int(found[0])} if found else {}


def size_ranges(program: ExportedProgram,
                values: Mapping[Any, int]) -> dict[Any, tuple[int, int | None]]:
  """The least and the most size of every symbol in `values`; no most is no limit."""
  return {symbol: _range(program, symbol) for symbol in values}


def at_sizes(sizes: Sequence[Any], values: Mapping[Any, int]) -> tuple[int, ...]:
  """What symbolic sizes are for these values.

  Raises:
    UnsupportedError: one depends on the values of tensors.
  """
  return tuple(_value(size if not isinstance(size, torch.SymInt) else expression_of(size), values)
               for size in sizes)


def fixed(graph: torch.fx.Graph, values: Mapping[Any, int]) -> torch.fx.Graph:
  """A copy of the graph in which descriptions of tensors and sizes are plain numbers."""
  copy = torch.fx.Graph()
  nodes: dict[torch.fx.Node, torch.fx.Node] = {}
  for node in graph.nodes:
    new = copy.node_copy(node, lambda old: nodes[old])
    new.name = node.name
    new.meta = {**node.meta}
    if "val" in node.meta:
      new.meta["val"] = _plain(node.meta["val"], values)
    nodes[node] = new
  return copy


def _plain(described: Any, values: Mapping[Any, int]) -> Any:
  if isinstance(described, (list, tuple)):
    return [_plain(one, values) for one in described]
  if isinstance(described, torch.Tensor):
    if all(isinstance(size, int) for size in described.shape):
      return described
    def plain(numbers: Iterable[Any]) -> tuple[int, ...]:
      return tuple(n if isinstance(n, int) else _value(expression_of(n), values) for n in numbers)
    return _Described(described, plain(described.shape), plain(described.stride()),
                      *plain([described.storage_offset()]))
  if isinstance(described, (torch.SymInt, torch.SymFloat, torch.SymBool)):
    return _value(expression_of(described), values)
  return described


class _Described(torch.Tensor):
  """A tensor without data that says where the described one is."""

  @staticmethod
  def __new__(cls, described: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...],
              offset: int) -> _Described:
    made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
      cls, shape, strides, offset, dtype=described.dtype, device=described.device)
    return made  # type: ignore[no-any-return]

  def __init__(self, described: torch.Tensor, *_: Any) -> None:
    pass

  @classmethod
  def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    raise UnsupportedError(f"{func} on a tensor that is only described")


def expression_of(size: Any) -> Size:
  """A plain number where it is one."""
  if isinstance(size, (int, float, bool)):
    return size
  expression = size.node.expr
  return int(expression) if expression.is_Integer else expression


def _value(expression: Size, values: Mapping[Any, int]) -> Any:
  if isinstance(expression, (int, float, bool)):
    return expression
  found = sympify(expression.xreplace(values))
  if found.is_Integer:
    return int(found)
  if found.is_number:
    return float(found)
  if found.is_Boolean and not found.free_symbols:
    return bool(found)
  raise UnsupportedError(f"the size {expression} depends on the values of tensors")


def _inside(size: int, least: int, most: int | None) -> bool:
  return least <= size and (most is None or size <= most)


def _range(program: ExportedProgram, size: Any) -> tuple[int, int | None]:
  """The least and the most size; no most is no limit."""
  if not size.is_Symbol:  # computed, as a rule the more the larger
    ends = {symbol: _range(program, symbol) for symbol in size.free_symbols}
    least = _value(size, {symbol: end[0] for symbol, end in ends.items()})
    limits = {symbol: end[1] for symbol, end in ends.items() if end[1] is not None}
    if len(limits) < len(ends):
      return int(least), None
    most = _value(size, limits)
    return int(min(least, most)), int(max(least, most))
  allowed = program.range_constraints.get(size)
  if allowed is None:
    return 1, None
  least = int(allowed.lower) if allowed.lower.is_Integer else 1
  most = int(allowed.upper) if allowed.upper.is_Integer else None
  return max(1, least), None if most is not None and most >= 2**31 - 1 else most
