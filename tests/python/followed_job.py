"""`stretto run` in the background, for tests that kill its ranks when they have got somewhere."""

import json
import os
import re
import signal
import subprocess
import sys
import time

TIMEOUT_S = 280  # a guard against hanging for ever, not a statement about speed


class Job:
  """`stretto run`, whose output is followed."""

  def __init__(self, folder, *words, name="job", **environment):
    self.log, self.out = folder / f"{name}.log", folder / f"{name}.json"
    self.stop = time.monotonic() + TIMEOUT_S
    with self.log.open("w") as log:
      self.process = subprocess.Popen(
          [sys.executable, "-m", "stretto", "run", *map(str, words)], stdout=log,
          stderr=subprocess.STDOUT, cwd=folder,
          # Lines are written in one piece.
          env=os.environ | {"PYTHONUNBUFFERED": ""} | environment)

  def until(self, pattern):
    """Waits for a line of the output."""
    while (found := re.search(pattern, self.text, re.M)) is None:
      assert self.process.poll() is None and time.monotonic() < self.stop, self.text
      time.sleep(0.02)
    return found

  @property
  def text(self):
    return self.log.read_text()

  def kill(self, rank, size=3):
    os.kill(int(self.until(rf"^rank {rank} of {size}: process (\d+)$")[1]), signal.SIGKILL)

  def ended(self, code=0):
    try:
      got = self.process.wait(max(self.stop - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
      got = "a timeout"
    assert got == code, self.text
    return json.loads(self.out.read_text()) if code == 0 and self.out.exists() else None

  def __enter__(self):
    return self

  def __exit__(self, *what):
    self.process.terminate()  # which ends the ranks as well
    self.process.wait()
