"""Timelines that begin and end in the middle of a job."""

from __future__ import annotations

import json
import os
import weakref
from typing import Any

from stretto import _watch
from stretto._paths import path_text
from stretto.comm import Engine
from stretto.horovod._state import job

CYCLE_US = 100.0  # operations that begin within this time belong to one cycle

# By engine: the file, and whether to mark cycles.
RUNNING: weakref.WeakKeyDictionary[Engine, tuple[str, bool]] = weakref.WeakKeyDictionary()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
  """Starts to record a timeline of this rank's operations.

  Rank 0 records, as in Horovod; on other ranks the call does nothing. A timeline that runs already
  is written first. It needs no HOROVOD_TIMELINE at the start of the job.

  Args:
    file_path: the file, in Chrome's trace format, which Perfetto shows too. It is written by
      `stop_timeline`, or when the job ends.
    mark_cycles: whether to mark the times at which operations begin to be sent, those within 0.1 ms
      of each other as one: what Horovod calls a cycle.

  Raises:
    InvalidArgumentError: `file_path` is no path, or `init` was not called (a ValueError, as in
      Horovod).

  Examples:
    >>> hvd.start_timeline("timeline.json")  # doctest: +SKIP
  """
  engine = job().everyone.group.engine
  path = path_text("start_timeline: file_path", file_path)
  if engine.rank != 0:
    return
  if engine in RUNNING:
    write(engine)
  RUNNING[engine] = (path, mark_cycles)
  engine.native.start_trace()
  _watch.before_close(engine, write)


def stop_timeline() -> None:
  """Ends the timeline and writes its file. Does nothing if none runs.

  Raises:
    InvalidArgumentError: `init` was not called (a ValueError, as in Horovod).
    OSError: the file cannot be written.
  """
  engine = job().everyone.group.engine
  if engine.rank == 0:
    write(engine)


def begin() -> None:
  """At the start of the job: HOROVOD_TIMELINE names a file, or says that one may come later."""
  path = os.environ.get("HOROVOD_TIMELINE", "")
  if path not in ("", "DYNAMIC"):
    start_timeline(path, os.environ.get("HOROVOD_TIMELINE_MARK_CYCLES", "0") not in ("", "0"))


def write(engine: Engine) -> None:
  if engine not in RUNNING:
    return
  path, mark_cycles = RUNNING.pop(engine)
  trace = json.loads(engine.native.stop_trace())
  if mark_cycles:
    trace["traceEvents"] += cycles(trace["traceEvents"])
  with open(path + ".partial", "w") as file:
    json.dump(trace, file)
  os.replace(path + ".partial", path)


def cycles(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
  begun = sorted(e["ts"] + e["dur"] for e in events if e.get("cat") == "queue")
  marks: list[dict[str, Any]] = []
  for at in begun:
    if not marks or at - marks[-1]["ts"] > CYCLE_US:
      marks.append({"ph": "i", "s": "p", "pid": 0, "tid": 0, "name": "CYCLE_START", "ts": at})
  return marks
