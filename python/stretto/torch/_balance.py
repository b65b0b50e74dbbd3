"""Decides when samples move from one rank to another. Every rank computes the same from what all
ranks measured."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.torch._split import split_batch

FRESH = 0.5  # weight of a new window in the smoothed time per sample
STRIKES = 2  # windows in a row that have to show the drift


class Balance:
  """`observe` is given the windows one after another.

  Shares change when the slowest rank takes more than `drift` longer than the mean of the ranks in
  several windows in a row, and only if the new shares are expected to make the step shorter by half
  of that. So noise does not move samples to and fro, and shares change every other window at most.
  """

  def __init__(self, total: int, least: int, drift: float):
    self.total, self.least, self.drift = total, least, drift
    self.sample_s: list[float | None] = []  # smoothed seconds per sample of each rank
    self.reason = ""  # of the last change
    self.speeds: list[float] = []  # samples per second on which it rests
    self._strikes = 0

  def observe(self, shares: Sequence[int], samples: Sequence[float],
              seconds: Sequence[float]) -> list[int] | None:
    """New shares, or None. `samples` of each rank took it `seconds` without its waiting."""
    before = self.sample_s or [None] * len(shares)
    self.sample_s = [smoothed(old, count, spent)
                     for old, count, spent in zip(before, samples, seconds)]
    per_sample = [each for each in self.sample_s if each]
    if len(per_sample) < len(shares):
      return None  # a rank without samples was never measured
    times = [share * each for share, each in zip(shares, per_sample)]
    longest, mean = max(times), sum(times) / len(times)
    if longest <= (1 + self.drift) * mean:
      self._strikes = 0
      return None
    self._strikes += 1
    if self._strikes < STRIKES:
      return None
    new = split_batch(self.total, [1 / each for each in per_sample], self.least)
    expected = max(share * each for share, each in zip(new, per_sample))
    if expected > (1 - self.drift / 2) * longest:
      return None
    self.reason = (f"rank {times.index(longest)} took {longest / mean - 1:.0%} longer than the "
                   "mean of the ranks")
    self.speeds = [1 / each for each in per_sample]
    # A step has costs that do not depend on the samples: with other shares all is measured afresh.
    self._strikes, self.sample_s = 0, []
    return new


def smoothed(old: float | None, samples: float, seconds: float) -> float | None:
  if samples <= 0:
    return old
  new = seconds / samples
  return new if old is None else (1 - FRESH) * old + FRESH * new
