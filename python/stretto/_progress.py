"""Progress of long calls: a tqdm bar, a plain text bar, or the caller's own function."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stretto._errors import InvalidArgumentError

Progress = Callable[[str, float], None]  # stage, share of it that is done (0 to 1)

WIDTH = 30  # blocks of the text bar
PERIOD_S = 0.1  # between two drawings of the same stage


class _Bar:
  """What both bars share: a stage is drawn when it begins, when it ends, and every PERIOD_S."""

  def __init__(self) -> None:
    self._stage = ""
    self._drawn_s = 0.0

  def __call__(self, stage: str, fraction: float) -> None:
    now = time.monotonic()
    if stage == self._stage and fraction < 1 and now - self._drawn_s < PERIOD_S:
      return
    self._stage, self._drawn_s = stage, now
    self.draw(stage, min(max(fraction, 0.0), 1.0))

  def draw(self, stage: str, fraction: float) -> None:
    raise NotImplementedError

  def close(self) -> None:
    """Wipes the bar."""
    raise NotImplementedError


class _TextBar(_Bar):
  def __init__(self) -> None:
    super().__init__()
    self._begin_s = time.monotonic()

  def draw(self, stage: str, fraction: float) -> None:
    full = int(WIDTH * fraction)
    blocks = "█" * full + "░" * (WIDTH - full)
    seconds = time.monotonic() - self._begin_s
    self._write(f"{stage:<10.10} {blocks} {100 * fraction:3.0f} % {seconds:5.1f} s")

  def close(self) -> None:
    self._write("")

  def _write(self, text: str) -> None:
    try:
      sys.stderr.write(f"\r\x1b[K{text}")
    except UnicodeEncodeError:  # a terminal of another encoding
      sys.stderr.write(f"\r\x1b[K{text.replace('█', '#').replace('░', '.')}")
    sys.stderr.flush()


class _TqdmBar(_Bar):
  def __init__(self, tqdm: Any) -> None:
    super().__init__()
    # tqdm's monitor thread would outlive the bar.
    quiet = type("Bar", (tqdm,), {"monitor_interval": 0})
    self._bar = quiet(total=1.0, leave=False,
                      bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}")

  def draw(self, stage: str, fraction: float) -> None:
    self._bar.n = fraction
    self._bar.set_description_str(stage, refresh=False)
    self._bar.refresh()

  def close(self) -> None:
    self._bar.close()


def _tqdm() -> Any:
  """tqdm's class for this place, a notebook or a terminal; None when tqdm is not installed."""
  try:
    with warnings.catch_warnings():
      warnings.simplefilter("ignore")  # tqdm warns where a notebook has no widgets
      return importlib.import_module("tqdm.auto").tqdm
  except ImportError:
    return None


def _in_notebook() -> bool:
  ipython = sys.modules.get("IPython")
  shell = ipython.get_ipython() if ipython else None
  return getattr(shell, "kernel", None) is not None


def _make_bar() -> _Bar | None:
  notebook = _in_notebook()
  if not notebook and not (sys.stderr and sys.stderr.isatty()):
    return None
  tqdm = _tqdm()
  if tqdm is not None:
    return _TqdmBar(tqdm)
  return None if notebook else _TextBar()


@contextmanager
def shown(progress: bool | Progress) -> Iterator[Progress | None]:
  """What to call with the progress while the block runs; None when nobody wants to know.

  Args:
    progress: True for a bar where one can be seen (a terminal or a notebook), False for none, or
      a function that takes the stage's name and the share of it that is done.

  Raises:
    InvalidArgumentError: `progress` is something else.
  """
  if progress is not True:
    if progress is not False and not callable(progress):
      raise InvalidArgumentError("progress: expected True, False or a function of (stage, fraction)"
                                 f", got {type(progress).__name__}")
    yield progress or None
    return
  bar = _make_bar()
  try:
    yield bar
  finally:
    if bar is not None:
      bar.close()
