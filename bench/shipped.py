"""Measures the tuning cache that ships with Stretto for this processor's core, on the
models of bench.models.

  python -m bench.shipped                                  an hour on a quiet machine
  python -m bench.shipped my.onnx --add --runs 1           adds one model's problems

Every model is tuned several times from nothing, for every instruction set and thread count; of what
the runs found for a problem, the choice with the shortest time stays. The file keeps what it holds
for instruction sets and thread counts that were not measured. Rebuild Stretto to ship it; a core's
first tuning cache also needs its row in src/stretto/tune/shipped.cc.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import models
from stretto import _stretto

FOLDER = Path(__file__).parent.parent / "src/stretto/tune"
MODELS = Path("build/models")

# Problem key, which ends in isa/accuracy/threads -> kernel and microseconds as written.
Choices = dict[str, tuple[str, str]]


def parse(text: str) -> tuple[str, Choices]:
  """The header and the choices, without the verdicts on models, which hold for one machine."""
  header, *lines = text.splitlines()
  return header, {key: (kernel, us) for key, kernel, us in (line.split("\t") for line in lines)
                  if not key.startswith("model ")}


def write(path: Path, header: str, choices: Choices) -> None:
  lines = [header, *("\t".join((key, *choices[key])) for key in sorted(choices))]
  partial = path.with_name(path.name + ".partial")
  partial.write_text("\n".join(lines) + "\n")
  os.replace(partial, path)


def target(key: str) -> str:
  return key.rsplit(" ", 1)[-1]


def fastest(runs: list[Choices]) -> Choices:
  """Per problem the choice with the shortest time that any run measured."""
  best: Choices = {}
  for run in runs:
    for key, choice in run.items():
      if key not in best or float(choice[1]) < float(best[key][1]):
        best[key] = choice
  return best


def merge(shipped: Choices, runs: list[Choices], add: bool) -> Choices:
  """New choices over old ones. Old ones for a target that was measured go, unless `add`."""
  best = fastest(runs)
  measured = {target(key) for key in best}
  kept = {key: c for key, c in shipped.items() if add or target(key) not in measured}
  return kept | best


def optimize(model: Path, isa: str, threads: int, search: str, cache: Path) -> None:
  """Adds what is fastest for the model's problems to `cache`."""
  done = subprocess.run(
      [sys.executable, "-m", "stretto", "optimize", str(model), "--tuning", search, "--threads",
       str(threads), "--tuning-cache", str(cache), "--no-verify"],
      env={**os.environ, "STRETTO_ISA": isa}, capture_output=True, text=True)
  if done.returncode:
    raise RuntimeError(f"{model}: {done.stderr.strip()}")


def measure(paths: list[Path], args: argparse.Namespace, folder: Path,
            say: Callable[[str], None]) -> tuple[str, list[Choices]]:
  """The tuning cache's header and one set of choices per run."""
  header, runs = "", []
  for number in range(args.runs):
    cache = folder / f"{number}.tsv"
    for isa in args.isa:
      for threads in args.threads:
        for path in paths:
          say(f"run {number + 1} of {args.runs}, {isa}, {threads} thread(s): {path.stem}")
          optimize(path, isa, threads, args.tuning, cache)
    if not cache.exists():
      raise ValueError("nothing was measured: the models have no kernel with a choice")
    header, choices = parse(cache.read_text())
    runs.append(choices)
  return header, runs


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="python -m bench.shipped", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("models", nargs="*", default=["all"],
                      help="names from bench.models, 'all' (default), or .onnx files")
  parser.add_argument("--isa", default="avx512,avx2", help="instruction sets (avx512,avx2)")
  parser.add_argument("--threads", default="1,2", help="thread counts (1,2)")
  parser.add_argument("--runs", type=int, default=3, help="how often everything is measured (3)")
  parser.add_argument("--tuning", default="quick", help="search per model and run: quick, full, or "
                      "seconds")
  parser.add_argument("--add", action="store_true",
                      help="keep what the file holds for other problems")
  parser.add_argument("--models-folder", type=Path, default=MODELS,
                      help="where exported models are kept (build/models)")
  parser.add_argument("-o", "--output", type=Path,
                      help="the tuning cache to write (src/stretto/tune/shipped_CORE.tsv)")
  args = parser.parse_args()
  if args.output is None:
    if not _stretto.core_name():
      parser.error("src/stretto/base/cpu.cc has no name for this core; say where to write with -o")
    args.output = FOLDER / f"shipped_{_stretto.core_name()}.tsv"
  args.isa = args.isa.split(",")
  args.threads = [int(count) for count in args.threads.split(",")]
  if args.runs < 1:
    parser.error("--runs: at least 1")
  return args


def model_paths(args: argparse.Namespace) -> list[Path]:
  names = [m.name for m in models.MODELS] if args.models == ["all"] else args.models
  paths = [Path(name) for name in names if name.endswith(".onnx")]
  if rows := [models.find(name) for name in names if not name.endswith(".onnx")]:
    from bench.models import export  # which needs PyTorch

    paths += [export.export(row, args.models_folder) for row in rows]
  return paths


def main() -> int:
  args = arguments()
  try:
    paths = model_paths(args)
    with tempfile.TemporaryDirectory(prefix="stretto-shipped-") as folder:
      header, runs = measure(paths, args, Path(folder), lambda text: print(text, flush=True))
  except ValueError as error:
    print(f"shipped: {error}", file=sys.stderr)
    return 2
  old_header, shipped = parse(args.output.read_text()) if args.output.exists() else (header, {})
  # Another version's choices are not read by Stretto, so they are not kept either.
  choices = merge(shipped if old_header == header else {}, runs, args.add)
  write(args.output, header, choices)
  changed = sum(shipped.get(key) != choice for key, choice in choices.items())
  print(f"{args.output}: {len(choices)} choices, {changed} of them new or changed")
  return 0


if __name__ == "__main__":
  sys.exit(main())
