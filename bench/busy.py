"""Tunes a model beside other work, again and again, and compares each result with the default.

  python -m bench.busy mobilenet_v2 --tunings 20 --json build/busy.json
  python -m bench.busy mobilenet_v2 --tunings 5 --json build/busy.json --resume

Each tuning starts from an empty tuning cache, with busy loops beside it. When they have stopped,
the tuned model and the default one (tuning="off") run in turns. A ratio above 1 means that the
tuned one is slower. Where the default was kept, both are one program, and the ratio is that of the
noise. Ends with 1 if a tuned program that was kept is more than 3 % slower by its lower fifth,
which other work on the machine hardly moves.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import stretto
from bench import machine
from bench.models import Model, find, inputs
from bench.models.export import DEFAULT_FOLDER, export

ALLOWED = 1.03
ROUNDS, BURST_S = 40, 0.02


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
  loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
  try:
    time.sleep(0.2 if loops else 0)  # until all have started
    yield
  finally:
    for loop in loops:
      loop.kill()
      loop.wait()


def burst(model: stretto.Model, feeds: dict[str, np.ndarray]) -> float:
  """Milliseconds of a run, the first of them not counted: the caches hold the other model then."""
  model.run(**feeds)
  start, runs = time.perf_counter(), 0
  while runs == 0 or time.perf_counter() - start < BURST_S:
    model.run(**feeds)
    runs += 1
  return (time.perf_counter() - start) / runs * 1e3


def in_turns(tuned: stretto.Model, default: stretto.Model, feeds: dict[str, np.ndarray],
             rounds: int) -> dict[str, float]:
  """What a fifth of the bursts took less than, and medians."""
  ms: dict[str, list[float]] = {"tuned": [], "default": []}
  for n in range(rounds):
    sides = [("tuned", tuned), ("default", default)]
    for name, model in sides if n % 2 else reversed(sides):
      ms[name].append(burst(model, feeds))
  found = {}
  for name, values in ms.items():
    found[f"{name}_fifth_ms"] = float(np.percentile(values, 20))
    found[f"{name}_median_ms"] = float(np.median(values))
  return found | {"ratio_of_fifths": found["tuned_fifth_ms"] / found["default_fifth_ms"],
                  "ratio_of_medians": found["tuned_median_ms"] / found["default_median_ms"]}


def tune(path: Path, model: Model, default: stretto.Model, args: argparse.Namespace) -> dict:
  with tempfile.TemporaryDirectory() as folder, busy_loops(args.loops):
    start = time.perf_counter()
    tuned = stretto.optimize(path, tuning=args.tuning, tuning_cache=Path(folder) / "cache.tsv",
                             threads=args.threads, verify=False, progress=False)
    seconds = time.perf_counter() - start
  report = tuned.report["tuning"]
  kept = report["compared"]["kept"] if report["compared"] else "same"
  return {"seconds": seconds, "kept": kept, "measured": report["measured"],
          "compared": report["compared"],
          **in_turns(tuned, default, inputs.make_all(model, 0), args.rounds)}


def table(tunings: list[dict]) -> str:
  lines = [f"{'tuning':>6} {'s':>6} {'kept':>8} {'measured':>9} {'tuned ms':>9} {'default':>9} "
           f"{'fifths':>7} {'medians':>8}"]
  lines += [f"{n:>6} {t['seconds']:>6.1f} {t['kept']:>8} {t['measured']:>9} "
            f"{t['tuned_fifth_ms']:>9.3f} {t['default_fifth_ms']:>9.3f} "
            f"{t['ratio_of_fifths']:>7.3f} {t['ratio_of_medians']:>8.3f}"
            for n, t in enumerate(tunings, 1)]
  return "\n".join(lines)


def behind(tunings: list[dict]) -> int:
  return sum(t["kept"] == "tuned" and t["ratio_of_fifths"] > ALLOWED for t in tunings)


def earlier(path: Path | None, about: dict) -> list[dict]:
  """The tunings that the file holds, if they were done in the same way."""
  if path is None or not path.exists():
    return []
  content = json.loads(path.read_text())
  if content["arguments"] != about:
    raise SystemExit(f"{path}: its tunings were done with {content['arguments']}, not {about}")
  return content["tunings"]


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m bench.busy", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("model", nargs="?", default="mobilenet_v2", help="a name from bench.models")
  parser.add_argument("--tunings", type=int, default=20, help="how often to tune")
  parser.add_argument("--loops", type=int, default=2, help="busy loops beside each tuning")
  parser.add_argument("--threads", type=int, default=2)
  parser.add_argument("--tuning", default="quick")
  parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each model")
  parser.add_argument("--models-folder", type=Path, default=DEFAULT_FOLDER)
  parser.add_argument("--json", type=Path, help="write everything measured here")
  parser.add_argument("--resume", action="store_true", help="add to what that file holds")
  args = parser.parse_args()
  about = {key: getattr(args, key) for key in ("model", "loops", "threads", "tuning", "rounds")}
  tunings = earlier(args.json, about) if args.resume else []
  model = find(args.model)
  path = export(model, args.models_folder)
  default = stretto.optimize(path, tuning="off", tuning_cache="none", threads=args.threads,
                             verify=False, progress=False)
  for n in range(args.tunings):
    tunings.append(tune(path, model, default, args))
    print(f"{n + 1} of {args.tunings}: {tunings[-1]['ratio_of_fifths']:.3f}", file=sys.stderr)
    if args.json:
      args.json.write_text(json.dumps({"machine": machine.describe(), "arguments": about,
                                       "tunings": tunings}, indent=1))
  print(table(tunings))
  slower = behind(tunings)
  kept = [t["ratio_of_fifths"] for t in tunings if t["kept"] == "tuned"]
  most = f", which take at most {max(kept):.3f} of the default's time" if kept else ""
  print(f"{len(tunings)} tunings of {args.model}, {args.loops} busy loops, {args.threads} threads: "
        f"{len(kept)} tuned programs were kept{most}; {slower} take more than {ALLOWED:.2f}")
  return 1 if slower else 0


if __name__ == "__main__":
  sys.exit(main())
