"""Reports of NaN and infinity that an engine's ranks contributed: taken from C++, named, kept."""

from __future__ import annotations

import contextlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stretto._completions import IDLE_S, THREADS, guarded, start_thread
from stretto._errors import Error, UnsupportedError

if TYPE_CHECKING:
  from stretto.comm import Engine

MOST = 1000  # reports that are kept
NAMES_S = 5.0  # that close() waits for names
LOG = logging.getLogger("stretto")

# Replaces the name of an operation in a report by that of the gradient; False: not possible on this
# thread now.
SetName = Callable[[dict[str, Any]], bool]
# What does so for a report that has just come; None: its name stays.
FindName = Callable[[dict[str, Any]], "SetName | None"]


class NonFinite:

  def __init__(self) -> None:
    self.kept: list[dict[str, Any]] = []  # oldest first
    # Reports whose gradient is not found yet.
    self._unnamed: deque[tuple[dict[str, Any], SetName | None]] = deque()
    self._more = 0  # reports that were not kept
    self._taking, self._naming = threading.RLock(), threading.RLock()

  def renew_locks(self) -> None:
    """In a forked child, where they may be locked for ever."""
    self._taking, self._naming = threading.RLock(), threading.RLock()

  def reports(self, native: Any, find_name: FindName | None) -> list[dict[str, Any]]:
    self.note(native, find_name)
    with self._naming:
      if self._more > 0 and self.kept:
        self.kept[-1]["more"] += self._more
        self._more = 0
    return self.kept

  def note(self, native: Any, find_name: FindName | None) -> None:
    """Takes the new reports, and logs the first of all."""
    self._take(native, find_name)
    self._name()

  def finish(self, native: Any, find_name: FindName | None) -> None:
    """Before the engine is closed. A name may need a lock whose holder waits for that."""
    with contextlib.suppress(Error, UnsupportedError):
      self._take(native, find_name)
      if self._unnamed:
        thread = start_thread("stretto-reports", self._name)
        THREADS.add(thread)
        thread.join(NAMES_S)

  def _take(self, native: Any, find_name: FindName | None) -> None:
    with self._taking:
      for rank, name, group, sequence, offset, count, more in native.take_non_finite():
        self._more += more
        if len(self.kept) + len(self._unnamed) < MOST:
          report = {"rank": rank, "name": name, "group": group, "sequence": sequence,
                    "first_offset": offset, "count": count, "more": 0}
          self._unnamed.append((report, find_name(report) if find_name is not None else None))
        else:
          self._more += 1

  def _name(self) -> None:
    with self._naming:
      while self._unnamed:
        report, set_name = self._unnamed[0]
        if set_name is not None and not set_name(report):
          return
        self._unnamed.popleft()
        if not self.kept:
          LOG.warning("rank %d: %d values of %s are NaN or infinite, the first at element %d "
                      "(operation %d)", report["rank"], report["count"],
                      report["name"] or "an operation", report["first_offset"],
                      report["sequence"])
        self.kept.append(report)


def watch(engine: Engine) -> None:
  """Starts the thread that takes the engine's reports. It sleeps in C++ until there is one, so
  nobody else looks for reports, and nobody waits for it: a name may need a lock of torch's whose
  holder waits for the completion thread."""
  with contextlib.suppress(UnsupportedError):  # close() and non_finite() take them then
    THREADS.add(start_thread("stretto-reports", take, engine.native, weakref.ref(engine)))


def take(native: Any, owner: weakref.ref[Engine]) -> None:
  """What the thread runs, until the engine is closed or forgotten."""
  while True:
    try:
      native.wait_non_finite(IDLE_S)
    except Error:
      return
    engine = owner()
    if engine is None or engine._closed:
      return
    guarded(note, engine, native)
    del engine


def note(engine: Engine, native: Any) -> None:
  with contextlib.suppress(Error):  # it was closed meanwhile, which has taken them
    engine._reports.note(native, engine.find_name)
