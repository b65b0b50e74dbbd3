"""From times to numbers a reader can compare."""

from __future__ import annotations

import math

import numpy as np


def summarise(ms: list[float], cpu_ms: list[float]) -> dict[str, float]:
  return {"median_ms": float(np.median(ms)), "p95_ms": float(np.percentile(ms, 95)),
          "min_ms": min(ms), "cpu_ms": float(np.median(cpu_ms)), "runs": len(ms)}


def geometric_mean(values: list[float]) -> float:
  return math.exp(sum(map(math.log, values)) / len(values))


def best_peer(results: list[dict], capped_only: bool = False) -> dict | None:
  """The fastest peer, by median, of those that computed the right thing."""
  right = [r for r in results if r["engine"] != "stretto" and r["status"] == "ok"
           and not (capped_only and r["uncapped"])]
  return min(right, key=lambda r: r["median_ms"], default=None)


def ratio(results: list[dict], capped_only: bool = False) -> dict | None:
  """How many times longer the best peer takes than Stretto; None without either."""
  ours = [r for r in results if r["engine"] == "stretto" and r["status"] == "ok"]
  peer = best_peer(results, capped_only)
  if not ours or peer is None:
    return None
  return {"model": ours[0]["model"], "threads": ours[0]["threads"], "peer": peer["engine"],
          "peer_ms": peer["median_ms"], "stretto_ms": ours[0]["median_ms"],
          "ratio": peer["median_ms"] / ours[0]["median_ms"],
          "ratio_of_minima": peer["min_ms"] / ours[0]["min_ms"],
          "ratio_of_cpu": peer["cpu_ms"] / ours[0]["cpu_ms"]}
