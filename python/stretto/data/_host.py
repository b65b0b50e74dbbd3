"""One loader for all ranks of a host: how a rank finds the process that has it, or starts it.

That process has no name in a file system: its socket is in Linux's abstract namespace, batches lie
in memory without a name, and both end with it. It ends when the last rank is gone
(_host_server.py).
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import hmac
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import stretto
from stretto import _stretto
from stretto._errors import (
  CommError,
  InternalError,
  InvalidArgumentError,
  UnsupportedError,
  format_error,
)
from stretto.data import _remote
from stretto.data._dataset import Dataset
from stretto.data._sources import Sources

# What tells the jobs of a user apart on one host, as their launchers set it for all their ranks. Of
# a job that has none of them, it is the process that started the ranks.
JOB_VARIABLES = ("STRETTO_ADDRESS", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                 "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")
START_S = 60.0  # in which a process that others start and that ends is looked for again
LONGEST = 1 << 30  # bytes of a message
LAST_WORDS = 2000  # characters


class Made:
  """How many shared loaders a process has made: the first ones of all ranks belong together."""

  def __init__(self) -> None:
    self.lock = threading.Lock()  # one after the other
    self.count = 0


_made: dict[int, Made] = {}  # a child of fork() begins anew


def name_of(world: int, environment: Mapping[str, str]) -> str:
  """The socket's, without the null that begins it."""
  job: list[Any] = [[name, environment[name]] for name in JOB_VARIABLES if name in environment]
  if world == 1:
    job = ["process", os.getpid()]
  elif not job:
    job = ["parent", os.getppid()]
  # Ranks in containers of their own see other files, even where they share the network.
  spaces = [os.readlink(f"/proc/self/ns/{space}") for space in ("mnt", "pid")]
  text = json.dumps([os.geteuid(), spaces, job]).encode()
  return f"stretto-data-{hmac.new(secret(environment), text, hashlib.sha256).hexdigest()[:40]}"


def secret(environment: Mapping[str, str]) -> bytes:
  return environment.get("STRETTO_SECRET", "").encode()


def proof(name: str, environment: Mapping[str, str]) -> str:
  """That whoever says it knows the secret of the job, if it has one."""
  return hmac.new(secret(environment), b"stretto loader " + name.encode(),
                  hashlib.sha256).hexdigest()


def build() -> list[str]:
  """What both ends of a connection have to be the same of."""
  return [stretto.__version__, os.path.realpath(str(_stretto.__file__))]


def send(connection: socket.socket, message: Any, files: list[int] | None = None) -> None:
  text = json.dumps(message).encode()
  head = struct.pack("=Q", len(text))
  if files:
    sent = socket.send_fds(connection, [head], files)
    head = head[sent:]
  connection.sendall(head + text)


def receive(connection: socket.socket, files: list[int] | None = None) -> Any:
  """Raises EOFError when the other end is closed."""
  if files is None:
    head = connection.recv(8, socket.MSG_WAITALL)
  else:
    head, got, _flags, _address = socket.recv_fds(connection, 8, 4)
    for file in got:
      os.set_inheritable(file, False)
    files += got
  (length,) = struct.unpack("=Q", head + some(connection, 8 - len(head)) if head else eof())
  if length > LONGEST:
    raise EOFError(f"a message of {length} bytes")
  return json.loads(some(connection, length))


def some(connection: socket.socket, length: int) -> bytes:
  parts: list[bytes] = []
  while length > 0:
    part = connection.recv(min(length, 1 << 20)) or eof()
    parts.append(part)
    length -= len(part)
  return b"".join(parts)


def eof() -> bytes:
  raise EOFError("closed")


def check_peer(connection: socket.socket) -> int:
  """The process at the other end, which has to be this user's."""
  data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("=iII"))
  pid, user, _group = struct.unpack("=iII", data)
  if user != os.geteuid():
    raise UnsupportedError(f"ImageLoader: share: the process {pid} of user {user} has the socket "
                           f"of this job, and this is user {os.geteuid()}: load without share")
  return int(pid)


def plain(value: Any) -> Any:
  """What JSON can hold, exactly. Raises TypeError for what it cannot."""
  if isinstance(value, Mapping):
    return {str(key): plain(part) for key, part in value.items()}
  if isinstance(value, (list, tuple)):
    return [plain(part) for part in value]
  if isinstance(value, np.ndarray):
    return plain(value.tolist())
  if isinstance(value, np.generic):
    return value.item()
  if isinstance(value, os.PathLike):
    return os.path.abspath(os.fspath(value))
  if value is None or isinstance(value, (bool, int, float, str)):
    return value
  raise TypeError(f"a {type(value).__name__}")


