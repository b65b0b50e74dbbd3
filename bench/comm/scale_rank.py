"""The ranks of one host: python -m bench.comm.scale_rank SOCKET STORE SIZE FILES RANK...

Imports the engine once, forks a process per rank, and each does what the bench says over SOCKET, in
lines of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
import time

import numpy as np

from bench.comm.resources import held
from stretto import comm

PATTERN = 97


class Rank:

  def __init__(self, store: str, rank: int, size: int):
    self._store, self._rank, self._size = store, rank, size
    self._engine: comm.Engine | None = None

  def create(self, _: dict) -> dict:
    start = time.monotonic()
    self._engine = comm.Engine(self._store, self._rank, self._size)
    return {"seconds": time.monotonic() - start}

  def reduce(self, request: dict) -> dict:
    array = np.empty(request["bytes"] // 4, np.float32)
    pattern = np.arange(array.size, dtype=np.float32) % PATTERN
    times, right = [], True
    for _ in range(request["rounds"]):
      array[:] = pattern + self._rank
      self._engine.barrier()
      start = time.monotonic()
      self._engine.all_reduce(array, "sum")
      times.append(time.monotonic() - start)
      want = pattern * self._size + self._size * (self._size - 1) // 2
      right &= bool(np.array_equal(array, want))
    return {"seconds": times, "right": right}

  def count(self, _: dict) -> dict:
    links = self._engine.statistics()["links"]
    return {**held(), "links": len(links), "streams": sum(len(link["streams"]) for link in links)}

  def wait(self, request: dict) -> dict:
    """All-reduces until the job fails."""
    array = np.zeros(request["bytes"] // 4, np.float32)
    try:
      while True:
        self._engine.all_reduce(array, "sum")
    except comm.CommError as error:
      return {"at": time.monotonic(), "rank": error.rank, "text": str(error)}

  def leave(self, _: dict) -> dict:
    self._engine.close()
    return {}


def serve(path: str, rank: Rank, number: int) -> None:
  with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(path)
    channel = connection.makefile("rw")

    def say(reply: dict) -> None:
      channel.write(json.dumps(reply) + "\n")
      channel.flush()

    say({"rank": number, "pid": os.getpid()})
    for line in channel:
      request = json.loads(line)
      try:
        say(getattr(rank, request["do"])(request))
      except Exception as error:  # the bench says what went wrong
        say({"failed": f"{type(error).__name__}: {error}"})


def main(words: list[str]) -> None:
  path, store, size, files = words[0], words[1], int(words[2]), int(words[3])
  resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
  children = []
  for number in map(int, words[4:]):
    child = os.fork()
    if child == 0:
      serve(path, Rank(store, number, size), number)
      os._exit(0)
    children.append(child)
  for child in children:
    os.waitpid(child, 0)


if __name__ == "__main__":
  main(sys.argv[1:])
