"""The thread that starts operations in an order all ranks agree on."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stretto import comm
from stretto.horovod.negotiator import Negotiator

kJoin = "stretto.join"
kLog = logging.getLogger("stretto")


def stall_limit_s() -> float:
  return float(os.environ.get("STRETTO_STALL_WARNING", "60"))


@dataclass
class Handle:
  """A submitted operation. `start` runs on the coordinator's thread and returns what `finish`,
  which runs in synchronize, turns into the result."""
  name: str
  description: str
  start: Callable[[], object]
  finish: Callable[[object], object]
  started: threading.Event = field(default_factory=threading.Event)
  running: object = None
  error: Exception | None = None
  submitted_at: float = field(default_factory=time.monotonic)
  warned: bool = False


class Coordinator:
  """`stand_in(description)` starts an operation on behalf of a rank that has joined."""

  def __init__(self, engine: comm.Engine, group: int, stand_in: Callable[[str], object]):
    self.pending_: dict[str, Handle] = {}
    self.changed_ = threading.Condition()
    self.leaving_ = False
    self.broken_: Exception | None = None
    self.stand_in_ = stand_in
    self.kept_: list = []  # what stands in has to stay alive
    self.limit_s_ = stall_limit_s()
    self.negotiator_ = Negotiator(engine, group, lambda name: self.pending_[name].description)
    self.thread_ = threading.Thread(target=self.run, name="stretto-coordinator", daemon=True)
    self.thread_.start()

  def submit(self, handle: Handle) -> Handle:
    with self.changed_:
      if self.broken_ is not None:
        raise self.broken_
      if handle.name in self.pending_:
        raise ValueError(f"'{handle.name}' was submitted before and is not done yet: "
                         "give every tensor a name of its own")
      self.pending_[handle.name] = handle
      self.changed_.notify()
    return handle

  def leave(self) -> None:
    """Returns when all ranks are leaving."""
    with self.changed_:
      self.leaving_ = True
      self.changed_.notify()
    self.thread_.join()

  def run(self) -> None:
    try:
      while self.turn():
        pass
    except Exception as error:  # the job is broken; whoever waits is told
      with self.changed_:
        self.broken_ = error
        for handle in self.pending_.values():
          handle.error = error
          handle.started.set()
        self.pending_.clear()

  def turn(self) -> bool:
    """One round; False when all ranks have left."""
    with self.changed_:
      self.changed_.wait_for(lambda: self.pending_ or self.leaving_)
      ready = set(self.pending_)
    stalled = self.stalled()
    found, over = self.negotiator_.round(ready, kJoin in ready, self.leaving_, bool(stalled))
    for handle in stalled:
      self.report(handle)
    if kJoin in found:
      found = [kJoin]  # every rank has set every bit
    for name in found:
      self.begin(name)
    if not found and not over:
      time.sleep(self.negotiator_.pause_s)
    return not over

  def begin(self, name: str) -> None:
    with self.changed_:
      handle = self.pending_.pop(name, None)
    if handle is None:
      self.kept_ = [*self.kept_[-64:], self.stand_in_(self.negotiator_.description(name))]
      return
    try:
      if name != kJoin:
        self.negotiator_.description(name)
      handle.running = handle.start()
    except Exception as error:  # its submitter is told
      handle.error = error
    handle.started.set()

  def stalled(self) -> list[Handle]:
    now = time.monotonic()
    with self.changed_:
      return [h for h in self.pending_.values()
              if not h.warned and h.name != kJoin and now - h.submitted_at > self.limit_s_]

  def report(self, handle: Handle) -> None:
    handle.warned = True
    ranks = self.negotiator_.missing(handle.name)
    kLog.warning("'%s' has been ready here for %.0f s, but not on rank%s %s", handle.name,
                 time.monotonic() - handle.submitted_at, "s" if len(ranks) != 1 else "",
                 ", ".join(map(str, ranks)))


def wait(handle: Handle):
  handle.started.wait()
  if handle.error is not None:
    raise handle.error
  return handle.finish(handle.running)
