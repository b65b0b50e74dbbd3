"""A Slurm cluster on this machine for tests: real daemons, in a folder of the test."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# A job's script that saves on SIGTERM, and ends at once when it is started again.
SLEEPER = """
import os, signal, sys, time
start = os.environ["TORCHELASTIC_RESTART_COUNT"]
def end(number, frame):
  print("saved", start, flush=True)
  sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("start", start, flush=True)
time.sleep(600 if start == "0" else 0)
print("end", start)
"""

PATIENCE_S = 300  # a guard against hanging for ever, not a statement about speed


@contextlib.contextmanager
def short_folder():
  """pytest's folders have paths that are too long for Slurm's sockets."""
  with tempfile.TemporaryDirectory(prefix="stretto-") as folder:
    yield Path(folder)


class Cluster:
  """Runs `stretto cluster` in a folder, with a state folder of its own."""

  def __init__(self, state: Path, work: Path, extra: dict[str, str] | None = None):
    self.state, self.work = state, work
    self.environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")}
    self.environment |= {"STRETTO_STATE_DIR": str(state), "SHELL": "/bin/sh", **(extra or {})}
    self.environment.pop("STRETTO_DUMP", None)

  @property
  def conf(self) -> Path:
    return self.state / "clusters/local/etc/slurm.conf"

  def words(self, *words):
    return [sys.executable, "-m", "stretto.cluster", *map(str, words)]

  def run(self, *words, code=0, cwd=None, **more):
    done = subprocess.run(self.words(*words), capture_output=True, text=True,
                          cwd=cwd or self.work, env=self.environment | more, timeout=PATIENCE_S,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done

  def start(self, *words, **how):
    return subprocess.Popen(self.words(*words), cwd=self.work, env=self.environment, text=True,
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                               "stdin": subprocess.DEVNULL, **how})

  def slurm(self, *words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S,
                          env=self.environment | {"SLURM_CONF": str(self.conf)})
    return done.stdout

  def script(self, name, text):
    path = self.work / name
    path.write_text(text)
    return path

  def folder(self) -> Path:
    """Of the newest job."""
    return sorted((self.state / "jobs").iterdir())[-1]

  def processes(self):
    """Daemons and ranks of this cluster, also those that nobody has waited for yet."""
    found = []
    for entry in Path("/proc").iterdir():
      if entry.name.isdigit():
        with contextlib.suppress(OSError):
          if str(self.state).encode() in (entry / "environ").read_bytes() and \
              int(entry.name) != os.getpid() and b"SLURM" in (entry / "environ").read_bytes():
            found.append((int(entry.name), (entry / "cmdline").read_bytes()[:200]))
    return found


def started(work: Path):
  """For a fixture: a cluster of some tests, which leave it as it was."""
  with short_folder() as state:
    c = Cluster(state, work)
    c.run("up", "--local-slurm")
    yield c
    c.run("down")
    assert c.processes() == []


def not_started(work: Path):
  """For a fixture: a cluster that a test starts, and may damage."""
  with short_folder() as state:
    c = Cluster(state, work)
    yield c
    c.run("down")
    assert c.processes() == []


def without_scheduler(folder: Path) -> Cluster:
  """The commands of Slurm are not in its PATH."""
  (folder / "work").mkdir()
  (folder / "bin").mkdir()
  for name in ("git", "sh", "env", "cat", "sleep"):
    (folder / "bin" / name).symlink_to(shutil.which(name))
  return Cluster(folder / "state", folder / "work", {"PATH": str(folder / "bin")})


def wait_until(what, seconds=PATIENCE_S):
  stop = time.monotonic() + seconds
  while not (found := what()):
    assert time.monotonic() < stop, "it has not come about"
    time.sleep(0.05)
  return found


def reads(path, text):
  """For wait_until(): whether the text is in the file."""
  return lambda: path.exists() and text in path.read_text()


def read_until(terminal, text):
  """What a program shows until then; without a text, until it ends."""
  shown = b""
  while not text or text not in shown:
    try:
      more = os.read(terminal, 4096)
    except OSError:  # it has ended
      more = b""
    if not more:
      assert not text, shown
      break
    shown += more
  return shown
