"""Handles of operations that are waited for later."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import torch

from stretto._checks import expected
from stretto._completions import Closed
from stretto._errors import InvalidArgumentError
from stretto.horovod._members import Members, is_over

A_HANDLE = "what an _async function returned"


# Seconds between two looks of a thread that waits while another one waits for the same handle.
TURN_S = 0.001


class Handle:
  """`finish()` makes the result when the operation is over; without it the result is `keep`, which
  holds the memory that the engine reads and writes until then. All methods may be called from any
  thread; every thread that waits gets the same result or error."""

  __slots__ = ("_ended", "_error", "_finish", "_keep", "_members", "_number", "_over", "_result",
               "_turn", "started")

  def __init__(self, members: Members, number: int, keep,
               finish: Callable[[], object] | None = None):
    self._members, self._number, self._keep, self._finish = members, number, keep, finish
    self._result = self._error = None
    self._ended = self._over = False  # the operation; and its result is there
    self._turn = [True]  # the thread that has taken it out waits for the operation
    self.started: list | None = None  # of a call: the Work it has started

  def done(self) -> bool:
    """True when wait() would not block."""
    if self._over:
      return True
    try:
      over = self._members.unordered.poll(self._number)
    except InvalidArgumentError:
      self._members.group.engine.check_process()
      if self._over or not self._turn:  # another thread has waited, and makes the result
        return self._over
      raise
    return over and is_over(self.started)

  def wait(self):
    while not self._over:
      try:
        self._turn.pop()
      except IndexError:  # another thread waits
        self._members.group.engine.check_process()  # it is not in a forked child
        time.sleep(TURN_S)
        continue
      try:
        self._end()
      finally:
        self._turn.append(True)
    if self._error is not None:
      raise self._error
    return self._result

  def _end(self) -> None:
    """On one thread at a time. Ctrl-C may end it early."""
    if self._over:
      return
    try:
      if not self._ended:
        self._members.unordered.wait(self._number)
        self._ended = True
      self._result = self._keep if self._finish is None else self._finish()
    except Exception as error:
      self._error = error
      if isinstance(self._members.unordered.native, Closed):
        self._abandon()  # the engine may go on
    self._over = True
    self._keep = self._finish = None

  def then(self, change: Callable[[object], object]) -> Handle:
    finish, keep = self._finish, self._keep
    self._finish = lambda: change(keep if finish is None else finish())
    return self

  def __del__(self):
    if not self._over:  # not waited for: the operation goes on
      self._abandon()

  def _abandon(self) -> None:
    self._members.abandoned.append((self._number, self._keep, self.started))


def full_name(members: Members, operation: str, name: str | None) -> str:
  # Without a name, the n-th call of an operation on one rank belongs to the n-th on all others.
  return f"{operation}.{name}" if name else \
      f"{operation}.noname.{next(members.counters[operation])}"


def describe(operation: str, dtype: torch.dtype, **details) -> str:
  return json.dumps({"operation": operation, "dtype": str(dtype).removeprefix("torch."),
                     **details})


def submit(members: Members, name: str, description: str, prepared,
           finish: Callable[[], object]) -> Handle:
  """Submits a collective that Members.prepare has prepared."""

  def end():
    if prepared.finish is not None:
      prepared.finish()
    return finish()

  members.let_go()
  number = members.unordered.submit(name, description, members.group.group, prepared.operations)
  return Handle(members, number, prepared.keep, end)


def submit_call(members: Members, name: str, description: str, start: Callable[[], object],
                finish: Callable[[object], object], keep=None) -> Handle:
  """Submits an operation that needs data of other ranks before it can begin. `start()` runs on a
  thread of the engine. finish() gets what it returns, after waiting if that is a Work."""
  members.let_go()
  started: list = []

  def begin() -> None:
    try:
      started.append(start())
    except Exception as error:  # wait() raises it
      started.append(error)

  def end():
    if isinstance(started[0], Exception):
      raise started[0]
    return finish(started[0])

  handle = Handle(members, members.unordered.submit_call(name, description, begin), keep, end)
  handle.started = started
  return handle


def poll(handle: Handle) -> bool:
  """Whether an operation is over.

  Args:
    handle: from an `_async` function.

  Returns:
    True if `synchronize` would not wait.
  """
  try:
    return handle.done()
  except AttributeError:
    if isinstance(handle, Handle):
      raise
    raise expected("poll: handle", A_HANDLE, handle) from None


def synchronize(handle: Handle):
  """Waits for an operation to end.

  Args:
    handle: from an `_async` function.

  Returns:
    The operation's result.

  Raises:
    InvalidArgumentError: ranks disagree on the operation.
    CommError: a rank or a link is lost.
  """
  try:
    return handle.wait()
  except AttributeError:
    if isinstance(handle, Handle):
      raise  # what the script's own compression class raised
    raise expected("synchronize: handle", A_HANDLE, handle) from None
