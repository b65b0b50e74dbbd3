"""`stretto cluster run`: packs the tree, submits the job, follows it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from stretto.cluster import _backends, _follow, _pack, _state
from stretto.cluster._backend import DURATION, VARIABLE, WORD, Backend, Request, parts_of
from stretto.cluster._host import ClusterError, Refused

Note = Callable[[str], None]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
STOP_S = 30.0
FAR = {"kubernetes": "Kubernetes", "cloud": "the cloud"}  # their nodes see no file of this machine


def run(args: argparse.Namespace, note: Note) -> int:
  request = request_of(args)
  tree = _pack.tree_of(Path.cwd(), args.pack_limit)
  place_script(args, request, tree)
  request.tree = tree
  backend = _backends.chosen(args)
  files = backend.files(request)
  if args.dry_run:
    show(backend, request, files, tree)
    return 0
  note(backend.about())
  folder = _state.new_job_folder(backend.host)
  job = submit(backend, request, files, tree, folder, note)
  if args.detach:
    print(job, flush=True)
    return 0
  return follow(backend, job, folder, note)


def submit(backend: Backend, request: Request, files: dict[str, str], tree: _pack.Tree, folder: str,
           note: Note) -> str:
  host = backend.host
  about = {"id": "", "name": request.name, "ranks": request.ranks, "words": request.words,
           "time": time.time(), **backend.describe()}
  try:
    host.call("make", folder, {"job.json": json.dumps(about, indent=1) + "\n", **files})
    host.put_tree(folder, tree.files)
  except BaseException:  # nothing was submitted, and nothing stays
    host.call("remove", folder)
    raise
  job = submitted(backend, request, folder, note)
  host.call("write", folder, "job.json", json.dumps({**about, "id": job}, indent=1) + "\n")
  note(f"job {job} ({request.name}): {request.ranks} rank{'s' * (request.ranks != 1)}, "
       f"{files_in_words(tree)} of {tree.root}")
  return job


def submitted(backend: Backend, request: Request, folder: str, note: Note) -> str:
  """The number of the job. If the scheduler's answer is lost, the job may be in its queue all the
  same: it is searched and ended, and its folder stays until that is certain."""
  try:
    return backend.submit(request, folder)
  except Refused:
    backend.host.call("remove", folder)
    raise
  except BaseException:
    certain = False
    with contextlib.suppress(ClusterError):
      certain = backend.withdraw(folder)
    if certain:
      backend.host.call("remove", folder)
      note("the job may have been submitted before the answer was lost; it is cancelled")
    else:
      note(f"it is not known whether the job was submitted. `stretto cluster stop "
           f"{shlex.quote(request.name)}{backend.where_option()}` ends it if it is; its folder "
           f"{folder} stays")
    raise


def follow(backend: Backend, job: str, folder: str, note: Note) -> int:
  offsets: dict[str, int] = {}
  printer = _follow.Printer(sys.stdout)

  def go_on() -> int:
    return _follow.follow(backend, job, folder, note, printer, offsets)

  def leave(why: str) -> int:
    words = f"{job}{backend.where_option()}"
    with contextlib.suppress(OSError):  # the terminal may be gone
      note(f"job {job} goes on{' after ' + why if why else ''}: `stretto cluster logs {words} -f` "
           f"follows it, `stretto cluster stop {words}` ends it")
    return 0 if not why else 128 + signal.Signals[why]

  def cancel() -> int:
    note(f"cancelling job {job}")
    backend.stop(job, folder)
    _follow.until_over(backend, job, folder, note, printer, offsets, STOP_S)
    return 130

  return _follow.until_signal(go_on, leave, cancel)


def by_kind(option: str, what: str, given: list[str]) -> dict[str, str]:
  """`--option [KIND=]VALUE`, given several times; "": for all kinds."""
  found: dict[str, str] = {}
  for text in given:
    kind, equals, value = text.rpartition("=")
    if not value or (equals and not WORD.fullmatch(kind)):
      raise ValueError(f"{option}: expected {what} or KIND={what}, got {text!r}")
    found[kind] = value
  return found


def request_of(args: argparse.Namespace) -> Request:
  """ValueError for what is wrong with the options."""
  pythons = by_kind("--python", "FILE", args.python)
  if ":" in pythons.values():  # srun takes this word for the beginning of another component
    raise ValueError("--python: ':' is no interpreter")
  if args.module and args.no_python:
    raise ValueError("-m and --no-python: give one of them")
  if args.retries < 0:
    raise ValueError(f"--retries: expected a number from 0 on, got {args.retries}")
  if args.hang_after is not None and not 1 <= args.hang_after <= 1e6:
    raise ValueError(f"--hang-after: expected 1 to 1000000 seconds, got {args.hang_after:g}")
  if args.cpus is not None and not 0.001 <= args.cpus <= 4096:
    raise ValueError(f"--cpus: expected 0.001 to 4096, got {args.cpus:g}")
  if args.priority and not WORD.fullmatch(args.priority):
    raise ValueError(f"--priority: expected the name of a WorkloadPriorityClass, got "
                     f"{args.priority!r}")
  if args.queue and not re.fullmatch(rf"{WORD.pattern}(,{WORD.pattern})*", args.queue):
    raise ValueError(f"--queue: expected the name of a partition or queue, got {args.queue!r}")
  how = ["-m"] if args.module else ["--no-python"] if args.no_python else []
  words = [*how, args.script, *args.arguments]
  if any("\0" in word for word in words):
    raise ValueError("a word of the script holds a null character")
  parts = list(parts_of(args.ranks, args.chips, args.nodes, pythons))
  return Request(
    name=_state.check_job_name(args.name if args.name is not None else name_of(args.script)),
    parts=parts, words=words, environment=environment(args.env), secrets=secrets(args.secret),
    time=duration(args.time) if args.time else "", queue=args.queue or "", retries=args.retries,
    hang_after=args.hang_after or 0.0, python=pythons.get("", ""),
    images=by_kind("--image", "IMAGE", args.image), volume=args.volume or "",
    resources=by_kind("--resource", "NAME", args.resource), priority=args.priority or "",
    cpus=0.0 if args.cpus is None else args.cpus, memory=args.memory or "",
    restricted=args.restricted, run_as=args.run_as or "")


def name_of(script: str) -> str:
  """A script may have any name; a job's fits on one line."""
  name = os.path.basename(script).removesuffix(".py") or "job"
  return "".join(c if c.isprintable() else "?" for c in name)[:_state.LONGEST_NAME]


