"""Draws whole models: the rows of the tables, one after the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from differential.draft import Draft, Step, Unfit, Value
from differential.tables import ROWS, Row

# Most models are of the opsets in use, the others from any that Stretto reads.
_OPSETS, _OLDEST, _NEWEST = (13, 17, 18, 20, 21, 22, 23, 24, 25, 28), 7, 28
_STEPS_IN_A_MODEL = (1, 2, 3, 4, 5, 6, 8, 12)
_TRIES = 12


@dataclass
class Drawn:
  """A model that was drawn.

  Attributes:
    draft: its nodes and values.
    outputs: the values that are its outputs.
    unfit: why nodes were drawn in vain, by operator and reason.
  """
  draft: Draft
  outputs: list[Value]
  unfit: Counter[tuple[str, str]] = field(default_factory=Counter)

  @property
  def steps(self) -> list[Step]:
    """The nodes that the outputs depend on."""
    return needed_steps(self.draft.steps, self.outputs)


def needed_steps(steps: list[Step], outputs: list[Value], given: tuple[Value, ...] = ()
                 ) -> list[Step]:
  """Those of the steps that the outputs depend on, where some values are given."""
  wanted, kept = set(outputs), []
  for step in reversed(steps):
    if any(value in wanted and value not in given for value in step.outputs):
      wanted.update(step.inputs)
      kept.append(step)
  return kept[::-1]


def draw(seed: int, number: int, only: str = "") -> Drawn:
  """Model `number` of the run with a seed.

  Args:
    seed: of the run.
    number: of the model; each has random numbers of its own.
    only: an operator that every row must be of.

  Returns:
    The model; it has no outputs if nothing that was drawn could be used.
  """
  rng = np.random.default_rng([seed, number])
  opset = int(rng.choice(_OPSETS)) if rng.random() < 0.75 else int(
    rng.integers(_OLDEST, _NEWEST + 1))
  draft = Draft(rng, opset, straight=rng.random() < 0.7, open=rng.random() < 0.15)
  rows = [row for row in ROWS if not only or only in row.ops]
  weights = np.array([row.weight for row in rows])
  unfit: Counter[tuple[str, str]] = Counter()
  wanted = int(rng.choice(_STEPS_IN_A_MODEL))
  for _ in range(_TRIES + 2 * wanted):
    if len(draft.steps) >= wanted:
      break
    row = rows[int(rng.choice(len(rows), p=weights / weights.sum()))]
    draw_row(draft, row, unfit, only)
  return Drawn(draft, choose_outputs(draft), unfit)


def draw_row(draft: Draft, row: Row, unfit: Counter[tuple[str, str]], only: str = "") -> None:
  """Adds the nodes of a row; leaves the model as it was if they cannot be used."""
  values, steps = len(draft.values), len(draft.steps)
  op = only or str(draft.rng.choice(row.ops))
  try:
    row.draw(draft, op)
  except Unfit as reason:
    unfit[op, str(reason)[:160]] += 1
    del draft.values[values:]
    del draft.steps[steps:]


def choose_outputs(draft: Draft) -> list[Value]:
  """What nothing reads, and some of the other values."""
  read = {value for step in draft.steps for value in step.inputs}
  made = [value for step in draft.steps for value in step.outputs]
  outputs = [v for v in made if v not in read or draft.chance(0.2)]
  # An output that no node reads may be left out, as long as one is left.
  while len(outputs) > 1 and draft.chance(0.15):
    outputs.pop(draft.integer(0, len(outputs) - 1))
  return outputs
