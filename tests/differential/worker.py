"""Draws and checks a range of models; what becomes of each is a line of JSON on standard output.

It is a process of its own, so that a crash ends it and not the run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from differential import check, findings, grow
from differential.draft import build_model
from differential.shrink import Failure, shrink


def tell(**fields: Any) -> None:
  print(json.dumps(fields), flush=True)


def command_of(seed: int, number: int, only: str) -> str:
  """The command that draws one model again."""
  return f"./dev fuzz-models --seed {seed} --model {number}" + (f" --only {only}" if only else "")


def run_one(seed: int, number: int, only: str, folder: Path, save_only: bool) -> None:
  """Draws and checks one model, and writes it if something is wrong."""
  tell(begin=number)
  drawn = grow.draw(seed, number, only)
  unfit = [[op, why, count] for (op, why), count in drawn.unfit.items()]
  if not drawn.outputs:
    tell(number=number, kind="empty", text="", ops={}, peers={}, unfit=unfit)
    return
  steps = drawn.steps
  settings = check.draw_settings(np.random.default_rng([seed, number, 1]))
  model, feeds = build_model(drawn.draft, steps, drawn.outputs)
  path = folder / f"{seed}-{number}"
  if save_only:
    failure = Failure(steps, drawn.outputs, (), settings, check.Outcome("crash"))
    findings.write(path, drawn.draft, failure, command_of(seed, number, only))
    return
  wrong = check.is_valid(model)
  if wrong:
    outcome = check.Outcome("invalid", wrong)
  else:
    tell(phase="stretto")
    outcome = check.check_model(model.SerializeToString(), feeds, steps, drawn.outputs, settings)
  tell(number=number, kind=outcome.kind, text=outcome.text[:400], ops=Counter(s.op for s in steps),
       peers=Counter(s.runner.peer for s in steps), unfit=unfit)
  if outcome.is_finding:
    failure = shrink(drawn.draft, Failure(steps, drawn.outputs, (), settings, outcome))
    findings.write(path, drawn.draft, failure, command_of(seed, number, only))
    tell(shrunk=number, ops=[s.op for s in failure.steps], text=failure.outcome.text[:600],
         folder=str(path))


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--seed", type=int, required=True)
  parser.add_argument("--first", type=int, required=True)
  parser.add_argument("--count", type=int, required=True)
  parser.add_argument("--only", default="")
  parser.add_argument("--folder", type=Path, required=True)
  parser.add_argument("--save-only", action="store_true")
  args = parser.parse_args()
  if not args.save_only:  # what engines print is no finding, and there is much of it
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
  for number in range(args.first, args.first + args.count):
    run_one(args.seed, number, args.only, args.folder, args.save_only)


if __name__ == "__main__":
  sys.exit(main())
