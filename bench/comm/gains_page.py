"""Writes bench/results/gains.md from what bench.comm.gains wrote.

  python -m bench.comm.gains --json build/gains.json
  python -m bench.comm.gains_page build/gains.json    # or several files, from runs on one machine
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from bench.comm.tables import time_text

PAGE = Path(__file__).parents[1] / "results/gains.md"
HEAD = """# Gradients: what each feature gains

Each row runs the same job with a feature of the gradient engine and without it, on the same hosts,
in turns; every result is checked. "Reached" compares what the row promises: with the feature
against the best of the others, or against the job without it. The best of several is chosen in one
half of the turns and compared in the other, because the least of several noisy medians is less than
any of them takes. A row that did not keep its promise says so. `accumulate:4` updates the model a
quarter as often, on batches four times as large, and its loss falls more slowly: it is for scripts
that want such batches.
[bench/comm/README.md](../comm/README.md) describes the method, and
[docs/training.md](../../docs/training.md) the features.

"""


def section(report: dict) -> str:
  machine = report["machine"]
  lines = [f"{machine['cpu']}, {machine['cores']} cores, {report['date'][:10]}; hosts are network "
           f"namespaces with shaped cards. {report['commands']}.", "",
           "| feature | promise | reached | kept | medians per step |", "|---|---|---|---|---|"]
  for row in report["rows"]:
    if row["status"] != "ok":
      lines.append(f"| {row['gain']} | {row['promise']} | | {row['status']} | {row['reason']} |")
      continue
    times = ", ".join(f"{name} {time_text(seconds)}" + (
        f" (loss {row['loss'][name]:.3f})" if name in row["loss"] else "")
                      for name, seconds in sorted(row["median_s"].items(), key=lambda i: i[1]))
    lines.append(f"| {row['gain']} | {row['promise']} | {row['reached']:.2f} | "
                 f"{'yes' if row['kept'] else 'no'} | {times} |")
  return "\n".join(lines) + "\n"


def joined(reports: list[dict]) -> dict:
  """One report; the last file counts where several have a row."""
  rows = {row["gain"]: row for report in reports for row in report["rows"]}
  commands = dict.fromkeys(re.sub(r" --json \S+", "", report["command"]) for report in reports)
  return reports[-1] | {"rows": list(rows.values()),
                        "commands": ", ".join(f"`{command}`" for command in commands)}


def main() -> int:
  if len(sys.argv) < 2:
    print(__doc__, file=sys.stderr)
    return 2
  reports = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
  PAGE.write_text(HEAD + section(joined(reports)))
  print(f"wrote {PAGE}")
  return 0


if __name__ == "__main__":
  sys.exit(main())
