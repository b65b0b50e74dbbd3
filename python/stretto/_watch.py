"""What comm.Engine tells others at its beginning and its end: the log, `stretto run --report`, and
whoever scrapes STRETTO_METRICS_PORT."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stretto import _account, _metrics

if TYPE_CHECKING:
  from stretto.comm import Engine

LOG = logging.getLogger("stretto")


def opened(engine: Engine) -> None:
  _metrics.add(engine)
  if LOG.isEnabledFor(logging.INFO):
    LOG.info("rank %d of %d is connected, on %d hosts", engine.rank, engine.size,
             len(engine.native.hosts))


def closing(engine: Engine) -> None:
  _account.leave(engine)
  _metrics.remove(engine)
  if LOG.isEnabledFor(logging.INFO):
    done = engine.statistics()
    LOG.info("rank %d leaves after %d operations, %d bytes sent, %d chunks sent again", engine.rank,
             done["operations"], done["payload_bytes"], done["resent_chunks"])
