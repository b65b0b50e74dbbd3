"""`stretto run --validate CMD`: validates the checkpoints that a training writes, while it runs.

A file counts once it is whole: unchanged between two looks, and not open in a process of the job.
Of those that wait only the newest is validated, one at a time, at the lowest priority and on cores
that no rank is bound to, if there are any. Whatever happens to a validation, the training goes on:
it is noted in the file of results and told at the end."""

from __future__ import annotations

import contextlib
import ctypes
import fnmatch
import glob
import json
import os
import re
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stretto import _processes as processes
from stretto import _stretto

PATTERNS = ("*.pt", "*.pth", "*.ckpt", "*.safetensors", "*.pth.tar")
PATTERN = ",".join([*PATTERNS, *(f"*/{p}" for p in PATTERNS)])  # here, and in the folders here
RESULTS = "validation.jsonl"
TIMEOUT_S = 600.0
DEATH_S = 2.0  # until a killed process counts as one that does not die
LOOK_S = 0.5  # between two looks at the files; longer where a look takes long
LARGEST_OUTPUT = 64 << 20
SHOWN_LINES = 5  # of what a failed validation has printed
DEATH_SIGNAL = processes.DEATH_SIGNAL


class File(NamedTuple):
  """One state of a file."""
  path: str
  changed_ns: int
  size: int
  inode: int

  @property
  def content(self) -> tuple[int, int, int]:
    """The same for all names of a file: links, too."""
    return self[1:]


def state(path: str) -> File | None:
  try:
    found = os.stat(path)
  except OSError:  # it is gone
    return None
  if not stat.S_ISREG(found.st_mode):  # files in a folder may grow while it stays as it is
    return None
  return File(path, found.st_mtime_ns, found.st_size, found.st_ino)


@dataclass
class Running:
  file: File
  link: str  # under this name it stays what it was, also if a new one takes its place
  child: subprocess.Popen
  output: Path
  skipped: list[str]
  began: float
  waited: float = 0.0  # seconds in which it was ready to run and others did
  ended_by: str = ""  # "timeout", "too much output", "end of the run"


