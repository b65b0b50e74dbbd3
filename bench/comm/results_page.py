"""Fills the table of bench/results/communication.md from what bench.comm wrote.

  python -m bench.comm all --json build/comm.json
  python -m bench.comm.results_page build/comm.json     # or several files, from runs on one machine
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from bench.comm import tables
from bench.comm.cases import GROUPS, processor

PAGE = Path(__file__).parents[1] / "results/communication.md"
COLUMNS = ("stretto", "stretto/fp16", "stretto/int8", "gloo", "gloo/fp16", "gloo-tuned",
            "stretto-core", "openmpi")


def section(report: dict) -> str:
  cases: dict[str, list[dict]] = {}
  for result in report["results"]:
    cases.setdefault(result["case"], []).append(result)
  versions = {r["peer"].partition("/")[0]: r["version"] for r in report["results"]
              if r["status"] == "ok"}
  named = ", ".join(f"{name} {version}" for name, version in versions.items())
  machine = report["machine"]
  hosts = "ranks on the loopback device" if report["loopback"] else \
      f"hosts are network namespaces with shaped cards, {report['congestion_control']} for all"
  columns = [c for c in COLUMNS if any(tables.find(rs, c) for rs in cases.values())]
  lines = [f"{machine['cpu']}, {machine['cores']} cores, {report['date'][:10]}; {hosts}; {named}.",
           "Medians per operation or training step, every result checked: "
           f"{report['commands']}.",
           "`stretto-core` and `openmpi` (mpi4py) reduce NumPy arrays, the others torch tensors.",
           "",
           "| case | " + " | ".join(columns) + " | gloo / stretto | openmpi / stretto-core |",
           "|---" * (len(columns) + 3) + "|"]
  for name, results in cases.items():
    if not any(r["status"] == "ok" for r in results):
      continue
    found = [tables.find(results, column) for column in columns]
    cells = [tables.time_text(r["median_s"]) if r else "" for r in found]
    ratios = [tables.ratio(results, "gloo"), tables.ratio(results, "openmpi", "stretto-core")]
    lines.append(f"| {name} | " + " | ".join(cells + [f"{r:.2f}" if r else "" for r in ratios])
                 + " |")
  for case in processor():
    cpu = {c: tables.find(cases.get(case.name, []), c) for c in columns}
    texts = [f"{c} {tables.time_text(r['cpu_s'])}" for c, r in cpu.items() if r]
    if texts:
      lines += ["", f"Processor time of all ranks for {case.name}: {', '.join(texts)}."]
  return "\n".join(lines) + "\n"


def command(words: str) -> str:
  """As a user would type it, without folders of the machine it ran on."""
  return re.sub(r" --json \S+", "", words)


def joined(reports: list[dict]) -> dict:
  """One report, with cases in the bench's order; the last file counts where several have a case."""
  results: dict[tuple[str, str], dict] = {}
  for report in reports:
    results.update({(r["case"], r["peer"]): r for r in report["results"]})
  places = {case.name: i for i, case in enumerate(c for group in GROUPS for c in group.cases)}
  results = dict(sorted(results.items(), key=lambda item: places.get(item[0][0], len(places))))
  commands = ", ".join(f"`{command(report['command'])}`" for report in reports)
  return reports[-1] | {"results": list(results.values()), "commands": commands}


def main() -> int:
  report = joined([json.loads(Path(name).read_text()) for name in sys.argv[1:]])
  text = PAGE.read_text()
  marks = r"(<!-- comm: begin[^>]*-->\n).*?(<!-- comm: end -->)"
  if not re.search(marks, text, flags=re.S):
    print(f"{PAGE}: no section between comm marks", file=sys.stderr)
    return 1
  PAGE.write_text(re.sub(marks, lambda m: m[1] + section(report) + m[2], text, flags=re.S))
  return 0


if __name__ == "__main__":
  sys.exit(main())
