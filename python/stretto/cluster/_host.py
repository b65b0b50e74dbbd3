"""The host on which a scheduler's commands run and jobs have their folders: this one, or one that
ssh reaches (_agent.py says what is done there)."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from stretto.cluster import _agent

ANSWER_S = 30.0  # for a command of a scheduler
COPY_S = 600.0  # for a tree of files over ssh
CONNECT_S = 15


class ClusterError(Exception):
  """A scheduler, a host or a job is not as it has to be; says what to do. Exit code 3."""


class Done(NamedTuple):
  code: int
  out: str
  err: str

  @property
  def reason(self) -> str:
    """The first line of what the command complained about."""
    lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
    return lines[0] if lines else f"exit code {self.code}"


class Host:
  """This host."""

  name = ""  # user@host of another one
  where = "here"
  trace: Callable[[str], None] | None = None  # is told the commands before they run

  def __init__(self, environment: dict[str, str] | None = None) -> None:
    self.environment = environment or {}  # for every command, such as SLURM_CONF

  def call(self, do: str, *arguments: Any, timeout: float = ANSWER_S) -> Any:
    try:
      calls: dict[str, Callable[..., Any]] = _agent.CALLS
      return calls[do](*arguments)
    except OSError as error:
      raise ClusterError(f"{error.filename or do}: {error.strerror}") from None

  def run(self, words: list[str], environment: dict[str, str] | None = None,
          folder: str | None = None, timeout: float = ANSWER_S) -> Done:
    """Never raises for what the command does; a late answer has code 124, a missing program 127."""
    if self.trace:
      self.trace(shlex.join(words))
    own = {**self.environment, **(environment or {})}
    return Done(*self.call("run", words, own, folder, "", timeout, timeout=timeout + CONNECT_S))

  def ask(self, words: list[str], **how: Any) -> str:
    """The output of a command that has to succeed."""
    done = self.run(words, **how)
    if done.code == _agent.TIMED_OUT:
      raise ClusterError(f"{words[0]} {self.where}: {done.err}; is the scheduler up? "
                         "`scontrol ping` asks it")
    if done.code == _agent.NOT_FOUND:
      raise ClusterError(f"{words[0]} {self.where}: {done.err}; `stretto cluster up` says what is "
                         "there, and `stretto cluster up --local-slurm` starts a cluster here")
    if done.code != 0:
      raise ClusterError(f"{words[0]} {self.where}: {done.reason}")
    return done.out

  def put_tree(self, folder: str, files: Iterable[tuple[str, Path]]) -> None:
    """Copies files (name in the tree, where it is) into the job's folder."""
    root = Path(folder, _agent.WORK)
    for name, source in files:
      target = root / name
      target.parent.mkdir(parents=True, exist_ok=True)
      shutil.copy2(source, target, follow_symlinks=False)
    _agent.note_tree(folder)

  def get_tree(self, folder: str, paths: list[str], target: Path) -> None:
    stream = io.BytesIO()
    try:
      _agent.send(folder, paths, stream)
    except (OSError, ValueError) as error:
      raise ClusterError(f"download: {error}") from None
    stream.seek(0)
    extract(stream, target)

  def shell_words(self, words: list[str], terminal: bool = False) -> list[str]:
    """What to execute so that the words run there, with this terminal."""
    return words


def extract(stream: Any, target: Path) -> None:
  """Files of a job, which may hold anything: nothing is written outside the target."""
  with tarfile.open(fileobj=stream, mode="r|") as tar:
    for member in tar:
      if member.name.startswith("/") or ".." in member.name.split("/"):
        raise ClusterError(f"download: {member.name}: this path would lie outside {target}")
      if member.issym() or member.islnk() or member.isfile() or member.isdir():
        extract_one(tar, member, target)


def extract_one(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
  if hasattr(tarfile, "data_filter"):
    tar.extract(member, target, filter="data")
  elif member.isfile() or member.isdir():  # links could lead elsewhere
    tar.extract(member, target)


class SshHost(Host):
  """A login node. BatchMode: no question is asked that nobody could answer."""

  def __init__(self, name: str, environment: dict[str, str] | None = None) -> None:
    super().__init__(environment)
    if not name or name.startswith("-") or any(c.isspace() for c in name):
      raise ValueError(f"--host: expected user@host, got {name!r}")
    self.name, self.where = name, f"on {name}"

  def connect(self, line: str, *options: str) -> list[str]:
    return ["ssh", *options, "-o", f"ConnectTimeout={CONNECT_S}", self.name, line]

  def agent(self) -> list[str]:
    text = Path(_agent.__file__).read_text()
    return self.connect(f"exec python3 -c {shlex.quote(text)}", "-T", "-o", "BatchMode=yes")

  def call(self, do: str, *arguments: Any, timeout: float = ANSWER_S) -> Any:
    return self.exchange(do, list(arguments), b"", timeout)

  def exchange(self, do: str, arguments: list[Any], data: bytes, timeout: float) -> Any:
    asked = json.dumps({"do": do, "with": arguments}).encode() + b"\n"
    text = self.raw(asked + data, timeout)
    try:
      answer = json.loads(text)
    except ValueError:
      raise ClusterError(f"ssh {self.name}: unexpected answer {text[:200]!r}; the login shell must "
                         "print nothing when it is not interactive") from None
    if "error" in answer:
      raise ClusterError(f"{self.name}: {answer['error']}")
    return answer["answer"]

  def raw(self, data: bytes, timeout: float) -> bytes:
    try:
      done = subprocess.run(self.agent(), input=data, capture_output=True, timeout=timeout,
                            start_new_session=True)
    except subprocess.TimeoutExpired:
      raise ClusterError(f"ssh {self.name}: no answer within {timeout:g} s") from None
    except FileNotFoundError:
      raise ClusterError("ssh: not found; install openssh-client") from None
    if done.returncode != 0:
      lines = done.stderr.decode(errors="replace").strip().splitlines()
      raise ClusterError(f"ssh {self.name}: {lines[-1] if lines else done.returncode}")
    return done.stdout

  def put_tree(self, folder: str, files: Iterable[tuple[str, Path]]) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
      for name, source in files:
        tar.add(source, arcname=name, recursive=False)
    self.exchange("unpack", [folder], stream.getvalue(), COPY_S)

  def get_tree(self, folder: str, paths: list[str], target: Path) -> None:
    asked = json.dumps({"do": "send", "with": [folder, paths]}).encode() + b"\n"
    data = self.raw(asked, COPY_S)
    if data.startswith(b'{"error"'):
      raise ClusterError(f"download: {json.loads(data)['error']}")
    extract(io.BytesIO(data), target)

  def shell_words(self, words: list[str], terminal: bool = False) -> list[str]:
    return self.connect("exec " + shlex.join(words), *(["-t"] if terminal else ["-T"]))
