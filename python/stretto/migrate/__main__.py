"""Makes a script for several ranks: python -m stretto.migrate train.py [-o FILE | --in-place]."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import json
import os
import shutil
import sys
import tempfile
import tokenize
from pathlib import Path

from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto._program import run_program
from stretto.migrate import Migrated, migrate
from stretto.migrate._helpers import BACKENDS

COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}
PLAIN = "\x1b[0m"


def parser() -> argparse.ArgumentParser:
  p = argparse.ArgumentParser(prog="stretto migrate", allow_abbrev=False,
                              description="Turns a PyTorch script for one device into one for "
                              "several ranks")
  p.add_argument("script", type=Path)
  target = p.add_mutually_exclusive_group()
  target.add_argument("-o", "--output", type=Path, help="write the new script to this file")
  target.add_argument("--in-place", action="store_true", help="change the script itself")
  target.add_argument("--diff", action="store_true", help="print the diff and nothing else")
  p.add_argument("--backend", default="auto", choices=tuple(BACKENDS))
  p.add_argument("--json", action="store_true", help="print the result as JSON")
  p.add_argument("-q", "--quiet", action="store_true", help="do not print what was done")
  p.add_argument("-v", "--verbose", action="store_true", help="also print the rules")
  return p


def read(path: Path) -> tuple[str, str]:
  """The text, with its own ends of lines, and its encoding."""
  data = path.read_bytes()
  with open(path, "rb") as file:
    encoding, _ = tokenize.detect_encoding(file.readline)
  return data.decode(encoding), encoding


def write(path: Path, text: str, encoding: str, mode_of: Path) -> None:
  """All or nothing, with the rights of the script."""
  path = path.resolve()  # a link stays one
  if not path.parent.is_dir():
    raise InvalidArgumentError(f"{path.parent}: there is no such folder")
  handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
  try:
    with os.fdopen(handle, "wb") as file:
      file.write(text.encode(encoding))
    shutil.copymode(mode_of, name)
    os.replace(name, path)
  except BaseException:
    with contextlib.suppress(FileNotFoundError):
      os.unlink(name)
    raise


def diff(path: Path, before: str, after: str, colour: bool) -> str:
  lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True),
                               f"a/{path.name}", f"b/{path.name}")
  shown = []
  for line in lines:
    text = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
    paint = COLOURS.get(text[0]) if colour and not text.startswith(("+++", "---")) else None
    shown.append(f"{paint}{text[:-1]}{PLAIN}\n" if paint else text)
  return "".join(shown)


def report(path: Path, result: Migrated, verbose: bool) -> str:
  """What was done, what is left to do, and what to know, by line of the old script."""
  lines = []
  for title, findings in (("Done" if verbose else "", result.done),
                          ("To do by hand", result.by_hand), ("Notes", result.notes)):
    if title and findings:
      lines += ["", title]
      lines += [f"  {path.name}:{f.line}: {f.text}" + (f" [{f.rule}]" if verbose else "")
                for f in findings]
  if not result.by_hand:
    lines += ["", "Nothing is left to do by hand."]
  return "\n".join([*lines, ""])


def as_json(path: Path, result: Migrated, written: str) -> str:
  listed = {name: [dataclasses.asdict(f) for f in getattr(result, name)]
            for name in ("done", "by_hand", "notes")}
  return json.dumps({"script": str(path), "distributed": result.distributed, "written": written,
                     "source": result.source, **listed}, indent=1)


def run(options: argparse.Namespace) -> None:
  path: Path = options.script
  if not path.is_file():
    raise InvalidArgumentError(f"{path}: there is no such file")
  try:
    source, encoding = read(path)
  except (UnicodeDecodeError, SyntaxError) as error:
    raise InvalidArgumentError(f"{path}: this is no Python text: {error}") from error
  try:
    result = migrate(source, options.backend)
  except InvalidArgumentError as error:
    raise InvalidArgumentError(f"{path}: {error}") from error
  target = path if options.in_place else options.output
  if result.distributed and options.in_place:
    target = None
  if target is not None:
    write(target, result.source, encoding, path)
  if options.json:
    print(as_json(path, result, str(target or "")))
    return
  if result.distributed:
    say(f"stretto migrate: {path} is distributed already: {result.distributed}; it stays as it "
        "is\n")
    for finding in result.by_hand:
      say(f"  {path.name}:{finding.line}: {finding.text}\n")
    return
  if target is None:
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    sys.stdout.write(diff(path, source, result.source, colour))
    sys.stdout.flush()
  if not options.quiet:
    say(report(path, result, options.verbose))
    if target is None and not options.diff:
      say("\nNo file was changed: -o FILE writes the new script, and --in-place changes this "
          "one.\n")
    elif target is not None:
      say(f"wrote {target}; start it with: stretto run -n 2 {target}\n")


def say(text: str) -> None:
  sys.stderr.write(text)


def main() -> int:
  try:
    run(parser().parse_args())
  except InvalidArgumentError as error:
    print(f"stretto: {error}", file=sys.stderr)
    return 2
  except UnsupportedError as error:
    print(f"stretto: {error}", file=sys.stderr)
    return 1
  except BrokenPipeError:
    raise
  except OSError as error:
    print(f"stretto: {error}", file=sys.stderr)
    return 3
  return 0


if __name__ == "__main__":
  sys.exit(run_program(main))
