"""Packs: datasets in a few large files, from which pictures decode faster."""

from __future__ import annotations

import os
from typing import Any

from stretto import _progress, _stretto
from stretto._checks import COUNT, require
from stretto._errors import InvalidArgumentError
from stretto.data._dataset import Dataset, open, path_of


def pack(source: str | os.PathLike[str] | Dataset, out: str | os.PathLike[str], *,
         errors: str = "raise", threads: int = 0, shard_bytes: int = 1 << 30,
         progress: bool | _progress.Progress = True) -> dict[str, Any]:
  """Writes a dataset as a pack. The source is not changed.

  JPEG files get restart markers and Huffman tables of their own, without a change of any pixel, so
  that parts of them decode alone; other pictures stay as they are. If the call is interrupted, the
  next one with the same arguments goes on, and until then the pack refuses to open.

  Args:
    source: what `open` takes, or the dataset that it returned.
    out: the folder to write; its parent exists.
    errors: "raise" ends at the first picture that cannot be read, "skip" leaves it out.
    threads: how many work; 0: one per core.
    shard_bytes: how large a file may become.
    progress: True shows a bar in a terminal or notebook; or a function of stage and share.

  Returns:
    "samples", "shards", "bytes", "source_bytes", "resumed_at" (samples that an interrupted call had
    done), and "left_out": names and reasons.

  Raises:
    FormatError: a picture cannot be read, or a file not be written; the text names it.
    InvalidArgumentError: `out` holds something else.
  """
  if errors not in ("raise", "skip"):
    raise InvalidArgumentError(f"pack: errors: expected 'raise' or 'skip', got {errors!r}")
  require("pack", threads=(threads, COUNT), shard_bytes=(shard_bytes, COUNT))
  dataset = source if isinstance(source, Dataset) else open(source)
  with _progress.shown(progress) as tell:
    return dict(_stretto.data_pack(dataset._table, path_of("pack: out", out), threads,
                                   errors == "skip", shard_bytes, tell))


def verify(path: str | os.PathLike[str], *, threads: int = 0, pixels_every: int = 1,
           progress: bool | _progress.Progress = True) -> dict[str, Any]:
  """Reads a whole pack: checksums of the index and of all samples, and pixels.

  Args:
    path: the folder of the pack.
    threads: how many work; 0: one per core.
    pixels_every: the pixels of every n-th sample with restart markers are compared, decoded in
      parts and as a whole.
    progress: True shows a bar in a terminal or notebook; or a function of stage and share.

  Returns:
    "samples", "bytes", "compared" (samples whose pixels were), and "damaged": names and reasons.

  Raises:
    FormatError: it is no pack, one that was interrupted, or its index is damaged.
  """
  require("verify", threads=(threads, COUNT), pixels_every=(pixels_every, COUNT))
  with _progress.shown(progress) as tell:
    return dict(_stretto.data_verify(path_of("verify: path", path), threads, pixels_every, tell))


def unpack(path: str | os.PathLike[str], out: str | os.PathLike[str], *,
           progress: bool | _progress.Progress = True) -> dict[str, Any]:
  """Writes the samples of a pack as files, by the names that they had.

  Args:
    path: the folder of the pack.
    out: a folder that is made, or empty.
    progress: True shows a bar in a terminal or notebook; or a function of stage and share.

  Returns:
    "files" and "bytes".

  Raises:
    FormatError: a sample is damaged, or a file cannot be written.
  """
  with _progress.shown(progress) as tell:
    return dict(_stretto.data_unpack(path_of("unpack: path", path), path_of("unpack: out", out),
                                     tell))
