"""Makes a long trace of a short one, to time the simulator with.

    python -m bench.cluster_trace philly.csv million.csv --jobs 1000000

Jobs are drawn from the trace again and again, by seed; they come as often as there, so the new
trace lasts longer in proportion. Reads and writes the short form of the Philly trace.
"""

from __future__ import annotations

import argparse
import random
from datetime import datetime, timedelta
from pathlib import Path

FORM = "%Y-%m-%d %H:%M:%S"


def resample(rows: list[str], count: int, seed: int) -> list[str]:
  """Lines like those of `rows`, by time."""
  draw = random.Random(seed)
  rows = [row for row in rows if row]  # the published file has an empty line
  times = sorted(datetime.strptime(row.split(",", 1)[0], FORM) for row in rows)
  first, span = times[0], (times[-1] - times[0]).total_seconds()
  jobs = []
  for copy in range(-(-count // len(rows))):
    here = min(len(rows), count - copy * len(rows))  # of the last copy only its beginning
    for _ in range(here):
      offset = (times[draw.randrange(here)] - first).total_seconds() + copy * span
      jobs.append((offset, rows[draw.randrange(len(rows))].split(",", 1)[1]))
  jobs.sort()
  return [f"{first + timedelta(seconds=offset):{FORM}},{rest}" for offset, rest in jobs]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("source", type=Path)
  parser.add_argument("target", type=Path)
  parser.add_argument("--jobs", type=int, default=1_000_000)
  parser.add_argument("--seed", type=int, default=1)
  given = parser.parse_args()
  head, *rows = given.source.read_text().splitlines()
  made = resample(rows, given.jobs, given.seed)
  temporary = given.target.with_name(given.target.name + ".part")
  temporary.write_text("\n".join([head, *made]) + "\n")
  temporary.replace(given.target)


if __name__ == "__main__":
  main()
