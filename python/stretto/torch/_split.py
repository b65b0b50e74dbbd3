"""How many samples of a global batch each rank gets: arithmetic without communication."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from stretto._checks import expected, is_count, is_number
from stretto._errors import InvalidArgumentError

# Rounds in which shares and the speeds at these shares are brought together. A table of a probe is
# close to a straight line of seconds over samples, so the second round changes little.
ROUNDS = 8


def split_batch(total: int, speeds: Sequence[float], least: int = 0) -> list[int]:
  """Divides a batch among ranks in proportion to their speeds, by the largest remainder.

  Each rank gets the whole part of its exact share; the samples that are left go one each to the
  largest remainders, and of equal ones to the lowest rank. A faster rank never gets fewer samples
  than a slower one. The arithmetic is exact, so every rank computes the same.

  Args:
    total: samples of the global batch.
    speeds: samples per second of each rank, in any unit.
    least: what every rank gets at least. Ranks whose exact share is below it get this many, and the
      others divide the rest.

  Returns:
    Samples of each rank, in the order of `speeds`. Their sum is `total`.

  Raises:
    InvalidArgumentError: a speed is not a positive number, or `total` is below `least` for each
      rank.

  Examples:
    ```python
    stretto.torch.split_batch(256, [4.39, 0.62])  # [224, 32]
    ```
  """
  for name, value in (("total", total), ("least", least)):
    if not is_count(value):
      raise expected(f"split_batch: {name}", "an integer from 0 on", value)
  if not len(speeds):
    raise InvalidArgumentError("split_batch: speeds: expected one for each rank, got none")
  for rank, speed in enumerate(speeds):
    if not is_number(speed) or not 0 < float(speed) < math.inf:
      raise InvalidArgumentError(f"split_batch: speeds: rank {rank} has {speed!r}; a speed is a "
                                 "positive number of samples per second")
  if total < least * len(speeds):
    raise InvalidArgumentError(f"split_batch: {total} samples are too few for {len(speeds)} ranks "
                               f"with at least {least} each; use a larger batch or fewer ranks")
  exact = [Fraction(float(speed)) for speed in speeds]
  shares = [least] * len(exact)
  free = set(range(len(exact)))  # ranks that get more than the least
  while True:
    left, of_all = total - least * (len(exact) - len(free)), sum(exact[rank] for rank in free)
    low = {rank for rank in free if left * exact[rank] < least * of_all}
    if not low:
      break
    free -= low
  quotas = {rank: left * exact[rank] / of_all for rank in free}
  for rank, quota in quotas.items():
    shares[rank] = math.floor(quota)
  by_remainder = sorted(free, key=lambda rank: (shares[rank] - quotas[rank], rank))
  for rank in by_remainder[:total - sum(shares)]:
    shares[rank] += 1
  return shares


def speed_at(table: Mapping[int, float], samples: int) -> float:
  """Samples per second with a batch of `samples`, from measured ones: seconds per step lie on
  straight lines between measured batches, and beyond them the speed is that of the nearest."""
  batches = sorted(table)
  if samples <= batches[0]:
    return table[batches[0]]
  for low, high in zip(batches, batches[1:]):
    if samples <= high:
      seconds = [low / table[low], high / table[high]]
      return samples / (seconds[0] + (seconds[1] - seconds[0]) * (samples - low) / (high - low))
  return table[batches[-1]]


def split_by_tables(total: int, tables: Sequence[Mapping[int, float]], least: int) -> list[int]:
  """Like split_batch, where speeds depend on the batch: a table of batch -> samples/s per rank."""
  shares = split_batch(total, [1.0] * len(tables), least)
  for _ in range(ROUNDS):
    speeds = [speed_at(table, share) for table, share in zip(tables, shares)]
    before, shares = shares, split_batch(total, speeds, least)
    if shares == before:
      break
  return shares


def offsets(shares: Sequence[int], total: int, full: int) -> list[int]:
  """Where the samples of each rank begin in a batch of `total`, and at the end where the last one
  ends. A batch that is shorter than `full`, the sum of the shares, is divided like a full one."""
  if total != full:
    # A rank without a share of the full batch gets none of this one either.
    given = [rank for rank, share in enumerate(shares) if share]
    parts = split_batch(total, [shares[rank] for rank in given])
    shares = [0] * len(shares)
    for rank, part in zip(given, parts):
      shares[rank] = part
  ends = [0]
  for share in shares:
    ends.append(ends[-1] + share)
  return ends
