"""Fills the measured tables of bench/results/architectures.md from what bench.architectures wrote.

  python -m bench.architectures --run all --batch 1,4 --json build/found.json
  python -m bench.architectures.page build/found.json
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from bench import machine
from bench.architectures import table
from bench.architectures.__main__ import WAYS
from bench.results_page import fill, quoted, without_folders
from bench.summary import geometric_mean

PAGE = Path(__file__).parents[1] / "results/architectures.md"


def measured(document: dict[str, Any]) -> str:
  """The text between the marks: what was measured where, a table per batch, then the reasons."""
  results = document["results"]
  ways = [way for way in WAYS if any(way in r.get("ways", {}) for r in results)]
  versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
  lines = [f"{machine.name(document['machine'])}, one thread, float32, {document['date'][:10]}; "
           f"{versions}: {', '.join(map(quoted, document['commands']))}.", ""]
  for batch in sorted({r["batch"] for r in results}):
    chosen = [r for r in results if r["batch"] == batch and "ways" in r]
    if chosen:
      lines += [*_table(chosen, batch, ways), ""]
  compiled = [r for r in results if "inductor" in r]
  if compiled:
    lines += ["As a backend of `torch.compile`, in turns with Inductor (ratio: Inductor's time "
              "divided by Stretto's):", "", *table.inductor_lines(compiled), ""]
  return "\n".join([*lines, *_reasons(results, ways)])


def _table(results: list[dict[str, Any]], batch: int, ways: list[str]) -> list[str]:
  titles = ["model", "family", *(f"{way}, ms" for way in ways), "ONNX Runtime, ms",
            *(f"ONNX Runtime / {way}" for way in ways)]
  lines = [f"Batch {batch}:", "", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
  columns: dict[str, list[float]] = {way: [] for way in ways}
  for result in results:
    times = (result.get("time") or {}).get("ms", {})
    peer = next((times[name] for name in ("onnxruntime.onnx", "onnxruntime.classic")
                 if name in times), None)
    cells = [result["name"], result["family"]]
    for way in ways:
      status = result.get("ways", {}).get(way, {}).get("status", "")
      cells.append(f"{times[way]:.2f}" if status == "runs" and way in times else status)
    cells.append("" if peer is None else f"{peer:.2f}")
    for way in ways:
      found = table.ratio(result, way)
      if found is not None:
        columns[way].append(found)
      cells.append("" if found is None else f"{found:.2f}")
    lines.append(f"| {' | '.join(cells)} |")
  means = [f"**{geometric_mean(found):.2f}**" if found else "" for found in columns.values()]
  return [*lines, f"| geometric mean |{' |' * (len(ways) + 2)} {' | '.join(means)} |"]


def _reasons(results: list[dict[str, Any]], ways: list[str]) -> list[str]:
  """A line for each that did not run, and for those that were left out."""
  lines = [f"- {r['name']}, batch {r['batch']}, {way}: {entry['status']}: {_plain(entry['reason'])}"
           for r in results for way in ways
           if "reason" in (entry := r.get("ways", {}).get(way, {}))]
  lines += [f"- {r['name']}, batch {r['batch']}: skipped: {r['skipped']}"
            for r in results if "skipped" in r]
  return [*lines, ""] if lines else []


def _plain(reason: str) -> str:
  """Without folders of the machine, and the colours of PyTorch's messages."""
  return without_folders(re.sub(r"\x1b\[\d*m", "", reason))


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m bench.architectures.page", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("results", type=Path, help="the JSON file of bench.architectures")
  parser.add_argument("--page", type=Path, default=PAGE)
  args = parser.parse_args()
  try:
    fill(args.page, measured(json.loads(args.results.read_text())))
  except ValueError as error:
    print(f"page: {error}", file=sys.stderr)
    return 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
