"""STRETTO_LOG_LEVEL: shows the library's messages without a line in the program."""

from __future__ import annotations

import logging
import os

VARIABLE = "STRETTO_LOG_LEVEL"
LEVELS = {"off": logging.CRITICAL + 1, "warning": logging.WARNING, "info": logging.INFO}


def set_up() -> None:
  """The library never prints by itself. An application that wants its messages sets up logging, or
  somebody sets the variable: then they go to standard error, from that level on."""
  logger = logging.getLogger("stretto")
  logger.addHandler(logging.NullHandler())
  text = os.environ.get(VARIABLE, "")
  if not text:
    return
  shown = logging.StreamHandler()
  shown.setFormatter(logging.Formatter("%(asctime)s stretto %(levelname)s: %(message)s"))
  logger.addHandler(shown)
  logger.propagate = False  # the application's handlers would show it twice
  logger.setLevel(LEVELS.get(text, logging.WARNING))
  if text not in LEVELS:
    logger.warning("%s: expected one of %s, got '%s'", VARIABLE, ", ".join(LEVELS), text)
