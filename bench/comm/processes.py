"""The ranks of one peer, seen from the bench: starts them on their hosts and talks to them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from bench.comm.network import Hosts
from bench.comm.peers import Peer

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 180.0


class RankLost(Exception):
  """A rank ended, did not answer in time, or says it failed."""


class Skipped(Exception):
  """The peer is not here."""


class Ranks:
  """Context manager. One process per rank of `placement`, on its host."""

  def __init__(self, peer: Peer, hosts: Hosts, placement: tuple[int, ...], port: int, folder: Path):
    self.peer, self._hosts, self._placement = peer, hosts, placement
    self._port, self._folder = port, folder / peer.name
    self._folder.mkdir(parents=True)
    self._log = (self._folder / "log").open("w")
    self._processes: list[subprocess.Popen] = []
    self._channels: dict[int, Channel] = {}
    self.version = ""

  def __enter__(self) -> Ranks:
    try:
      self.start()
    except BaseException:
      self.close()
      raise
    return self

  def __exit__(self, *_) -> None:
    self.close()

  def start(self) -> None:
    if self.peer.package and not os.environ.get(self.peer.package):
      raise Skipped(f"{self.peer.package} names no package")
    path = str(self._folder / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
      listener.bind(path)
      listener.listen(len(self._placement))
      worker = [sys.executable, "-m", "bench.comm.rank", "--socket", path, "--peer", self.peer.row,
                "--size", str(len(self._placement)), "--port", str(self._port), "--address",
                self._hosts.address(self._placement[0]), "--interfaces",
                ",".join(self._hosts.interfaces())]
      self.launch(worker)
      deadline = time.monotonic() + START_TIMEOUT_S
      for _ in self._placement:
        channel = Channel(self.accept(listener, deadline))
        self._channels[channel.answer(deadline)["rank"]] = channel
    for reply in self.answers(START_TIMEOUT_S):
      self.version = reply["version"]

  def launch(self, worker: list[str]) -> None:
    if self.peer.launcher == "mpirun":
      self.spawn(0, mpirun(self.peer, self._hosts, self._placement, self._folder) + worker)
    else:
      for rank, host in enumerate(self._placement):
        self.spawn(host, [*worker, "--rank", str(rank)])

  def spawn(self, host: int, words: list[str]) -> None:
    own = os.environ.get(self.peer.package, "") if self.peer.package else ""
    paths = [own, str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                   "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **self.peer.environment}
    self._processes.append(subprocess.Popen(
        self._hosts.command(host, *words), stdin=subprocess.DEVNULL, stdout=self._log,
        stderr=self._log, env=environment, preexec_fn=os.setpgrp))

  def accept(self, listener: socket.socket, deadline: float) -> socket.socket:
    listener.settimeout(1.0)
    while time.monotonic() < deadline:
      try:
        return listener.accept()[0]
      except TimeoutError:
        if any(p.poll() not in (None, 0) for p in self._processes):
          break
    raise RankLost(f"ranks did not start: {self.last_words()}")

  def last_words(self) -> str:
    self._log.flush()
    lines = [x for x in Path(self._log.name).read_text(errors="replace").splitlines() if x.strip()]
    return lines[-1][:300] if lines else "no output"

  def ask(self, timeout_s: float, during=None, **request) -> list[dict]:
    """The answers of all ranks, in rank order; `during` is called once they are at work."""
    for channel in self._channels.values():
      channel.send(request)
    if during:
      during()
    return self.answers(timeout_s)

  def answers(self, timeout_s: float) -> list[dict]:
    deadline = time.monotonic() + timeout_s
    replies = [self._channels[rank].answer(deadline) for rank in sorted(self._channels)]
    for rank, reply in enumerate(replies):
      if "skipped" in reply:
        raise Skipped(reply["skipped"])
      if "failed" in reply:
        raise RankLost(f"rank {rank}: {reply['failed']}")
    return replies

  def close(self) -> None:
    for channel in self._channels.values():
      channel.close()
    deadline = time.monotonic() + 5
    for process in self._processes:
      try:
        process.wait(max(deadline - time.monotonic(), 0.1))
      except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    self._log.close()


class Channel:

  def __init__(self, connection: socket.socket):
    self._socket = connection
    self._pending = b""

  def send(self, request: dict) -> None:
    try:
      self._socket.sendall((json.dumps(request) + "\n").encode())
    except OSError as error:
      raise RankLost("a rank has ended") from error

  def answer(self, deadline: float) -> dict:
    while b"\n" not in self._pending:
      self._socket.settimeout(max(deadline - time.monotonic(), 0.01))
      try:
        more = self._socket.recv(65536)
      except TimeoutError as error:
        raise RankLost("no answer in time") from error
      except OSError as error:
        raise RankLost("a rank has ended") from error
      if not more:
        raise RankLost("a rank has ended")
      self._pending += more
    line, self._pending = self._pending.split(b"\n", 1)
    return json.loads(line)

  def close(self) -> None:
    self._socket.close()


def mpirun(peer: Peer, hosts: Hosts, placement: tuple[int, ...], folder: Path) -> list[str]:
  """The command that starts ranks on the hosts through a stand-in for ssh. The settings are those
  under which it is fastest with more ranks than cores."""
  if not shutil.which("mpirun"):
    raise Skipped("no mpirun (package openmpi-bin)")
  count = max(placement) + 1
  words = ["mpirun", "-np", str(len(placement)), "--bind-to", "none", "--mca",
           "mpi_yield_when_idle", "1"]
  for name, value in peer.mca:
    words += ["--mca", name, value]
  if not hosts.network:
    return [*words, "--oversubscribe"]
  agent = folder / "agent"
  cases = "\n".join(f"  {hosts.address(h)}) shift; exec {shell(hosts.command(h))} sh -c \"$*\";;"
                    for h in range(count))
  agent.write_text(f"#!/bin/sh\ncase $1 in\n{cases}\nesac\n")
  agent.chmod(0o755)
  contiguous = list(placement) == sorted(placement)
  each = len(placement) // count
  return [*words, "--mca", "plm_rsh_agent", str(agent), "--mca", "btl_tcp_if_include", "eth0",
          "--mca", "oob_tcp_if_include", "eth0", "--map-by", "slot" if contiguous else "node",
          "--host", ",".join(f"{hosts.address(h)}:{each}" for h in range(count))]


def shell(words: list[str]) -> str:
  return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
