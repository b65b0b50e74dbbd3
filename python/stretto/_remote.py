"""One host of `stretto run -H`: runs a command there, as `python -m stretto._remote COMMAND...`.

The first line of standard input is a JSON object with variables that no list of processes may show,
such as the job's secret. Standard input ends when the launcher or its connection has ended; then
the command ends too, with everything it has started."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from stretto import _processes as processes


def follow_launcher() -> None:
  while os.read(0, 4096):
    pass
  os.kill(os.getpid(), signal.SIGHUP)


def first_line() -> str:
  """Unbuffered, so that nothing of what follows is lost."""
  line = b""
  while not line.endswith(b"\n"):
    byte = os.read(0, 1)
    if not byte:
      raise EOFError("the launcher has ended")
    line += byte
  return line.decode()


def main() -> int:
  try:
    told = json.loads(first_line())
  except (EOFError, ValueError) as error:
    print(f"stretto run: this host was told nothing: {error}", file=sys.stderr)
    return 3
  # What a rank prints shall appear at once, although there is no terminal.
  shown = {} if "PYTHONUNBUFFERED" in os.environ else {"PYTHONUNBUFFERED": "1"}
  threading.Thread(target=follow_launcher, daemon=True).start()
  return processes.run_all([processes.Command(sys.argv[1:], told | shown, told="")])


if __name__ == "__main__":
  sys.exit(main())
