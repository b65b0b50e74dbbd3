"""`./dev fuzz-models`: random ONNX models through Stretto and through other engines."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from differential import campaign, findings
from differential.tables import ROWS


class Progress:
  """One line that is written over on a terminal, one line every ten seconds elsewhere."""

  def __init__(self, count: int) -> None:
    self._count, self._began, self._next = count, time.monotonic(), 0.0
    self._terminal = sys.stderr.isatty()

  def __call__(self, summary: campaign.Summary) -> None:
    now = time.monotonic()
    if now < self._next:
      return
    self._next = now + (0.2 if self._terminal else 10)
    done = sum(summary.kinds.values())
    text = (f"{done} of {self._count} models, {done / max(now - self._began, 1e-3):.0f} per second;"
            f" {summary.kinds['same']} same, {summary.kinds['refused']} refused,"
            f" {len(summary.findings)} findings")
    print(f"\r\033[K{text}" if self._terminal else text, end="" if self._terminal else "\n",
          file=sys.stderr, flush=True)

  def end(self) -> None:
    if self._terminal:
      print(file=sys.stderr)


def operator_table(summary: campaign.Summary) -> str:
  """What was drawn of each operator."""
  columns = ("same", "refused", "undecided", "finding", "in vain")
  counts: dict[str, Counter[str]] = defaultdict(Counter)
  for (op, kind), count in summary.ops.items():
    counts[op][kind if kind in columns else "finding"] += count
  for (op, _), count in summary.unfit.items():
    counts[op]["in vain"] += count
  lines = ["nodes by operator and by what became of their model:",
           f"{'':28}" + "".join(f"{name:>11}" for name in columns)]
  for op in sorted(counts):
    lines.append(f"{op:28}" + "".join(f"{counts[op][name] or '':>11}" for name in columns))
  return "\n".join(lines)


def report(summary: campaign.Summary) -> str:
  """The whole summary as text."""
  done = sum(summary.kinds.values())
  kinds = ", ".join(f"{count} {kind}" for kind, count in summary.kinds.most_common())
  peers = ", ".join(f"{count} by {peer}" for peer, count in summary.peers.most_common())
  parts = [operator_table(summary)]
  if summary.refusals:
    parts.append("\n".join(["refused by Stretto, which is no pass:"] + [
      f"{count:6} {why}" for why, count in summary.refusals.most_common(40)]))
  groups: dict[tuple[str, ...], list[campaign.Finding]] = defaultdict(list)
  for finding in summary.findings.values():
    groups[(finding.kind, *finding.ops)].append(finding)
  for (kind, *ops), found in sorted(groups.items(), key=lambda item: -len(item[1])):
    parts.append("\n".join([f"{kind}: {' '.join(ops)} ({len(found)} models)"] + [
      f"  {f.text}\n    ./dev fuzz-models --replay {f.folder}" if f.folder else f"  {f.text}"
      for f in found[:3]]))
  parts.append(f"{done} models: {kinds}\nnodes: {peers}\n{len(summary.findings)} findings")
  return "\n\n".join(parts)


def in_vain(summary: campaign.Summary) -> str:
  """Why nodes were drawn in vain."""
  return "\n".join(f"{count:6} {op}: {why}" for (op, why), count in summary.unfit.most_common(60))


def main() -> int:
  """Parses the command line and runs.

  Returns:
    0 if there is no finding.
  """
  parser = argparse.ArgumentParser(
    prog="./dev fuzz-models",
    description="Draws small random ONNX models, runs them through Stretto, and compares the "
                "results with those of ONNX Runtime or, where it has no kernel, of onnx's "
                "reference evaluator.")
  parser.add_argument("--count", type=int, default=2000, help="models to draw (2000)")
  parser.add_argument("--seed", type=int, default=1, help="another seed draws other models (1)")
  parser.add_argument("--first", type=int, default=0, help="number of the first model (0)")
  parser.add_argument("--only", default="", metavar="OPERATOR", help="draw only this operator")
  parser.add_argument("--model", type=int, help="draw and check this model of the seed alone")
  parser.add_argument("--minutes", type=float, default=0, help="stop after so long")
  parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1,
                      help="processes at a time (one per core)")
  parser.add_argument("--folder", type=Path, default=Path("build/fuzz-models"),
                      help="where models that show a defect are written (build/fuzz-models)")
  parser.add_argument("--replay", type=Path, metavar="FOLDER",
                      help="run a model that was written, and nothing else")
  parser.add_argument("--in-vain", action="store_true", help="also print why nodes were drawn in "
                                                             "vain")
  args = parser.parse_args()
  if args.replay:
    wrong = findings.replay(args.replay)
    print(wrong or "nothing is wrong any more")
    return 1 if wrong else 0
  if args.only and not any(args.only in row.ops for row in ROWS):
    parser.error(f"--only: no table has {args.only}")
  if args.model is not None:
    args.first, args.count = args.model, 1
  args.folder.mkdir(parents=True, exist_ok=True)
  progress = Progress(args.count)
  summary = campaign.run(args.seed, args.first, args.count, args.only, args.jobs, args.folder,
                         progress, args.minutes)
  progress.end()
  if args.in_vain:
    print(in_vain(summary) + "\n")
  print(report(summary))
  return 1 if summary.findings else 0


if __name__ == "__main__":
  sys.exit(main())
