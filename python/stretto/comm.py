"""The gradient engine on plain buffers: the base of `stretto.torch` and `stretto.horovod`.

  engine = stretto.comm.Engine("/shared/folder/of/this/job", rank, size)      # or "HOST:PORT"
  engine.all_reduce(array)          # a C-contiguous NumPy array, in place
  engine.close()
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import weakref
from collections.abc import Sequence
from types import SimpleNamespace

from stretto import _stretto
from stretto._completions import Closed, Completions, Done

# Kinds of operations and reductions, by the numbers of the C++ enumerations.
(ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, REDUCE, GATHER, SCATTER, ALL_TO_ALL, SEND, RECV,
 BARRIER) = range(11)
REDUCTIONS = ("sum", "average", "product", "min", "max", "and", "or", "xor")
WORLD = 0
ANY_PEER = -1
REPORTS = 1000  # reports of NaN that are kept
DTYPE_NAMES: dict = {}  # by NumPy's dtype
LOG = logging.getLogger("stretto")

Options = _stretto.CommOptions


class CommError(RuntimeError):
  """A peer or a link is lost, or an operation took too long. The engine cannot be used any more."""

  rank = -1  # of the lost peer; -1: none in particular
  link = ""


class Engine(Completions):
  """One rank of a job. `store` is a folder that all ranks see (with a '/'), HOST:PORT where rank 0
  listens, or an object with set(key, bytes) and get(key, timeout_s) -> bytes. Every method may be
  called from any thread."""

  def __init__(self, store, rank: int, size: int, options: Options | None = None, epoch: int = 0):
    options = options or Options.from_environment()
    super().__init__(_stretto.comm_engine(store, rank, size, epoch, options, CommError))
    self.rank, self.size, self.options = rank, size, options
    self._non_finite: list[dict] = []
    self._users: weakref.WeakSet = weakref.WeakSet()  # to be closed before it
    self.segments: list[dict] = []  # what stretto.torch.attach tried, for the report
    OPEN.add(self)

  # Everything below `submit` is a form of it; its keywords are the fields of comm/operation.h.

  def submit(self, group: int = WORLD, **operation) -> int:
    """Starts an operation; its handle belongs to `wait`. The buffers must stay alive till then."""
    return self.native.submit(group, **operation)

  def submit_queued(self, done: Done, group: int = WORLD, **operation) -> None:
    """Starts an operation; `done(None or the error, source)` is called on the completion
    thread: source is the rank of the group that a RECV got its data from, -1 otherwise."""
    self._queue(lambda: self.native.submit(group, queue=True, **operation), done)

  def deliver(self, handle: int, done: Done) -> None:
    """Hands an operation over to the completion thread, as if it had been submitted that way."""

    def hand_over() -> int:
      self.native.deliver(handle)
      return handle

    self._queue(hand_over, done)

  def wait(self, handle: int, timeout_s: float = -1.0) -> bool:
    """False when the time is up. Raises what went wrong. Ctrl-C interrupts it."""
    return self.native.wait(handle, timeout_s)

  def all_reduce(self, array, reduction: str = "sum", group: int = WORLD) -> None:
    self.wait(self.start_all_reduce(array, reduction, group))

  def start_all_reduce(self, array, reduction: str = "sum", group: int = WORLD) -> int:
    address = address_of(array)
    return self.native.submit(group, ALL_REDUCE, name_of(array.dtype), REDUCTIONS.index(reduction),
                              array.size, address, address)

  def broadcast(self, array, root: int = 0, group: int = WORLD) -> None:
    address = address_of(array)
    self.wait(self.native.submit(group, BROADCAST, name_of(array.dtype), 0, array.size, address,
                                 address, root))

  def all_gather(self, output, array, group: int = WORLD) -> None:
    """`output` takes the arrays of all ranks, one after the other."""
    if output.size != array.size * self.size or output.dtype != array.dtype:
      raise ValueError(f"all_gather: {self.size} times {array.size} {array.dtype} do not make "
                       f"{output.size} {output.dtype}")
    self.wait(self.native.submit(group, ALL_GATHER, name_of(array.dtype), 0, array.size,
                                 address_of(array), address_of(output)))

  def step(self, group: int = WORLD) -> None:
    """A training step is over: all its operations have been submitted. See comm/engine.h."""
    self.native.step(group)

  def barrier(self, group: int = WORLD) -> None:
    self.wait(self.native.submit(group, BARRIER, "uint8"))

  def add_group(self, name: str, ranks: Sequence[int]) -> int:
    """All members call it with the same arguments before they use the group."""
    return self.native.add_group(name, list(ranks))

  def non_finite(self) -> list[dict]:
    """Reports of NaN and infinity in what this rank contributed, oldest first. The first one is
    also logged, as soon as its operation is over."""
    for rank, name, group, sequence, offset, count in self.native.take_non_finite():
      report = {"rank": rank, "name": name, "group": group, "sequence": sequence,
                "first_offset": offset, "count": count}
      if not self._non_finite:
        LOG.warning("rank %d: %d values of %s are NaN or infinite, the first at element %d "
                     "(operation %d)", rank, count, name or "an operation", offset, sequence)
      if len(self._non_finite) < REPORTS:
        self._non_finite.append(report)
    return self._non_finite

  def _note(self) -> None:
    self.non_finite()

  def statistics(self) -> dict:
    return self.native.statistics()

  def close(self) -> None:
    """Operations that are still open fail. May be called again."""
    if self._closed:
      return
    for user in list(self._users):
      user.close()
    OPEN.discard(self)
    self.leave_account()
    if self._stop():
      self.native.close()
      self.native, self.options = Closed("the engine"), copied(self.options)
      self._drop(CommError("the engine was closed"))

  def leave_account(self) -> None:
    """For `stretto run --report` and `--trace`: what this rank has done, as a file."""
    folder = os.environ.get("STRETTO_RUN_FOLDER")
    if not folder or not os.path.isdir(folder):
      return
    trace = self.native.trace_json()
    events = json.loads(trace) if trace else []
    content = {"rank": self.rank, "statistics": self.statistics(),
               "non_finite": self.non_finite(), "segments": self.segments,
               "trace": events["traceEvents"] if isinstance(events, dict) else events}
    with open(os.path.join(folder, f"rank-{self.rank:05d}-{os.getpid()}.json"), "w") as file:
      json.dump(content, file)


class Gradients(Completions):
  """Averages gradient buckets over `ranks` of the engine's job, all of which make it with the same
  arguments. `codec` is any value of STRETTO_CODEC."""

  def __init__(self, engine: Engine, name: str, ranks: Sequence[int], codec: str = "none",
               options: Options | None = None):
    super().__init__(engine.native.gradients(name, list(ranks), codec, options or engine.options))
    self.engine, self.codec = engine, codec
    engine._users.add(self)

  def submit(self, done: Done, slices: list[tuple[str, int, int, int, int]], dtype: str,
             address: int, step: int, loss_scale: float = 1.0) -> None:
    """`slices` are (parameter, first element, count, rows, columns), one after another at
    `address`; rows and columns are 0 where the parameter is no matrix. `done(None or the error)`
    is called on the completion thread, when the averages are there."""
    self._queue(lambda: self.native.submit(slices, dtype, address, step, loss_scale), done)

  def _note(self) -> None:
    self.engine.non_finite()

  def close(self) -> None:
    """Buckets that are under way end the job. May be called again."""
    if self._stop():
      self.native.close()
      self.native = Closed("the gradients")
      self._drop(CommError("the gradients were closed"))


# Engines must not outlive the interpreter: their threads would have nobody to tell.
OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def close_all() -> None:
  for engine in list(OPEN):
    engine.close()


def copied(options: Options) -> SimpleNamespace:
  """Without anything of C++: torch's reducers keep process groups beyond the interpreter."""
  fields = {name: getattr(options, name) for name in dir(options) if not name.startswith("_")}
  return SimpleNamespace(**{name: v for name, v in fields.items() if not callable(v)})


def name_of(dtype) -> str:
  """dtype.name, which NumPy works out anew each time."""
  name = DTYPE_NAMES.get(dtype)
  if name is None:
    name = DTYPE_NAMES[dtype] = dtype.name
  return name


def address_of(array) -> int:
  address = _stretto.buffer_address(array)
  if address:
    return address
  interface = array.__array_interface__
  if not array.flags.c_contiguous or interface["data"][1]:
    raise ValueError("the array must be C-contiguous and writable")
  return interface["data"][0]
