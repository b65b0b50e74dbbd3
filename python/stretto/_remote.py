"""One host of `stretto run -H`.

  python -m stretto._remote COMMAND...        runs a command there
  python -m stretto._remote --fetch FOLDER    prints what its ranks left, and removes it

The first line of standard input is a JSON object: variables that no list of processes may show,
such as the job's secret, and the folder in which ranks leave accounts and flight records. A later
line, "dump", asks the ranks for such records. Standard input ends when the launcher or its
connection has ended; then the command ends too, with everything it has started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

from stretto import _processes as processes

ENVIRONMENT, FOLDER = "environment", "folder"  # of what it is told
FETCH = "--fetch"
OURS = "made-by-remote"  # a file in folders that make_folder() has made


def follow_launcher() -> None:
  while told := os.read(0, 4096):
    if b"dump" in told:
      os.kill(os.getpid(), processes.DUMP)
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


def make_folder(folder: str | None) -> bool:
  """False if there is one already: another host's, in a file system that both see."""
  try:
    if folder:
      os.mkdir(folder, 0o700)
      (Path(folder) / OURS).touch()
    return bool(folder)
  except OSError:
    return False


def fetch(folder: str) -> int:
  """The folder is gone after this."""
  left = {}
  for file in sorted(Path(folder).glob("**/rank-*.json")):
    try:
      left[str(file.relative_to(folder))] = json.loads(file.read_text())
    except (OSError, ValueError):  # its rank was killed while it wrote
      continue
  if (Path(folder) / OURS).exists():
    shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(left))
  return 0


def main() -> int:
  if sys.argv[1:2] == [FETCH]:
    return fetch(sys.argv[2])
  try:
    told = json.loads(first_line())
  except (EOFError, ValueError) as error:
    print(f"stretto run: this host was told nothing: {error}", file=sys.stderr)
    return 3
  folder = told.get(FOLDER)
  made = make_folder(folder)
  # What a rank prints shall appear at once, although there is no terminal.
  shown = {} if "PYTHONUNBUFFERED" in os.environ else {"PYTHONUNBUFFERED": "1"}
  threading.Thread(target=follow_launcher, daemon=True).start()
  code = processes.run_all([processes.Command(sys.argv[1:], told.get(ENVIRONMENT, {}) | shown,
                                              told="")])
  wanted = code != 0 or "STRETTO_RUN_FOLDER" in os.environ
  if made and (not wanted or code in (128 + number for number in processes.ENDING)):
    shutil.rmtree(folder, ignore_errors=True)  # nobody will fetch it
  return code


if __name__ == "__main__":
  sys.exit(main())
