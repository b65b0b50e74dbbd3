"""How this process ends. A rank that leaves says goodbye, so that the others do not take it for a
loss."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

EARLY, LATE = 20, 10  # handlers with the higher number run first
HOOKED: set[tuple[int, Callable[[], None]]] = set()


def at_end_of_child(handler: Callable[[], None], order: int) -> None:
  """For an atexit handler, called when it gets something to do: Python does not run it in a child
  of multiprocessing that was forked. With this multiprocessing does, once per process."""
  util = sys.modules.get("multiprocessing.util")  # every such child has it
  if util is None or sys.modules["multiprocessing"].parent_process() is None:
    return
  if (os.getpid(), handler) not in HOOKED:
    HOOKED.add((os.getpid(), handler))
    util.Finalize(None, handler, exitpriority=order)


def failed() -> bool:
  """Whether the process ends with an exception, from one of its handlers."""
  now = sys.exc_info()[1]  # in a child of multiprocessing
  return hasattr(sys, "last_value") or (now is not None and not isinstance(now, SystemExit))
