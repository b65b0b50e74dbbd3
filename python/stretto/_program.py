"""How a program of this package ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


def run_program(main: Callable[[], int]) -> int:
  """main(), and quiet when the reader of what it prints has left."""
  try:
    try:
      return main()
    finally:
      sys.stdout.flush()
  except BrokenPipeError:
    # The interpreter writes what is left at its end, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE
