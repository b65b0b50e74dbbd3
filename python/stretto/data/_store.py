"""A store that fsspec opens: what is in it, and its files, with bounded patience."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from stretto._errors import FormatError, UnsupportedError, format_error

TIMEOUT_S = 60.0  # for the next bytes, or for an answer
TRIES = 6  # of a request that gets nothing, with growing pauses
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 8.0
PIECE_BYTES = 8 << 20  # of one request
PASSING = (408, 425, 429)  # of the statuses of HTTP that blame whoever asks
LISTERS = 16  # folders that are listed at the same time

# What tells one state of a file from another. The first that the store gives counts.
VERSION_KEYS = ("ETag", "etag", "md5Hash", "md5", "content_md5", "Content-MD5", "crc32c",
                "generation", "LastModified", "last_modified", "Last-Modified", "updated", "mtime",
                "modified", "created")
MD5_KEYS = ("md5Hash", "Content-MD5", "content_md5", "md5")


class State(NamedTuple):
  """What a store says of a file."""
  size: int | None
  version: int  # another one for another state of the file; 0: not known
  md5: bytes | None = None


class Closed(Exception):
  """The dataset is not used any more."""


class Store:
  """Files by their URLs. Its methods may be called by several threads at once.

  Every request is given TIMEOUT_S for its next bytes, and repeated up to TRIES times while it gets
  none; then a FormatError names the URL. What cannot pass by itself is not repeated.
  """

  def __init__(self, storage_options: dict[str, Any] | None, retried: Callable[[], None],
               closed: threading.Event) -> None:
    try:
      import fsspec  # type: ignore[import-untyped]
    except ImportError:
      raise UnsupportedError("URLs are opened by the package fsspec, which is not installed: "
                             "pip install 'stretto[remote]'") from None
    self._fsspec = fsspec
    # A listing that is kept would hide that a file was changed.
    self._options = {"use_listings_cache": False, **(storage_options or {})}
    self._retried = retried
    self._closed = closed
    self._file_systems: dict[str, Any] = {}
    self._lock = threading.Lock()
    self._without_ranges: set[str] = set()  # hosts

  def look(self, url: str) -> State:
    """Asks for the state of a file. A FileNotFoundError says that there is none."""
    fs, path = self._open(url)
    return state_of(self._repeat(url, lambda: self._info(fs, path)))

  def exists_with(self, url: str, magic: bytes) -> bool:
    """Whether there is such a file, and begins like this."""
    fs, path = self._open(url)
    try:
      begin = self._repeat(url, lambda: self._cat(fs, path, 0, len(magic)))
    except OSError as error:
      if error.errno in (errno.ENOENT, errno.EISDIR, errno.EINVAL):  # the last: it is empty
        return False
      raise
    return bool(begin[:len(magic)] == magic)

  def walk(self, url: str) -> tuple[list[tuple[str, State]], list[str]]:
    """The files below a folder, with their states, and the folders, all as URLs."""
    fs, root = self._open(url)
    root = root.rstrip("/")
    is_http = urlsplit(url).scheme in ("http", "https")

    def url_of(path: str) -> str:
      below = path.rstrip("/")[len(root):].lstrip("/")
      return f"{url}/{unquote(below) if is_http else below}"

    def list_folder(path: str) -> list[dict[str, Any]]:
      entries = self._repeat(url_of(path), lambda: self._ls(fs, path))
      inside = path.rstrip("/") + "/"
      return [entry for entry in entries
              if entry["name"].startswith(inside) and entry["name"].rstrip("/") != path.rstrip("/")
              and not (is_http and any(sign in entry["name"] for sign in "?#"))]

    files: list[tuple[str, State]] = []
    folders: list[str] = []
    seen = {root}
    pool = concurrent.futures.ThreadPoolExecutor(LISTERS)
    try:
      waiting = [pool.submit(list_folder, root + "/" if is_http else root)]
      while waiting:
        entries = waiting.pop().result()
        for entry in entries:
          name = entry["name"]
          if entry.get("type") == "directory":
            if name.rstrip("/") not in seen:
              seen.add(name.rstrip("/"))
              folders.append(url_of(name))
              waiting.append(pool.submit(list_folder, name))
          elif name not in seen:
            seen.add(name)
            files.append((url_of(name), state_of(entry)))
    finally:
      pool.shutdown(cancel_futures=True)
    return self._as_looked(files), folders

  def _as_looked(self, files: list[tuple[str, State]]) -> list[tuple[str, State]]:
    """Without the states where the store's listing does not say the same as look()."""
    known = next(((url, state) for url, state in files if state.version != 0), None)
    if known is None:
      return files
    now = self.look(known[0])
    if (now.size, now.version) == (known[1].size, known[1].version):
      return files
    return [(url, State(None, 0)) for url, _ in files]

  def fetch(self, url: str, path: str, state: State, looked: bool,
            grew: Callable[[int], None]) -> None:
    """Writes a file to `path`, which exists. `state` is what it has to be, and was just now if it
    was `looked` at."""
    self._write(url, path, state, grew)
    # Between two requests it could have changed.
    assert state.size is not None
    md5 = state.md5
    if state.size > PIECE_BYTES or not looked:
      md5 = self._check_same(url, state).md5 or md5
    got = os.path.getsize(path)
    if got != state.size:
      raise failed(url, f"expected {state.size} bytes, got {got}")
    if md5 is not None and md5_of(path) != md5:
      raise failed(url, "the MD5 of what came is not the one that the store gives")

  def _write(self, url: str, path: str, state: State, grew: Callable[[int], None]) -> None:
    fs, remote = self._open(url)
    size = state.size
    assert size is not None
    fd = os.open(path, os.O_WRONLY)
    try:
      if urlsplit(url).netloc in self._without_ranges:
        self._fetch_whole(url, fs, remote, path, grew)
      else:
        at = 0
        while at < size:
          begin, end = at, min(size, at + PIECE_BYTES)
          piece = self._repeat(url, partial(self._piece, url, fs, remote, begin, end, state))
          write_all(fd, piece, at)
          at += len(piece)
          grew(len(piece))
    finally:
      os.close(fd)

  def _check_same(self, url: str, state: State) -> State:
    now = self.look(url)
    if now.size != state.size or now.version != state.version:
      raise format_error(f"{url}: the file was changed in the store while it was fetched: open the "
                         "dataset again", url, -1, errno.ESTALE)
    return now

  def _piece(self, url: str, fs: Any, path: str, begin: int, end: int,
             state: State) -> bytes:
    piece: bytes = self._cat(fs, path, begin, end)
    if len(piece) == end - begin:
      return piece
    if len(piece) == state.size:  # a server that does not know ranges gives the whole file
      self._without_ranges.add(urlsplit(url).netloc)
      return piece[begin:]
    self._check_same(url, state)
    raise ConnectionError(f"expected {end - begin} bytes from {begin}, got {len(piece)}")

  def _fetch_whole(self, url: str, fs: Any, remote: str, path: str,
                   grew: Callable[[int], None]) -> None:
    class Grew(self._fsspec.callbacks.Callback):  # type: ignore[name-defined,misc]
      came_s = time.monotonic()

      def relative_update(self, inc: int = 1) -> None:
        Grew.came_s = time.monotonic()
        if inc > 0:
          grew(inc)

    def get() -> None:
      callback = Grew()
      Grew.came_s = time.monotonic()
      self._call(fs, "get_file", remote, path, callback=callback, since=lambda: Grew.came_s)

    self._repeat(url, get)

  def _open(self, url: str) -> tuple[Any, str]:
    scheme, host = urlsplit(url).scheme, urlsplit(url).netloc
    # Of stores whose hosts are users, ports and the like, each has its own.
    key = f"{scheme}://{host}" if scheme not in ("http", "https", "memory", "s3", "gs") else scheme
    with self._lock:
      fs = self._file_systems.get(key)
      if fs is None:
        try:
          fs, _ = self._fsspec.core.url_to_fs(url, **self._options)
        except ImportError as error:
          raise UnsupportedError(f"{url}: fsspec needs another package for {scheme}: {error}; "
                                 "pip install 'stretto[remote]' has those for http") from None
        except ValueError as error:
          raise UnsupportedError(f"{url}: fsspec cannot open it: {error}") from None
        self._file_systems[key] = fs
    return fs, fs._strip_protocol(url)

  def _info(self, fs: Any, path: str) -> dict[str, Any]:
    try:
      info: dict[str, Any] = self._call(fs, "info", path)
    except FileNotFoundError as error:
      # fsspec's HTTP says this whatever happened.
      if isinstance(error.__cause__, Exception) and status_of(error.__cause__) not in (404, 410):
        raise error.__cause__ from None
      raise
    if info.get("type") == "directory":
      raise FileNotFoundError(path)
    return info

  def _ls(self, fs: Any, path: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = self._call(fs, "ls", path, detail=True)
    return entries

  def _cat(self, fs: Any, path: str, begin: int, end: int) -> bytes:
    piece: bytes = self._call(fs, "cat_file", path, start=begin, end=end)
    return piece

  def _call(self, fs: Any, method: str, *args: Any, since: Callable[[], float] | None = None,
            **options: Any) -> Any:
    """Calls a method of a file system, and waits no longer than TIMEOUT_S after `since`."""
    start = time.monotonic()
    future: concurrent.futures.Future[Any]
    if fs.async_impl:
      future = asyncio.run_coroutine_threadsafe(getattr(fs, f"_{method}")(*args, **options),
                                                fs.loop)
    else:
      future = on_a_thread(lambda: getattr(fs, method)(*args, **options))
    while True:
      done, _ = concurrent.futures.wait([future], timeout=0.1)
      if done:
        return future.result()
      late = time.monotonic() - (since() if since else start) > TIMEOUT_S
      if late or self._closed.is_set():
        future.cancel()
        if self._closed.is_set():
          raise Closed
        raise TimeoutError(f"no answer for {TIMEOUT_S:g} s")

  def _repeat(self, url: str, request: Callable[[], Any]) -> Any:
    pause = FIRST_PAUSE_S
    for left in reversed(range(TRIES)):
      try:
        return request()
      except (Closed, FormatError):
        raise
      except Exception as error:
        code = code_of(error)
        if code is not None:
          raise format_error(f"{url}: {reason_of(error)}", url, -1, code) from error
        if left == 0:
          raise failed(url, f"{reason_of(error)}; tried {TRIES} times") from error
      self._retried()
      if self._closed.wait(pause):
        raise Closed
      pause = min(2 * pause, LONGEST_PAUSE_S)
    raise AssertionError


def state_of(info: dict[str, Any]) -> State:
  version = next((f"{key}={info[key]}" for key in VERSION_KEYS if info.get(key)), "")
  hashed = hashlib.blake2b(version.encode(), digest_size=8).digest()
  size = info.get("size")
  return State(None if size is None else int(size),
               int.from_bytes(hashed, "little") or 1 if version else 0, md5_in(info))


def md5_in(info: dict[str, Any]) -> bytes | None:
  for key in MD5_KEYS:
    value = info.get(key)
    if isinstance(value, (bytes, bytearray)) and len(value) == 16:
      return bytes(value)
    if isinstance(value, str):
      try:
        raw = bytes.fromhex(value) if len(value) == 32 else base64.b64decode(value, validate=True)
      except ValueError:
        continue
      if len(raw) == 16:
        return raw
  return None


def status_of(error: BaseException) -> int | None:
  """The status of HTTP, as aiohttp's errors have it."""
  status = getattr(error, "status", None)
  return status if isinstance(status, int) else None


def code_of(error: Exception) -> int | None:
  """The number of an error that does not pass by itself; None: it may."""
  status = status_of(error)
  if isinstance(error, FileNotFoundError) or status in (404, 410):
    return errno.ENOENT
  if isinstance(error, PermissionError) or status in (401, 403):
    return errno.EACCES
  if status is not None and 400 <= status < 500 and status not in PASSING:
    return errno.EINVAL
  if isinstance(error, IsADirectoryError):
    return errno.EISDIR
  if isinstance(error, (NotImplementedError, ValueError, TypeError, AttributeError)):
    return errno.EINVAL
  return None


def reason_of(error: BaseException) -> str:
  if isinstance(error, FileNotFoundError):
    return "there is no such file"
  if status_of(error) is not None:  # the text of the error has the URL, which is said already
    return f"the server answers {status_of(error)} ({getattr(error, 'message', '')})"
  text = str(error).strip()
  return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failed(url: str, problem: str) -> FormatError:
  return format_error(f"{url}: {problem}", url, -1, errno.EIO)


def write_all(fd: int, piece: bytes, at: int) -> None:
  view = memoryview(piece)
  while view:
    count = os.pwrite(fd, view, at)
    view, at = view[count:], at + count


def md5_of(path: str) -> bytes:
  digest = hashlib.md5(usedforsecurity=False)
  with open(path, "rb") as file:
    while piece := file.read(1 << 20):
      digest.update(piece)
  return digest.digest()


def on_a_thread(work: Callable[[], Any]) -> concurrent.futures.Future[Any]:
  """For a file system that cannot be told to give up: whoever waits does not have to."""
  future: concurrent.futures.Future[Any] = concurrent.futures.Future()

  def run() -> None:
    try:
      future.set_result(work())
    except concurrent.futures.InvalidStateError:
      pass  # nobody waits any more
    except BaseException as error:
      if not future.cancelled():
        future.set_exception(error)

  threading.Thread(target=run, name="store", daemon=True).start()
  return future
