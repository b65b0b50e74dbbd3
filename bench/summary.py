"""From times to numbers a reader can compare."""

from __future__ import annotations

import math

import numpy as np


def summarise(ms: list[float], cpu_ms: list[float]) -> dict[str, float]:
  """`fifth_ms`: a fifth of the runs took less. Other work on a machine makes runs longer, never
  shorter, so this moves less than the median, and does not hang on one run as the minimum does."""
  return {"median_ms": float(np.median(ms)), "p95_ms": float(np.percentile(ms, 95)),
          "fifth_ms": float(np.percentile(ms, 20)), "min_ms": min(ms),
          "cpu_ms": float(np.median(cpu_ms)), "runs": len(ms)}


def geometric_mean(values: list[float]) -> float:
  return math.exp(sum(map(math.log, values)) / len(values))


def is_ours(result: dict) -> bool:
  return result["engine"].split("-")[0] == "stretto"


def is_uncapped(result: dict) -> bool:
  """Whether an instruction set cap was asked for and this engine went beyond it."""
  return bool(result.get("cap")) and not result["cap"]["held"]


def best_peer(results: list[dict], capped_only: bool = False,
              by: str = "median_ms") -> dict | None:
  """The fastest peer of those that computed the right thing."""
  right = [r for r in results if not is_ours(r) and r["status"] == "ok"
           and not (capped_only and is_uncapped(r))]
  return min(right, key=lambda r: r[by], default=None)


def ratio(results: list[dict], ours: str = "stretto", capped_only: bool = False) -> dict | None:
  """How many times longer the best peer takes than the row called `ours`; None without either."""
  mine = next((r for r in results if r["engine"] == ours and r["status"] == "ok"), None)
  peer = best_peer(results, capped_only)
  if mine is None or peer is None:
    return None
  return {"model": mine["model"], "threads": mine["threads"], "ours": ours, "peer": peer["engine"],
          "peer_ms": peer["median_ms"], "stretto_ms": mine["median_ms"],
          "ratio": peer["median_ms"] / mine["median_ms"],
          # Of the peer that is fastest by this figure.
          "ratio_of_fifths": best_peer(results, capped_only, "fifth_ms")["fifth_ms"]
                             / mine["fifth_ms"],
          "ratio_of_minima": peer["min_ms"] / mine["min_ms"],
          "ratio_of_cpu": peer["cpu_ms"] / mine["cpu_ms"]}


def gain(results: list[dict]) -> dict | None:
  """How many times longer the build of --before takes than this one; None without either."""
  mine, before = (next((r for r in results if r["engine"] == name and r["status"] == "ok"), None)
                  for name in ("stretto", "stretto-before"))
  if mine is None or before is None:
    return None
  return {key: before[key] / mine[key] for key in ("median_ms", "fifth_ms", "min_ms", "cpu_ms")}


def ratios(results: list[dict], capped_only: bool = False) -> list[dict]:
  """One per row of Stretto's."""
  names = [r["engine"] for r in results if is_ours(r)]
  return [line for name in names if (line := ratio(results, name, capped_only))]