def said(given: Mapping[str, Any], sources: Sources) -> dict[str, Any]:
  """What has to be the same on all ranks, by the names of the arguments."""
  rows = dict(given)
  sampler = rows["sampler"]
  if not isinstance(sampler, str):
    weights = np.ascontiguousarray(sampler, dtype=np.float64)
    rows["sampler"] = {"weights": base64.b64encode(weights.tobytes()).decode()}
  transforms = rows["transforms"]
  alone = isinstance(transforms, str) or callable(transforms)
  # Functions run in their rank, behind what comes from the loader.
  rows["transforms"] = [entry for entry in ([transforms] if alone else transforms or ())
                        if isinstance(entry, str)]
  rows["source"] = {"dataset": table_of(sources.dataset), "sizes": sources.sizes,
                    "weights": sources.weights}
  if rows["cache_dir"] is not None:  # the process has a working directory of its own
    rows["cache_dir"] = os.path.abspath(rows["cache_dir"])
  for name, value in rows.items():
    try:
      rows[name] = plain(value)
    except TypeError as error:
      raise UnsupportedError(f"ImageLoader: share: {name} holds {error}, which cannot be given to "
                             "another process: expected numbers, strings, lists and "
                             "dictionaries") from None
  return rows


def table_of(dataset: Dataset) -> dict[str, Any]:
  """How a dataset is opened again."""
  if dataset._joined:
    return {"joined": [table_of(part) for part in dataset._joined]}
  source, remote = dataset.source, dataset._remote
  if remote is not None and remote["cache_dir"] is not None:
    remote = {**remote, "cache_dir": os.path.abspath(remote["cache_dir"])}
  return {"source": source if _remote.is_url(source) else os.path.abspath(source),
          "kind": dataset.kind, "remote": remote}


class Server:
  """The process that makes the batches, as a rank knows it."""

  def __init__(self, name: str, pid: int, token: str, log: int) -> None:
    self.name, self.pid, self.token = name, pid, token
    self.log = log  # what it writes to its standard error

  def __str__(self) -> str:
    return f"the loader's process {self.pid} on this host"

  def close(self) -> None:
    log, self.log = self.log, -1
    if log >= 0:
      os.close(log)


def last_words(log: int) -> str:
  if log < 0:
    return ""
  size = os.fstat(log).st_size
  text = os.pread(log, LAST_WORDS, max(0, size - LAST_WORDS)).decode(errors="replace").strip()
  return f"; it wrote: {text}" if text else ""


class Engine:
  """What ImageLoader has in place of a loader of its own."""

  def __init__(self, engine: Any, server: Server) -> None:
    self._engine, self._server = engine, server
    self.epoch, self.batches, self.indices = engine.epoch, engine.batches, engine.indices
    self.position = engine.position

  def next(self, framework: str) -> Any:
    return self._told(self._engine.next, framework)

  def set_epoch(self, epoch: int) -> None:
    self._told(self._engine.set_epoch, epoch)

  def load(self, seed: int, epoch: int, place: int, order: int) -> None:
    self._told(self._engine.load, seed, epoch, place, order)

  def _told(self, call: Any, *arguments: Any) -> Any:
    try:
      return call(*arguments)
    except CommError as error:
      raise CommError(f"{error}{last_words(self._server.log)}: make the loader again and load its "
                      "state, or start the job again", link=str(self._server)) from None

  def stats(self) -> dict[str, Any]:
    pinned = self._engine.pinned_bytes()  # raises where the loader is closed
    server = self._server
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with connection:
      try:
        connection.connect(f"\0{server.name}")
        check_peer(connection)
        send(connection, {"ask": "stats", "token": server.token,
                          "proof": proof(server.name, os.environ)})
        answer = receive(connection)
      except (OSError, EOFError):
        raise CommError(f"ImageLoader: {server} has ended{last_words(server.log)}",
                        link=str(server)) from None
    raise_error(answer)
    return {**answer["stats"], "pinned_bytes": pinned}

  def close(self) -> None:
    self._engine.close()
    self._server.close()


