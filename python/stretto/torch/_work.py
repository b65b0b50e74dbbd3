"""The Work of a collective. wait() waits in C++; get_future() makes a future that the completion
thread completes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from stretto._errors import CommError, Error

# Seconds between two looks at the future, in a wait with a time limit.
POLL_S = 0.001


class Work(dist._Work):
  """`finish` copies results to the caller's tensors; `keep` holds the memory that the engine reads
  and writes."""

  _handles: Sequence[int] = ()  # operations that wait() waits for
  _open = 0  # operations that the completion thread will report
  _future: torch.futures.Future | None = None
  _error: Exception | None = None
  _done = False
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

  def expect(self, operations: int) -> None:
    """Called before operations are started that end with a call of `operation_done`."""
    self._open = operations
    device = next((t.device for t in self._result if t.device.type == "cuda"), None)
    self._future = torch.futures.Future(devices=[device] if device else None)

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
    self._done = True
    if self._future is not None:
      if self._error is None:
        self._future.set_result(self._result)
      else:
        self._future.set_exception(self._error)

  # torch's side.

  def wait(self, timeout: timedelta = timedelta(0)) -> bool:  # noqa: B008
    if not self._done:
      limit = timeout.total_seconds() if timeout else 0.0
      self.block(limit if limit > 0 else self._timeout_s)
    if self._error is not None:
      raise self._error
    return True

  def block(self, limit_s: float) -> None:
    if self._handles:
      self.wait_here(limit_s)
    elif limit_s < 0:
      try:
        self._future.wait()
      except Exception:
        if self._error is None:
          raise
    else:
      stop = time.monotonic() + limit_s
      while not self._future.done():
        if time.monotonic() > stop:
          self.give_up(limit_s)
          return
        time.sleep(POLL_S)

  def wait_here(self, limit_s: float) -> None:
    stop = time.monotonic() + limit_s
    while self._handles and not self._done:
      try:
        left = max(stop - time.monotonic(), 0.0) if limit_s >= 0 else -1.0
        if not self._group.engine.wait(self._handles[0], left):
          self._group.abandoned.append(self._keep)  # the engine may still write there
          self.give_up(limit_s)
          return
      except Error as error:
        self._error = self._error or error
      self._handles.pop(0)
    self.complete()

  def give_up(self, limit_s: float) -> None:
    """Ends the job on all ranks, which cannot agree any more on what comes next."""
    text = f"rank {self._group.job_rank}: {self._what} did not finish within {limit_s:g} s"
    self._error = CommError(text)
    self._done = True
    self._group.fail(text)

  def get_future(self) -> torch.futures.Future:
    if self._future is None:
      handles, self._handles = self._handles, []
      self.expect(len(handles))
      if not self._done:
        for handle in handles:
          self._group.engine.deliver(handle, self.operation_done)
      elif self._error is not None:
        self._future.set_exception(self._error)
      else:
        self._future.set_result(self._result)
    return self._future

  def __del__(self):
    """Without a caller that waits, the operations go on, and need their memory until they end."""
    if self._handles and not self._done:
      rest = Rest(len(self._handles), self._keep, self._finish)
      try:
        for handle in self._handles:
          self._group.engine.deliver(handle, rest.operation_done)
      except Error:
        pass  # the engine is closed and does not use the memory any more

  def is_completed(self) -> bool:
    if not self._done and self._handles and all(map(self._group.engine.native.poll,
                                                    self._handles)):
      self.wait_here(-1.0)
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
