"""Results as text."""

from __future__ import annotations


def time_text(seconds: float) -> str:
  if seconds < 1e-3:
    return f"{seconds * 1e6:.0f} us"
  return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def find(results: list[dict], name: str) -> dict | None:
  return next((r for r in results if r["peer"] == name and r["status"] == "ok"), None)


def ratio(results: list[dict], peer: str, ours: str = "stretto") -> float | None:
  """How many times longer the peer takes."""
  theirs, mine = find(results, peer), find(results, ours)
  return theirs["median_s"] / mine["median_s"] if theirs and mine else None


def comparison(results: list[dict]) -> str:
  """One case: a line per peer, with its time relative to the first that ran."""
  lines = [results[0]["case"],
           f"  {'peer':<16}{'median':>10}{'min':>10}{'spread':>8}{'relative':>10}{'bus Mbit':>10}"
           f"{'wire/bound':>12}{'cpu':>10}"]
  first = next((r for r in results if r["status"] == "ok"), None)
  for r in results:
    if r["status"] != "ok":
      lines.append(f"  {r['peer']:<16}{r['status']}: {r['reason']}")
      continue
    bus = f"{r['bus_mbit']:.0f}" if r.get("bus_mbit") else "-"
    bound = f"{r['wire_bytes'] / r['bound_bytes']:.3f}" if shows_bound(r) else "-"
    lines.append(f"  {r['peer']:<16}{time_text(r['median_s']):>10}{time_text(r['min_s']):>10}"
                 f"{r['spread']:>8.0%}{first['median_s'] / r['median_s']:>9.2f}x{bus:>10}"
                 f"{bound:>12}{time_text(r['cpu_s']):>10}")
  return "\n".join(lines) + "\n"


def shows_bound(result: dict) -> bool:
  """For small messages the headers are most of it."""
  return bool(result.get("bound_bytes")) and result["wire_bytes"] > 0 and result["bytes"] >= 1 << 20
