"""The `stretto` command."""

from __future__ import annotations

import signal
import sys

from stretto import _stretto


def main() -> int:
  # The command runs in C++, where Python's handler would only be remembered.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  sys.stdout.flush()
  return _stretto.main(sys.argv[1:], sys.executable)


if __name__ == "__main__":
  sys.exit(main())
