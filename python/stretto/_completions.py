"""Calls Python callbacks when operations end in C++: a thread waits in next_completions()."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from stretto._errors import InvalidArgumentError

# How long the thread waits in C++ before it checks whether it should end.
IDLE_S = 5.0

# Takes None or the error; of an Engine's operation also the rank of the group that a RECV got its
# data from, -1 for all others.
Done = Callable[..., None]


class Completions:
  """Base of classes whose `native` has next_completions() and interrupt(). Whatever a callback
  refers to stays alive until C++ has finished with the buffers."""

  native: Any

  def __init__(self, native: Any) -> None:
    self.native = native
    self._lock = threading.Lock()
    self._pending: dict[int, Done] = {}
    self._thread: threading.Thread | None = None
    self._closed = False
    # The thread must end although nobody calls close().
    self._forgotten = weakref.finalize(self, native.interrupt)
    self._forgotten.atexit = False

  def _queue(self, submit: Callable[[], int], done: Done) -> None:
    """Submits, and calls `done(None or the error, ...)` when the operation of that handle ends."""
    with self._lock:  # the operation may end before its handle is in the dictionary
      self._pending[submit()] = done
      if self._thread is None:
        self._thread = threading.Thread(target=complete, name="stretto-completions", daemon=True,
                                        args=(self.native, self._lock, self._pending,
                                              weakref.ref(self)))
        THREADS.add(self._thread)
        self._thread.start()

  def _note(self) -> None:
    """A hook for subclasses, called before the callbacks of a batch."""

  def _stop(self) -> bool:
    """Ends the thread. Returns False if it was ended before."""
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
    """Replaces `native` by an object that refuses every use."""
    self.native = Closed(what)

  def _drop(self, error: Exception) -> None:
    for done in list(self._pending.values()):
      done(error)
    self._pending.clear()


class Closed:
  """Stands for `native` after close(), so that no C++ object outlives the interpreter although
  something still refers to its owner."""

  def __init__(self, what: str) -> None:
    self.__dict__["what"] = what

  def __getattr__(self, name: str) -> NoReturn:
    raise InvalidArgumentError(f"{self.what}: closed")


THREADS: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def join_all() -> None:
  """Waits for the threads: one that returns from C++ after the interpreter is gone crashes."""
  for thread in list(THREADS):
    thread.join(2 * IDLE_S)


def complete(native: Any, lock: threading.Lock, pending: dict[int, Done],
             owner: weakref.ref[Completions]) -> None:
  """What the thread runs: takes batches of ended operations and calls their callbacks."""
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