@dataclass
class Validation:
  words: list[str]
  patterns: list[str]
  results: str  # a path
  timeout_s: float
  folder: str  # for what validations print
  cores: set[int]
  quiet: bool = False
  known: set[tuple] = field(default_factory=set)  # contents that were there or are dealt with
  waiting: dict[str, File] = field(default_factory=dict)  # by path, as last seen
  running: Running | None = None
  rows: list[dict[str, Any]] = field(default_factory=list)
  skipped: list[str] = field(default_factory=list)
  next_look: float = 0.0
  stuck: list[subprocess.Popen] = field(default_factory=list)  # those that SIGKILL did not end
  broken: str = ""  # why validation has ended for good

  def __post_init__(self) -> None:
    self.known = {file.content for file in self.files()}

  # What the loop that watches the ranks calls.

  def tick(self) -> None:
    """Looks after the validation, and after the files at times. Never raises."""
    if self.broken:
      return
    try:
      self.step(settled=False)
    except processes.Ended:
      raise
    except Exception as error:  # the training must not suffer
      self.give_up(f"{type(error).__name__}: {error}")

  def pids(self) -> Collection[int]:
    """The process that has to outlive the ranks."""
    running = [self.running.child.pid] if self.running else []
    return [*running, *(child.pid for child in self.stuck)]

  def step(self, settled: bool) -> None:
    """`settled`: nobody writes any more."""
    if self.running:
      self.look_after(self.running)
    now = time.monotonic()
    if now < self.next_look and not settled:
      return
    whole = self.look(settled)
    self.next_look = time.monotonic() + max(LOOK_S, 10 * (time.monotonic() - now))
    if whole and not self.running:
      self.start(whole)

  # Files.

  def files(self) -> list[File]:
    return [found for path in matching(self.patterns) if (found := state(path)) is not None]

  def look(self, settled: bool) -> list[File]:
    """The files that are whole and not validated, the oldest first."""
    seen = [file for file in self.files() if file.content not in self.known]
    same = [file for file in seen if settled or self.waiting.get(file.path) == file]
    self.waiting = {file.path: file for file in seen}
    if not same:
      return []
    written = set() if settled else open_files()
    closed = [f for f in same if (f.inode, os.path.realpath(f.path)) not in written]
    # Somebody may have written and closed it since it was seen.
    return sorted((f for f in closed if state(f.path) == f), key=lambda f: (f.changed_ns, f.path))

  # Validations.

  def start(self, whole: list[File]) -> None:
    newest, older = whole[-1], whole[:-1]
    link = keep(newest)
    if link is None:  # it is another one, or gone
      return
    self.known |= {file.content for file in whole}
    skipped = [file.path for file in older if file.content != newest.content]
    self.skipped += skipped
    output = Path(self.folder, f"validation-{len(self.rows)}.txt")
    environment = {k: v for k, v in os.environ.items() if k != "STRETTO_SECRET"}
    environment["STRETTO_CHECKPOINT"] = link
    environment |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}  # they are the ranks'
    environment.setdefault("OMP_NUM_THREADS", str(max(len(self.cores), 1)))
    with open(output, "wb") as file:
      child = subprocess.Popen(self.words, env=environment, stdin=subprocess.DEVNULL, stdout=file,
                               stderr=subprocess.STDOUT, start_new_session=True,
                               preexec_fn=behind_others(self.cores))
    self.running = Running(newest, link, child, output, skipped, time.monotonic())

  def look_after(self, running: Running) -> None:
    code = running.child.poll()
    if code is not None:
      self.ended(running, code)
    elif (took := time.monotonic() - running.began) > self.timeout_s and \
        took - waited_s(running) > self.timeout_s:
      self.kill("timeout")
    elif running.output.stat().st_size > LARGEST_OUTPUT:
      self.kill("too much output")

  def kill(self, why: str) -> None:
    """Ends the validation that runs, with all it has started."""
    if self.running is None:
      return
    running, running.ended_by = self.running, why
    kill_all(running.child)
    code = running.child.returncode
    if code is None:
      self.say(f"process {running.child.pid} did not die: it waits in the kernel or for a core, "
               "and is left")
      self.stuck.append(running.child)
    self.ended(running, -signal.SIGKILL if code is None else code)

  def ended(self, running: Running, code: int) -> None:
    self.running = None
    kill_all(running.child)  # what it has left behind in its group
    if running.link != running.file.path:
      with contextlib.suppress(OSError):
        os.unlink(running.link)
    text = running.output.read_bytes()[-(1 << 20):].decode(errors="replace")
    with contextlib.suppress(OSError):
      running.output.unlink()
    now = state(running.file.path)
    overwritten = now is not None and now.inode == running.file.inode and now != running.file
    outcome = running.ended_by or (
        "ok" if code == 0 else "overwritten" if overwritten else "failed")
    row = {"checkpoint": running.file.path, "written_s": running.file.changed_ns / 1e9,
           "seconds": round(time.monotonic() - running.began, 3), "outcome": outcome,
           "code": code if code >= 0 else 128 - code, "result": result_of(text),
           "overwritten": overwritten, "skipped": running.skipped}
    if outcome != "ok":
      row["output"] = text.splitlines()[-SHOWN_LINES:]
    self.rows.append(row)
    self.write()
    self.tell(row)

  def write(self) -> None:
    """All rows, behind those that were in the file before."""
    path = Path(self.results)
    before = path.read_text() if path.exists() else ""
    if before and not before.endswith("\n"):
      before += "\n"
    _stretto.write_file(self.results, before + json.dumps(self.rows[-1]) + "\n")

  def tell(self, row: dict[str, Any]) -> None:
    if self.quiet:
      return
    old = f"; skipped {', '.join(row['skipped'])}" if row["skipped"] else ""
    shown = json.dumps(row["result"]) if row["result"] is not None else row["outcome"]
    if row["outcome"] not in ("ok", shown):
      shown = f"{row['outcome']}, {shown}"
    self.say(f"{row['checkpoint']}: {shown} ({row['seconds']:.1f} s{old})")

  def say(self, text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal is gone
      print(f"stretto run: validation: {text}", file=sys.stderr, flush=True)

  def give_up(self, why: str) -> None:
    self.broken = why
    self.say(f"ended, and the training goes on: {why}")
    if self.running:
      kill_all(self.running.child)
      self.running = None

  # The end.

  def finish(self, code: int) -> int:
    """After the training: validates its last checkpoint, unless it has failed. The exit code of the
    run: that of the training; after SIGTERM or SIGHUP 128 + the signal."""
    try:
      if code == 0 and not self.broken:
        code = self.last()
    except Exception as error:
      self.give_up(f"{type(error).__name__}: {error}")
    try:
      self.kill("end of the run")
    except OSError as error:  # the results cannot be written
      self.give_up(f"{error}")
    processes.end_all([], self.pids())  # what validations have left in sessions of their own
    failed = [row for row in self.rows if row["outcome"] != "ok"]
    if not self.quiet or failed:
      self.say(f"{len(self.rows) - len(failed)} checkpoints validated, {len(failed)} not, "
               f"{len(self.skipped)} skipped; {self.results if self.rows else 'no results'}")
    for row in failed:
      self.say(f"{row['checkpoint']}: {row['outcome']}, code {row['code']}")
      for line in row["output"]:
        self.say(f"  {line}")
    if not self.rows and not self.broken and code == 0:
      self.say(f"no checkpoint was written that matches {','.join(self.patterns)}; name them with "
               "--validate-on")
    return code

  def last(self) -> int:
    stop = time.monotonic() + self.timeout_s

    def end(number, frame):
      raise processes.Ended(number)

    before = {s: signal.signal(s, end) for s in processes.ENDING}
    try:
      while time.monotonic() < stop:
        pending = self.look(settled=True)
        if not pending and not self.running:
          return 0
        if pending and self.running and self.running.file.changed_ns < pending[-1].changed_ns:
          # Nobody waits for an old one while the last is there.
          self.kill("end of the run")
        self.step(settled=True)
        time.sleep(processes.POLL_S)
      self.kill("timeout")
      return 0
    except processes.Ended as ended:
      self.say("the last checkpoint is not validated: a signal has come")
      return 0 if ended.args[0] == signal.SIGINT else 128 + ended.args[0]
    finally:
      for number, handler in before.items():
        signal.signal(number, handler)


def matching(patterns: list[str]) -> set[str]:
  """The files of which the name matches. Each folder is read once, whatever the number of patterns:
  one may hold the pictures of a dataset."""
  by_folder: dict[str, list[str]] = {}
  for pattern in patterns:
    folder, name = os.path.split(pattern)
    by_folder.setdefault(folder, []).append(name)
  found = set()
  for folder, names in by_folder.items():
    wanted = re.compile("|".join(fnmatch.translate(name) for name in names))
    hidden = any(name.startswith(".") for name in names)
    here = [""] if folder in ("", "**") else []
    for place in [*here, *(glob.glob(folder, recursive=True) if folder else [])]:
      with contextlib.suppress(OSError):  # no folder, or it is gone
        found |= {os.path.join(place, name) for name in os.listdir(place or ".")
                  if wanted.match(name) and (hidden or not name.startswith("."))}
  return found


def keep(file: File) -> str | None:
  """Another name for a file, beside it, so that it stays what it is; its own if there cannot be
  one. None if it is no longer what it was."""
  folder, name = os.path.split(os.path.abspath(file.path))
  link = os.path.join(folder, f".validate-{os.getpid()}-{name}")
  with contextlib.suppress(OSError):
    os.unlink(link)
  try:
    os.link(file.path, link)
  except OSError:  # a folder, or a file system without links
    return os.path.abspath(file.path) if state(file.path) == file else None
  now = state(link)
  if now is None or now.content != file.content:
    os.unlink(link)
    return None
  return link


def open_files() -> set[tuple[int, str]]:
  """(inode, path) of the files that processes below this one have open."""
  found = set()
  for pid in processes.descendants():
    with contextlib.suppress(OSError):
      for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
          found.add((entry.stat().st_ino, os.readlink(entry.path)))
  return found


def behind_others(cores: set[int]):
  """What a child does before it runs: it ends with us, and computes where and when ranks do not."""
  libc = ctypes.CDLL(None)

  def prepare() -> None:
    libc.prctl(DEATH_SIGNAL, signal.SIGKILL)
    os.nice(19)
    with contextlib.suppress(OSError):
      # Not SCHED_IDLE: beside a busy rank a validation would get 1/200 of a core, and never end.
      os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with contextlib.suppress(OSError):  # where sessions share the cores by halves
      Path("/proc/self/autogroup").write_text("19")
    with contextlib.suppress(OSError):
      os.sched_setaffinity(0, cores)
    with contextlib.suppress(ValueError, OSError):
      resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

  return prepare


def kill_all(child: subprocess.Popen) -> None:
  """The child, its group, and what is below it."""
  below = processes.descendants(child.pid) if child.poll() is None else []
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(child.pid, signal.SIGKILL)
  for pid in below:
    with contextlib.suppress(ProcessLookupError):
      os.kill(pid, signal.SIGKILL)
  with contextlib.suppress(subprocess.TimeoutExpired):  # it waits in the kernel, such as for a disk
    child.wait(DEATH_S)


def waited_s(running: Running) -> float:
  """How long a validation was ready to run while others ran: that is not its fault."""
  with contextlib.suppress(OSError, ValueError):
    for pid in [running.child.pid, *processes.descendants(running.child.pid)]:
      for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # it has ended
          waited = int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[1]) / 1e9
          running.waited = max(running.waited, waited)
  return running.waited