def environment(given: list[str]) -> dict[str, str]:
  found = {}
  for text in given:
    name, equals, value = text.partition("=")
    if not equals or not VARIABLE.fullmatch(name) or "\0" in value:
      raise ValueError(f"--env: expected NAME=VALUE, got {text!r}")
    if name.startswith("_stretto_"):
      raise ValueError(f"--env {name}: names that begin with _stretto_ belong to the batch script")
    found[name] = value
  return found


def secrets(names: list[str]) -> dict[str, str]:
  for name in names:
    if not VARIABLE.fullmatch(name):
      # What was given may be the secret itself; it is not repeated.
      raise ValueError("--secret: expected the name of a variable, whose value is taken from the "
                       "environment")
    if name not in os.environ:
      raise ValueError(f"--secret {name}: there is no such variable in the environment")
  return {name: os.environ[name] for name in names}


def duration(text: str) -> str:
  """In Slurm's form, D-HH:MM:SS."""
  if not DURATION.fullmatch(text):
    raise ValueError(f"--time: expected 90s, 30m, 2h, 1d or Slurm's 1-12:00:00, got {text!r}")
  if text[-1] not in UNITS:
    return text
  seconds = int(text[:-1]) * UNITS[text[-1]]
  days, rest = divmod(seconds, UNITS["d"])
  return f"{days}-{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def place_script(args: argparse.Namespace, request: Request, tree: _pack.Tree) -> None:
  """Names the script from the folder where the job starts. ValueError if it is not in the tree."""
  request.inside = tree.inside
  if args.module:
    return
  path = Path(args.script)
  if args.no_python and "/" not in args.script and not path.exists():
    return  # a program of the nodes
  if not path.exists():
    raise ValueError(f"{args.script}: there is no such file")
  whole = Path(os.path.abspath(path))
  root = Path(os.path.abspath(tree.root))
  name = os.path.relpath(whole, root)
  far = args.host or FAR.get(args.backend, "")
  if name.startswith("../") and far:
    raise ValueError(f"{args.script}: this file is outside of {root}, so {far} does not get "
                     "it; start `run` in a folder around it")
  if name.startswith("../"):
    request.words[request.words.index(args.script)] = str(whole)  # nodes have to see this file
    return
  if name not in {n for n, _ in tree.files}:
    raise ValueError(f"{args.script}: .gitignore leaves this file out of the tree that jobs get")
  at = request.words.index(args.script)
  relative = os.path.relpath(whole, root / tree.inside)
  # A path, so that a name such as "-c" is no option.
  request.words[at] = relative if relative.startswith("../") else f"./{relative}"


def files_in_words(tree: _pack.Tree) -> str:
  return f"{len(tree.files)} file{'s' * (len(tree.files) != 1)}"


def show(backend: Backend, request: Request, files: dict[str, str], tree: _pack.Tree) -> None:
  """What would be submitted. The values of secrets are not shown."""
  print(f"# {backend.about()}")
  print(f"# {files_in_words(tree)} of {tree.root}, {tree.size} bytes")
  if request.secrets:
    print(f"# secrets: {', '.join(request.secrets)}")
  print(shlex.join(backend.words(request)))
  for name, text in files.items():
    print(f"\n# {name}\n{text}", end="")

