"""The lines of a job in a cloud, from `sky logs` into files of the job's folder: these stay when
the cluster is gone, and several commands may read them."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

from stretto.cluster import _agent
from stretto.cluster._cloud_sky import PROGRAM, end, missing

# "(worker1, rank=1, pid=7, ip=10.0.0.2) [rank 3] text"; SkyPilot's own prefix may have colours.
COLOUR = rb"(?:\x1b\[[0-9;]*m)*"
PREFIX = re.compile(COLOUR + rb"\([^()\n]*pid=\d+[^()\n]*\)" + COLOUR + rb" ?")
LINE = re.compile(rb"\[(rank|node) (\d+)\] ?(.*)", re.DOTALL)
EXIT = re.compile(rb"exit (\d+)")
READ_BYTES = 1 << 16
AGAIN_S = 3.0  # between two connections
SNAPSHOT_S = 60.0
REST_S = 3.0  # for lines that come after the exit code
WHOLE = "logs.whole"  # a file that says that all lines are there
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


class Pump:
  """One at a time for a job, whichever process it is in."""

  def __init__(self, folder: str, cluster: str, number: str, nodes: int) -> None:
    self.folder, self.cluster, self.number, self.nodes = folder, cluster, number, nodes
    self.child: subprocess.Popen[bytes] | None = None
    self.lock: IO[str] | None = None
    self.started_at = 0.0
    self.rest = b""
    self.todo: dict[str, int] = {}  # lines of each file that a new connection shows again
    self.codes: dict[int, int] = {}  # of nodes
    self.ended_at = 0.0  # when the exit code was known

  def is_done(self) -> bool:
    """Whether the exit code is known, and all lines are there, or do not come."""
    if Path(self.folder, WHOLE).exists() or self.lock is None:
      return True
    return bool(self.ended_at) and time.monotonic() - self.ended_at > REST_S

  def is_ours(self) -> bool:
    """Whether this process is the one that writes the files, and there is more to write."""
    if Path(self.folder, WHOLE).exists():
      return False
    if self.lock is None:
      file = open(Path(self.folder, "logs.lock"), "w")
      try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
      except BlockingIOError:
        file.close()
        return False
      self.lock = file
    return True

  def words(self, follow: bool) -> list[str]:
    how = ["--follow", "--tail", "0"] if follow else ["--no-follow", "--tail", "0"]
    return [PROGRAM, "logs", *how, self.cluster, self.number]

  def snapshot(self) -> None:
    """All that there is now."""
    self.begin()
    try:
      done = subprocess.run(self.words(False), stdin=subprocess.DEVNULL, capture_output=True,
                            timeout=SNAPSHOT_S, start_new_session=True)
    except FileNotFoundError:
      raise missing() from None
    except subprocess.TimeoutExpired:
      return  # the connection that follows may be better
    self.take(done.stdout)
    self.started_at = 0.0

  def go_on(self) -> None:
    """Takes what has come. A connection that has ended is made again: the job may go on."""
    try:
      self.take_news()
    except BaseException:  # Ctrl-C: lines that were read may not be in the files
      self.close()
      self.started_at = 0.0
      raise

  def take_news(self) -> None:
    if self.child is None:
      if time.monotonic() - self.started_at < AGAIN_S:
        return
      self.begin()
      self.start()
      return
    assert self.child.stdout is not None
    while True:
      try:
        data = os.read(self.child.stdout.fileno(), READ_BYTES)
      except BlockingIOError:
        return
      if not data:
        break
      self.take(data)
    self.child.wait()
    self.child.stdout.close()
    self.child = None
    if Path(self.folder, "exit").exists():
      _agent.write(self.folder, WHOLE, "")

  def start(self) -> None:
    libc = ctypes.CDLL(None)
    try:
      self.child = subprocess.Popen(
        self.words(True), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
        preexec_fn=lambda: libc.prctl(DEATH_SIGNAL, signal.SIGTERM))
    except FileNotFoundError:
      raise missing() from None
    assert self.child.stdout is not None
    os.set_blocking(self.child.stdout.fileno(), False)
    self.started_at = time.monotonic()
    atexit.register(self.close)

  def close(self) -> None:
    child, self.child = self.child, None
    if child is not None and child.poll() is None:
      end(child, signal.SIGTERM)

  def begin(self) -> None:
    """`sky logs` starts with the first line: those that are in the files are passed over. A line
    that a killed command has left in part is taken anew."""
    self.rest, self.todo, self.codes = b"", {}, {}
    for path in Path(self.folder, "logs").glob("*.log"):
      data = path.read_bytes()
      whole = data.rfind(b"\n") + 1
      if whole < len(data):
        os.truncate(path, whole)
      self.todo[path.name] = data.count(b"\n")

  def take(self, data: bytes) -> None:
    *lines, self.rest = (self.rest + data).split(b"\n")
    fresh: dict[str, list[bytes]] = {}
    for line in lines:
      prefix = PREFIX.match(line)
      text = line[prefix.end():] if prefix else line
      tagged = LINE.fullmatch(text)
      if tagged and tagged[1] == b"rank":
        name, text = f"rank-{int(tagged[2]):05}.log", tagged[3]
      elif tagged and (code := EXIT.fullmatch(tagged[3].rstrip())):
        self.note(int(tagged[2]), int(code[1]))
        continue
      elif prefix:
        name = "batch.log"
      else:
        continue  # SkyPilot tells what it does
      if self.todo.get(name, 0) > 0:
        self.todo[name] -= 1
      else:
        fresh.setdefault(name, []).append(text + b"\n")
    for name, texts in fresh.items():
      with open(Path(self.folder, "logs", name), "ab") as file:
        file.write(b"".join(texts))

  def note(self, node: int, code: int) -> None:
    """The job's code is that of the first node that failed; 0 when all have ended well."""
    self.codes[node] = code
    if not code and len(self.codes) < self.nodes:
      return
    self.ended_at = self.ended_at or time.monotonic()
    if not Path(self.folder, "exit").exists():
      _agent.write(self.folder, "exit", f"{code}\n")
