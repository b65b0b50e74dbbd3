"""Named operations that ranks submit in any order: the base of `stretto.horovod`, `stretto.jax` and
`stretto.tensorflow`. The C++ side (comm/negotiate/unordered.h) finds out, without a coordinator,
which names are ready on all ranks."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence

from stretto import comm
from stretto._checks import shown
from stretto._completions import FORKED, Closed, follow_forks
from stretto._errors import InvalidArgumentError

LOG = logging.getLogger("stretto")


def stall_limit_s() -> float:
  text = os.environ.get("STRETTO_STALL_WARNING", "60")
  try:
    seconds = float(text)
    if 0 <= seconds < math.inf:
      return seconds
  except ValueError:
    pass
  raise InvalidArgumentError(
      f"STRETTO_STALL_WARNING: expected seconds of at least 0, got {shown(text)}")


class Unordered:
  """Starts an operation when all `ranks` have submitted its name. All of them create this object,
  with the same name. If the `description` of an operation differs between ranks, each of them
  raises InvalidArgumentError with all descriptions. Every method may be called from any thread."""

  def __init__(self, engine: comm.Engine, name: str, ranks: Sequence[int],
               stand_in: Callable[[str], None] | None = None):
    """After join(), `stand_in(description)` is called to take part in the others' operations."""
    self.native = engine.native.unordered(name, list(ranks), stall_limit_s(), warn,
                                          stand_in or refuse)
    engine._users.add(self)
    follow_forks(self)

  def submit(self, name: str, description: str, group: int, operations: list[dict]) -> int:
    """Submits operations of an engine's group, each a dictionary of the keywords of
    comm.Engine.submit. Their buffers must stay alive until wait() returns."""
    return self.native.submit(name, description, group, operations)

  def add_template(self, tensor, reduction: str, description: str, group: int,
                   operation: dict) -> bool:
    """Keeps an operation that works in place, for operations by the thousand:
    native.submit_again(prefix, name, tensor, reduction, abandoned) submits a copy of it, named
    prefix + str(name), for a tensor of the same class, element type and shape. That returns an
    object with the done() and wait() of stretto.horovod's Handle, or None if none was kept or the
    tensor's memory is not dense; `abandoned` gets (handle, tensor, None) when nobody waits.

    Returns False if it is not kept, because the tensor's class has no table of C functions."""
    return self.native.add_template(tensor, reduction, description, group, operation)

  def submit_call(self, name: str, description: str, start: Callable[[], None]) -> int:
    """Submits a function. A C++ thread calls it, in the same order on all ranks. It should not
    block, and wait() does not wait for what it starts."""
    return self.native.submit_call(name, description, start)

  def submit_gradient(self, name: str, description: str, gradients: comm.Gradients,
                      slices: list[tuple], dtype: str, address: int, step: int,
                      loss_scale: float = 1.0, timeout_s: float = 0.0) -> int:
    """Submits a bucket; the arguments are those of comm.Gradients.submit."""
    return self.native.submit_gradient(name, description, gradients.native, slices, dtype, address,
                                       step, loss_scale, timeout_s)

  def set_timeout(self, timeout_s: float) -> None:
    """Ends the job if an operation takes longer, from here until all ranks have submitted it, and
    from then until its end. 0, as at first: the engine's `operation_timeout_s`."""
    self.native.set_timeout(timeout_s)

  def poll(self, handle: int) -> bool:
    """Whether wait() would return at once."""
    return self.native.poll(handle)

  def wait(self, handle: int, timeout_s: float = -1.0) -> bool:
    """Waits for the end of an operation and raises its error. Returns False if `timeout_s` seconds
    pass first; a negative time means no limit. Ctrl-C interrupts it."""
    return self.native.wait(handle, timeout_s)

  def join(self) -> int:
    """Takes part in the others' operations until all ranks have joined. Returns the rank of the
    group that joined last."""
    self.wait(self.native.join())
    return self.native.last_joined()

  def leave(self) -> None:
    """Waits until all ranks leave. Operations that still need this rank fail on the others."""
    if isinstance(self.native, Closed) and self.native.message != FORKED:
      return  # with its engine, for example by destroy_process_group()
    self.native.leave()
    self.native.wait_left()
    self.close()

  def close(self) -> None:
    """Ends the job, unless all ranks have left. May be called more than once."""
    self._retire("named operations: closed")

  def _left_behind(self) -> None:
    self._retire(FORKED)

  def _retire(self, message: str) -> None:
    native = self.native
    if not isinstance(native, Closed):
      self.native = Closed(message)
      native.close(message)


def warn(name: str, waiting_s: float, missing: list[int]) -> None:
  LOG.warning("'%s' has been ready here for %.0f s, but not on rank%s %s", name, waiting_s,
               "s" if len(missing) != 1 else "", ", ".join(map(str, missing)))


def refuse(description: str) -> None:
  raise InvalidArgumentError(f"after join() only allreduce can go on, not {description}")
