"""Callbacks for what ends in C++: a thread that sits in next_completions()."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from stretto._errors import InvalidArgumentError

# How long the thread sits in C++ before it looks whether it should end.
IDLE_S = 5.0

# Takes None or the error; of an Engine's operation also the rank of the group that a RECV got its
# data from, -1 for all others.
Done = Callable[..., None]


class Completions:
  """Base of what has `native.next_completions` and `native.interrupt`. Whatever a callback refers
  to stays alive as long as C++ may touch the buffers."""

  native: Any

  def __init__(self, native: Any) -> None:
    self.native = native
    self._lock = threading.Lock()
    self._pending: dict[int, Done] = {}
    self._thread: threading.Thread | None = None
    self._closed = False
    # Whoever forgets to close must not leave the thread behind.
    self._forgotten = weakref.finalize(self, native.interrupt)
    self._forgotten.atexit = False

  def _queue(self, submit: Callable[[], int], done: Done) -> None:
    """`done(None or the error, ...)` will be called for the handle that `submit` returns."""
    with self._lock:  # the thread must not be faster than the entry
      self._pending[submit()] = done
      if self._thread is None:
        self._thread = threading.Thread(target=complete, name="stretto-completions", daemon=True,
                                        args=(self.native, self._lock, self._pending,
                                              weakref.ref(self)))
        THREADS.add(self._thread)
        self._thread.start()

  def _note(self) -> None:
    """Called before the callbacks of a batch."""

  def _stop(self) -> bool:
    """Ends the thread; False when that has happened before."""
    with self._lock:
      if self._closed:
        return False
      self._closed = True
    self._forgotten.detach()
    if self._thread is not None:
      self.native.interrupt()
      if self._thread is not threading.current_thread():
        self._thread.join()
    return True

  def _retire(self, what: str) -> None:
    """`native` becomes something that only says that it is closed."""
    self.native = Closed(what)

  def _drop(self, error: Exception) -> None:
    for done in list(self._pending.values()):
      done(error)
    self._pending.clear()


class Closed:
  """What is left of `native` after close(): C++ objects must not outlive the interpreter, whoever
  still refers to their owners then."""

  def __init__(self, what: str) -> None:
    self.__dict__["what"] = what

  def __getattr__(self, name: str) -> NoReturn:
    raise InvalidArgumentError(f"{self.what}: closed")


THREADS: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def join_all() -> None:
  """A thread that comes back from C++ when the interpreter is gone ends the process in disorder."""
  for thread in list(THREADS):
    thread.join(2 * IDLE_S)


def complete(native: Any, lock: threading.Lock, pending: dict[int, Done],
             owner: weakref.ref[Completions]) -> None:
  """The thread."""
  while True:
    batch = native.next_completions(IDLE_S)
    completions = owner()
    if completions is not None and batch:
      completions._note()
    for handle, error, *source in batch:
      with lock:
        done = pending.pop(handle)
      done(error, *source)
    if completions is None or completions._closed:
      return
    del completions
