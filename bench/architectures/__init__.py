"""Architectures that people use, with random weights: which of them does Stretto run, are the
results right, and how fast are they?

`ARCHITECTURES` is the list. Nothing here imports torch, so that listing works without it.
"""

from __future__ import annotations

from bench.architectures.list_language import LANGUAGE
from bench.architectures.list_other import OTHER
from bench.architectures.list_vision import VISION
from bench.architectures.row import Architecture

ARCHITECTURES = [*VISION, *LANGUAGE, *OTHER]


def select(words: list[str]) -> list[Architecture]:
  """The rows of names, of families, and of "all". ValueError says what there is."""
  chosen: list[Architecture] = []
  for word in words:
    found = [row for row in ARCHITECTURES if word in ("all", row.name, row.family)]
    if not found:
      families = sorted({row.family for row in ARCHITECTURES})
      raise ValueError(f"architectures: no {word!r}; expected a name from --list, all, or a "
                       f"family: {', '.join(families)}")
    chosen += [row for row in found if row not in chosen]
  return chosen
