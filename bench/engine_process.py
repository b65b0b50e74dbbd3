"""The near end of `stretto.peers._worker`: starts an engine in a process of its own and talks to
it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

from stretto.peers import _machine as machine

ROOT = Path(__file__).resolve().parents[1]
# An engine's threads may spin for a while after its last call (ONNX Runtime 16 ms, others up to 200
# ms).
IDLE_TIMEOUT = 0.5


class EngineProcess:
  """Context manager. Requests return a dict; {"failed": why} also when the process died or hung."""

  def __init__(self, environment: dict[str, str], log: Path, package: Path | None = None):
    """`package`: a folder with another build of Stretto's package."""
    # Where PyTorch's driver finds the models' definitions.
    paths = [str(package or ""), str(ROOT)] + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = {**os.environ, **environment,
                   "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    self._log = log.open("w")
    self._process = subprocess.Popen(
        [sys.executable, "-m", "stretto.peers", "serve"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=self._log, env=environment)

  def __enter__(self) -> EngineProcess:
    return self

  def __exit__(self, *_) -> None:
    self.close()

  def close(self) -> None:
    if self._process.poll() is None:
      self._process.stdin.close()
      try:
        self._process.wait(5)
      except subprocess.TimeoutExpired:
        self._process.kill()
        self._process.wait()
    self._process.stdout.close()
    self._log.close()

  def ask(self, timeout_s: float, **request) -> dict:
    try:
      self._process.stdin.write((json.dumps(request) + "\n").encode())
      self._process.stdin.flush()
    except BrokenPipeError:
      return self.died()
    ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
    if not ready:
      self._process.kill()
      return {"failed": f"no answer in {timeout_s:.0f} s"}
    line = self._process.stdout.readline()
    return json.loads(line) if line else self.died()

  def died(self) -> dict:
    return {"failed": f"the process ended with status {self._process.wait()}, see {self._log.name}"}

  def wait_until_idle(self) -> None:
    """Until its threads stopped burning the cores the next engine needs."""
    stop, used = time.monotonic() + IDLE_TIMEOUT, machine.cpu_ms(self._process.pid)
    while time.monotonic() < stop:
      time.sleep(0.005)
      used, before = machine.cpu_ms(self._process.pid), used
      if used - before < 0.1:
        return
