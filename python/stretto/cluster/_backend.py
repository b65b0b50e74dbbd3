"""What a back end has to do. To add one: a class in a file of its own, a row in _backends.py.

A job is what its scheduler says it is. A back end turns a Request into the files of the job's
folder, hands them to its scheduler, and asks it afterwards; nothing of it goes on running here."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stretto.cluster._host import Host

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
DURATION = re.compile(r"(?:\d+-)?\d+(?::\d+){0,2}|\d+[smhd]")

# States of a job, in the words of this package.
WAITS, RUNS, ENDS, OVER = "waits", "runs", "ends", "over"


class Chips(NamedTuple):
  """`--chips KIND:N`: a part of a job that runs on one kind of chip."""
  kind: str  # empty: no chips
  total: int  # of all nodes together; 0 without chips
  ranks: int
  nodes: int | None = None  # None: the back end chooses
  python: str = ""  # the interpreter of its ranks; empty: this one


@dataclass
class Request:
  """What the user asked for, checked as far as it can be without the scheduler."""
  name: str
  parts: list[Chips]  # more than one: chips of different kinds in one rank space
  words: list[str]  # of one rank: [-m | --no-python] script arguments...
  inside: str = "."  # the current folder in the job's tree
  environment: dict[str, str] = field(default_factory=dict)  # --env; others may see it
  secrets: dict[str, str] = field(default_factory=dict)  # never in a file or in a command line
  time: str = ""  # --time, in Slurm's form
  queue: str = ""
  retries: int = 0  # after the loss of a node
  hang_after: float = 0.0  # seconds; 0: not watched
  python: str = ""
  # Of Kubernetes: by kind of chip, "" for all.
  images: dict[str, str] = field(default_factory=dict)
  resources: dict[str, str] = field(default_factory=dict)  # "nvidia.com/gpu"
  volume: str = ""
  priority: str = ""
  cpus: float = 0.0  # of a rank; 0: the back end chooses
  memory: str = ""  # of a rank: "4Gi"
  restricted: bool = False  # as the Pod Security Standard of this name wants it
  run_as: str = ""  # "UID" or "UID:GID"; empty: as the image says
  tree: Any = None  # _pack.Tree

  @property
  def ranks(self) -> int:
    return sum(part.ranks for part in self.parts)


class State(NamedTuple):
  """What the scheduler says about a job."""
  what: str  # WAITS, RUNS, ENDS or OVER
  word: str = ""  # its own word: PENDING, TIMEOUT
  reason: str = ""  # why it waits, or ended


class Row(NamedTuple):
  """A job of `stretto cluster ls`."""
  id: str
  name: str
  state: str  # the scheduler's word, in lower case
  age_s: float  # since it was submitted
  nodes: int
  chips: str  # "v100:8"; empty: none
  queue: str
  reason: str
  user: str
  folder: str = ""


class News(NamedTuple):
  rank: int | None  # None: of the job itself, such as what the scheduler prints
  data: bytes


class Backend:
  """Jobs of one scheduler. Methods raise ClusterError with what to do, and answer within the
  time that Host allows."""

  name = ""
  host: Host
  spread_s = 5.0  # until what a node of a job that is over wrote last is seen here, at most

  def about(self) -> str:
    """One line for `up` and for the first line of `run`: which scheduler, where."""
    raise NotImplementedError

  def files(self, request: Request) -> dict[str, str]:
    """The files of the job's folder by name, as --dry-run prints them. They hold no secret."""
    raise NotImplementedError

  def words(self, request: Request) -> list[str]:
    """The command that submits them, executed in the job's folder."""
    raise NotImplementedError

  def submit(self, request: Request, folder: str) -> str:
    """The scheduler's number of the job. The folder holds files() and the tree."""
    raise NotImplementedError

  def withdraw(self, folder: str) -> bool:
    """After a submission whose outcome is unknown: ends the job of this folder. Whether it is
    certain that there is none now."""
    return False

  def until_over(self, job: str, folder: str, seconds: float, pause_s: float) -> bool:
    """Whether a job that was stopped ends in that time. Until then it still writes into its
    folder."""
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
      if self.state(job, folder).what == OVER:
        return True
      time.sleep(pause_s)
    return False

  def numbers(self) -> dict[str, str]:
    """Last part of a folder's path to its job's number, for jobs that wait or run."""
    return {}

  def where_option(self) -> str:
    """What another command needs to find this scheduler, such as " --host me@far"."""
    return ""

  def describe(self) -> dict[str, Any]:
    """For job.json: what is needed to find this scheduler again."""
    return {"backend": self.name}

  def state(self, job: str, folder: str) -> State:
    raise NotImplementedError

  def stop(self, job: str, folder: str) -> None:
    """Asks the job to end; it gets SIGTERM first."""
    raise NotImplementedError

  def rows(self, everybody: bool) -> list[Row]:
    """The jobs that wait or run."""
    raise NotImplementedError

  def shell(self, job: str, folder: str, rank: int) -> list[str]:
    """The command that opens a shell where a rank runs."""
    raise NotImplementedError

  def news(self, folder: str, offsets: dict[str, int]) -> tuple[list[News], str | None]:
    """What the ranks have printed since the offsets, which this advances, and the text that the
    end of the job has left, if it is there. This one reads files in the job's folder."""
    found = self.host.call("news", folder, offsets)
    news = []
    for name, (text, offset) in found["logs"].items():
      offsets[name] = offset
      number = re.fullmatch(r"rank-(\d+)\.log", name)
      news.append(News(int(number[1]) if number else None, text.encode("latin-1")))
    return news, found["exit"]

  def past(self, folder: str, since: str) -> list[News]:
    """All that the ranks have printed so far. `since`: no more than what is so young."""
    if since:
      raise ValueError("--since: only Kubernetes notes when lines were printed")
    offsets: dict[str, int] = {}
    found: list[News] = []
    while more := self.news(folder, offsets)[0]:
      found += more
    return found

  def reach(self, folder: str, write: bool) -> contextlib.AbstractContextManager[None]:
    """While the context lasts, `host` copies the files of the job."""
    return contextlib.nullcontext()


