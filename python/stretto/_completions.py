"""Calls Python callbacks when operations end in C++: a thread waits in next_completions()."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from stretto._errors import CommError, Error, InvalidArgumentError, UnsupportedError

LOG = logging.getLogger("stretto")

# How long the thread waits in C++ before it checks whether it should end.
IDLE_S = 5.0
# The same while a callback waits for operations whose handles may become known meanwhile.
CALLBACK_POLL_S = 0.05

# A function that is called when an operation ends, with None or the error. An Engine passes a
# second argument: the rank of the group that a RECV got its data from, -1 for other operations.
Done = Callable[..., None]


class Completions:
  """Base of classes whose `native` has next_completions() and interrupt(). Whatever a callback
  refers to stays alive until C++ has finished with the buffers."""

  native: Any
  forked = False  # this is a child of the process that made it

  def __init__(self, native: Any) -> None:
    self.native = native
    # Signal handlers and destructors may come back to a thread that has it.
    self._lock = threading.RLock()
    self._pending: dict[int, Done] = {}
    # Operations that are over and whose callbacks have not been called: handle, error, source.
    self._ended: deque[tuple[Any, ...]] = deque()
    self._dropped: deque[tuple[int, Done]] = deque()
    self._thread: threading.Thread | None = None
    self._closed = False
    self._closer = 0  # the thread in close()
    self._over = threading.Event()  # close() has ended
    # The thread must end although nobody calls close().
    self._forgotten = weakref.finalize(self, native.interrupt)
    self._forgotten.atexit = False
    follow_forks(self)

  def _queue(self, submit: Callable[[], int], done: Done) -> int:
    """Submits, and calls `done(None or the error, ...)` when the operation of the handle, which it
    returns, ends."""
    with self._lock:  # the operation may end before its handle is in the dictionary
      # Before the operation, which nobody would report if the thread did not start.
      if self._thread is None and not self._closed:
        self._thread = start_thread("stretto-completions", complete, self.native, self._lock,
                                    self._pending, self._ended, weakref.ref(self))
        THREADS.add(self._thread)
      handle = submit()
      self._pending[handle] = done
    return handle

  def _is_calling_back(self) -> bool:
    """Whether this is the completion thread: while it waits, it calls nothing."""
    return threading.current_thread() is self._thread

  def _finish_in_callback(self, handles: Callable[[], Sequence[int]] | None,
                          is_over: Callable[[], bool]) -> None:
    """For a callback that waits for other operations: calls theirs, or with None those of all that
    end. Callbacks of further operations come after it, so ranks whose callbacks start operations
    start them in the same order."""
    while not is_over():
      mine = None if handles is None else handles()
      ready = next((entry for entry in self._ended if mine is None or entry[0] in mine), None)
      if ready is not None:
        self._ended.remove(ready)
        call_back(self._lock, self._pending, *ready)
      elif self._closed:
        raise CommError("the engine was closed")
      else:
        self._ended.extend(self.native.next_completions(CALLBACK_POLL_S))

  def _drop_handle(self, handle: int, done: Done) -> None:
    """`done` will be called for the handle after a later call of another method, or within a few
    seconds. For destructors, which may run in the middle of anything: takes no lock."""
    self._dropped.append((handle, done))

  def _take_dropped(self) -> None:
    while self._dropped:
      try:
        self.deliver(*self._dropped.popleft())
      except (IndexError, Error):
        return  # another thread took the last one, or the memory is not in use any more

  def deliver(self, handle: int, done: Done) -> None:
    raise NotImplementedError

  def _stop(self) -> bool:
    """Ends the thread. Returns False if that has happened before, after waiting for the thread that
    does it, unless that thread waits for this one."""
    with self._lock:
      first, self._closed = not self._closed, True
      if first:
        self._closer = threading.get_ident()
    if not first:
      if threading.get_ident() != self._closer and threading.current_thread() is not self._thread:
        self._over.wait()
      return False
    self._forgotten.detach()
    if self._thread is not None:
      self.native.interrupt()
      if self._thread is not threading.current_thread():
        self._thread.join()
    return True

  def _retire(self, what: str) -> None:
    """Replaces `native` by an object that refuses every use."""
    self.native = Closed(f"{what}: closed")

  def _drop(self, error: Exception) -> None:
    """Ends what is pending, and close()."""
    for done in list(self._pending.values()):
      done(error)
    self._pending.clear()
    self._dropped.clear()
    self._over.set()

  def check_process(self) -> None:
    """Raises InvalidArgumentError in a forked child."""
    if self.forked:
      raise InvalidArgumentError(FORKED)

  def _left_behind(self) -> None:
    """In a forked child: the engine's threads are not here, and locks may be locked for ever."""
    native, self.native = self.native, Closed(FORKED)
    self.forked = True
    self._lock, self._closed, self._thread = threading.RLock(), True, None
    self._over = threading.Event()
    self._over.set()
    self._forgotten.detach()
    if not isinstance(native, Closed):
      native.close()


