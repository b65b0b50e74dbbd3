"""Shows what the ranks of a job print, until the job is over: `run` and `logs -f`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import IO, Any

from stretto.cluster._backend import OVER, RUNS, WAITS, Backend, News, State
from stretto.cluster._host import ClusterError

NEWS_S, FAR_NEWS_S = 0.03, 1.0  # between two looks at the logs, here and through ssh
LOGS_SLOWEST_S = 0.5
ASK_S, ASK_SLOWEST_S = 0.5, 5.0  # between two questions to the scheduler
ENDING_S = 0.05
PATIENCE_S = 60.0  # with a scheduler that does not answer, while the job may go on
LONGEST_LINE = 1 << 16
HELD = "launch failed"
CANCELLED, LATE = 128 + signal.SIGTERM, 124
CODES = {"TIMEOUT": LATE, "DEADLINE": LATE, "CANCELLED": CANCELLED, "KILLED": 128 + signal.SIGKILL,
         "COMPLETED": 0}


class Printer:
  """Whole lines, each with its rank before it."""

  def __init__(self, out: IO[str], only: int | None = None) -> None:
    self.out, self.only = out, only
    self.parts: dict[int | None, bytes] = {}

  def show(self, news: list[News]) -> bool:
    """Whether there was anything."""
    for rank, data in news:
      if self.only is not None and rank != self.only:
        continue
      lines = (self.parts.pop(rank, b"") + data).split(b"\n")
      rest = lines.pop()
      for line in lines:
        self.line(rank, line)
      if len(rest) > LONGEST_LINE:
        self.line(rank, rest)
      elif rest:
        self.parts[rank] = rest
    if news:
      self.out.flush()
    return bool(news)

  def line(self, rank: int | None, data: bytes) -> None:
    prefix = "[job] " if rank is None else f"[{rank}] "
    self.out.write(prefix + data.decode(errors="replace").rstrip("\r") + "\n")

  def finish(self) -> None:
    for rank, rest in sorted(self.parts.items(), key=lambda item: (item[0] is None, item[0])):
      self.line(rank, rest)
    self.parts.clear()
    self.out.flush()


class Left(Exception):
  """The user asks to leave the job alone (detach), or to cancel it."""


class Patience:
  """With a scheduler or a host that does not answer, while the job may go on."""

  def __init__(self, job: str, hint: str = "") -> None:
    self.job, self.hint, self.since = job, hint, 0.0

  def answered(self) -> None:
    self.since = 0.0

  def spend(self, error: ClusterError) -> None:
    """Raises the error when it has gone on for long."""
    now = time.monotonic()
    self.since = self.since or now
    if now - self.since > PATIENCE_S:
      raise ClusterError(f"{error}; job {self.job} may go on: `stretto cluster logs {self.job} -f"
                         f"{self.hint}`") from None


def follow(backend: Backend, job: str, folder: str, note: Callable[[str], None],
           printer: Printer | None = None, offsets: dict[str, int] | None = None) -> int:
  """The exit code of the job."""
  printer = printer or Printer(sys.stdout)
  offsets = {} if offsets is None else offsets
  far = bool(backend.host.name)
  shortest = pause = FAR_NEWS_S if far else NEWS_S
  asked_at, ask_s, told = 0.0, 0.0, ""
  patience = {"news": Patience(job, backend.where_option()),
              "state": Patience(job, backend.where_option())}
  began = time.monotonic()
  state = State(WAITS)
  left: str | None = None
  while True:
    try:
      news, left = backend.news(folder, offsets)
      patience["news"].answered()
    except ClusterError as error:
      patience["news"].spend(error)
      time.sleep(pause)
      continue
    if printer.show(news):
      pause = shortest
      if far:  # each look is a connection
        time.sleep(pause)
      continue
    now = time.monotonic()
    if now - asked_at >= (ENDING_S if left is not None else ask_s):
      asked_at, ask_s = now, min(max(ask_s * 1.3, ASK_S), ASK_SLOWEST_S)
      try:
        state = backend.state(job, folder)
        patience["state"].answered()
      except ClusterError as error:
        patience["state"].spend(error)
      told = tell(job, state, told, now - began, note)
      if state.what == WAITS and HELD in state.reason:
        raise ClusterError(f"job {job}: Slurm could not start it and holds it ({state.reason}); "
                           f"slurmd's log says why. `scontrol release {job}` tries again, "
                           f"`stretto cluster stop {job}{backend.where_option()}` ends it")
      if state.what == OVER:  # one that only ends may be preempted, and start again
        return finish(backend, job, folder, offsets, printer, state, note)
    time.sleep(pause)
    pause = min(pause * 1.1, max(LOGS_SLOWEST_S, pause))


def tell(job: str, state: State, told: str, since_s: float, note: Callable[[str], None]) -> str:
  """Says once why a job waits."""
  if state.what == WAITS and since_s > 1 and state.reason not in ("", "None", told):
    note(f"job {job} waits: {state.reason}")
    return state.reason
  if state.what == RUNS and told:
    note(f"job {job} runs")
    return ""
  return told


def finish(backend: Backend, job: str, folder: str, offsets: dict[str, int], printer: Printer,
           state: State, note: Callable[[str], None]) -> int:
  """Shows the rest, and waits a moment for the files of a node that wrote the code last."""
  stop = time.monotonic() + (backend.spread_s if state.word in ("COMPLETED", "FAILED") else 0)
  patience = Patience(job, backend.where_option())
  while True:
    try:
      news, left = backend.news(folder, offsets)
      patience.answered()
    except ClusterError as error:
      patience.spend(error)
      time.sleep(FAR_NEWS_S)
      continue
    more = printer.show(news)
    if not more and (left is not None or time.monotonic() > stop):
      break
    time.sleep(FAR_NEWS_S if backend.host.name else 0 if more else NEWS_S)
  printer.finish()
  code = code_of(state, left)
  if state.word not in ("", "COMPLETED", "COMPLETING", "FAILED") or (code and left is None):
    note(f"job {job} ended: {state.word or 'the scheduler has forgotten it'}"
         + (f" ({state.reason})" if state.reason not in ("", "None") else ""))
  return code


def code_of(state: State, left: str | None) -> int:
  text = (left or "").strip()
  own = int(text) if text.isdigit() else None
  if state.word in CODES and (own is None or (own == 0) != (CODES[state.word] == 0)):
    return CODES[state.word]  # cancelled jobs may still end well, by their own account
  if own == 0 and state.word not in ("", "COMPLETED", "COMPLETING", "FAILED"):
    return 1  # PREEMPTED, OUT_OF_MEMORY, NODE_FAIL
  return 1 if own is None else own


def until_over(backend: Backend, job: str, folder: str, note: Callable[[str], None],
               printer: Printer, offsets: dict[str, int], seconds: float) -> None:
  """After a job was cancelled: what its ranks still print, for so long at most."""
  stop = time.monotonic() + seconds
  while time.monotonic() < stop:
    try:
      printer.show(backend.news(folder, offsets)[0])
      if backend.state(job, folder).what == OVER:
        printer.show(backend.news(folder, offsets)[0])
        printer.finish()
        return
    except ClusterError:  # it was cancelled; what does not answer now does not change that
      pass
    time.sleep(FAR_NEWS_S if backend.host.name else ENDING_S)
  note(f"job {job} has not ended after {seconds:g} s; its scheduler goes on ending it")


def until_signal(action: Callable[[], int], leave: Callable[[str], int],
                 cancel: Callable[[], int], question: bool = True) -> int:
  """Runs the action; Ctrl-C asks whether to leave the job or to cancel it, and cancels it the
  second time, or where nobody can answer. A lost terminal or SIGTERM leaves the job running. A
  signal while it is being cancelled or left ends the waiting. Signals that this process was started
  to ignore (nohup, a background job of a shell) stay ignored."""
  def end(number: int, frame: Any) -> None:
    raise Left(number)

  before = {n: signal.signal(n, end) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(n) != signal.SIG_IGN}

  def on_signal(number: int) -> int | None:
    if number != signal.SIGINT:
      return leave(signal.Signals(number).name)
    answer = asked() if question else "cancel"
    if isinstance(answer, int):  # a signal came instead of an answer
      return cancel() if answer == signal.SIGINT else leave(signal.Signals(answer).name)
    return {"detach": lambda: leave(""), "cancel": cancel}.get(answer, lambda: None)()

  try:
    while True:
      try:
        return action()
      except Left as left:
        number = left.args[0]
      code = on_signal(number)
      if code is not None:
        return code
  except Left as second:
    return 128 + second.args[0]
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


def asked() -> str | int:
  """The answer, or the number of the signal that came instead of one."""
  if not (sys.stdin.isatty() and sys.stderr.isatty()):
    return "cancel"
  try:
    sys.stderr.write("\nCancel the job, detach from it, or go on? [c/d/Enter] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
  except Left as left:
    return left.args[0]
  except OSError:  # the terminal is gone
    return signal.SIGHUP
  if not answer:  # its end: the terminal closes
    return signal.SIGHUP
  return {"c": "cancel", "cancel": "cancel", "d": "detach", "detach": "detach"}.get(
    answer.strip().lower(), "")