def result_of(text: str) -> Any:
  """The last line that is a JSON object."""
  for line in reversed(text.splitlines()):
    if re.match(r"\s*\{.*\}\s*$", line):
      try:
        return json.loads(line, parse_constant=lambda name: None)  # NaN is no JSON
      except ValueError:
        continue
  return None


def spare_cores(ranks: int, bound: bool) -> set[int]:
  """The cores that `ranks` bound ranks leave over (stretto._rank), or all of them."""
  cores = sorted(os.sched_getaffinity(0))
  rest = cores[len(cores) // ranks * ranks:] if bound and 0 < ranks <= len(cores) else []
  return set(rest or cores)


def command_words(text: str) -> list[str]:
  """ValueError if it cannot be started."""
  try:
    words = shlex.split(text)
  except ValueError as error:
    raise ValueError(f"--validate: {error}: {text}") from None
  if not words:
    raise ValueError("--validate: expected a script or a program with its arguments, got nothing")
  if words[0].endswith(".py"):
    if not os.path.isfile(words[0]):
      raise ValueError(f"--validate: {words[0]}: there is no such file")
    return [sys.executable, *words]
  if shutil.which(words[0]) is None:
    raise ValueError(f"--validate: {words[0]}: there is no such program")
  return words


def check(args: Any) -> None:
  """ValueError for what can be known to be wrong before anything starts."""
  if not args.validate:
    given = [name for name, value in (("--validate-on", args.validate_on != PATTERN),
                                      ("--validate-results", args.validate_results != RESULTS),
                                      ("--validate-timeout", args.validate_timeout != TIMEOUT_S))
             if value]
    if given:
      raise ValueError(f"{given[0]} is for --validate: give both")
    return
  command_words(args.validate)
  if not args.validate_timeout > 0:
    raise ValueError(f"--validate-timeout: expected seconds above 0, got {args.validate_timeout:g}")
  if not any(args.validate_on.split(",")):
    raise ValueError("--validate-on: expected patterns of file names, got nothing")
  _stretto.check_writable(args.validate_results)


def of(args: Any, folder: str, ranks_here: int) -> Validation | None:
  """What --validate asks for. Where several hosts run the command, the first one's does it."""
  if not args.validate or args.node_rank:
    return None
  return Validation(command_words(args.validate), [p for p in args.validate_on.split(",") if p],
                    args.validate_results, args.validate_timeout, folder,
                    spare_cores(ranks_here, not args.no_bind), args.quiet)