class Closed:
  """Stands for `native` after close(), so that no C++ object outlives the interpreter although
  something still refers to its owner."""

  def __init__(self, message: str) -> None:
    self.__dict__["message"] = message

  def __getattr__(self, name: str) -> NoReturn:
    raise InvalidArgumentError(self.message)


FORKED = "the engine was made before fork(), and works only in the process that made it"
# In a completion thread: whose it is.
CALLING = threading.local()


def calling() -> Completions | None:
  """The completions whose callbacks this thread calls; None: it is another thread."""
  owner = getattr(CALLING, "owner", None)
  return owner and owner()


LIVE: weakref.WeakSet[Any] = weakref.WeakSet()
THREADS: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def follow_forks(owner: Any) -> None:
  """Calls `owner._left_behind()` in every child that is forked while it lives."""
  LIVE.add(owner)


def in_child() -> None:
  owners = list(LIVE)
  THREADS.clear()
  for owner in owners:
    owner._left_behind()


os.register_at_fork(after_in_child=in_child)


@atexit.register
def join_all() -> None:
  """Waits for the threads: one that returns from C++ after the interpreter is gone crashes."""
  for thread in list(THREADS):
    thread.join(2 * IDLE_S)


def start_thread(name: str, target: Callable[..., None], *args: Any) -> threading.Thread:
  """Starts a daemon thread. UnsupportedError if the system starts no more."""
  thread = threading.Thread(target=target, name=name, daemon=True, args=args)
  try:
    thread.start()
  except RuntimeError as error:
    raise UnsupportedError(f"{name}: the system starts no more threads ({error}); raise the limit "
                           "of processes (ulimit -u, or pids.max of the container)") from None
  return thread


def complete(native: Any, lock: threading.RLock, pending: dict[int, Done],
             ended: deque[tuple[Any, ...]], owner: weakref.ref[Completions]) -> None:
  """What the thread runs: takes batches of ended operations and calls their callbacks. It goes on
  when one of them fails, because others wait for the next."""
  CALLING.owner = owner
  while True:
    ended.extend(native.next_completions(IDLE_S))
    completions = owner()
    while ended:
      call_back(lock, pending, *ended.popleft())
    if completions is None or completions._closed:
      return
    guarded(completions._take_dropped)
    del completions


def call_back(lock: threading.RLock, pending: dict[int, Done], handle: int,
              error: Exception | None, *source: int) -> None:
  with lock:
    done = pending.pop(handle, None)
  if done is not None:  # else a callback has closed the engine, which has called this one
    guarded(done, error, *source)


def guarded(call: Callable[..., None], *args: Any) -> None:
  """Nobody could catch what it raises."""
  try:
    call(*args)
  except (Exception, SystemExit):
    LOG.exception("the callback of an operation failed")
