"""What numbers are made of that depend on the sizes of a program's inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram

from stretto._errors import UnsupportedError
from stretto.aten._sizes import at_sizes, expression_of

# PyTorch's names of operations on sizes, and those of Expression.
_OPERATIONS = {"Add": "Add", "Mul": "Mul", "Max": "Max", "Min": "Min", "FloorDiv": "FloorDiv",
               "CleanDiv": "FloorDiv", "Mod": "Mod", "PythonMod": "Mod"}
# Sizes whose products are tried.
_FACTORS = 24


@dataclass(frozen=True)
class Expression:
  """An integer that depends on sizes.

  Attributes:
    op: "size"; or "Add", "Mul", "Max", "Min", "Mod" (with the divisor's sign) or "FloorDiv".
    parts: of "size" the symbol; of the others expressions and integers.
  """

  op: str
  parts: tuple[Any, ...]


# A number that is always the same, or what it is made of.
Found = int | float | Expression
# Sizes, and what they are in several graphs.
Known = Sequence[tuple[Expression, Sequence[int]]]


def sizes_of(program: ExportedProgram, values: Sequence[Mapping[Any, int]]) -> Known:
  """All that the program's tensors and numbers have, simple ones first, and what they are for
  these values of its symbols."""
  found: dict[Any, None] = {}
  for node in program.graph.nodes:
    described = node.meta.get("val")
    for one in described if isinstance(described, (list, tuple)) else [described]:
      for size in one.shape if isinstance(one, torch.Tensor) else [one]:
        if isinstance(size, torch.SymInt):
          found[expression_of(size)] = None
  known = []
  for size in sorted(found, key=lambda size: (0 if isinstance(size, int) else size.count_ops(),
                                              str(size))):
    expression = _converted(size)
    if isinstance(expression, Expression):
      try:
        known.append((expression, [at_sizes([size], one)[0] for one in values]))
      except UnsupportedError:  # it depends on the values of tensors
        continue
  return known


def find(numbers: Sequence[Any], known: Known) -> Found | None:
  """What these numbers are in all graphs; None where nothing was found."""
  if all(repr(number) == repr(numbers[0]) for number in numbers):
    return numbers[0]  # type: ignore[no-any-return]
  if not all(isinstance(number, (int, float)) and not isinstance(number, bool)
             and math.isfinite(number) and number == int(number) for number in numbers):
    return None
  whole = [int(number) for number in numbers]
  for expression, sizes in known:
    if list(sizes) == whole:
      return expression
  for expression, sizes in known:
    line = _line(whole, sizes)
    if line is not None:
      return _shifted(expression, *line)
  for i, (first, a) in enumerate(known[:_FACTORS]):
    for second, b in known[i:_FACTORS]:
      line = _line(whole, [x * y for x, y in zip(a, b)])
      if line is not None:
        return _shifted(Expression("Mul", (first, second)), *line)
  return None


def _line(numbers: Sequence[int], sizes: Sequence[int]) -> tuple[int, int] | None:
  """Factor and summand with which the sizes become the numbers."""
  other = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
  if other is None or (numbers[other] - numbers[0]) % (sizes[other] - sizes[0]):
    return None
  factor = (numbers[other] - numbers[0]) // (sizes[other] - sizes[0])
  summand = numbers[0] - factor * sizes[0]
  fits = all(factor * size + summand == number for size, number in zip(sizes, numbers))
  return (factor, summand) if fits else None


def _shifted(expression: Expression, factor: int, summand: int) -> Expression:
  if factor != 1:
    expression = Expression("Mul", (expression, factor))
  return Expression("Add", (expression, summand)) if summand else expression


def _converted(size: Any) -> Expression | int | None:
  """From PyTorch's form; None for operations that Expression lacks."""
  if isinstance(size, int) or size.is_Integer:
    return int(size)
  if size.is_Symbol:
    return Expression("size", (size,))
  name = type(size).__name__
  if name == "Pow":
    base, exponent = _converted(size.args[0]), size.args[1]
    if base is None or not exponent.is_Integer or not 1 < exponent < 8:
      return None
    return Expression("Mul", (base,) * int(exponent))
  parts = tuple(_converted(part) for part in size.args)
  if name not in _OPERATIONS or None in parts:
    return None
  return Expression(_OPERATIONS[name], parts)
