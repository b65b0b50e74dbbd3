"""What was found, as a table."""

from __future__ import annotations

from collections import Counter
from statistics import geometric_mean
from typing import Any


def ratio(result: dict[str, Any], way: str) -> float | None:
  """ONNX Runtime's time divided by Stretto's; above 1 Stretto is faster."""
  times = (result.get("time") or {}).get("ms", {})
  names = [f"onnxruntime.{w}" for w in (way, "onnx", "classic")]
  peer = [times[name] for name in names if name in times]
  status = result.get("ways", {}).get(way, {}).get("status")
  return peer[0] / times[way] if peer and way in times and status == "runs" else None


def cell(result: dict[str, Any], way: str) -> str:
  entry = result.get("ways", {}).get(way)
  if entry is None:
    return "skipped" if "skipped" in result else ""
  found = ratio(result, way)
  return entry["status"] + (f" {found:.2f}" if found else "")


def lines(results: list[dict[str, Any]], ways: list[str]) -> list[str]:
  """Markdown: a row per model and batch, then the reasons, then the sums."""
  out = [f"| model | family | batch | {' | '.join(ways)} |", "|---|---|---|" + "---|" * len(ways)]
  out += [f"| {r['name']} | {r['family']} | {r['batch']} | "
          f"{' | '.join(cell(r, way) for way in ways)} |" for r in results]
  reasons = [f"- {r['name']}, batch {r['batch']}, {way}: {entry['status']}: {entry['reason']}"
             for r in results for way, entry in r.get("ways", {}).items() if "reason" in entry]
  reasons += [f"- {r['name']}, batch {r['batch']}: skipped: {r['skipped']}" for r in results
              if "skipped" in r]
  return [*out, "", *reasons, "", *sums(results, ways)]


def sums(results: list[dict[str, Any]], ways: list[str]) -> list[str]:
  out = []
  for way in ways:
    counts = Counter(r["ways"][way]["status"] for r in results if way in r.get("ways", {}))
    ratios = sorted(x for r in results if (x := ratio(r, way)) is not None)
    text = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    if ratios:
      slow = sum(x < 0.9 for x in ratios)
      text += (f"; times ONNX Runtime: median {ratios[len(ratios) // 2]:.2f}, least "
               f"{ratios[0]:.2f}, {slow} below 0.9")
    out.append(f"{way}: {text}")
  return out


def times_inductor(result: dict[str, Any]) -> str:
  """Inductor's best time divided by that of Stretto's backend; empty if one is missing."""
  ms = (result.get("inductor") or {}).get("ms", {})
  best = [ms[way] for way in ("inductor", "inductor max-autotune") if way in ms]
  return f"{min(best) / ms['stretto']:.2f}" if best and "stretto" in ms else ""


def inductor_lines(results: list[dict[str, Any]]) -> list[str]:
  """Milliseconds per way, and the quotients; then what failed, and the mean of the quotients."""
  ways = ("eager", "inductor", "inductor max-autotune", "stretto", "stretto.optimize")
  ways = [way for way in ways if any(way in r.get("inductor", {}).get("ms", {}) for r in results)]
  out = [f"| model | batch | {' | '.join(f'{way} ms' for way in ways)} | ratio |",
         "|---|---|" + "---|" * (len(ways) + 1)]
  for r in results:
    ms = r.get("inductor", {}).get("ms", {})
    cells = [f"{ms[way]:.3f}" if way in ms else "" for way in ways]
    out.append(f"| {r['name']} | {r['batch']} | {' | '.join(cells)} | {times_inductor(r)} |")
  for r in results:
    found = r.get("inductor", {})
    reasons = found.get("failed", {})
    for way, why in reasons.items() if isinstance(reasons, dict) else [("all", reasons)]:
      out.append(f"- {r['name']}, batch {r['batch']}, {way}: {why}")
    if "skipped" in found:
      out.append(f"- {r['name']}: skipped: {found['skipped']}")
  ratios = [float(text) for r in results if (text := times_inductor(r))]
  if ratios:
    out += ["", f"{len(ratios)} compared: geometric mean {geometric_mean(ratios):.2f}, least "
                f"{min(ratios):.2f}, {sum(x < 0.95 for x in ratios)} below 0.95"]
  return out
