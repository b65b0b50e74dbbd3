"""What comm.Engine tells others at its beginning and its end: the log, `stretto run --report`,
whoever scrapes STRETTO_METRICS_PORT, and `stretto cluster run --hang-after`."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from stretto import _account, _heartbeat, _metrics
from stretto._errors import Error

if TYPE_CHECKING:
  from stretto.comm import Engine

LOG = logging.getLogger("stretto")
CLOSING: weakref.WeakKeyDictionary[Engine, Callable[[Engine], None]] = weakref.WeakKeyDictionary()


def opened(engine: Engine) -> None:
  _metrics.add(engine)
  _heartbeat.add(engine)
  if LOG.isEnabledFor(logging.INFO):
    LOG.info("rank %d of %d is connected, on %d hosts", engine.rank, engine.size,
             len(engine.native.hosts))


def before_close(engine: Engine, function: Callable[[Engine], None]) -> None:
  """The function will be called with the engine when that is closed, and one given before not."""
  CLOSING[engine] = function


def closing(engine: Engine) -> None:
  try:
    CLOSING.pop(engine, lambda _: None)(engine)
  except (Error, OSError) as error:  # closing must go on
    LOG.warning("rank %d: %s", engine.rank, error)
  engine._reports.finish(engine.native, engine.find_name)
  _account.leave(engine)
  _metrics.remove(engine)
  _heartbeat.remove(engine)
  if LOG.isEnabledFor(logging.INFO):
    done = engine.statistics()
    LOG.info("rank %d leaves after %d operations, %d bytes sent, %d chunks sent again", engine.rank,
             done["operations"], done["payload_bytes"], done["resent_chunks"])
