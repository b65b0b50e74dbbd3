"""Datasets behind URLs: the threads that fetch their files into the cache on this host's disk."""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import weakref
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from stretto import _stretto
from stretto._errors import Error, InvalidArgumentError, format_error
from stretto.data import _store

THREADS, PICTURE_THREADS = 8, 16  # that fetch shards; pictures, whose requests are short
PATIENCE_S = 120.0  # for another process that fetches the same file, and for room
UNKNOWN = 2**64 - 1  # bytes
FREE_PART = 5  # a cache may take one part of what is free on its disk

TFRECORD = re.compile(r"\.tfrecords?$|.-\d{5}-of-\d{5}$")
PICTURE = re.compile(r"\.(jpe?g|png|webp)$", re.I)
PACK_MAGIC, JOURNAL_MAGIC = b"STRPACK\n", b"STRPJNL\n"


def is_url(source: Any) -> bool:
  return isinstance(source, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", source) is not None


def is_list(path: str, kind: str) -> bool:
  return kind == "list" or (not kind and path.endswith((".csv", ".jsonl", ".ndjson")))


def is_tar(url: str) -> bool:
  return path_of_url(url).endswith(".tar")


def is_tfrecord(url: str) -> bool:
  return TFRECORD.search(path_of_url(url)) is not None


def path_of_url(url: str) -> str:
  """Without a query, such as a signature."""
  return urlsplit(url).path or urlsplit(url).netloc


class Fetching:
  """The engine's fetcher, and the threads that work for it until it is closed."""

  def __init__(self, url: str, cache_dir: str | None, disk_bytes: int | None,
               storage_options: dict[str, Any] | None) -> None:
    self._closed = threading.Event()
    self.store = _store.Store(storage_options, self._retried, self._closed)
    self.folder = cache_dir or os.path.join(_stretto.cache_directory(), "data")
    self._url = url
    self._disk_bytes = disk_bytes
    self.engine: Any = None
    self._threads: list[threading.Thread] = []

  def start(self, threads: int) -> None:
    os.makedirs(self.folder, exist_ok=True)
    limit = default_disk_bytes(self.folder) if self._disk_bytes is None else self._disk_bytes
    self.engine = _stretto.DataFetcher(self.folder, self._url, limit, PATIENCE_S, threads)
    self._threads = [threading.Thread(target=fetch, args=(self.engine, self.store), daemon=True,
                                      name=f"fetch {i}") for i in range(threads)]
    for thread in self._threads:
      thread.start()

  def close(self) -> None:
    self._closed.set()
    if self.engine is not None:
      self.engine.close()
    for thread in self._threads:
      if thread is not threading.current_thread():
        thread.join(2)

  def _retried(self) -> None:
    if self.engine is not None:
      self.engine.retried()


def fetch(engine: Any, store: _store.Store) -> None:
  """What a thread does: takes a file, and fetches it."""
  while (taken := engine.take()) is not None:
    url, size, version = taken
    try:
      looked = size is None or version == 0
      state = store.look(url) if looked else _store.State(size, version)
      path = engine.begin(url, UNKNOWN if state.size is None else state.size, state.version)
      if path is None:
        continue
      store.fetch(url, path, state, looked, partial(engine.grew, url))
      engine.finish(url)
    except _store.Closed:
      engine.fail(url, "the dataset was closed", errno.ECANCELED)
    except BaseException as error:  # a thread that ended would let others wait for ever
      engine.fail(url, problem_of(error), getattr(error, "errno", None) or errno.EIO)


def problem_of(error: BaseException) -> str:
  if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
    return f"the disk of the cache is full: {error}; free some, or choose another cache_dir"
  return str(error) if isinstance(error, Error) else _store.reason_of(error)


def default_disk_bytes(folder: str) -> int:
  """A fifth of what is free on the cache's disk, not counting what is in the cache."""
  try:
    with open(os.path.join(folder, "usage"), "rb") as file:
      used = int.from_bytes(file.read(8), "little")
  except OSError:
    used = 0
  return (shutil.disk_usage(folder).free + used) // FREE_PART


def open_url(url: str, kind: str, cache_dir: str | None, disk_bytes: int | None,
             storage_options: dict[str, Any] | None) -> tuple[Any, Fetching]:
  """The engine's table of a dataset, and what fetches its files. `url`: or the path of a local list
  that names URLs."""
  fetching = Fetching(url, cache_dir, disk_bytes, storage_options)
  try:
    if is_url(url):
      kind, files, folders = describe(fetching.store, url.rstrip("/"), kind)
    else:  # a local list
      kind, files, folders = "list", [], []
    fetching.start(THREADS if kind in ("tar", "tfrecord", "pack") else PICTURE_THREADS)
    rows = [(file, state.size, state.version) for file, state in files]
    table = _stretto.data_open_remote(fetching.engine, url.rstrip("/"), kind, rows, folders)
  except BaseException:
    fetching.close()
    raise
  return table, fetching


def describe(store: _store.Store, url: str,
             kind: str) -> tuple[str, list[tuple[str, _store.State]], list[str]]:
  """The kind of a source, and those of its files that have to be known before it is opened."""
  path = path_of_url(url)
  if kind == "coco" or (not kind and path.endswith(".json")):
    return "coco", [(url, store.look(url))], []
  if is_list(path, kind):
    return "list", [(url, store.look(url))], []
  shards = _stretto.data_expand(url)
  for name, matches in (("tar", is_tar), ("tfrecord", is_tfrecord)):
    if kind in ("", name) and matches(shards[0]):
      return name, looked(store, shards), []
  index = f"{url}/index"
  if kind == "pack" or (not kind and store.exists_with(index, PACK_MAGIC)):
    if store.exists_with(f"{url}/journal", JOURNAL_MAGIC):
      raise format_error(f"{url}: the pack is not complete: its making was interrupted, or goes on",
                         url, -1, 0)
    return "pack", [(index, store.look(index))], []
  files, folders = store.walk(url)
  top = [(file, state) for file, state in files if "/" not in file[len(url) + 1:]]
  if not kind and not folders and not any(PICTURE.search(file) for file, _ in top):
    kind = next((name for name, matches in (("tar", is_tar), ("tfrecord", is_tfrecord))
                 if any(matches(file) for file, _ in top)), "")
  for name, matches in (("tar", is_tar), ("tfrecord", is_tfrecord)):
    if kind == name:
      found = sorted(file for file, _ in top
                     if matches(file) and not file[len(url) + 1:].startswith("."))
      return name, looked(store, found), []
  if kind == "segmentation" or (not kind and has_label_maps(url, files, folders)):
    return "segmentation", files, []
  if kind in ("", "folder"):
    return "folder", files, folders
  raise InvalidArgumentError(f"{url}: kind: expected one of coco, folder, list, pack, "
                             f"segmentation, tar and tfrecord, got {kind!r}")


def has_label_maps(url: str, files: list[tuple[str, _store.State]], folders: list[str]) -> bool:
  """Whether its only folders with pictures are "images" and "masks": else they are classes."""
  if not {f"{url}/images", f"{url}/masks"} <= set(folders):
    return False
  below = (file[len(url) + 1:].split("/") for file, _ in files if PICTURE.search(file))
  return all(len(parts) == 1 or parts[0] in ("images", "masks") or parts[0].startswith(".")
             for parts in below)


def looked(store: _store.Store, urls: list[str]) -> list[tuple[str, _store.State]]:
  """The states of many files, asked for at the same time."""
  from concurrent.futures import ThreadPoolExecutor

  with ThreadPoolExecutor(_store.LISTERS) as pool:
    return list(zip(urls, pool.map(store.look, urls)))


def close_with(owner: Any, fetching: Fetching) -> None:
  """Ends the threads with the life of `owner`, at the latest at the exit of the interpreter."""
  weakref.finalize(owner, fetching.close)
