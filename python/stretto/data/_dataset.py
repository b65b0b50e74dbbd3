"""What is read: a table of samples that is opened, not read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from stretto import _stretto
from stretto._checks import TEXT, expected, is_whole, require
from stretto._errors import InvalidArgumentError


class Dataset:
  """A source of pictures: their names and labels. `open` makes it.

  Opening it reads the list of pictures, not the pictures. It may be given to several loaders.

  Args:
    table: what the engine knows of it.

  Attributes:
    source: what was opened.
    kind: what that is: "folder", "segmentation", "list", "tar", "tfrecord", "coco", "pack", or
      "concat" of several.
    classes: the names of the labels 0, 1, ...; empty where the source has none.
    fingerprint: a number of all names and labels, which tells datasets apart.
  """

  def __init__(self, table: Any) -> None:
    self._table = table
    self._joined: tuple[Dataset, ...] = ()  # what concat() was given
    self._labels: np.ndarray | None = None
    self.source: str = table.source
    self.kind: str = table.kind
    self.classes: list[str] = table.class_names
    self.fingerprint: int = table.fingerprint

  def __len__(self) -> int:
    return len(self._table)

  def __repr__(self) -> str:
    return (f"Dataset({self.source!r}, {self.kind}: {len(self)} samples, "
            f"{len(self.classes)} classes)")

  def __reduce__(self) -> tuple[Any, ...]:
    if self._joined:
      return concat, (self._joined,)
    return open, (self.source, self.kind)

  @property
  def labels(self) -> np.ndarray:
    """The label of each sample, int64, read-only; -1 where it has none."""
    if self._labels is None:
      self._labels = np.asarray(self._table.labels())
      self._labels.setflags(write=False)
    return self._labels

  def name(self, index: int) -> str:
    """The name of a sample, as a person finds it again.

    Args:
      index: which sample, from 0 on.

    Returns:
      A path below the source, or CONTAINER:MEMBER.
    """
    return str(self._table.name(self._checked(index)))

  def label(self, index: int) -> int:
    """The label of a sample.

    Args:
      index: which sample, from 0 on.

    Returns:
      The label; -1 where the sample has none.
    """
    return int(self._table.label(self._checked(index)))

  def boxes(self, index: int) -> list[tuple[float, float, float, float, int]]:
    """What is marked in a picture (COCO).

    Args:
      index: which sample, from 0 on.

    Returns:
      Left, top, right and bottom edge of each box in pixels, and its label.
    """
    return list(self._table.annotations(self._checked(index)))

  @property
  def parts(self) -> list[tuple[str, int, int]]:
    """For each source: its name, its first sample, and how many samples it has. `concat` makes
    datasets of several."""
    return list(self._table.parts)

  def _checked(self, index: int) -> int:
    if not is_whole(index):
      raise expected("index", "an integer", index)
    if not 0 <= index < len(self):
      raise InvalidArgumentError(f"index: expected 0 to {len(self) - 1}, got {index}")
    return int(index)


def open(source: str | os.PathLike[str], kind: str = "") -> Dataset:
  """Opens a source of pictures.

  Args:
    source: a folder with a folder of pictures per class, or another thing that holds pictures.
    kind: what it is, as `Dataset.kind` says; empty: what it looks like.

  Returns:
    The dataset.

  Raises:
    FormatError: it is missing or damaged; the text names the file and the place.
    InvalidArgumentError: it is nothing that is read; the text lists what is.
  """
  require("open", kind=(kind, TEXT))
  return Dataset(_stretto.data_open(path_of("open: source", source), kind))


def concat(datasets: Sequence[Dataset]) -> Dataset:
  """The samples of several datasets, one dataset behind the other, as one.

  Where all have the same classes, labels stay. Else classes of one name become one: those of the
  first dataset keep their numbers, and names that it lacks get the next ones.

  Args:
    datasets: what `open` returned. They may be of different kinds.

  Returns:
    The dataset, which takes about 100 bytes of memory for each sample.

  Raises:
    InvalidArgumentError: one has names of classes, and another has labels without names.
  """
  if isinstance(datasets, (str, bytes)) or not isinstance(datasets, Sequence) or not datasets:
    raise expected("concat: datasets", "a list of datasets", datasets)
  for dataset in datasets:
    if not isinstance(dataset, Dataset):
      raise expected("concat: datasets", "what open() returned", dataset)
  if len(datasets) == 1:
    return datasets[0]
  joined = Dataset(_stretto.data_concat([dataset._table for dataset in datasets]))
  joined._joined = tuple(datasets)
  return joined


def path_of(argument: str, source: Any) -> str:
  try:
    return os.fspath(source) if isinstance(source, os.PathLike) else _text(source)
  except TypeError:
    raise expected(argument, "a path", source) from None


def _text(source: Any) -> str:
  if not isinstance(source, str):
    raise TypeError
  return source
