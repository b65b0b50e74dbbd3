"""Children that end with us: on Ctrl-C, on a termination signal, or when one of them fails, all of
them are asked to end, and a second later killed with everything they have started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from stretto._rank_output import RankOutput

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DUMP = signal.SIGUSR2  # asks ranks for their flight records
GRACE_S = 1.0
POLL_S = 0.05
Watch = Callable[[list[subprocess.Popen], list[RankOutput], Callable], int]
STDIN = {None: None, "": subprocess.DEVNULL}  # by Command.told
DEATH_SIGNAL, SUBREAPER = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER


class Command(NamedTuple):
  words: list[str]
  environment: dict[str, str]  # changes to ours
  # What it reads from standard input. None: ours. A text: this, and then nothing until we end.
  told: str | None = None


class Ended(Exception):
  """A signal asks us to end."""


def run_all(todo: Sequence[Command], outputs: list[RankOutput] | None = None,
            watch: Watch | None = None,
            tick: Callable[[], None] | None = None,
            spare: Callable[[], Collection[int]] = tuple) -> int:
  """Runs the commands at once and waits. The exit code of the first that failed, or 0;
  128 + signal when a signal ended it. `outputs` says where each one writes; our own output without.
  `watch(children, outputs, start)` waits in another way; start(command, output) adds a child.
  `tick()` is called all the time; without `watch`. `spare()` gives processes of ours that stay when
  the commands have ended.
  Main thread only."""
  libc = ctypes.CDLL(None)
  libc.prctl(SUBREAPER, 1)  # processes whose parent dies become our children

  def end(number, frame):
    raise Ended(number)

  children: list[subprocess.Popen] = []
  written: list[RankOutput] = []

  def start(command: Command, output: RankOutput | None = None) -> None:
    if output is not None:
      written.append(output)
    # Sessions of their own: Ctrl-C in the terminal comes to us alone.
    child = subprocess.Popen(
        command.words, env={**os.environ, **command.environment}, start_new_session=True,
        stdin=STDIN.get(command.told, subprocess.PIPE),
        preexec_fn=lambda: libc.prctl(DEATH_SIGNAL, signal.SIGTERM),
        **(output.streams() if output else {}))
    children.append(child)
    tell(child, command.told)
    if output is not None:
      output.follow(child)

  before = {s: signal.signal(s, end) for s in ENDING}
  before[DUMP] = signal.signal(DUMP, lambda number, frame: ask_for_records(children))
  try:
    for index, command in enumerate(todo):
      start(command, outputs[index] if outputs else None)
    return watch(children, written, start) if watch else wait_for(children, written, tick)
  except Ended as ended:
    return 128 + ended.args[0]
  finally:
    for number in before:
      signal.signal(number, signal.SIG_IGN)
    end_all(children, spare())
    for output in written:
      output.finish()
    for number, handler in before.items():
      signal.signal(number, handler)


def tell(child: subprocess.Popen, text: str | None) -> None:
  """The pipe stays open: a child that reads the end of it knows that we have ended."""
  if child.stdin is None or text is None:
    return
  try:
    child.stdin.write(text.encode())
    child.stdin.flush()
  except BrokenPipeError:  # it has ended already; its exit code says why
    pass


def ask_for_records(children: list[subprocess.Popen]) -> None:
  """All ranks below us that know the signal, and those on other hosts (stretto._remote)."""
  for child in children:
    tell(child, "dump\n")
  for pid in descendants():
    if catches(pid, DUMP):
      with contextlib.suppress(ProcessLookupError):
        os.kill(pid, DUMP)


def catches(pid: int, number: int) -> bool:
  """Whether the signal has a handler there; others would be ended by it."""
  try:
    status = Path(f"/proc/{pid}/status").read_text()
  except OSError:  # it has ended meanwhile
    return False
  mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
  return bool(int(mask, 16) >> (number - 1) & 1)


def check_read(outputs: list[RankOutput]) -> None:
  if any(output.unread for output in outputs):
    raise BrokenPipeError("whoever reads the output has left")


def wait_for(children: list[subprocess.Popen], outputs: list[RankOutput],
             tick: Callable[[], None] | None = None) -> int:
  while True:
    check_read(outputs)
    if tick is not None:
      tick()
    codes = [child.poll() for child in children]
    failed = next((code for code in codes if code), None)
    if failed is not None:
      return failed if failed > 0 else 128 - failed
    if None not in codes:
      return 0
    time.sleep(POLL_S)


def end_all(children: list[subprocess.Popen], spare: Collection[int] = ()) -> None:
  stop = time.monotonic() + GRACE_S
  for child in children:
    if child.poll() is None:
      child.terminate()
  while descendants(spare=spare) and time.monotonic() < stop:
    time.sleep(POLL_S)
    reap(children, spare)
  while alive := descendants(spare=spare):
    for pid in alive:
      try:
        os.kill(pid, signal.SIGKILL)
      except ProcessLookupError:  # it was faster
        pass
    time.sleep(POLL_S)
    reap(children, spare)


def processes() -> Iterator[tuple[int, str, int]]:
  """(pid, state, parent) of all there are."""
  for entry in Path("/proc").iterdir():
    if entry.name.isdigit():
      try:
        # The name, in parentheses, may hold parentheses too.
        state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
      except OSError:  # it has ended meanwhile
        continue
      yield int(entry.name), state, int(parent)


def descendants(root: int | None = None, spare: Collection[int] = ()) -> list[int]:
  """Every process below this one, or below `root`, that has not ended; not `spare` and what is
  below them."""
  children: dict[int, list[int]] = {}
  for pid, state, parent in processes():
    if state not in "ZX":
      children.setdefault(parent, []).append(pid)
  found, front = [], [root or os.getpid()]
  while front:
    front = [child for parent in front for child in children.get(parent, []) if child not in spare]
    found += front
  return found


def reap(children: list[subprocess.Popen], spare: Collection[int] = ()) -> None:
  """Takes note of processes that have ended, adopted ones too."""
  own = {child.pid for child in children} | set(spare)
  for child in children:
    child.poll()
  for pid, state, parent in processes():
    if state == "Z" and parent == os.getpid() and pid not in own:
      try:
        os.waitpid(pid, os.WNOHANG)
      except ChildProcessError:
        pass
