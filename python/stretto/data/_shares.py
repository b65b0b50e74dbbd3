"""Batches that ranks divide by shares, of which stretto.torch.Shares says how large they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stretto._checks import expected
from stretto._errors import InvalidArgumentError


def is_shares(value: Any) -> bool:
  try:
    from stretto.torch import Shares
  except ImportError:  # without torch there are none
    return False
  return isinstance(value, Shares)


def set_shares(options: Any, shares: Any, given: Mapping[str, Any], rank: Any, world: Any,
               share: Any) -> tuple[int, int]:
  """Rank and number of ranks, which are those of the shares."""
  if not is_shares(shares):
    raise expected("shares", "stretto.torch.Shares or None", shares)
  if share is not None:
    raise InvalidArgumentError('shares: the process of share="host" makes batches of equal size; '
                               "leave out one of both")
  for entry in ({"batch": given["batch"]}, *(given["phases"] or ())):
    if entry.get("batch", shares.batch) != shares.batch:
      raise InvalidArgumentError(f"batch: with `shares` it is that of all ranks together: "
                                 f"{entry['batch']}, and the shares have {shares.batch}")
  for name, value, theirs in (("rank", rank, shares._rank), ("world", world, shares._world)):
    if value is not None and value != theirs:
      raise InvalidArgumentError(f"{name}: {value}, and the shares have {theirs}; leave it out")
  options.divided = True
  return shares._rank, shares._world


def divisions(shares: Any, epoch: int, place: int, size: int,
              wraps: bool) -> list[tuple[int, int, int, int]]:
  """Epoch, place, first sample and number of samples of each part of this rank, for batches from a
  place on. `size`: samples of an epoch; `wraps`: its last batch is filled up."""
  rows, at = [], 0  # `at`: the number of the batch at the place

  def left() -> int:
    return (size - place + (shares.batch - 1 if wraps else 0)) // shares.batch

  for number, begin, end in shares._parts():
    while number - at >= left():
      epoch, place, at = epoch + 1, 0, at + left()
    place, at = place + (number - at) * shares.batch, number
    since = (epoch, place) if rows else (0, 0)  # the present shares also say what came before
    # A rank without samples gets one of another rank, with the weight 0.
    rows.append((*since, begin, end - begin) if end > begin else (*since, 0, 1))
  return rows
