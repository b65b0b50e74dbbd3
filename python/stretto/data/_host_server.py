"""The process that makes the batches of all ranks of a host: one thread team, one cache, and a
loader for each rank. A rank's first message says what it wants; behind it the engine serves it.

It ends when no rank is left: each has a connection, which the system closes with its process.
"""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import hmac
import os
import reprlib
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from stretto import _stretto
from stretto._errors import Error, FormatError, InvalidArgumentError
from stretto.data import _arguments, _host
from stretto.data._dataset import Dataset, concat, open
from stretto.data._sources import Sources

HELLO_S = 60.0  # in which whoever connects says what it wants
CLOSING_S = 2.0  # which loaders have to end when no rank is left


def main(listener: int) -> None:
  # Whoever ends the job ends its ranks too, and they may want batches until then.
  for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
  faulthandler.enable()
  Host(socket.socket(fileno=listener)).run()


class Group:
  """The loaders of all ranks that are the same but for their rank."""

  def __init__(self) -> None:
    self.lock = threading.Lock()
    self.ranks: list[int] = []  # of its loaders; where there are none, the rest is nothing
    self.arguments: dict[str, Any] = {}
    self.dataset: Dataset | None = None
    self.team: Any = None

  def join(self, hello: Mapping[str, Any]) -> Any:
    """The engine's loader for a rank."""
    with self.lock:
      if not self.ranks:
        self.open(hello["arguments"])
      try:
        check_same(hello, self)
        engine = _stretto.DataLoader(self.team, hello["rank"], hello["threads"])
      except BaseException:
        self.forget()
        raise
      self.ranks.append(hello["rank"])
      return engine

  def forget(self) -> None:
    if not self.ranks:
      self.dataset = self.team = None

  def leave(self, engine: Any, rank: int) -> None:
    with self.lock:
      engine.close()
      self.ranks.remove(rank)
      self.forget()

  def open(self, arguments: dict[str, Any]) -> None:
    source = arguments["source"]
    dataset = dataset_of(source["dataset"])
    sampler = arguments["sampler"]
    if isinstance(sampler, dict):
      sampler = np.frombuffer(base64.b64decode(sampler["weights"]), np.float64)
    given = {**arguments, "sampler": sampler}
    options = _arguments.read(given).options
    options.world = arguments["world"]
    _arguments.set_cache(options, given, shared=True)
    _arguments.set_sources(options, given, Sources(dataset, source["sizes"], source["weights"]))
    self.team = _stretto.DataTeam(dataset._table, options)
    self.arguments, self.dataset = arguments, dataset


def dataset_of(table: Mapping[str, Any]) -> Dataset:
  if "joined" in table:
    return concat([dataset_of(part) for part in table["joined"]])
  return open(table["source"], table["kind"], **(table["remote"] or {}))


def shown(value: Any) -> str:
  text = reprlib.Repr()
  text.maxstring = text.maxother = text.maxlong = 200
  text.maxdict = text.maxlist = 12
  return text.repr(value)


def check_same(hello: Mapping[str, Any], group: Group) -> None:
  rank, mine = hello["rank"], hello["arguments"]
  others = group.ranks[0] if group.ranks else rank
  for name, theirs in group.arguments.items():
    if mine.get(name) != theirs:
      raise InvalidArgumentError(
        f"ImageLoader: share: {name} is {shown(mine.get(name))} on rank {rank}, and "
        f"{shown(theirs)} on rank {others} of the same host: ranks that share a loader give it the "
        "same arguments, and make their shared loaders in the same order")
  if group.dataset is not None and hello["fingerprint"] != group.dataset.fingerprint:
    raise InvalidArgumentError(
      f"ImageLoader: share: {group.dataset.source} has other names or labels for rank {rank} than "
      "for the loader's process of this host: it was changed, or is another folder there")


