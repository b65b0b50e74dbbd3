"""What a row of the tables is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from differential.draft import Draft


@dataclass(frozen=True)
class Row:
  """Operators that are drawn alike.

  Attributes:
    names: the operators, with spaces in between.
    draw: adds nodes of one of them to a model.
    weight: how often the row is drawn, compared with others.
  """
  names: str
  draw: Callable[[Draft, str], object]
  weight: float = 1

  @property
  def ops(self) -> tuple[str, ...]:
    return tuple(self.names.split())
