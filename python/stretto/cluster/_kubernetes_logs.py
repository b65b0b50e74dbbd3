"""What the pods of a job print, through `kubectl logs`: one process for all of them. It is started
again when more pods have begun or when its connections broke, and goes on behind the lines that are
known: each has the time at which it was written."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import IO

from stretto.cluster import _kubernetes_manifest as manifest
from stretto.cluster import _kubernetes_output as output
from stretto.cluster._backend import News
from stretto.cluster._host import ClusterError, Done, Host
from stretto.cluster._kubectl import Kubectl

LINE = re.compile(rb"\[pod/([^/\]]+)/[^\]]+\] (\d{4}-\d\d-\d\dT[0-9:]+(?:\.\d+)?)"
                  rb"(?:Z|[+-]\d\d:\d\d) ?(.*)", re.DOTALL)
RANK = re.compile(rb"\[(\d+)\] ?(.*)", re.DOTALL)
AGAIN_S = 1.0  # before a broken stream is opened again
LAST_LINES_S = 10.0  # for a stream to end when its pods have
READ_BYTES = 1 << 20
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def die_with_parent() -> Callable[[], None]:
  """For a child: kubectl must not go on when this command is killed."""
  libc = ctypes.CDLL(None)
  return lambda: libc.prctl(DEATH_SIGNAL, signal.SIGKILL)


def moment(text: bytes) -> tuple[bytes, bytes]:
  """Comparable; some versions leave out the last zeros of a fraction."""
  whole, _, fraction = text.partition(b".")
  return whole, fraction.ljust(9, b"0")


def parsed(line: bytes) -> tuple[str, tuple[bytes, bytes], News] | None:
  """Pod, time and text of a line. None: it is kubectl's own."""
  found = LINE.fullmatch(line)
  if not found:
    return None
  text = found[3]
  ranked = RANK.fullmatch(text)
  news = News(int(ranked[1]), ranked[2] + b"\n") if ranked else News(None, text + b"\n")
  return found[1].decode(), moment(found[2]), news


class Logs:

  def __init__(self, host: Kubectl, name: str) -> None:
    self.host, self.name = host, name
    self.child: subprocess.Popen[bytes] | None = None
    self.rest = b""
    self.pods: dict[str, float] = {}  # whose output comes: when they have begun
    self.known: dict[str, tuple[tuple[bytes, bytes], int]] = {}  # the last time, and its lines
    self.before: dict[str, tuple[tuple[bytes, bytes], int]] = {}  # known when the stream began
    self.ended_at, self.waits_since, self.told = 0.0, 0.0, False
    self.began_at = 0.0
    self.errors: IO[bytes]
    self.refused = b""

  def words(self, pods: int, *more: str) -> list[str]:
    return self.host.words(
      "logs", "-l", f"{manifest.JOB_LABEL}={self.name}", "-c", manifest.CONTAINER, "--prefix",
      "--timestamps", "--tail=-1", "--ignore-errors", f"--max-log-requests={max(pods, 5)}", *more,
      limited=False)

  def past(self, pods: int, since: str) -> list[News]:
    """What is there now."""
    done = self.host.run(self.words(pods, *([f"--since={since}"] if since else [])),
                         timeout=120.0)
    if done.code != 0:
      raise self.host.error(done, ["logs"])
    found = [parsed(line) for line in done.out.encode().split(b"\n")]
    return [line[2] for line in found if line]

  def follow(self, found: output.Look) -> None:
    """Reads the output of all pods that have begun."""
    begun = {output.meta(p)["name"]: output.seconds(start_of(p)) for p in found.pods
             if output.has_begun(p)}
    fresh = {name: at for name, at in begun.items() if name not in self.pods}
    broken = self.ended and time.monotonic() - self.ended_at > AGAIN_S and any(
      output.is_running(pod) for pod in found.pods)
    if not fresh and not broken:
      self.waits_since = 0.0
      return
    if not self.ended and not any(output.is_running(p) for p in found.pods
                                  if output.meta(p)["name"] in self.pods):
      # After a new start. What pods that are gone have printed last can come from this stream only.
      self.waits_since = self.waits_since or time.monotonic()
      if time.monotonic() - self.waits_since < LAST_LINES_S:
        return
    self.waits_since = 0.0
    self.close()
    names = {output.meta(pod)["name"] for pod in found.pods}
    self.pods = {name: at for name, at in self.pods.items() if name in names}
    since = min([*fresh.values(), *(self.last(name) for name in self.pods)], default=0.0)
    self.pods.update(fresh)
    self.before = dict(self.known)
    self.start(len(found.pods), since)

  def last(self, pod: str) -> float:
    if pod in self.known:
      return output.seconds(self.known[pod][0][0].decode() + "Z")
    return self.pods[pod]

  def start(self, pods: int, since: float) -> None:
    stamp = datetime.datetime.fromtimestamp(max(since - 1, 0), datetime.timezone.utc)
    words = self.words(pods, "-f", f"--since-time={stamp:%Y-%m-%dT%H:%M:%SZ}")
    if Host.trace:
      Host.trace(" ".join(words))
    try:
      self.child = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.complaints(),
        env={**os.environ, **self.host.environment}, start_new_session=True,
        preexec_fn=die_with_parent())
    except OSError as error:
      raise ClusterError(f"kubectl: {error.strerror}") from None
    assert self.child.stdout is not None
    os.set_blocking(self.child.stdout.fileno(), False)
    self.rest, self.ended_at, self.began_at = b"", 0.0, time.monotonic()

  @property
  def ended(self) -> bool:
    return self.child is None

  def read(self) -> list[News]:
    if self.child is None or self.child.stdout is None:
      return []
    try:
      data = os.read(self.child.stdout.fileno(), READ_BYTES)
    except BlockingIOError:
      return []
    lines = (self.rest + data).split(b"\n")
    self.rest = lines.pop()
    found = [news for line in lines if (news := self.fresh(line))]
    self.refused = self.refused or next(
      (line for line in lines if b"forbidden" in line and not parsed(line)), b"")
    if not data:
      self.close()
      found += self.refusal()
    return found

  def complaints(self) -> IO[bytes]:
    self.errors = tempfile.TemporaryFile()
    return self.errors

  def refusal(self) -> list[News]:
    """Once: that the user may not read what pods print. The job goes on all the same."""
    self.errors.seek(0)
    text = self.refused or self.errors.read(READ_BYTES)
    done = Done(1, "", text.decode(errors="replace").replace("error: ", "", 1))
    if self.told or "forbidden" not in done.err.lower():
      return []
    self.told = True
    return [News(None, f"stretto cluster: {self.host.error(done, ['logs'])}\n".encode())]

  def fresh(self, line: bytes) -> News | None:
    """None: it was read before the stream was opened again."""
    found = parsed(line)
    if found is None:
      return None
    pod, at, news = found
    last, count = self.before.get(pod, ((b"", b""), 0))
    if at < last:
      return None
    if at == last and count > 0:
      self.before[pod] = (last, count - 1)
      return None
    now, lines = self.known.get(pod, ((b"", b""), 0))
    self.known[pod] = (at, lines + 1 if at == now else 1)
    return news

  def close(self) -> None:
    child, self.child = self.child, None
    self.ended_at = time.monotonic()
    if child is None:
      return
    with contextlib.suppress(ProcessLookupError):
      os.killpg(child.pid, signal.SIGKILL)
    if child.stdout:
      child.stdout.close()
    child.wait()


def start_of(pod: output.Object) -> str | None:
  state = output.container(pod)
  return (state.get("running") or state.get("terminated") or {}).get("startedAt")