def raise_error(answer: Mapping[str, Any]) -> None:
  if "error" not in answer:
    return
  kind, text = answer["error"], answer["text"]
  if kind == "FormatError":
    raise format_error(text, answer["file"], answer["offset"], answer["code"])
  kinds = {"InvalidArgumentError": InvalidArgumentError, "UnsupportedError": UnsupportedError,
           "CommError": CommError}
  raise kinds.get(kind, InternalError)(text)


def join(given: Mapping[str, Any], sources: Sources, options: Any) -> Engine:
  """This rank's part of the loader that its host's ranks share."""
  if not sys.platform.startswith("linux"):
    raise UnsupportedError("ImageLoader: share needs Linux: load without it")
  dataset = sources.dataset
  _stretto.data_check_loader(options, dataset._table)
  arguments = said({**given, "world": options.world}, sources)
  name = name_of(options.world, os.environ)
  made = _made.setdefault(os.getpid(), Made())
  with made.lock:
    hello = {"ask": "join", "proof": proof(name, os.environ), "build": build(),
             "number": made.count, "rank": options.rank,
             "threads": options.threads or max(1, _stretto.core_count() - 1),
             "cores": sorted(os.sched_getaffinity(0)), "fingerprint": dataset.fingerprint,
             "arguments": arguments}
    connection, server = connect(name, hello)
    made.count += 1  # one that could not be made may be tried again
  return Engine(_stretto.DataSharedLoader(dataset._table, options, connection.detach(),
                                          str(server)), server)


def connect(name: str, hello: Mapping[str, Any]) -> tuple[socket.socket, Server]:
  until = time.monotonic() + START_S
  while True:
    connection, log = connect_or_start(name, until)
    files: list[int] = []
    try:
      check_peer(connection)
      send(connection, hello)
      answer = receive(connection, files)
      raise_error(answer)
      return connection, Server(name, answer["pid"], answer["token"],
                                files.pop() if files else -1)
    except (EOFError, ConnectionError, BrokenPipeError):
      # It ended: with its last rank, as this one came, or because it could not start.
      connection.close()
      if log is not None:
        raise CommError("ImageLoader: the loader's process, which this rank started for its host, "
                        f"ended before it answered{last_words(log)}") from None
      if time.monotonic() > until:
        raise CommError("ImageLoader: the loader's process of this host, which another rank "
                        f"started, ended again and again for {START_S:.0f} s") from None
      time.sleep(0.01)
    except BaseException:
      connection.close()
      raise
    finally:
      for file in files if log is None else [*files, log]:
        os.close(file)


def connect_or_start(name: str, until: float) -> tuple[socket.socket, int | None]:
  """A connection to the process; where this rank has started it, also what it writes."""
  while True:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
      connection.connect(f"\0{name}")
      return connection, None
    except ConnectionRefusedError:
      connection.close()
    except BaseException:
      connection.close()
      raise
    started = start(name)
    if started is not None:
      return started
    if time.monotonic() > until:
      raise CommError("ImageLoader: the loader's process of this host does not listen: another "
                      f"rank took its name {START_S:.0f} s ago")
    time.sleep(0.005)


def start(name: str) -> tuple[socket.socket, int] | None:
  """Starts the process, if this rank is the first to take its name."""
  with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
    try:
      listener.bind(f"\0{name}")
    except OSError as error:
      if error.errno != errno.EADDRINUSE:
        raise
      return None
    listener.listen(4096)
    # Before the process is there: when this rank ends now, the process sees it and ends too.
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    log = -1
    try:
      connection.connect(f"\0{name}")
      log = os.memfd_create("stretto loader", os.MFD_CLOEXEC)
      spawn(listener, log)
      return connection, log
    except BaseException:
      connection.close()
      if log >= 0:
        os.close(log)
      raise


def spawn(listener: socket.socket, log: int) -> None:
  """It is nobody's child, so that no rank has to wait for it, and in a session of its own, so that
  Ctrl-C reaches the ranks alone."""
  if not sys.executable or getattr(sys, "frozen", False):
    raise UnsupportedError("ImageLoader: share: this program has no Python that could run another "
                           "process (sys.executable is empty, or the program itself): load "
                           "without share")
  code = ("import os, sys\n"
          "if os.fork(): os._exit(0)\n"
          "sys.path[:] = [path for path in sys.path if path]\n"
          "from stretto.data import _host_server\n"
          f"_host_server.main({listener.fileno()})\n")
  path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
  child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path},
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                           pass_fds=(listener.fileno(),), start_new_session=True)
  with contextlib.suppress(ChildProcessError):
    child.wait()
