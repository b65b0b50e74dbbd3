"""What has been submitted and is waited for later."""

from __future__ import annotations

import json
from collections.abc import Callable

import torch

from stretto.horovod._members import Members


class Handle:
  """`finish()` makes the result when the operation is over; `keep` is everything that the engine
  reads and writes until then."""

  def __init__(self, members: Members, number: int, keep, finish: Callable[[], object]):
    self._members, self._number, self._keep, self._finish = members, number, keep, finish
    self._result, self._error = None, None
    self.started: list | None = None  # of a call: the Work it has started

  def done(self) -> bool:
    """True when wait() would not block."""
    if self._number is None:
      return True
    return self._members.unordered.poll(self._number) and (
        not self.started or not hasattr(self.started[0], "is_completed")
        or self.started[0].is_completed())

  def wait(self):
    if self._number is not None:
      try:
        self._members.unordered.wait(self._number)
        self._result = self._finish()
      except (ValueError, RuntimeError) as error:
        self._error = error
      self._number = self._keep = self._finish = None
    if self._error is not None:
      raise self._error
    return self._result

  def then(self, change: Callable[[object], object]) -> Handle:
    finish = self._finish
    self._finish = lambda: change(finish())
    return self

  def __del__(self):
    if self._number is not None:  # nobody waits: the operation goes on
      self._members.abandoned.append(self._keep)


def full_name(members: Members, operation: str, name: str | None) -> str:
  # Without a name, the n-th of its kind on one rank is the n-th on all.
  return f"{operation}.{name}" if name else \
      f"{operation}.noname.{next(members.counters[operation])}"


def describe(operation: str, tensors: list[torch.Tensor], **details) -> str:
  return json.dumps({"operation": operation, "dtype": str(tensors[0].dtype).removeprefix("torch."),
                     **details})


def submit(members: Members, name: str, description: str, prepared,
           finish: Callable[[], object]) -> Handle:
  """What Members.prepare has made of a collective."""

  def end():
    if prepared.finish is not None:
      prepared.finish()
    return finish()

  number = members.unordered.submit(name, description, members.group.group, prepared.operations)
  return Handle(members, number, prepared.keep, end)


def submit_call(members: Members, name: str, description: str, start: Callable[[], object],
                finish: Callable[[object], object], keep=None) -> Handle:
  """What needs to hear from the others before it can begin. `start()` runs on a thread of the
  engine; what it returns, and that is waited for first if it is a Work, goes to finish()."""
  started: list = []

  def begin() -> None:
    try:
      started.append(start())
    except Exception as error:  # its submitter is told
      started.append(error)

  def end():
    if isinstance(started[0], Exception):
      raise started[0]
    return finish(started[0])

  handle = Handle(members, members.unordered.submit_call(name, description, begin), keep, end)
  handle.started = started
  return handle


def poll(handle: Handle) -> bool:
  """True when synchronize would not block."""
  return handle.done()


def synchronize(handle: Handle):
  """Waits for the result."""
  return handle.wait()
