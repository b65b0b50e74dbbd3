"""Compares Stretto with its peers: same file, same inputs, same cores, same minute.

  python -m bench.compare resnet50 bert_base --threads 1,2
  python -m bench.compare my_model.onnx --inputs my_inputs.npz --peers onnxruntime,openvino
  python -m bench.compare all --isa avx2 --json out.json

See bench/README.md for the method.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path

from stretto.peers._machine import physical_cores

from bench import machine, models, rounds, summary, tables, truth
from stretto import peers

DEFAULT_MODELS = Path("build/models")


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("models", nargs="+",
                      help="names from bench.models, 'all', 'held-out', or .onnx files")
  parser.add_argument("--threads", default="1", help="thread counts, for example 1,2")
  parser.add_argument("--peers", default="best",
                      help="best: each at its best setting; all: defaults too; none; or names")
  parser.add_argument("--no-stretto", action="store_true", help="time the peers alone")
  parser.add_argument("--runs", type=int, default=30, help="timed runs per engine")
  parser.add_argument("--burst", type=int, default=5, help="runs in a row before the next engine")
  parser.add_argument("--warm-up", type=int, default=2, help="untimed runs before each burst")
  parser.add_argument("--tuning", default="quick",
                      help="Stretto's search: off, quick, full; off,quick for a row of each")
  parser.add_argument("--before", type=Path, metavar="DIR",
                      help="time the Stretto package in this folder too, in a row stretto-before")
  parser.add_argument("--isa", choices=["avx2"], help="cap Stretto and every peer that can be")
  parser.add_argument("--models-folder", type=Path, default=DEFAULT_MODELS,
                      help="where exported models are kept (build/models)")
  parser.add_argument("--inputs", type=Path, help="npz of inputs by name, for an .onnx file")
  parser.add_argument("--load-timeout", type=float, default=900, help="seconds per request")
  parser.add_argument("--quiet-lock", type=Path, help="flock this file while timing")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--json", type=Path, help="write everything measured here")
  args = parser.parse_args()
  try:
    args.entries = [] if args.no_stretto else own_entries(args.tuning.split(","), args.before)
    args.entries += [rounds.Entry(e.name, e) for e in peers.select(args.peers)]
    args.threads = [int(t) for t in args.threads.split(",")]
  except ValueError as error:
    parser.error(str(error))
  cores = len(physical_cores())
  if min(args.threads) < 1 or max(args.threads) > cores:
    parser.error(f"--threads: this process has {cores} core(s), asked for {max(args.threads)}")
  if min(args.runs, args.burst) < 1:
    parser.error("--runs and --burst: at least 1")
  return args


def own_entries(tunings: list[str], before: Path | None = None) -> list[rounds.Entry]:
  """The first is called stretto, the others after their search. `before`: a folder with the package
  of another build, which is timed after the first search. Raises ValueError where it holds none."""
  engine = peers.find("stretto")
  entries = [rounds.Entry("stretto" if i == 0 else f"stretto-{tuning}", engine, tuning)
             for i, tuning in enumerate(tunings)]
  if before is None:
    return entries
  if not (before / "stretto" / "__init__.py").exists():
    raise ValueError(f"--before: {before} holds no package stretto; a build has its own in "
                     "build/<preset>/python")
  return [*entries, rounds.Entry("stretto-before", engine, tunings[0], before.resolve())]


def subjects(args: argparse.Namespace, folder: Path) -> list[rounds.Subject]:
  """Raises ValueError for a name that is neither a model nor a file."""
  chosen = [item for word in args.models
            for item in ([Path(word)] if word.endswith(".onnx") else models.select([word]))]
  return [from_file(item, args, folder) if isinstance(item, Path) else
          from_row(item, args, folder) for item in chosen]


def from_row(model: models.Model, args: argparse.Namespace, folder: Path) -> rounds.Subject:
  import numpy as np

  from bench.models import export, inputs

  path = export.export(model, args.models_folder, seed=args.seed)
  made = folder / f"{model.name}.inputs.npz"
  np.savez(made, **inputs.make_all(model, args.seed))
  return rounds.Subject(model.name, model.name, path, made, list(model.outputs),
                        truth.of_model(model.name, path, args.seed), args.seed)


def from_file(path: Path, args: argparse.Namespace, folder: Path) -> rounds.Subject:
  import numpy as np
  import onnx

  if not path.exists():
    raise ValueError(f"{path}: no such file")
  graph = onnx.load(str(path), load_external_data=False).graph
  weights = {w.name for w in graph.initializer}
  names = [i.name for i in graph.input if i.name not in weights]
  if args.inputs is None:
    raise ValueError(f"{path}: say what goes in with --inputs file.npz (keys: {', '.join(names)})")
  with np.load(args.inputs) as archive:
    # Also what `python -m bench.models --npz` writes.
    given = {name.removeprefix("in:"): archive[name] for name in archive.files}
  missing = [name for name in names if name not in given]
  if missing:
    raise ValueError(f"{args.inputs}: holds no input {', '.join(missing)}")
  made = folder / f"{path.stem}.inputs.npz"
  np.savez(made, **{name: given[name] for name in names})
  return rounds.Subject(path.stem, None, path, made, [o.name for o in graph.output], None,
                        args.seed)


def document(args: argparse.Namespace, about: dict, groups: list[list[dict]]) -> dict:
  return {
      "command": "python -m bench.compare " + shlex.join(sys.argv[1:]),
      "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
      "machine": about,
      "isa": args.isa,
      "runs": args.runs, "burst": args.burst, "warm_up": args.warm_up, "tuning": args.tuning,
      "tolerance": truth.TOLERANCE,
      "results": [result for results in groups for result in results],
      "ratios": [line for results in groups for line in summary.ratios(results)],
  }


def write_json(path: Path, content: dict) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  partial = path.with_name(path.name + ".partial")
  partial.write_text(json.dumps(content, indent=1) + "\n")
  os.replace(partial, path)


def say(text: str) -> None:
  if sys.stderr.isatty():
    print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main() -> int:
  args = arguments()
  about = machine.describe()
  print(f"{about['cpu']} (family {about['family_model']}), {about['cores']} core(s), "
        f"{'+'.join(about['isa'])}, load {about['load_average']:.1f}\n")
  plan = rounds.Plan(args.runs, args.burst, args.warm_up, args.load_timeout, args.isa,
                     args.quiet_lock)
  groups: list[list[dict]] = []
  with tempfile.TemporaryDirectory(prefix="stretto-bench-") as folder:
    try:
      todo = subjects(args, Path(folder))
    except (ValueError, ImportError) as error:
      print(f"compare: {error}", file=sys.stderr)
      return 2
    for subject in todo:
      for threads in args.threads:
        groups.append(rounds.compare(subject, args.entries, threads, plan, Path(folder), say))
        say("")
        print(tables.comparison(groups[-1]), flush=True)
        if args.json:  # after each one, so that an interrupted run keeps what it has
          write_json(args.json, document(args, about, groups))
  print(tables.overview(groups))
  for line in tables.caveats([result for results in groups for result in results]):
    print(line)
  return 0


if __name__ == "__main__":
  sys.exit(main())
