"""Reports of NaN and infinity that an engine's ranks contributed: taken from C++, named, kept."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from stretto._completions import THREADS, start_thread
from stretto._errors import UnsupportedError

MOST = 1000  # reports that are kept
LOG = logging.getLogger("stretto")

# Replaces the name of an operation in a report by that of the gradient; False: not possible on this
# thread now.
FindName = Callable[[dict[str, Any]], bool]


class NonFinite:

  def __init__(self) -> None:
    self.kept: list[dict[str, Any]] = []  # oldest first
    self._unnamed: deque[dict[str, Any]] = deque()  # reports whose gradient is not found yet
    self._more = 0  # reports that were not kept
    self._lock = threading.RLock()

  def renew_lock(self) -> None:
    """In a forked child, where it may be locked for ever."""
    self._lock = threading.RLock()

  def reports(self, native: Any, find_name: FindName | None) -> list[dict[str, Any]]:
    self._take(native)
    self._name(find_name)
    with self._lock:
      if self._more > 0 and self.kept:
        self.kept[-1]["more"] += self._more
        self._more = 0
    return self.kept

  def note(self, native: Any, find_name: FindName | None) -> None:
    """Logs the first report as soon as its operation is over."""
    if not self._take(native):
      return
    if find_name is None:
      self._name(None)
      return
    # Elsewhere: a name may need a lock of torch's whose holder waits for the completion thread.
    with contextlib.suppress(UnsupportedError):  # reports() does it
      THREADS.add(start_thread("stretto-reports", self._name, find_name))

  def _take(self, native: Any) -> bool:
    for rank, name, group, sequence, offset, count, more in native.take_non_finite():
      self._more += more
      if len(self.kept) + len(self._unnamed) < MOST:
        self._unnamed.append({"rank": rank, "name": name, "group": group, "sequence": sequence,
                              "first_offset": offset, "count": count, "more": 0})
      else:
        self._more += 1
    return bool(self._unnamed)

  def _name(self, find_name: FindName | None) -> None:
    with self._lock:
      while self._unnamed:
        report = self._unnamed[0]
        if find_name is not None and not find_name(report):
          return
        self._unnamed.popleft()
        if not self.kept:
          LOG.warning("rank %d: %d values of %s are NaN or infinite, the first at element %d "
                      "(operation %d)", report["rank"], report["count"],
                      report["name"] or "an operation", report["first_offset"],
                      report["sequence"])
        self.kept.append(report)
