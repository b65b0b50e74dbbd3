"""The host on which a scheduler's commands run and jobs have their folders: this one, or one that
ssh reaches (_agent.py says what is done there)."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple

from stretto.cluster import _agent

ANSWER_S = 30.0  # for a command of a scheduler
COPY_S = 600.0  # for a tree of files over ssh
CONNECT_S = 15
READS = ("import sys; i = sys.stdin.buffer; "
         "exec(compile(i.read(int(i.readline())), \"agent\", \"exec\"))")
ERROR = b'{"error"'  # how the agent's answer starts if it could not send files


# What commands of Slurm say where they find no configuration, from 20.02 on.
NO_SITE = ("resolve_ctls_from_dns_srv", "Could not establish a configuration source")


class ClusterError(Exception):
  """A scheduler, a host or a job is not as it has to be; says what to do. Exit code 3."""


class Refused(ClusterError):
  """The scheduler has said no: nothing was submitted."""


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
      calls: Any = _agent.CALLS
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
    if done.code != 0 and any(sign in done.err for sign in NO_SITE):
      raise ClusterError(f"{words[0]} {self.where}: no slurm.conf, so no Slurm site; where it is "
                         "elsewhere, SLURM_CONF names it. `stretto cluster up` says what is there, "
                         "and `stretto cluster up --local-slurm` starts a cluster here")
    if done.code != 0:
      raise ClusterError(f"{words[0]} {self.where}: {done.reason}")
    return done.out

  def put_tree(self, folder: str, files: Iterable[tuple[str, Path]], follow: bool = False) -> None:
    """Copies files (name in the tree, where it is) into the job's folder. `follow`: of a link, the
    file that it leads to."""
    root = Path(folder, _agent.WORK)
    names = []
    for name, source in files:
      target = root / name
      target.parent.mkdir(parents=True, exist_ok=True)
      shutil.copy2(source, target, follow_symlinks=follow)
      names.append(name)
    _agent.note_tree(folder, names)

  def get_tree(self, folder: str, paths: list[str], target: Path) -> None:
    root = Path(folder, _agent.WORK)
    for path in paths:
      try:
        source = Path(_agent.inside(folder, path))
        whole = target / os.path.relpath(root / path, root)
        whole.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
          shutil.copytree(source, whole, symlinks=True, dirs_exist_ok=True)
          continue
        part = whole.with_name(whole.name + ".part")
        shutil.copy2(source, part)
        part.replace(whole)
      except ValueError as error:
        raise ClusterError(f"download: {error}") from None
      except FileNotFoundError:
        raise ClusterError(f"download: {path}: the job has no such file") from None

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

  package = "openssh-client"

  def __init__(self, name: str, environment: dict[str, str] | None = None) -> None:
    super().__init__(environment)
    if not name or name.startswith("-") or any(c.isspace() for c in name):
      raise ValueError(f"--host: expected user@host, got {name!r}")
    self.name, self.where, self.way = name, f"on {name}", f"ssh {name}"

  def connect(self, line: str, *options: str) -> list[str]:
    return ["ssh", *options, "-o", f"ConnectTimeout={CONNECT_S}", self.name, line]

  def agent(self) -> list[str]:
    """It reads its own text first: csh takes no word of several lines."""
    return self.connect(f"exec python3 -c '{READS}'", "-T", "-o", "BatchMode=yes")

  def call(self, do: str, *arguments: Any, timeout: float = ANSWER_S) -> Any:
    return self.exchange(do, list(arguments), None, timeout)

  def exchange(self, do: str, arguments: list[Any], data: IO[bytes] | None,
               timeout: float) -> Any:
    asked = json.dumps({"do": do, "with": arguments}).encode() + b"\n"
    text = self.raw(asked, data, timeout)
    try:
      answer = json.loads(text)
    except ValueError:
      raise ClusterError(f"{self.way}: unexpected answer {text[:200]!r}; the login shell must "
                         "print nothing when it is not interactive") from None
    if "error" in answer:
      raise ClusterError(f"{self.name or self.way}: {answer['error']}")
    return answer["answer"]

  def raw(self, asked: bytes, data: IO[bytes] | None, timeout: float,
          output: IO[bytes] | None = None) -> bytes:
    """What the agent answers; nothing if that goes to `output`. Files may be large, so both ways
    are files here; a request by itself may hold secrets, and stays in memory."""
    text = Path(_agent.__file__).read_bytes()
    in_memory = data is None and hasattr(os, "memfd_create")
    with os.fdopen(os.memfd_create("request"), "w+b") if in_memory else \
        tempfile.TemporaryFile() as told:
      told.write(b"%d\n" % len(text) + text + asked)
      if data is not None:
        shutil.copyfileobj(data, told)
      told.seek(0)
      return self.talk(told, timeout, output)

  def talk(self, told: IO[bytes], timeout: float, output: IO[bytes] | None) -> bytes:
    try:
      done = subprocess.run(self.agent(), stdin=told, stdout=output or subprocess.PIPE,
                            stderr=subprocess.PIPE, timeout=timeout, start_new_session=True,
                            env={**os.environ, **self.environment})
    except subprocess.TimeoutExpired:
      raise ClusterError(f"{self.way}: no answer within {timeout:g} s") from None
    except FileNotFoundError:
      raise ClusterError(f"{self.agent()[0]}: not found; install {self.package}") from None
    if done.returncode != 0:
      lines = done.stderr.decode(errors="replace").strip().splitlines()
      raise ClusterError(f"{self.way}: {lines[-1] if lines else done.returncode}")
    return done.stdout or b""

  def put_tree(self, folder: str, files: Iterable[tuple[str, Path]], follow: bool = False) -> None:
    with tempfile.TemporaryFile() as stream:
      with tarfile.open(fileobj=stream, mode="w", dereference=follow) as tar:
        for name, source in files:
          tar.add(source, arcname=name, recursive=False)
      stream.seek(0)
      self.exchange("unpack", [folder], stream, COPY_S)

  def get_tree(self, folder: str, paths: list[str], target: Path) -> None:
    asked = json.dumps({"do": "send", "with": [folder, paths]}).encode() + b"\n"
    with tempfile.TemporaryFile() as stream:
      self.raw(asked, None, COPY_S, stream)
      stream.seek(0)
      start = stream.read(len(ERROR))
      stream.seek(0)
      if start == ERROR:
        raise ClusterError(f"download: {json.loads(stream.read())['error']}")
      try:
        extract(stream, target)
      except tarfile.TarError as error:
        raise ClusterError(f"download: {error}") from None

  def shell_words(self, words: list[str], terminal: bool = False) -> list[str]:
    return self.connect("exec " + shlex.join(words), *(["-t"] if terminal else ["-T"]))
