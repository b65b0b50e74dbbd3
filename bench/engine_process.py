"""The near end of `stretto.peers.worker`: starts an engine in a process of its own and talks to
it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from stretto.peers import machine

kRoot = Path(__file__).resolve().parents[1]
# An engine's threads may spin for a while after its last call (ONNX Runtime 16 ms, others up to 200
# ms).
kIdleTimeout = 0.5


class EngineProcess:
  """Context manager. Requests return a dict; {"failed": why} also when the process died or hung."""

  def __init__(self, environment: dict[str, str], log: Path):
    # Where PyTorch's driver finds the models' definitions.
    paths = [str(kRoot)] + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = {**os.environ, **environment,
                   "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    self.log_ = log.open("w")
    self.process_ = subprocess.Popen(
        [sys.executable, "-m", "stretto.peers", "serve"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=self.log_, env=environment)

  def __enter__(self) -> EngineProcess:
    return self

  def __exit__(self, *_) -> None:
    self.close()

  def close(self) -> None:
    if self.process_.poll() is None:
      self.process_.stdin.close()
      try:
        self.process_.wait(5)
      except subprocess.TimeoutExpired:
        self.process_.kill()
        self.process_.wait()
    self.process_.stdout.close()
    self.log_.close()

  def ask(self, timeout_s: float, **request) -> dict:
    try:
      self.process_.stdin.write((json.dumps(request) + "\n").encode())
      self.process_.stdin.flush()
    except BrokenPipeError:
      return self.died()
    ready, _, _ = select.select([self.process_.stdout], [], [], timeout_s)
    if not ready:
      self.process_.kill()
      return {"failed": f"no answer in {timeout_s:.0f} s"}
    line = self.process_.stdout.readline()
    return json.loads(line) if line else self.died()

  def died(self) -> dict:
    return {"failed": f"the process ended with status {self.process_.wait()}, see {self.log_.name}"}

  def wait_until_idle(self) -> None:
    """Until its threads stopped burning the cores the next engine needs."""
    stop, used = time.monotonic() + kIdleTimeout, machine.cpu_ms(self.process_.pid)
    while time.monotonic() < stop:
      time.sleep(0.005)
      used, before = machine.cpu_ms(self.process_.pid), used
      if used - before < 0.1:
        return