def parts_of(n: int | None, chips: list[str], nodes: int | None,
             pythons: dict[str, str]) -> Iterator[Chips]:
  """`-n`, `--chips` and `--nodes` as parts of a job. ValueError says what does not fit."""
  if n is not None and n < 1:
    raise ValueError(f"-n: expected a number of ranks from 1 on, got {n}")
  if nodes is not None and nodes < 1:
    raise ValueError(f"--nodes: expected a number from 1 on, got {nodes}")
  if len(chips) > 1 and (n is not None or nodes is not None):
    raise ValueError("-n and --nodes: with several --chips there is one rank per chip")
  found: list[Chips] = []
  for text in chips:
    kind, colon, count = text.rpartition(":")
    if not colon or not WORD.fullmatch(kind) or not re.fullmatch(r"[1-9]\d{0,5}", count):
      raise ValueError(f"--chips: expected KIND:N, such as v100:8, got {text!r}")
    if any(part.kind == kind for part in found):
      raise ValueError(f"--chips: {kind} is given twice")
    ranks = int(count) if n is None else n
    if nodes is not None and int(count) % nodes:
      raise ValueError(f"--chips {text}: {count} chips do not divide into {nodes} nodes")
    found.append(Chips(kind, int(count), ranks, nodes, pythons.get(kind, pythons.get("", ""))))
  if unknown := set(pythons) - {""} - {part.kind for part in found}:
    raise ValueError(f"--python {min(unknown)}=...: there is no --chips {min(unknown)}:N")
  return iter(found or [Chips("", 0, n or nodes or 1, nodes, pythons.get("", ""))])
