"""Fills the measured table of README.md from what bench.compare wrote.

  python -m bench.compare all --threads 1,2 --json build/bench.json
  python -m bench.readme build/bench.json
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from bench import summary

README = Path(__file__).parent.parent / "README.md"
ENGINES = ("onnxruntime", "openvino", "torch", "ncnn", "mnn")


def table(results: list[dict], threads: int) -> list[str]:
  chosen = [r for r in results if r["threads"] == threads]
  engines = [e for e in ENGINES if any(r["engine"] == e and r["status"] == "ok" for r in chosen)]
  lines = [f"{threads} thread{'s' if threads > 1 else ''}, median ms:", "",
           "| model | Stretto | " + " | ".join(engines) + " | best peer / Stretto |",
           "|---" * (len(engines) + 3) + "|"]
  ratios = []
  for model in dict.fromkeys(r["model"] for r in chosen):
    rows = [r for r in chosen if r["model"] == model]
    times = {r["engine"]: r["median_ms"] for r in rows if r["status"] == "ok"}
    verdict = summary.ratio(rows)
    if verdict is None:
      continue
    ratios.append(verdict["ratio"])
    cells = [f"{times[e]:.1f}" if e in times else "" for e in engines]
    lines.append(f"| {model} | {times['stretto']:.1f} | " + " | ".join(cells)
                 + f" | {verdict['ratio']:.2f} |")
  lines.append(f"| geometric mean |{' |' * (len(engines) + 1)} "
               f"**{summary.geometric_mean(ratios):.2f}** |")
  return lines


def section(report: dict) -> str:
  results = report["results"]
  machine = report["machine"]
  versions = {r["engine"]: r.get("version") for r in results if r["status"] == "ok"}
  named = ", ".join(f"{e} {versions[e]}" for e in ENGINES if e in versions)
  isa = "AVX-512" if "avx512f" in machine["isa"] else "AVX2"
  cap = f", capped at {report['isa']}" if report["isa"] else ""
  lines = [f"fp32, batch 1, {machine['cpu']} ({isa}{cap}), {machine['cores']} cores, "
           f"{report['date'][:10]}; {named}. Stretto with tune=\"{report['tune']}\".",
           "Engines took turns, outputs were compared first: "
           f"`{report['command']}`.", ""]
  for threads in sorted({r["threads"] for r in results}):
    lines += [*table(results, threads), ""]
  return "\n".join(lines)


def main() -> int:
  report = json.loads(Path(sys.argv[1]).read_text())
  # A run is quoted as a user would type it, without folders of the machine it ran on.
  report["command"] = re.sub(r" --(models-folder|json|quiet-lock) \S+", "", report["command"])
  text = README.read_text()
  marks = r"(<!-- measured: begin[^>]*-->\n).*?(<!-- measured: end -->)"
  filled = re.sub(marks, lambda m: m[1] + section(report) + m[2], text, flags=re.S)
  if filled == text and "measured: begin" not in text:
    print("README.md has no measured section", file=sys.stderr)
    return 1
  README.write_text(filled)
  return 0


if __name__ == "__main__":
  sys.exit(main())
