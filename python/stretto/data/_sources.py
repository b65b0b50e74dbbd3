"""One source of pictures or several, with weights or without."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stretto._checks import expected, is_number
from stretto._errors import InvalidArgumentError
from stretto.data._dataset import Dataset, concat, open

WHAT = "a path, a dataset, a list of them, or sources with weights"


@dataclass(frozen=True)
class Sources:
  """What an ImageLoader reads. `weights` is None where every sample counts the same."""

  dataset: Dataset
  sizes: list[int]
  weights: list[float] | None


def read(source: Any, remote: Mapping[str, Any]) -> Sources:
  """The dataset of `source`: a path or dataset, a list of them, a list of (source, weight), or a
  dictionary from source to weight. `remote`: what open() is given for URLs."""
  if isinstance(source, (str, os.PathLike, Dataset)):
    dataset = opened(source, remote)
    return Sources(dataset, [len(dataset)], None)
  if isinstance(source, Mapping):
    return mixed(list(source.items()), remote)
  if not isinstance(source, Sequence) or isinstance(source, (bytes, bytearray)):
    raise expected("source", WHAT, source)
  rows = list(source)
  if not rows:
    raise InvalidArgumentError("source: expected at least one in the list")
  pairs = [isinstance(row, tuple) for row in rows]
  if all(pairs):
    return mixed(rows, remote)
  if any(pairs):
    raise InvalidArgumentError("source: some of the list have weights and some have none: expected "
                               "(source, weight) for all, or for none")
  datasets = [opened(row, remote) for row in rows]
  return Sources(concat(datasets), [len(dataset) for dataset in datasets], None)


def mixed(rows: list[Any], remote: Mapping[str, Any]) -> Sources:
  if not rows:
    raise InvalidArgumentError("source: expected at least one in the dictionary")
  for row in rows:
    if len(row) != 2 or not is_number(row[1]) or not row[1] >= 0:
      raise expected("source", "(source, weight) with a weight of at least 0", row)
  datasets = [opened(row[0], remote) for row in rows]
  return Sources(concat(datasets), [len(dataset) for dataset in datasets],
                 [float(row[1]) for row in rows])


def opened(source: Any, remote: Mapping[str, Any]) -> Dataset:
  return source if isinstance(source, Dataset) else open(source, **remote)
