"""Phases of a training: what changes at which epoch, and how learning rate and momentum go."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stretto._checks import expected, is_count, is_number
from stretto._errors import InvalidArgumentError

KEYS = ("epoch", "epochs", "size", "batch", "crop", "lr", "momentum")

# From one value at the begin of a phase to another at its end.
Ramp = tuple[float, float]


@dataclass(frozen=True)
class Phase:
  epoch: int  # the first
  height: int
  width: int
  batch: int
  crop: tuple[float, float]
  epochs: int | None = None  # how many; None: up to the next phase
  lr: Ramp | None = None
  momentum: Ramp | None = None


def sides(name: str, size: Any) -> tuple[int, int]:
  """Height and width of `size`, which is one number or both."""
  pair = (size, size) if is_count(size) else size
  if (isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2
      or not all(is_count(side) and 0 < side < 2**31 for side in pair)):
    raise expected(name, "a number of pixels, or height and width", size)
  return int(pair[0]), int(pair[1])


def positive(name: str, value: Any) -> int:
  if not is_count(value) or not 1 <= value < 2**31:
    raise expected(name, f"an integer from 1 to {2**31 - 1}", value)
  return int(value)


def areas(name: str, crop: Any) -> tuple[float, float]:
  if (isinstance(crop, str) or not isinstance(crop, Sequence) or len(crop) != 2
      or not all(is_number(area) for area in crop) or not 0 < crop[0] <= crop[1] <= 1):
    raise InvalidArgumentError(f"{name}: expected two shares of a picture's area like (0.08, 1), "
                               f"got {crop!r}")
  return float(crop[0]), float(crop[1])


def ramp(name: str, value: Any) -> Ramp | None:
  if value is None:
    return None
  ends = (value, value) if is_number(value) else value
  if (isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2
      or not all(is_number(end) and math.isfinite(end) for end in ends)):
    raise expected(name, "a number or two, from begin to end", value)
  return float(ends[0]), float(ends[1])


def read(first: Phase, rows: Any) -> list[Phase]:
  """The phases that `rows` describe. A size, batch or crop that a row leaves out is as in the phase
  before it, a learning rate or momentum is left alone; `first` is in force until the first row
  begins."""
  if rows is None:
    return [first]
  if isinstance(rows, (str, Mapping)) or not isinstance(rows, Sequence):
    raise expected("phases", "a list of dictionaries", rows)
  phases: list[Phase] = []
  for i, row in enumerate(rows):
    name = f"phases[{i}]"
    if not isinstance(row, Mapping):
      raise expected(name, "a dictionary", row)
    for key in row:
      if key not in KEYS:
        raise InvalidArgumentError(f"{name}: unknown key {key!r}; the keys are {', '.join(KEYS)}")
    before = phases[-1] if phases else first
    epoch = row.get("epoch", 0 if i == 0 else None)
    if not is_count(epoch) or epoch >= 2**32:
      raise expected(f"{name}: epoch", f"an integer from 0 to {2**32 - 1}", epoch)
    if phases and epoch <= phases[-1].epoch:
      raise InvalidArgumentError(f"{name}: epoch {epoch} does not come after {phases[-1].epoch}, "
                                 "where the phase before begins")
    if not phases and epoch > 0:
      phases.append(first)
    height, width = (sides(f"{name}: size", row["size"]) if "size" in row
                     else (before.height, before.width))
    phases.append(Phase(
      epoch=int(epoch), height=height, width=width,
      batch=positive(f"{name}: batch", row["batch"]) if "batch" in row else before.batch,
      crop=areas(f"{name}: crop", row["crop"]) if "crop" in row else before.crop,
      epochs=positive(f"{name}: epochs", row["epochs"]) if "epochs" in row else None,
      lr=ramp(f"{name}: lr", row.get("lr")),
      momentum=ramp(f"{name}: momentum", row.get("momentum"))))
  check_ends(phases)
  return phases or [first]


def check_ends(phases: list[Phase]) -> None:
  for phase, following in zip(phases, phases[1:]):
    if phase.epochs is not None and phase.epoch + phase.epochs != following.epoch:
      raise InvalidArgumentError(f"phases: the one from epoch {phase.epoch} on has {phase.epochs} "
                                 f"epochs, and the next begins at {following.epoch}")
  if not phases:
    return
  last = phases[-1]
  moves = any(pair is not None and pair[0] != pair[1] for pair in (last.lr, last.momentum))
  if last.epochs is None and moves:
    raise InvalidArgumentError("phases: the last one has an lr or a momentum that moves, so it "
                               "needs 'epochs', how many it lasts")


def values(phases: list[Phase], epoch: int, fraction: float) -> dict[str, float]:
  """Learning rate and momentum when `fraction` of `epoch` is over; those that the phase names."""
  at = max(i for i, phase in enumerate(phases) if phase.epoch <= max(epoch, phases[0].epoch))
  phase = phases[at]
  end = phases[at + 1].epoch if at + 1 < len(phases) else phase.epoch + (phase.epochs or 1)
  share = min(1.0, max(0.0, (epoch + fraction - phase.epoch) / (end - phase.epoch)))
  return {name: pair[0] + (pair[1] - pair[0]) * share
          for name, pair in (("lr", phase.lr), ("momentum", phase.momentum)) if pair is not None}
