"""Writes tables of bench/results/gains.md from what bench.comm.gains wrote: one for each machine.

  python -m bench.comm.gains --json build/gains.json
  python -m bench.comm.gains_page build/gains.json    # or several files

Tables of machines that the files do not mention stay as they are. So do rows of a table that they
do not have, with the text that says when and how they were measured.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from bench import machine
from bench.comm.tables import time_text

PAGE = Path(__file__).parents[1] / "results/gains.md"
HEAD = """# Gradients: what each feature gains

Each row runs the same job with a feature of the gradient engine and without it, or with another
engine, on the same hosts, in turns; only Horovod's API runs with one engine after another. Every
result is checked. "Reached" compares what the row promises: with the feature against the best of
the others, or against the job without it. The best of several is chosen in one half of the turns
and compared in the other, because the least of several noisy medians is less than any of them
takes. A row that did not keep its promise says so.
`accumulate:4` takes one step of the optimizer for four of the script, on a batch four times as
large. So its rows have four times the learning rate, which is reached in 40 steps; both variants
see the same images, for 402 steps.
`topk` and `powersgd` are compared with an exchange without a codec after as many steps, 242. The
warm-up of topk takes the first 100 of them, where its default is 1,000.
An error is the largest distance of a tensor's averaged gradient from the exact average, as a share
of the norm of what ranks contribute, in a step after the measured ones.
[bench/comm/README.md](../comm/README.md) describes the method, and
[docs/training.md](../../docs/training.md) the features. Each table is of one machine.
"""


TABLE_HEAD = ("| feature | promise | reached | kept | medians per step or all-reduce |",
              "|---|---|---|---|---|")


def quality(row: dict, name: str) -> str:
  words = [f"{what} {row[what][name]:{form}}" for what, form in (("loss", ".3f"), ("error", ".5f"))
           if name in row.get(what, {})]
  return f" ({', '.join(words)})" if words else ""


def section(report: dict) -> str:
  versions = {name: version for row in report["rows"]
              for name, version in row.get("versions", {}).items() if "stretto" not in name}
  others = ", ".join(f"{name} {version}" for name, version in versions.items())
  lines = [f"{report['date'][:10]}; hosts are network namespaces with shaped cards, unless a "
           f"row says otherwise{'; ' if others else ''}{others}. {report['commands']}.", "",
           *TABLE_HEAD]
  for row in report["rows"]:
    if row["status"] != "ok":
      lines.append(f"| {row['gain']} | {row['promise']} | | {row['status']} | {row['reason']} |")
      continue
    times = ", ".join(f"{name} {time_text(seconds)}{quality(row, name)}"
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


def tables_of(page: str) -> dict[str, str]:
  """Machine and table of every section."""
  parts = re.split(r"^## (.*)\n\n", page, flags=re.M)[1:]
  return {name: table.rstrip("\n") + "\n" for name, table in zip(parts[::2], parts[1::2])}


def merged(old: str, new: str) -> str:
  """A section with the new rows in their places and the old ones that are not among them."""
  said, rows = parts_of(old)
  new_said, new_rows = parts_of(new)
  if not rows.keys() - new_rows.keys():
    return new
  lines = [*said, "", *new_said, "", *TABLE_HEAD, *(rows | new_rows).values()]
  return "\n".join(lines) + "\n"


def parts_of(section: str) -> tuple[list[str], dict[str, str]]:
  """What stands above its table, and the table's lines by feature."""
  text, _, table = section.partition("\n".join(TABLE_HEAD) + "\n")
  rows = {line.split(" | ")[0]: line for line in table.splitlines() if line}
  return text.strip("\n").splitlines(), rows


def written(page: str, reports: list[dict]) -> str:
  """The page, with the tables of these reports."""
  machines: dict[str, list[dict]] = {}
  for report in reports:
    machines.setdefault(machine.name(report["machine"]), []).append(report)
  tables = tables_of(page)
  for name, mine in machines.items():
    tables[name] = merged(tables.get(name, ""), section(joined(mine)))
  return "\n".join([HEAD, *(f"## {name}\n\n{table}" for name, table in tables.items())])


def main() -> int:
  if len(sys.argv) < 2:
    print(__doc__, file=sys.stderr)
    return 2
  reports = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
  PAGE.write_text(written(PAGE.read_text() if PAGE.exists() else "", reports))
  print(f"wrote {PAGE}")
  return 0


if __name__ == "__main__":
  sys.exit(main())
