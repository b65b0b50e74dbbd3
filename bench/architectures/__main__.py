"""Runs architectures with random weights by Stretto, and compares them with PyTorch and ONNX
Runtime.

  python -m bench.architectures --list
  python -m bench.architectures --run all --batch 1,4 --json found.json
  python -m bench.architectures --run convnet,llama --by module --steps check
  python -m bench.architectures --run all --steps time --json found.json
  python -m bench.architectures --run resnet18,gpt2 --peers inductor --tuning quick

bench/README.md says what the columns mean.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

from bench import architectures, machine
from bench.architectures import table

STEPS = ("check", "time")
WAYS = ("module", "onnx", "classic")
PEERS = ("onnxruntime", "inductor", "max-autotune")
PACKAGES = ("torch", "onnxruntime", "torchvision", "timm", "transformers", "diffusers")


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="python -m bench.architectures", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--list", action="store_true", help="print the rows and stop")
  parser.add_argument("--run", default="", help="names and families, or all, with commas")
  parser.add_argument("--batch", default="1", help="batch sizes, for example 1,4")
  parser.add_argument("--by", default="module,onnx",
                      help="module: stretto.optimize(module); onnx: torch.onnx.export; classic: "
                           "its older exporter")
  parser.add_argument("--steps", default="check,time",
                      help="check: optimise and compare; time: run what check left in the folder")
  parser.add_argument("--peers", default="onnxruntime",
                      help="onnxruntime; inductor: time torch.compile with both backends instead; "
                           "inductor,max-autotune: also with Inductor's search, which takes long")
  parser.add_argument("--tuning", default="off", choices=["off", "quick"],
                      help="Stretto's search (off)")
  parser.add_argument("--seconds", type=float, default=0.5, help="timed per engine (0.5)")
  parser.add_argument("--timeout", type=float, default=600, help="seconds per model and step")
  parser.add_argument("--folder", type=Path, default=Path("build/architectures"),
                      help="for the files in between (build/architectures)")
  parser.add_argument("--keep-files", action="store_true",
                      help="leave them there; --steps check does so anyway")
  parser.add_argument("--json", type=Path, help="results; those that it holds stay")
  parser.add_argument("--child", help=argparse.SUPPRESS)
  args = parser.parse_args()
  try:
    args.rows = architectures.select([w for w in args.run.split(",") if w])
    args.batches = [int(b) for b in args.batch.split(",")]
    args.ways = _among(args.by, WAYS, "--by")
    args.wanted = _among(args.steps, STEPS, "--steps")
    args.engines = _among(args.peers, PEERS, "--peers")
  except ValueError as error:
    parser.error(str(error))
  if not args.list and not args.rows:
    parser.error("--run: name what to run, or give --list")
  return args


def _among(text: str, known: tuple[str, ...], option: str) -> list[str]:
  words = text.split(",")
  for word in words:
    if word not in known:
      raise ValueError(f"{option}: {word!r} is unknown; expected {', '.join(known)}")
  return words


def main() -> None:
  args = arguments()
  if args.list:
    for row in architectures.ARCHITECTURES:
      sizes = " ".join("x".join(map(str, spec.shape)) or "1" for spec in row.inputs)
      print(f"{row.name:38} {row.family:16} {row.source:13} {sizes:24} {row.note}")
    print(f"{len(architectures.ARCHITECTURES)} architectures")
    return
  if args.child:
    child(args)
    return
  args.folder.mkdir(parents=True, exist_ok=True)
  results, commands = _held(args.json)
  commands = list(dict.fromkeys([*commands, shlex.join(
    ["python", "-m", "bench.architectures", *sys.argv[1:]])]))
  chosen = []
  for row in args.rows:
    for batch in args.batches:
      result = results.setdefault((row.name, batch), {"name": row.name, "batch": batch})
      result["family"] = row.family
      run(args, row, batch, result)
      chosen.append(result)
      _write(args.json, results, commands)
  print("\n".join(table.inductor_lines(chosen) if "inductor" in args.engines else
                  table.lines(chosen, args.ways)))


def run(args: argparse.Namespace, row: architectures.Architecture, batch: int,
        result: dict) -> None:
  """All steps of one model at one batch; each is a process."""
  if "inductor" in args.engines:
    result["inductor"] = started(args, row, batch, "inductor")
    print(f"{row.name} batch {batch}: {table.times_inductor(result)}", file=sys.stderr, flush=True)
    return
  if "check" in args.wanted:
    found = started(args, row, batch, "check")
    result.pop("skipped", None)
    if "skipped" in found:
      result["skipped"] = found["skipped"]
      return
    if "failed" in found:
      found = {way: {"status": "failed", "reason": found["failed"]} for way in args.ways}
    result["ways"] = {**result.get("ways", {}), **found}
  if "time" in args.wanted and "skipped" not in result:
    result["time"] = started(args, row, batch, "time")
  if "time" in args.wanted and not args.keep_files:
    for file in args.folder.glob(f"{row.name}.b{batch}.*"):
      file.unlink()
  print(f"{row.name} batch {batch}: "
        f"{' | '.join(f'{way} {table.cell(result, way)}' for way in args.ways)}",
        file=sys.stderr, flush=True)


def started(args: argparse.Namespace, row: architectures.Architecture, batch: int,
            step: str) -> dict:
  """What a process of its own prints last; {"failed": why} where it ends otherwise."""
  command = [sys.executable, "-m", "bench.architectures", "--child", step, "--run", row.name,
             "--batch", str(batch), "--by", args.by, "--tuning", args.tuning, "--seconds",
             str(args.seconds), "--folder", str(args.folder), "--peers", args.peers]
  begin = time.monotonic()
  try:
    done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
  except subprocess.TimeoutExpired:
    return {"failed": f"no result in {args.timeout:.0f} s"}
  for line in reversed(done.stdout.splitlines()):
    if line.startswith("{"):
      return {**json.loads(line)}
  words = " ".join(done.stderr.split()[-40:])
  return {"failed": f"status {done.returncode} after {time.monotonic() - begin:.0f} s: {words}"}


def child(args: argparse.Namespace) -> None:
  row, batch = args.rows[0], args.batches[0]
  if args.child == "check":
    from bench.architectures.check import check

    found = check(row, batch, args.ways, args.tuning, args.folder)
  elif args.child == "time":
    from bench.architectures.clock import clock

    found = clock(row, batch, args.ways, args.seconds, args.folder)
  else:
    from bench.architectures.inductor import compare

    found = compare(row, batch, args.tuning, args.seconds, args.engines)
  print(json.dumps(found))


def _held(path: Path | None) -> tuple[dict[tuple[str, int], dict], list[str]]:
  """Results of earlier commands, by name and batch, and those commands."""
  if path is None or not path.exists():
    return {}, []
  document = json.loads(path.read_text())
  return ({(r["name"], r["batch"]): r for r in document["results"]},
          document.get("commands", []))


def _write(path: Path | None, results: dict[tuple[str, int], dict], commands: list[str]) -> None:
  if path is None:
    return
  document = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "machine": machine.describe(), "versions": _versions(), "commands": commands,
              "results": list(results.values())}
  partial = path.with_suffix(".partial")
  partial.write_text(json.dumps(document, indent=1) + "\n")
  partial.replace(path)


def _versions() -> dict[str, str]:
  """Of the packages that are installed."""
  found = {}
  for package in PACKAGES:
    try:
      found[package] = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
      pass
  return found


if __name__ == "__main__":
  main()
