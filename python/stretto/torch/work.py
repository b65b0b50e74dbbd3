"""What a collective hands back: waits in C++ when somebody waits, completes a future when somebody
asks for one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from stretto.comm import CommError

# How often a wait with a time limit looks at its future.
kPollS = 0.001


class Work(dist._Work):
  """`finish` copies results to where the caller wants them; `keep` is everything the engine reads
  and writes."""

  handles_: Sequence[int] = ()  # to wait for here
  open_ = 0  # operations that the completion thread will report
  future_: torch.futures.Future | None = None
  error_: Exception | None = None
  done_ = False
  source_ = -1  # of a recv that is over: the rank of the group it came from

  def __init__(self, group, what: str, result: list[torch.Tensor], keep: list,
               finish: Callable[[], None] | None, timeout_s: float):
    super().__init__()
    self.group_, self.what_, self.result_ = group, what, result
    self.keep_, self.finish_, self.timeout_s_ = keep, finish, timeout_s

  # Called by the process group.

  def waiting_for(self, handles: list[int]) -> Work:
    self.handles_ = handles
    return self

  def expect(self, operations: int) -> None:
    """Before operations are started with `operation_done` as their end."""
    self.open_ = operations
    device = next((t.device for t in self.result_ if t.device.type == "cuda"), None)
    self.future_ = torch.futures.Future(devices=[device] if device else None)

  def operation_done(self, error: Exception | None, source: int = -1) -> None:
    self.error_ = self.error_ or error
    self.source_ = source
    self.open_ -= 1
    if self.open_ == 0:
      self.complete()

  def complete(self) -> None:
    """Ends the work: copies results, sets the future. Runs once."""
    if self.error_ is None and self.finish_ is not None:
      try:
        self.finish_()
      except Exception as error:  # belongs to whoever waits
        self.error_ = error
    self.keep_ = self.finish_ = None
    self.done_ = True
    if self.future_ is not None:
      if self.error_ is None:
        self.future_.set_result(self.result_)
      else:
        self.future_.set_exception(self.error_)

  # torch's side.

  def wait(self, timeout: timedelta = timedelta(0)) -> bool:  # noqa: B008
    if not self.done_:
      limit = timeout.total_seconds() if timeout else 0.0
      self.block(limit if limit > 0 else self.timeout_s_)
    if self.error_ is not None:
      raise self.error_
    return True

  def block(self, limit_s: float) -> None:
    if self.handles_:
      self.wait_here(limit_s)
    elif limit_s < 0:
      try:
        self.future_.wait()
      except Exception:
        if self.error_ is None:
          raise
    else:
      stop = time.monotonic() + limit_s
      while not self.future_.done():
        if time.monotonic() > stop:
          self.give_up(limit_s)
          return
        time.sleep(kPollS)

  def wait_here(self, limit_s: float) -> None:
    stop = time.monotonic() + limit_s
    while self.handles_ and not self.done_:
      try:
        left = max(stop - time.monotonic(), 0.0) if limit_s >= 0 else -1.0
        if not self.group_.engine.wait(self.handles_[0], left):
          self.group_.abandoned.append(self.keep_)  # the engine may still write there
          self.give_up(limit_s)
          return
      except (CommError, ValueError, RuntimeError) as error:
        self.error_ = self.error_ or error
      self.handles_.pop(0)
    self.complete()

  def give_up(self, limit_s: float) -> None:
    """The ranks cannot agree any more on what comes next: the job ends for all."""
    text = f"rank {self.group_.job_rank}: {self.what_} did not finish within {limit_s:g} s"
    self.error_ = CommError(text)
    self.done_ = True
    self.group_.fail(text)

  def get_future(self) -> torch.futures.Future:
    if self.future_ is None:
      handles, self.handles_ = self.handles_, []
      self.expect(len(handles))
      if not self.done_:
        for handle in handles:
          self.group_.engine.deliver(handle, self.operation_done)
      elif self.error_ is not None:
        self.future_.set_exception(self.error_)
      else:
        self.future_.set_result(self.result_)
    return self.future_

  def __del__(self):
    """Nobody waits: the operations go on, and their memory and results with them."""
    if self.handles_ and not self.done_:
      rest = Rest(len(self.handles_), self.keep_, self.finish_)
      try:
        for handle in self.handles_:
          self.group_.engine.deliver(handle, rest.operation_done)
      except (ValueError, RuntimeError):
        pass  # the engine is closed, and touches nothing any more

  def is_completed(self) -> bool:
    if not self.done_ and self.handles_ and all(map(self.group_.engine.native.poll,
                                                    self.handles_)):
      self.wait_here(-1.0)
    return self.done_

  def is_success(self) -> bool:
    return self.is_completed() and self.error_ is None

  def source_rank(self) -> int:
    """Of a recv, from whom; torch asks for it after wait()."""
    return self.source_

  _source_rank = source_rank

  def exception(self):
    return self.error_

  def result(self) -> list[torch.Tensor]:
    self.wait()
    return self.result_

  def synchronize(self) -> None:
    self.wait()


class Rest:
  """What a Work leaves that was dropped before its end."""

  def __init__(self, operations: int, keep: list, finish: Callable[[], None] | None):
    self.open_, self.keep_, self.finish_ = operations, keep, finish
    self.failed_ = False

  def operation_done(self, error: Exception | None, source: int = -1) -> None:
    del source
    self.failed_ = self.failed_ or error is not None
    self.open_ -= 1
    if self.open_ == 0 and self.finish_ is not None and not self.failed_:
      self.finish_()
