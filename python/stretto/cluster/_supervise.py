"""Leads a job of the local back end, in the job's folder: starts its ranks, waits, and leaves the
job's exit code.

  cd FOLDER; python -m stretto.cluster._supervise"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from stretto import _processes
from stretto.cluster import _agent, _task, _watch_steps


def free_port() -> int:
  """Free together with the next one."""
  while True:
    with socket.socket() as first, socket.socket() as second:
      first.bind(("127.0.0.1", 0))
      port = first.getsockname()[1]
      with contextlib.suppress(OSError, OverflowError):
        second.bind(("127.0.0.1", port + 1))
        return port


def main() -> int:
  folder = os.getcwd()
  asked = json.loads(Path("local.json").read_text())
  ranks = asked["ranks"]
  common = {"PYTHONUNBUFFERED": "1", **asked["environment"], "STRETTO_JOB_FOLDER": folder,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
  os.chdir(Path(_agent.WORK, asked["inside"]))
  watcher = None
  if asked["hang_after"]:
    common["STRETTO_PROGRESS"] = f"{folder}/progress"
    watcher = subprocess.Popen([sys.executable, _watch_steps.__file__, "--group", str(os.getpid()),
                                str(asked["hang_after"])],
                               env={**os.environ, **common}, stdin=subprocess.DEVNULL)
  code = _processes.run_all([_processes.Command(
    [asked["python"], _task.__file__, *asked["words"]],
    {**common, "STRETTO_TASK": f"{rank}/{ranks}/{rank}/{ranks}"}, told="")
    for rank in range(ranks)])
  if watcher:
    watcher.kill()
    watcher.wait()
  _agent.write(folder, "exit", f"{124 if Path(folder, 'hangs').exists() else code}\n")
  return code


if __name__ == "__main__":
  sys.exit(main())
