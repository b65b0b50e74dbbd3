"""How many times as fast one is as others, from times of several turns."""

from __future__ import annotations

from collections.abc import Sequence

from bench.comm.rounds import median

Times = dict[str, list[float]]  # name -> seconds of every turn


def gain_over(times: Times, base: str, feature: str) -> float:
  return median(times[base]) / median(times[feature])


def gain_over_best(times: Times, bases: Sequence[str], feature: str) -> float:
  """The least of several noisy medians is less than any of them takes. So the best base is chosen
  in one half of the turns and compared in the other, both ways; the result is the geometric mean.
  """
  reached = 1.0
  for chosen, compared in ((0, 1), (1, 0)):
    def half(name: str, first: int) -> float:
      return median(times[name][first::2] or times[name])
    best = min(bases, key=lambda name: half(name, chosen))
    reached *= half(best, compared) / half(feature, compared)
  return reached ** 0.5
