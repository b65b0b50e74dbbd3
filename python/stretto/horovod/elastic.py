"""Elastic jobs are not supported: every attribute raises an error that says so."""

from stretto._errors import UnsupportedError


def __getattr__(name: str):
  if name.startswith("__"):
    raise AttributeError(name)
  raise UnsupportedError(
      f"hvd.elastic.{name}: a job of Stretto ends when a rank is lost, on every rank with the same "
      "CommError. Save checkpoints, and start again: torchrun --max-restarts does")
