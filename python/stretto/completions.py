"""Callbacks for what ends in C++: a thread that sits in next_completions()."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable

# How long the thread sits in C++ before it looks whether it should end.
kIdleS = 5.0

# Takes None or the error; of an Engine's operation also the rank of the group that a RECV got its
# data from, -1 for all others.
Done = Callable[..., None]


class Completions:
  """Base of what has `native.next_completions` and `native.interrupt`. Whatever a callback refers
  to stays alive as long as C++ may touch the buffers."""

  def __init__(self, native):
    self.native = native
    self.lock_ = threading.Lock()
    self.pending_: dict[int, Done] = {}
    self.thread_: threading.Thread | None = None
    self.closed_ = False
    # Whoever forgets to close must not leave the thread behind.
    self.forgotten_ = weakref.finalize(self, native.interrupt)
    self.forgotten_.atexit = False

  def queue_(self, submit: Callable[[], int], done: Done) -> None:
    """`done(None or the error, ...)` will be called for the handle that `submit` returns."""
    with self.lock_:  # the thread must not be faster than the entry
      self.pending_[submit()] = done
      if self.thread_ is None:
        self.thread_ = threading.Thread(target=complete, name="stretto-completions", daemon=True,
                                        args=(self.native, self.lock_, self.pending_,
                                              weakref.ref(self)))
        kThreads.add(self.thread_)
        self.thread_.start()

  def note_(self) -> None:
    """Called before the callbacks of a batch."""

  def stop_(self) -> bool:
    """Ends the thread; False when that has happened before."""
    with self.lock_:
      if self.closed_:
        return False
      self.closed_ = True
    self.forgotten_.detach()
    if self.thread_ is not None:
      self.native.interrupt()
      if self.thread_ is not threading.current_thread():
        self.thread_.join()
    return True

  def drop_(self, error: Exception) -> None:
    for done in list(self.pending_.values()):
      done(error)
    self.pending_.clear()


class Closed:
  """What is left of `native` after close(): C++ objects must not outlive the interpreter, whoever
  still refers to their owners then."""

  def __init__(self, what: str):
    self.__dict__["what"] = what

  def __getattr__(self, name: str):
    raise ValueError(f"{self.what}: closed")


kThreads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


@atexit.register
def join_all() -> None:
  """A thread that comes back from C++ when the interpreter is gone ends the process in disorder."""
  for thread in list(kThreads):
    thread.join(2 * kIdleS)


def complete(native, lock, pending, owner) -> None:
  """The thread."""
  while True:
    batch = native.next_completions(kIdleS)
    completions = owner()
    if completions is not None and batch:
      completions.note_()
    for handle, error, *source in batch:
      with lock:
        done = pending.pop(handle)
      done(error, *source)
    if completions is None or completions.closed_:
      return
    del completions
