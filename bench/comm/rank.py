"""One rank of one peer: connects to the bench over a socket file, does what it is told, answers in
JSON lines. Between requests it is blocked in a read."""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import socket
import time
from pathlib import Path

import numpy as np

from bench.comm import peers, training

# Values are small integers, so that sums are exact in any order and are compared for equality.
PATTERN = 97
COMPUTE_S = 2e-3


def compute() -> None:
  """Matrix products for COMPUTE_S, on the caller's core."""
  matrix = np.ones((64, 64), np.float32)
  until = time.perf_counter() + COMPUTE_S
  while time.perf_counter() < until:
    matrix @ matrix


def traffic() -> dict[str, list[int]]:
  """[received, sent] bytes of every card of this host."""
  counters = {}
  for line in Path("/proc/self/net/dev").read_text().splitlines()[2:]:
    name, _, numbers = line.partition(":")
    fields = numbers.split()
    counters[name.strip()] = [int(fields[0]), int(fields[8])]
  return counters


@functools.lru_cache(maxsize=2)
def pattern(count: int, factor: int, summand: int) -> np.ndarray:
  return (np.arange(count, dtype=np.float32) % PATTERN) * factor + summand


def fill(buffers: list, rank: int) -> None:
  for array in buffers:
    values = np.asarray(array)
    values[:] = pattern(values.size, 1, rank)


def hold(buffers: list, factor: int, summand: int) -> bool:
  """Whether every value is that of pattern()."""
  for array in buffers:
    values = np.asarray(array)
    if not np.array_equal(values, pattern(values.size, factor, summand)):
      return False
  return True


class Rank:

  def __init__(self, context: peers.Context, driver):
    self._context, self._driver = context, driver
    self._trainers: dict[tuple, training.Trainer] = {}

  def reduce(self, request: dict) -> dict:
    """Fills, waits for the others, does it, checks."""
    buffers = self._driver.buffers(request["bytes"], request["operations"])
    fill(buffers, self._context.rank)
    driver, size = self._driver, self._context.size
    run = {"each": lambda: driver.each(buffers), "burst": lambda: driver.burst(buffers),
           "apart": lambda: self.apart(buffers),
           "broadcast": lambda: driver.broadcast(buffers)}[request["kind"]]
    reply = self.timed(run)
    if request["kind"] == "broadcast":
      return reply | {"correct": hold(buffers, 1, 0)}
    return reply | {"correct": hold(buffers, size, size * (size - 1) // 2)}

  def apart(self, buffers: list) -> float:
    """All-reduces as training makes them: each after computing for a while. Returns their time."""
    seconds = 0.0
    for array in buffers:
      compute()
      start = time.perf_counter()
      self._driver.each([array])
      seconds += time.perf_counter() - start
    return seconds

  def steps(self, request: dict) -> dict:
    key = (request["model"], request["wire"])
    if key not in self._trainers:
      self._trainers[key] = training.make(self._driver, *key, self._context.rank,
                                          self._context.size)
    trainer = self._trainers[key]
    reply = self.timed(lambda: trainer.run(request["operations"]))
    reply |= trainer.verdict(request.get("last", False))
    return reply | ({"error": trainer.mean_error()} if request.get("error") else {})

  def timed(self, run) -> dict:
    gc.collect()
    # First: whoever shares this core may have begun when this rank leaves the barrier.
    before = traffic()
    self._driver.barrier()
    cpu, start = time.process_time(), time.perf_counter()
    own = run()
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu
    if own is not None:
      seconds = own
    self._driver.barrier()
    after = traffic()
    moved = {name: [after[name][i] - before[name][i] for i in (0, 1)] for name in before}
    return {"seconds": seconds, "cpu_s": cpu_s, "moved": moved}


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser()
  parser.add_argument("--socket", required=True)
  parser.add_argument("--peer", required=True)
  parser.add_argument("--rank", type=int, default=-1)
  parser.add_argument("--size", type=int, required=True)
  parser.add_argument("--address", required=True)
  parser.add_argument("--port", type=int, required=True)
  parser.add_argument("--interfaces", required=True)
  return parser.parse_args()


def serve(channel, args: argparse.Namespace) -> None:
  peer = peers.find(args.peer)

  def say(reply: dict) -> None:
    channel.write(json.dumps(reply) + "\n")
    channel.flush()

  try:
    rank = args.rank if args.rank >= 0 else int(os.environ["OMPI_COMM_WORLD_RANK"])
    context = peers.Context(rank, args.size, args.address, args.port, args.interfaces.split(","),
                            peer.setting, str(Path(args.socket).parent))
    say({"rank": rank, "pid": os.getpid()})
    driver = peer.driver().connect(context)
    say({"version": driver.version()})
    worker = Rank(context, driver)
    for line in channel:
      request = json.loads(line)
      say(worker.steps(request) if request["kind"] == "steps" else worker.reduce(request))
    driver.close()
  except ImportError as error:
    say({"skipped": f"not installed: {error}"})
  except Exception as error:  # whatever a peer raises is its result
    text = str(error).strip().splitlines()
    say({"failed": f"{type(error).__name__}: {text[0][:300] if text else ''}"})


def main() -> None:
  args = arguments()
  with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(args.socket)
    with connection.makefile("rw") as channel:
      serve(channel, args)
  os._exit(0)  # peers' threads may be stuck in an operation that a test cut off


if __name__ == "__main__":
  main()
