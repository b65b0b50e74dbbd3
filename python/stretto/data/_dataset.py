"""What is read: a table of samples that is opened, not read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from stretto import _stretto
from stretto._checks import TEXT, expected, is_count, is_whole, require
from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto.data import _remote


class Dataset:
  """A source of pictures: their names and labels. `open` makes it.

  Opening it reads the list of pictures, not the pictures. It may be given to several loaders.

  Args:
    table: what the engine knows of it.
    remote: how a dataset behind a URL is opened again; None: it is local.

  Attributes:
    source: what was opened.
    kind: what that is: "folder", "segmentation", "list", "tar", "tfrecord", "coco", "pack", or
      "concat" of several.
    classes: the names of the labels 0, 1, ...; empty where the source has none.
    fingerprint: a number of all names and labels, which tells datasets apart.
  """

  def __init__(self, table: Any, remote: dict[str, Any] | None = None) -> None:
    self._table = table
    self._remote = remote
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
    return partial(open, **(self._remote or {})), (self.source, self.kind)

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


def checked_cache(cache_dir: Any, disk_bytes: Any, storage_options: Any) -> str | None:
  """The folder of a cache for URLs, once all that is said of it makes sense."""
  if disk_bytes is not None and (not is_count(disk_bytes) or not 0 < disk_bytes < 2**62):
    raise expected("disk_bytes", "a number of bytes above 0", disk_bytes)
  if storage_options is not None and not isinstance(storage_options, Mapping):
    raise expected("storage_options", "a dictionary", storage_options)
  return None if cache_dir is None else path_of("cache_dir", cache_dir)


def open(source: str | os.PathLike[str], kind: str = "", *,
         cache_dir: str | os.PathLike[str] | None = None, disk_bytes: int | None = None,
         storage_options: Mapping[str, Any] | None = None) -> Dataset:
  """Opens a source of pictures.

  Files behind a URL are fetched when they are needed, and before, into a cache on this host's disk,
  which all processes of the host share. The first time shards of tar and TFRecord are read as a
  whole, for the list of what is in them.

  Args:
    source: a folder with a folder of pictures per class, or another thing that holds pictures; or
      its URL, of any store that the package fsspec opens ("s3://bucket/shard-{000..127}.tar"). A
      local list may name URLs too, if all of its paths are.
    kind: what it is, as `Dataset.kind` says; empty: what it looks like.
    cache_dir: of a URL, the folder of the cache; None: "data" in the user's cache folder.
    disk_bytes: of a URL, what the cache may take, other datasets' files in it included; None: a
      fifth of what is free there.
    storage_options: of a URL, what fsspec is given for its store, such as {"anon": True}.

  Returns:
    The dataset.

  Raises:
    FormatError: it is missing or damaged; the text names the file and the place.
    InvalidArgumentError: it is nothing that is read; the text lists what is.
    UnsupportedError: a URL, and fsspec or what it needs for the store is not installed.
  """
  require("open", kind=(kind, TEXT))
  path = path_of("open: source", source)
  if not _remote.is_url(path):
    try:
      return Dataset(_stretto.data_open(path, kind))
    except UnsupportedError:
      if not _remote.is_list(path, kind):
        raise
    # It names URLs.
  folder = checked_cache(cache_dir, disk_bytes, storage_options)
  options = None if storage_options is None else dict(storage_options)
  table, fetching = _remote.open_url(path, kind, folder, disk_bytes, options)
  dataset = Dataset(table, {"cache_dir": folder, "disk_bytes": disk_bytes,
                            "storage_options": options})
  _remote.close_with(dataset, fetching)
  return dataset


def concat(datasets: Sequence[Dataset]) -> Dataset:
  """The samples of several datasets, one dataset behind the other, as one.

  Where all have the same classes, labels stay. Else classes of one name become one: those of the
  first dataset keep their numbers, and names that it lacks get the next ones.

  Args:
    datasets: what `open` returned. They may be of different kinds, and lie behind URLs.

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
    path = os.fspath(source) if isinstance(source, os.PathLike) else _text(source)
  except TypeError:
    raise expected(argument, "a path", source) from None
  # What is behind a NUL is not seen by the system: another file would be opened.
  if not path or "\0" in path:
    raise expected(argument, "a path", path)
  return os.path.expanduser(path)


def _text(source: Any) -> str:
  if not isinstance(source, str):
    raise TypeError
  return source
