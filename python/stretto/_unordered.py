"""Named operations that ranks submit in any order: the base of `stretto.horovod`, `stretto.jax` and
`stretto.tensorflow`. Who has what is agreed on in C++, with no coordinator (comm/negotiate/unordered.h)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence

from stretto import comm
from stretto._completions import Closed
from stretto._errors import InvalidArgumentError

LOG = logging.getLogger("stretto")


def stall_limit_s() -> float:
  return float(os.environ.get("STRETTO_STALL_WARNING", "60"))


class Unordered:
  """All `ranks` of the engine's job make it, with the same name. An operation starts when all have
  submitted its name. `description` says what it stands for: ranks that differ in it get a
  ValueError with what each said. Every method may be called from any thread."""

  def __init__(self, engine: comm.Engine, name: str, ranks: Sequence[int],
               stand_in: Callable[[str], None] | None = None):
    """`stand_in(description)` starts, for a rank that has joined, what the others do."""
    self.native = engine.native.unordered(name, list(ranks), stall_limit_s(), warn,
                                          stand_in or refuse)
    engine._users.add(self)

  def submit(self, name: str, description: str, group: int, operations: list[dict]) -> int:
    """Operations of an engine's group, with the keywords of comm.Engine.submit. Their buffers must
    stay alive until wait()."""
    return self.native.submit(name, description, group, operations)

  def submit_call(self, name: str, description: str, start: Callable[[], None]) -> int:
    """`start()` is called on a thread of C++, in an order that all ranks share; it should not
    block, and wait() does not wait for what it has started."""
    return self.native.submit_call(name, description, start)

  def submit_gradient(self, name: str, description: str, gradients: comm.Gradients,
                      slices: list[tuple], dtype: str, address: int, step: int,
                      loss_scale: float = 1.0) -> int:
    """A bucket of comm.Gradients, whose words these are."""
    return self.native.submit_gradient(name, description, gradients.native, slices, dtype, address,
                                       step, loss_scale)

  def poll(self, handle: int) -> bool:
    """True when wait() would not block."""
    return self.native.poll(handle)

  def wait(self, handle: int, timeout_s: float = -1.0) -> bool:
    """False when the time is up. Raises what went wrong. Ctrl-C interrupts it."""
    return self.native.wait(handle, timeout_s)

  def join(self) -> int:
    """Until all ranks have joined this one lacks nothing. The last one that did, of the ranks."""
    self.wait(self.native.join())
    return self.native.last_joined()

  def leave(self) -> None:
    """Waits until all ranks leave. What others submit that needs this rank fails there."""
    self.native.leave()
    self.native.wait_left()
    self.close()

  def close(self) -> None:
    """Ends the job unless all have left. May be called again."""
    native, self.native = self.native, Closed("named operations")
    if not isinstance(native, Closed):
      native.close()


def warn(name: str, waiting_s: float, missing: list[int]) -> None:
  LOG.warning("'%s' has been ready here for %.0f s, but not on rank%s %s", name, waiting_s,
               "s" if len(missing) != 1 else "", ", ".join(map(str, missing)))


def refuse(description: str) -> None:
  raise InvalidArgumentError(f"after join() only allreduce can go on, not {description}")
