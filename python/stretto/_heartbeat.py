"""What a rank of `stretto cluster run --hang-after` leaves in STRETTO_PROGRESS, a folder: how many
operations its engines have finished, and, once a file `asked` is there, where its script is.
cluster/_watch_steps.py reads it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
import traceback
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto._completions import start_thread
from stretto._errors import Error, UnsupportedError

if TYPE_CHECKING:
  from stretto.comm import Engine

VARIABLE = "STRETTO_PROGRESS"
PERIOD_S = 0.5
LOG = logging.getLogger("stretto")
LAUNCHERS = ("_task.py", "_rank.py", "<frozen runpy>", "runpy.py")  # below every script

LOCK = threading.Lock()  # engines must not be closed while they are asked
ENGINES: weakref.WeakKeyDictionary[Engine, None] = weakref.WeakKeyDictionary()
STATE: dict[str, Any] = {"thread": None, "finished": 0}  # operations of engines that are closed


def add(engine: Engine) -> None:
  folder = os.environ.get(VARIABLE)
  if not folder:
    return
  with LOCK:
    ENGINES[engine] = None
    if STATE["thread"] is not None:
      return
    try:
      STATE["thread"] = start_thread("stretto-heartbeat", beat, Path(folder), engine.rank)
    except UnsupportedError as error:
      LOG.warning("rank %d: nothing says how far it is: %s", engine.rank, error)


def remove(engine: Engine) -> None:
  with LOCK:
    if engine in ENGINES:
      STATE["finished"] += engine.statistics()["operations"]
      del ENGINES[engine]


def in_child() -> None:
  """A forked data loader is no rank."""
  global LOCK
  LOCK = threading.Lock()
  ENGINES.clear()
  STATE["thread"] = None


os.register_at_fork(after_in_child=in_child)


def finished() -> int:
  with LOCK:
    total = STATE["finished"]
    for engine in list(ENGINES):
      with contextlib.suppress(Error):  # it has just been closed
        total += engine.statistics()["operations"]
    return total


def where() -> dict[str, Any]:
  """The stack of the script's main thread, and whether it is inside a call of the engine."""
  frame = sys._current_frames().get(threading.main_thread().ident or 0)
  frames = traceback.extract_stack(frame) if frame else traceback.StackSummary()
  inner = [f for f in frames if Path(f.filename).name not in LAUNCHERS]
  package = str(Path(__file__).parent) + os.sep
  return {"in_engine": any(f.filename.startswith((package, os.path.realpath(package) + os.sep))
                           or f"torch{os.sep}distributed{os.sep}" in f.filename for f in inner),
          "stack": [text.rstrip() for text in traceback.format_list(inner)]}


def beat(folder: Path, rank: int) -> None:
  """Until the process ends. A folder that is gone, or a full disk, must not end the training."""
  name, asked = folder / f"rank-{rank:05}", False
  while True:
    with contextlib.suppress(OSError):
      part = name.with_suffix(".part")
      part.write_text(json.dumps({"rank": rank, "operations": finished(), "time": time.time()}))
      part.replace(name.with_suffix(".json"))
      if not asked and (folder / "asked").exists():
        asked = True
        part.write_text(json.dumps(where()))
        part.replace(name.with_suffix(".stack"))
    time.sleep(PERIOD_S)
