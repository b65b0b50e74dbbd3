"""A job of many ranks on this machine: how it starts, what it costs, and how it ends.

  python -m bench.comm.scale --hosts 16 --ranks-per-host 4 --json build/scale.json

Hosts are network namespaces without a limit of speed. Every rank is a process that may open
`--files` files, with the engine's default options (tuning is on) and an empty tuning cache. Prints
how long the engines need to find each other, descriptors, threads and memory per rank before and
after all-reduces, the times of all-reduces whose sums are compared, and how long after SIGKILL of
one rank all others raised the same error with its number. Exit code 1 when anything was wrong.

Ranks share the processors of this machine, so times say little about a real network.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import machine
from bench.comm.network import Hosts, Network, unavailable
from bench.comm.processes import Channel

HANG_S = 300.0
SIZES = ((4, 20), (4 << 10, 20), (256 << 10, 5), (1 << 20, 3))  # bytes, rounds
LOADED_BYTES = 4 << 10  # of the all-reduces amid which a rank is killed


class Wrong(Exception):
  """A promise was not kept."""


class Job:
  """Context manager: the processes of all ranks and channels to them."""

  def __init__(self, hosts: Hosts, args: argparse.Namespace, folder: str):
    self._hosts, self._args, self._folder = hosts, args, folder
    self.size = args.hosts * args.ranks_per_host
    self._launchers: list[subprocess.Popen] = []
    self._channels: dict[int, Channel] = {}
    self.pids: dict[int, int] = {}

  def __enter__(self) -> Job:
    path = f"{self._folder}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
      listener.bind(path)
      listener.listen(self.size)
      listener.settimeout(HANG_S)
      for host in range(self._args.hosts):
        self.launch(host, path)
      deadline = time.monotonic() + HANG_S
      for _ in range(self.size):
        channel = Channel(listener.accept()[0])
        hello = channel.answer(deadline)
        self._channels[hello["rank"]] = channel
        self.pids[hello["rank"]] = hello["pid"]
    return self

  def launch(self, host: int, path: str) -> None:
    each = self._args.ranks_per_host
    ranks = [str(host * each + i) for i in range(each)]
    words = [sys.executable, "-m", "bench.comm.scale_rank", path, f"{self._folder}/store/",
             str(self.size), str(self._args.files), *ranks]
    # Options are the defaults, with a tuning cache of this job alone.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "STRETTO_CACHE_DIR": self._folder}
    self._launchers.append(subprocess.Popen(self._hosts.command(host, *words), env=environment,
                                            stdin=subprocess.DEVNULL))

  def __exit__(self, *_) -> None:
    for channel in self._channels.values():
      channel.close()
    for launcher in self._launchers:
      try:
        launcher.wait(20)
      except subprocess.TimeoutExpired:
        for pid in self.pids.values():
          kill(pid)
        launcher.wait()

  def ask(self, without: int = -1, during=None, **request) -> list[dict]:
    ranks = [rank for rank in sorted(self._channels) if rank != without]
    for rank in ranks:
      self._channels[rank].send(request)
    if during:
      during()
    deadline = time.monotonic() + HANG_S
    replies = [self._channels[rank].answer(deadline) for rank in ranks]
    for rank, reply in zip(ranks, replies):
      if "failed" in reply:
        raise Wrong(f"rank {rank}: {reply['failed']}")
    return replies

  def kill_amid(self, victim: int) -> dict:
    """A rank dies while all reduce; how long until the last of the others has said so."""
    at = 0.0

    def strike() -> None:
      nonlocal at
      time.sleep(1.0)
      at = time.monotonic()
      kill(self.pids[victim])

    self._channels[victim].send({"do": "wait", "bytes": LOADED_BYTES})
    replies = self.ask(victim, strike, do="wait", bytes=LOADED_BYTES)
    texts = {reply["text"] for reply in replies}
    if len(texts) != 1 or any(reply["rank"] != victim for reply in replies):
      raise Wrong(f"rank {victim} was killed, and the others say: {sorted(texts)}")
    return {"victim": victim, "seconds": max(reply["at"] for reply in replies) - at,
            "text": texts.pop()}


def kill(pid: int) -> None:
  try:
    os.kill(pid, signal.SIGKILL)
  except ProcessLookupError:
    pass


def spread(values: list[float]) -> str:
  low, middle, high = min(values), statistics.median(values), max(values)
  return f"{low:g} to {high:g}, median {middle:g}"


def show_counts(title: str, counts: list[dict]) -> None:
  print(f"{title}, per rank")
  for name in ("descriptors", "links", "streams", "threads", "memory_kib"):
    print(f"  {name:<13}{spread([count[name] for count in counts])}")


def run(args: argparse.Namespace, hosts: Hosts) -> dict:
  result: dict = {"ranks": args.hosts * args.ranks_per_host, "files": args.files}
  with tempfile.TemporaryDirectory() as folder, Job(hosts, args, folder) as job:
    result["start_s"] = max(reply["seconds"] for reply in job.ask(do="create"))
    print(f"{job.size} ranks on {args.hosts} hosts, at most {args.files} files each, default "
          "options")
    print(f"engines connected after {result['start_s']:.2f} s")
    result["after_start"] = job.ask(do="count")
    show_counts("after the start", result["after_start"])
    result["all_reduce"] = []
    for size, rounds in SIZES:
      replies = job.ask(do="reduce", bytes=size, rounds=rounds)
      if not all(reply["right"] for reply in replies):
        raise Wrong(f"an all-reduce of {size} bytes gave a wrong sum")
      slowest = [max(times) for times in zip(*(reply["seconds"] for reply in replies))]
      result["all_reduce"].append({"bytes": size, "first_s": slowest[0],
                                   "median_s": statistics.median(slowest[1:])})
      print(f"all-reduce of {size} bytes: right, first {1000 * slowest[0]:.1f} ms, then "
            f"{1000 * statistics.median(slowest[1:]):.1f} ms")
    result["after_work"] = job.ask(do="count")
    show_counts("after the all-reduces", result["after_work"])
    result["kill"] = job.kill_amid(job.size // 3)
    print(f"rank {result['kill']['victim']} killed: the last of the others knew after "
          f"{result['kill']['seconds']:.2f} s: {result['kill']['text']}")
  return result


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m bench.comm.scale", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--hosts", type=int, default=16)
  parser.add_argument("--ranks-per-host", type=int, default=4)
  parser.add_argument("--files", type=int, default=1024, help="limit on open files of every rank")
  parser.add_argument("--json", type=Path, help="write the results here")
  args = parser.parse_args()
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # hosts and ranks go away on any exit
  network = Network(args.hosts, rails_mbit=(0,))
  reason = unavailable(network)
  if reason:
    print(f"skipped: {reason}")
    return 0
  try:
    with Hosts(network, "scale") as hosts:
      result = run(args, hosts)
  except Wrong as error:
    print(f"wrong: {error}")
    return 1
  if args.json:
    result["machine"] = machine.describe()
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(result, indent=1) + "\n")
  return 0


if __name__ == "__main__":
  sys.exit(main())
