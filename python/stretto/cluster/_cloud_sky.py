"""What SkyPilot's command `sky` is asked, and what it answers. Commands are lists of words, and
never pass through a shell."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from stretto.cluster import _agent
from stretto.cluster._backend import OVER, RUNS, WAITS, State
from stretto.cluster._cloud_task import decoded
from stretto.cluster._host import ClusterError, Host

PACKAGES = ("skypilot",)
PROGRAM = "sky"
ASK_S = 120.0  # the first command also starts SkyPilot's own server
END_S = 5.0
LAST_WORDS_S = 30.0
SUBMITTED = re.compile(r"Job submitted, ID: (\d+)")
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CANCEL = re.compile(r"sky api cancel ([0-9a-f-]{8,36})")
PRICE = re.compile(r"\$ ?\d")
# SkyPilot's words for jobs to ours; another one that a newer version has must not end `run`.
WORDS = {"INIT": State(WAITS, "INIT", "SkyPilot starts it"),
         "PENDING": State(WAITS, "PENDING", "Resources"),
         "SUCCEEDED": State(OVER, "COMPLETED"), "FAILED": State(OVER, "FAILED"),
         "CANCELLED": State(OVER, "CANCELLED"),
         "FAILED_SETUP": State(OVER, "FAILED_SETUP", "the commands of --setup failed"),
         "FAILED_DRIVER": State(OVER, "FAILED_DRIVER", "a node or SkyPilot on it failed")}


class Job(NamedTuple):
  """A line of a cluster's queue."""
  number: str
  name: str
  status: str
  submitted: float
  resources: str
  user: str

  @property
  def state(self) -> State:
    return WORDS.get(self.status, State(RUNS, self.status))


def missing() -> ClusterError:
  return ClusterError(f"{PROGRAM}: not found; `pip install 'stretto[cluster]' 'skypilot[aws]'` "
                      "installs it, for another cloud with its name, and `sky check` says whether "
                      "it may use the cloud")


def ask(host: Host, *words: str, timeout: float = ASK_S) -> str:
  done = host.run([PROGRAM, *words], timeout=timeout)
  if done.code == _agent.NOT_FOUND:
    raise missing()
  if done.code != 0:
    raise ClusterError(f"{PROGRAM} {words[0]}: {complaint(done.err) or complaint(done.out)}")
  return COLOUR.sub("", done.out)


def complaint(text: str) -> str:
  """Of an error the last line says what is wrong, those before it where in SkyPilot."""
  lines = [line.strip() for line in COLOUR.sub("", text).splitlines() if line.strip()]
  return lines[-1] if lines else ""


def clusters(host: Host) -> dict[str, str]:
  """Their states: UP, STOPPED or INIT."""
  found = decoded(ask(host, "status", "-o", "json"), list)
  if found is None:
    raise ClusterError(f"{PROGRAM} status: it has printed no JSON; SkyPilot 0.14 or newer does")
  return {str(each["name"]): str(each["status"]) for each in found}


def queue(host: Host, cluster: str, everybody: bool = False) -> list[Job] | None:
  """None: the cluster is not up."""
  words = ["queue", *(["-u"] if everybody else []), "-o", "json", cluster]
  found = decoded(ask(host, *words), dict)
  if found is None:
    raise ClusterError(f"{PROGRAM} queue: it has printed no JSON; SkyPilot 0.14 or newer does")
  if cluster not in found:
    return None
  return [Job(str(row["job_id"]), str(row["job_name"]), str(row["status"]),
              float(row["submitted_at"] or 0), str(row.get("resources", "")),
              str(row.get("username", ""))) for row in found[cluster]]


def stream(words: list[str], folder: str, environment: dict[str, str],
           show: Callable[[str], None], kept: list[str] | None = None) -> tuple[int, str]:
  """Runs a command that may take long; its lines are shown while they come. Code and output, which
  `kept` also gets, with what the command says when it is interrupted."""
  if Host.trace:
    Host.trace(shlex.join(words))
  try:
    child = subprocess.Popen(words, cwd=folder, env={**os.environ, **environment},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
  except FileNotFoundError:
    raise missing() from None
  assert child.stdout is not None
  kept = [] if kept is None else kept
  try:
    for data in child.stdout:
      kept.append(COLOUR.sub("", data.decode(errors="replace")))
      show(kept[-1].rstrip("\n"))
    return child.wait(), "".join(kept)
  except BaseException:
    kept.append(last_words(child))
    raise


def end(child: subprocess.Popen[Any], first: int = signal.SIGINT) -> None:
  """Ctrl-C first, as a user would: SkyPilot then says what goes on without it."""
  for number in (first, signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
      os.killpg(child.pid, number)
    with contextlib.suppress(subprocess.TimeoutExpired):
      child.wait(END_S)
      return


def last_words(child: subprocess.Popen[bytes]) -> str:
  """What a command prints at Ctrl-C."""
  with contextlib.suppress(ProcessLookupError):
    os.killpg(child.pid, signal.SIGINT)
  try:
    return COLOUR.sub("", child.communicate(timeout=LAST_WORDS_S)[0].decode(errors="replace"))
  except subprocess.TimeoutExpired:
    end(child, signal.SIGTERM)
    return ""


def confirmed(question: str) -> bool:
  sys.stderr.write(f"{question} [y/N] ")
  sys.stderr.flush()
  return sys.stdin.readline().strip().lower() in ("y", "yes")