class Host:
  def __init__(self, listener: socket.socket) -> None:
    self.listener = listener
    self.name = str(listener.getsockname()[1:], "ascii")  # it begins with a null
    self.lock = threading.Lock()
    self.groups: dict[int, Group] = {}
    self.loaders: dict[str, Any] = {}  # by their tokens
    self.threads = 0  # that are not done with their connection
    self.alive: set[int] = set()  # connections at whose other end there is somebody
    self.opening: dict[int, socket.socket] = {}  # of which nothing is read meanwhile
    self.cores: set[int] = set()
    self.woken, self.wake = os.pipe()

  def run(self) -> None:
    number, none_since = 0, 0.0
    while True:
      poll = select.poll()
      poll.register(self.listener, select.POLLIN)
      poll.register(self.woken, select.POLLIN)
      with self.lock:
        opening = {connection.fileno(): key for key, connection in self.opening.items()}
        empty = not self.alive and number > 0
      for file in opening:
        poll.register(file, select.POLLRDHUP)
      if not empty:
        none_since = 0.0
      elif none_since == 0.0:
        none_since = time.monotonic()
      # Whoever connects now is refused, and starts the next process.
      if empty and (self.threads == 0 or time.monotonic() - none_since > CLOSING_S):
        os._exit(0)
      for file, _event in poll.poll(50 if empty else None):
        if file == self.woken:
          os.read(self.woken, 4096)
        elif file in opening:
          self.gone(opening[file])
        elif file == self.listener.fileno():
          connection, _address = self.listener.accept()
          number += 1
          with self.lock:
            self.threads += 1
            self.alive.add(number)
          threading.Thread(target=self.talk, args=(connection, number), daemon=True).start()

  def gone(self, number: int) -> None:
    with self.lock:
      self.alive.discard(number)
      self.opening.pop(number, None)
    os.write(self.wake, b".")

  def talk(self, connection: socket.socket, number: int) -> None:
    processes: list[int] = []  # a descriptor of the one at the other end, until somebody takes it
    try:
      with connection:
        self.answer(connection, number, processes)
    except (OSError, EOFError):  # the other end is gone
      pass
    finally:
      for process in processes:
        os.close(process)
      with self.lock:
        self.threads -= 1
      self.gone(number)

  def answer(self, connection: socket.socket, number: int, processes: list[int]) -> None:
    try:
      processes += process_of(_host.check_peer(connection))
      connection.settimeout(HELLO_S)
      hello = _host.receive(connection)
      connection.settimeout(None)
      if not hmac.compare_digest(hello["proof"], _host.proof(self.name, os.environ)):
        raise InvalidArgumentError("ImageLoader: share: this process does not know the secret of "
                                   "the job (STRETTO_SECRET)")
      if hello["ask"] == "stats":
        _host.send(connection, {"stats": self.stats(hello["token"])})
        return
      if hello["build"] != _host.build():
        raise InvalidArgumentError(f"ImageLoader: share: rank {hello['rank']} runs Stretto "
                                   f"{hello['build']}, and another rank of its host "
                                   f"{_host.build()}")
      with self.lock:
        self.opening[number] = connection
        group = self.groups.setdefault(hello["number"], Group())
      self.spread(hello["cores"])
      engine = group.join(hello)
    except Exception as error:
      if isinstance(error, (OSError, EOFError)) and not isinstance(error, Error):
        raise
      _host.send(connection, described(error))
      return
    finally:
      with self.lock:
        self.opening.pop(number, None)
    self.serve(connection, number, processes, group, engine, hello["rank"])

  def serve(self, connection: socket.socket, number: int, processes: list[int], group: Group,
            engine: Any, rank: int) -> None:
    token = secrets.token_hex(8)
    with self.lock:
      self.loaders[token] = engine
    try:
      _host.send(connection, {"pid": os.getpid(), "token": token}, [2])
      engine.serve(connection.detach(), processes.pop() if processes else -1)
    finally:
      self.gone(number)
      with self.lock:
        del self.loaders[token]
      group.leave(engine, rank)

  def stats(self, token: str) -> dict[str, Any]:
    with self.lock:
      engine = self.loaders.get(token)
    if engine is None:
      raise InvalidArgumentError("ImageLoader: share: the loader's process of this host has ended "
                                 "since this loader was made")
    return {**engine.stats(), "pid": os.getpid()}

  def spread(self, cores: list[int]) -> None:
    """Ranks may be bound to cores of their own: all of them are there for all."""
    with self.lock:
      self.cores |= set(cores)
      for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it has ended
          os.sched_setaffinity(int(thread), self.cores)


def process_of(pid: int) -> list[int]:
  """A descriptor of a process: a child of a rank may have its connection still when the rank is
  gone. None where the system has no such thing. Raises ProcessLookupError if it has ended."""
  try:
    return [os.pidfd_open(pid)]
  except ProcessLookupError:
    raise
  except (OSError, AttributeError):
    return []


def described(error: Exception) -> dict[str, Any]:
  row: dict[str, Any] = {"error": type(error).__name__, "text": str(error)}
  if isinstance(error, FormatError):
    row.update(error="FormatError", file=error.filename, offset=error.offset,
               code=error.errno or 0)
  elif not isinstance(error, Error):
    row["text"] = f"ImageLoader: share: {type(error).__name__}: {error}"
  return row
