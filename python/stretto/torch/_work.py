"""The Work of a collective. wait() waits in C++; get_future() makes a future that the completion
thread completes."""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from stretto._errors import CommError, Error, InvalidArgumentError
from stretto.torch._callbacks import SOURCES

# Seconds between two looks at the future, in a wait with a time limit.
POLL_S = 0.001
# The same for a thread that waits while another one waits for the same Work.
TURN_S = 0.05

# Notified when a Work is over for which several threads wait.
OVER = threading.Condition()


class Work(dist._Work):
  """`finish` copies results to the caller's tensors; `keep` holds the memory that the engine reads
  and writes. All methods may be called from any thread."""

  # Operations that wait() waits for. The thread that waits in C++ takes them out of __dict__.
  _handles: Sequence[int] = ()
  _open = 0  # operations that the completion thread will report
  _reported: Sequence[int] = ()  # their handles, for errors
  _future: torch.futures.Future | None = None
  _error: Exception | None = None
  _done = False
  _crowded = False  # a second thread waits
  _source = -1  # of a recv that is over: the rank of the group it came from

  def __init__(self, group, what: str, result: list[torch.Tensor], keep: list,
               finish: Callable[[], None] | None, timeout_s: float):
    super().__init__()
    self._group, self._what, self._result = group, what, result
    self._keep, self._finish, self._timeout_s = keep, finish, timeout_s

  # Called by the process group.

  def waiting_for(self, handles: list[int]) -> Work:
    self._handles = handles
    return self

  def will_report(self, handles: list[int]) -> None:
    self._reported = handles

  def expect(self, operations: int) -> None:
    """Called before operations are started that end with a call of `operation_done`."""
    self._open = operations
    self.make_future()

  def operation_done(self, error: Exception | None, source: int = -1) -> None:
    self._error = self._error or error
    self._source = source
    self._open -= 1
    if self._open == 0:
      self.complete()

  def complete(self) -> None:
    """Ends the work: copies the results and sets the future. Called once."""
    if self._error is None and self._finish is not None:
      try:
        self._finish()
      except Exception as error:  # wait() raises it
        self._error = error
    self._keep = self._finish = None
    self.end()

  def end(self) -> None:
    if isinstance(self._error, Error):
      self._group.job.error = self._error
    self._done = True
    if self._future is not None:
      self.settle()
    if self._crowded:
      with OVER:
        OVER.notify_all()

  def make_future(self) -> bool:
    """False when another thread has made it."""
    device = next((t.device for t in self._result if t.device.type == "cuda"), None)
    future = torch.futures.Future(devices=[device] if device else None)
    SOURCES[future] = frozenset([weakref.ref(self)])
    return self.__dict__.setdefault("_future", future) is future

  def settle(self) -> None:
    """Sets the future; the first call counts."""
    mine = object()
    if self.__dict__.setdefault("_setter", mine) is not mine:
      return
    if self._error is None:
      self._future.set_result(self._result)
    else:
      fail(self._future, self._error)

  # torch's side.

  def wait(self, timeout: timedelta = timedelta(0)) -> bool:  # noqa: B008
    if not self._done:
      limit = timeout.total_seconds() if timeout else 0.0
      self.block(limit if limit > 0 else self._timeout_s)
    if self._error is not None:
      raise self._error
    return True

  def block(self, limit_s: float) -> None:
    stop = time.monotonic() + limit_s if limit_s >= 0 else math.inf
    while not self._done:
      handles = self.__dict__.pop("_handles", None)
      if handles:
        done = self.wait_here(handles, stop)
      elif self._open:
        done = self.wait_for_future(stop)
      else:
        done = self.wait_for_other(stop)
      if not done and not self._done:
        self.give_up(limit_s)

  def wait_here(self, handles: list[int], stop: float) -> bool:
    """Whether all operations are over in time."""
    try:
      while handles:
        left = max(stop - time.monotonic(), 0.0) if stop < math.inf else -1.0
        try:
          if not self._group.engine.wait(handles[0], left):
            self._group.abandoned.append(self._keep)  # the engine may still write there
            return False
        except Error as error:
          self._error = self._error or error
        handles.pop(0)
      self.complete()
      return True
    finally:
      if handles:  # for another thread, or for wait() after Ctrl-C
        self._handles = handles

  def finish_in_callback(self, stop: float = math.inf) -> None:
    """Ends the work if this is the thread that otherwise does so later."""
    engine = self._group.engine
    if engine._is_calling_back():
      engine._finish_in_callback(lambda: self._reported,
                                 lambda: self._done or time.monotonic() > stop)

  def wait_for_future(self, stop: float) -> bool:
    self._group.engine.check_process()  # nobody completes it in a forked child
    self.finish_in_callback(stop)
    if stop == math.inf:
      try:
        self._future.wait()
      except Exception:
        if self._error is None:
          raise
    while not self._future.done():
      if time.monotonic() > stop:
        return False
      time.sleep(POLL_S)
    return True

  def wait_for_other(self, stop: float) -> bool:
    """While another thread waits for the operations."""
    self._group.engine.check_process()
    self._crowded = True
    with OVER:
      if not self._done and not self._handles:
        OVER.wait(max(min(stop - time.monotonic(), TURN_S), 0.0))
    return self._done or time.monotonic() < stop

  def give_up(self, limit_s: float) -> None:
    """Ends the job on all ranks, which cannot agree any more on what comes next."""
    group = self._group
    text = (f"rank {group.job_rank}: {self._what} in group '{group.engine_name}' did not finish "
            f"within {limit_s:g} s{self.missing()}")
    self._error = CommError(text)
    group.fail(text)
    self.end()

  def missing(self) -> str:
    ranks = set()
    for handle in [*self._handles, *self._reported]:
      with contextlib.suppress(Error):  # it is over, or the engine is closed
        ranks.update(self._group.engine.native.awaited(handle))
    numbers = ", ".join(map(str, sorted(ranks)))
    return f"; it waits for rank{'s' if len(ranks) > 1 else ''} {numbers}" if ranks else ""

  def get_future(self) -> torch.futures.Future:
    if self._future is None and self.make_future():
      handles = self.__dict__.pop("_handles", None)
      if handles:
        self._open = len(handles)
        self._reported = handles
        for handle in handles:
          self._group.engine.deliver(handle, self.operation_done)
      elif self._done:
        self.settle()
      # Otherwise the thread that waits for the operations sets it.
    return self._future

  def __del__(self):
    """Without a caller that waits, the operations go on, and need their memory until they end."""
    handles = self.__dict__.get("_handles")
    if handles and not self._done:
      rest = Rest(len(handles), self._keep, self._finish)
      for handle in handles:
        self._group.engine._drop_handle(handle, rest.operation_done)

  def is_completed(self) -> bool:
    handles = self._handles
    if not self._done and handles:
      try:
        over = all(map(self._group.engine.native.poll, handles))
      except InvalidArgumentError:  # another thread has waited for it, or the engine is closed
        over = True
      if over:
        self.block(-1.0)
    return self._done

  def is_success(self) -> bool:
    return self.is_completed() and self._error is None

  def source_rank(self) -> int:
    """The sender of a recv, in the group; torch asks for it after wait()."""
    return self._source

  _source_rank = source_rank

  def exception(self):
    return self._error

  def result(self) -> list[torch.Tensor]:
    self.wait()
    return self._result

  def synchronize(self) -> None:
    self.wait()


class Failed:
  """The value of a future whose Work failed. What set_exception() leaves, C++ takes for a value:
  DDP's reducer looks for its first tensor, and crashes. Looking for tensors is pickling, and this
  raises the error then, except in the thread that sets the future: a future with devices looks
  itself. Whoever waits may read the value before set_result() has returned."""

  def __init__(self, error: Exception):
    self.error = error
    self.setter: int | None = threading.get_ident()

  def __reduce_ex__(self, protocol):
    if threading.get_ident() != self.setter:
      raise self.error
    return Failed, (None,)

  def throw(self):
    raise self.error


def fail(future: torch.futures.Future, error: Exception) -> None:
  failed = Failed(error)
  future._set_unwrap_func(Failed.throw)
  future.set_result(failed)
  failed.setter = None


class Rest:
  """Keeps what the operations of a Work need that was dropped before its end."""

  def __init__(self, operations: int, keep: list, finish: Callable[[], None] | None):
    self._open, self._keep, self._finish = operations, keep, finish
    self._failed = False

  def operation_done(self, error: Exception | None, source: int = -1) -> None:
    del source
    self._failed = self._failed or error is not None
    self._open -= 1
    if self._open == 0 and self._finish is not None and not self._failed:
      self._finish()
