"""Jobs that are processes of this machine: there is no scheduler, so all of them run at once. The
job's folder says which process leads the job; /proc says whether it is alive."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from stretto.cluster import _agent, _state
from stretto.cluster._backend import OVER, RUNS, Backend, Request, Row, State
from stretto.cluster._host import ClusterError, Host
from stretto.cluster._slurm import SECRET, SECRET_BYTES

START_S, POLL_S = 10.0, 0.02
LEADER = "leader.json"


class Local(Backend):

  name = "local"

  def __init__(self, host: Host) -> None:
    self.host = host

  def about(self) -> str:
    return "processes of this machine, no scheduler"

  def files(self, request: Request) -> dict[str, str]:
    for option, value in (("--queue", request.queue), ("--time", request.time),
                          ("--nodes", request.parts[0].nodes),
                          ("--chips", [p for p in request.parts if p.total])):
      if value:
        raise ValueError(f"{option}: needs a scheduler; `stretto cluster up --local-slurm` starts "
                         "one here")
    python = request.parts[0].python or request.python or sys.executable
    return {"local.json": json.dumps(
      {"ranks": request.ranks, "words": request.words, "python": python, "inside": request.inside,
       "environment": request.environment, "hang_after": request.hang_after}, indent=1) + "\n"}

  def words(self, request: Request) -> list[str]:
    return [sys.executable, "-m", "stretto.cluster._supervise"]

  def submit(self, request: Request, folder: str) -> str:
    """A session of its own, so that it goes on when this terminal closes."""
    environment = {**os.environ, **request.secrets,
                   SECRET: os.environ.get(SECRET) or secrets.token_hex(SECRET_BYTES)}
    with open(Path(folder, "logs/batch.log"), "ab") as log:
      child = subprocess.Popen(self.words(request), cwd=folder, env=environment, stdout=log,
                               stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    _agent.write(folder, LEADER, json.dumps({"pid": child.pid, "began": began(child.pid),
                                             "time": time.time()}))
    return f"local-{child.pid}"

  def leader(self, folder: str) -> dict[str, Any]:
    return json.loads(_agent.read_text(folder, LEADER) or "{}")

  def is_alive(self, folder: str) -> bool:
    leader = self.leader(folder)
    return bool(leader) and began(leader["pid"]) == leader["began"] is not None

  def state(self, job: str, folder: str) -> State:
    if self.is_alive(folder):
      return State(RUNS, "RUNNING")
    code = (_agent.read_text(folder, "exit") or "").strip()
    return State(OVER, {"": "KILLED", "0": "COMPLETED"}.get(code, "FAILED"))

  def stop(self, job: str, folder: str) -> None:
    if self.is_alive(folder):
      os.kill(self.leader(folder)["pid"], signal.SIGTERM)

  def rows(self, everybody: bool) -> list[Row]:
    found = []
    for folder, job in _state.known_jobs(self.host):
      if job.get("backend") == self.name and self.is_alive(folder):
        found.append(Row(job["id"], job["name"], "running",
                         time.time() - self.leader(folder)["time"], 1, "", "", "",
                         os.environ.get("USER", ""), folder))
    return found

  def shell(self, job: str, folder: str, rank: int) -> list[str]:
    if not self.is_alive(folder):
      raise ClusterError(f"{job}: this job is over")
    return ["env", "-C", str(Path(folder, _agent.WORK)), os.environ.get("SHELL", "/bin/bash"), "-i"]


def began(pid: int) -> str | None:
  """When the process started, so that another one with its number is not taken for it; None: there
  is none, or it has ended and nobody has asked for its code."""
  try:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
  except OSError:
    return None
  return None if fields[0] in "ZX" else fields[19]
