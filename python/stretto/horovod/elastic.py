"""Elastic jobs are not supported: what a script would use of them says so."""


def __getattr__(name: str):
  if name.startswith("__"):
    raise AttributeError(name)
  raise NotImplementedError(
      f"hvd.elastic.{name}: a job of Stretto ends when a rank is lost, on every rank with the same "
      "CommError. Save checkpoints, and start again: torchrun --max-restarts does")
