"""Collectives on NumPy arrays: the gradient engine on which the other packages are built.

```python
engine = stretto.comm.Engine("HOST:PORT", rank, size)  # or a folder that all ranks see
engine.all_reduce(array)                               # averages in place
engine.close()
```
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from stretto import _non_finite, _process_end, _stretto, _watch
from stretto._buffers import address_of, name_of
from stretto._checks import require, shown, wrong
from stretto._comm_arguments import (
  ADDRESS,
  ARRAY,
  COUNT,
  DTYPE,
  ENGINE,
  FUNCTION,
  GROUP,
  HANDLE,
  NUMBER,
  OPTIONS,
  RANK,
  RANKS,
  SECONDS,
  SLICES,
  STORE,
  TEXT,
  WHOLE,
  copied,
  set_option,
  wrong_field,
)
from stretto._completions import Completions, Done
from stretto._errors import CommError, InvalidArgumentError
from stretto._non_finite import FindName, NonFinite

if TYPE_CHECKING:
  import numpy as np

# Kinds of operations and reductions, by the numbers of the C++ enumerations.
(ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, REDUCE, GATHER, SCATTER, ALL_TO_ALL, SEND, RECV,
 BARRIER) = range(11)
REDUCTIONS = ("sum", "average", "product", "min", "max", "and", "or", "xor")
WORLD = 0
ANY_PEER = -1

if not hasattr(_stretto, "CommOptions"):
  raise ImportError("stretto was built without the gradient engine (STRETTO_BUILD_COMM=OFF), as "
                    "./dev demo does: use what ./dev build or the wheel provides")

Options = _stretto.CommOptions
Options.__setattr__ = set_option  # type: ignore[assignment, method-assign]


class Engine(Completions):
  """One rank of a job: collectives and messages among its processes.

  All ranks call the same collectives in the same order. Every method may be called from any thread.
  Arrays are NumPy arrays, C-contiguous and writable; results have the same bits on every rank.
  Ctrl-C interrupts every call that waits.

  Args:
    store: where the ranks meet: a folder that all of them see (a path with a `/`), `HOST:PORT`,
      where rank 0 listens, or an object with `set(key, bytes)` and `get(key, timeout_s) -> bytes`.
    rank: number of this rank, from 0.
    size: number of ranks.
    options: settings; None: those of the `STRETTO_*` variables (docs/options.md).
    epoch: number of the attempt, where ranks that are left form the job again in the same store.

  Attributes:
    rank: number of this rank.
    size: number of ranks.
    options: the settings in use.

  Raises:
    CommError: the other ranks did not come within `options.connect_timeout_s` seconds.
    InvalidArgumentError: an argument is wrong, or ranks disagree on their settings.

  Examples:
    >>> folder = tempfile.mkdtemp() + "/"  # in a real job all ranks share it
    >>> engine = stretto.comm.Engine(folder, rank=0, size=1)
    >>> array = np.array([1, 2, 3], np.float32)
    >>> engine.all_reduce(array)
    >>> array
    array([1., 2., 3.], dtype=float32)
    >>> engine.close()
  """

  native: _stretto.CommEngine

  def __init__(self, store: str | object, rank: int, size: int, options: Options | None = None,
               epoch: int = 0) -> None:
    options = Options.from_environment() if options is None else options
    require("Engine", store=(store, STORE), rank=(rank, WHOLE), size=(size, WHOLE),
            options=(options, OPTIONS), epoch=(epoch, COUNT))
    super().__init__(_stretto.comm_engine(store, rank, size, epoch, options))
    self.rank, self.size, self.options = rank, size, options
    self._reports = NonFinite()
    self.find_name: FindName | None = None
    self._users: weakref.WeakSet[Gradients] = weakref.WeakSet()  # to be closed before it
    self.segments: list[dict[str, Any]] = []  # what stretto.torch.attach tried, for the report
    self.shares: list[dict[str, Any]] = []  # of stretto.torch.Shares, for the report
    self.kept: object = None  # buffers of _account
    OPEN.add(self)
    _process_end.at_end_of_child(close_all, _process_end.LATE)
    _non_finite.watch(self)
    _watch.opened(self)

  # The methods below submit() are forms of it. Its keywords are the fields of Operation in
  # comm/engine/operation.h.

  def submit(self, group: int = WORLD, **operation: Any) -> int:
    """Starts an operation.

    Args:
      group: number of the group that takes part, from `add_group`; 0: all ranks.
      **operation: its fields, as in comm/engine/operation.h.

    Returns:
      A handle for `wait`. The buffers must stay alive until then.
    """
    if self._dropped:
      self._take_dropped()
    try:
      return self.native.submit(group, **operation)
    except TypeError as error:
      raise wrong_field("submit", error, group, operation) from None

  def _submit_all(self, group: int, operations: list[dict[str, Any]], timeout_s: float,
                  blocking: bool) -> list[int]:
    # For the process group, whose fields are right.
    if self._dropped:
      self._take_dropped()
    submit = self.native.submit
    return [submit(group, timeout_s=timeout_s, blocking=blocking, **operation)
            for operation in operations]

  def submit_queued(self, done: Done, group: int = WORLD, **operation: Any) -> int:
    """Starts an operation whose end is told to a function.

    Args:
      done: called as `done(error, source)` on the completion thread. `error` is None or the
        exception; `source` is the rank of the group that a RECV got its data from, -1 otherwise.
      group: as in `submit`.
      **operation: as in `submit`.

    Returns:
      The operation's handle, which is not for `wait`.
    """
    require("submit_queued", done=(done, FUNCTION))
    try:
      return self._queue(lambda: self.native.submit(group, queue=True, **operation), done)
    except TypeError as error:
      raise wrong_field("submit_queued", error, group, operation) from None

  def deliver(self, handle: int, done: Done) -> None:
    """Hands an operation over to the completion thread, as if `submit_queued` had started it.

    Args:
      handle: from `submit`; must not be given to `wait` any more.
      done: as in `submit_queued`.
    """
    require("deliver", handle=(handle, HANDLE), done=(done, FUNCTION))

    def hand_over() -> int:
      self.native.deliver(handle)
      return handle

    self._queue(hand_over, done)

  def wait(self, handle: int, timeout_s: float = -1.0) -> bool:
    """Waits for an operation to end.

    Args:
      handle: from `submit`.
      timeout_s: seconds to wait at most; negative: as long as it takes.

    Returns:
      True if the operation is over, False if the time is up.

    Raises:
      CommError: a rank or a link is lost, or the operation took too long.
      InvalidArgumentError: ranks disagree on the operation.
    """
    try:
      return self.native.wait(handle, timeout_s)
    except TypeError as error:
      raise wrong("wait", error, handle=(handle, HANDLE), timeout_s=(timeout_s, SECONDS)) from None

  def all_reduce(self, array: np.ndarray, reduction: str = "average", group: int = WORLD) -> None:
    """Combines the arrays of all ranks, element by element, in place.

    Args:
      array: of the same shape and type on every rank.
      reduction: "average", "sum", "product", "min", "max", "and", "or" or "xor".
      group: as in `submit`.

    Raises:
      CommError: as in `wait`.
      InvalidArgumentError: the reduction is unknown or does not suit the type.
    """
    self.wait(self._start_all_reduce(array, reduction, group, blocking=True))

  def start_all_reduce(self, array: np.ndarray, reduction: str = "average",
                       group: int = WORLD) -> int:
    """Starts `all_reduce` and returns at once.

    Args:
      array: as in `all_reduce`; must stay as it is until the operation is over.
      reduction: as in `all_reduce`.
      group: as in `submit`.

    Returns:
      A handle for `wait`.

    Raises:
      InvalidArgumentError: as in `all_reduce`.
    """
    return self._start_all_reduce(array, reduction, group, blocking=False)

  def _start_all_reduce(self, array: np.ndarray, reduction: str, group: int, blocking: bool) -> int:
    if reduction not in REDUCTIONS:
      raise InvalidArgumentError(
        f"all_reduce: reduction: expected one of {', '.join(REDUCTIONS)}, got "
        f"{shown(reduction)}")
    try:
      address = address_of(array)
      return self.native.submit(group, ALL_REDUCE, name_of(array.dtype),
                                REDUCTIONS.index(reduction), array.size, address, address,
                                blocking=blocking)
    except (AttributeError, TypeError) as error:
      raise wrong("all_reduce", error, array=(array, ARRAY), group=(group, GROUP)) from None

  def broadcast(self, array: np.ndarray, root: int = 0, group: int = WORLD) -> None:
    """Gives every rank what one rank has, in place.

    Args:
      array: of the same shape and type on every rank.
      root: the rank (of the group) whose array the others get.
      group: as in `submit`.

    Raises:
      CommError: as in `wait`.
    """
    try:
      address = address_of(array)
      handle = self.native.submit(group, BROADCAST, name_of(array.dtype), 0, array.size, address,
                                  address, root)
    except (AttributeError, TypeError) as error:
      raise wrong("broadcast", error, array=(array, ARRAY), root=(root, RANK),
                  group=(group, GROUP)) from None
    self.wait(handle)

  def all_gather(self, output: np.ndarray, array: np.ndarray, group: int = WORLD) -> None:
    """Collects the arrays of all ranks on every rank.

    Args:
      output: takes the arrays one after another, by rank: `size` times as many elements as `array`.
      array: of the same shape and type on every rank.
      group: as in `submit`.

    Raises:
      CommError: as in `wait`.
      InvalidArgumentError: the sizes or types do not go together.
    """
    try:
      if output.size != array.size * self.size or output.dtype != array.dtype:
        raise InvalidArgumentError(
          f"all_gather: {self.size} times {array.size} {array.dtype} do not make "
          f"{output.size} {output.dtype}")
      handle = self.native.submit(group, ALL_GATHER, name_of(array.dtype), 0, array.size,
                                  address_of(array), address_of(output))
    except (AttributeError, TypeError) as error:
      raise wrong("all_gather", error, output=(output, ARRAY), array=(array, ARRAY),
                  group=(group, GROUP)) from None
    self.wait(handle)

  def step(self, group: int = WORLD) -> None:
    """Says that a training step is over: all its operations have been submitted.

    Tuning then knows where steps end. Without it the engine finds out by itself.

    Args:
      group: as in `submit`.
    """
    try:
      self.native.step(group)
    except TypeError as error:
      raise wrong("step", error, group=(group, GROUP)) from None

  def link_model(self, group: int = WORLD) -> dict[str, Any]:
    """What links between the ranks of a group cost, as this rank knows it.

    The engine learns it from the job's all-reduces and keeps it in the tuning cache. Other ranks
    may know something else.

    Args:
      group: as in `submit`.

    Returns:
      `measured`: whether the costs that decide how long an all-reduce takes are known, rather than
      assumed. An all-reduce takes `alpha_s` seconds and `beta_s_per_byte` seconds per byte. A byte
      and a message take `wire_byte_s` and `wire_latency_s` between hosts, `local_byte_s` and
      `local_latency_s` inside a host.
    """
    try:
      return self.native.link_model(group)
    except TypeError as error:
      raise wrong("link_model", error, group=(group, GROUP)) from None

  def barrier(self, group: int = WORLD) -> None:
    """Waits until every rank has called it.

    Args:
      group: as in `submit`.

    Raises:
      CommError: as in `wait`.
    """
    try:
      handle = self.native.submit(group, BARRIER, "uint8")
    except TypeError as error:
      raise wrong("barrier", error, group=(group, GROUP)) from None
    self.wait(handle)

  def add_group(self, name: str, ranks: Sequence[int]) -> int:
    """Makes a group of some ranks. All of them call it with the same arguments before using it.

    Args:
      name: the group's name, one that no other group of these ranks has.
      ranks: its members; their order gives their numbers within the group.

    Returns:
      The number of the group, for the `group` of other methods.

    Raises:
      InvalidArgumentError: this rank is no member, or a rank does not exist.
    """
    try:
      return self.native.add_group(name, list(ranks))
    except TypeError as error:
      raise wrong("add_group", error, name=(name, TEXT), ranks=(ranks, RANKS)) from None

  def non_finite(self) -> list[dict[str, Any]]:
    """Reports of NaN and infinity in what this rank contributed.

    The first one of the engine is also logged, as soon as its operation is over.

    Returns:
      Up to 1000 reports, oldest first, each with `rank`, `name` (of the gradient), `group`,
      `sequence` (number of the operation), `first_offset` (of an element), `count` (of values) and
      `more`: how many reports after this one, the last, were not kept.
    """
    return self._reports.reports(self.native, self.find_name)

  def statistics(self) -> dict[str, Any]:
    """What the engine has done so far.

    Returns:
      Counts of operations, bytes and resent chunks; per remote rank its streams; per group what
      tuning has found. Times are in seconds (`_s`), sizes in bytes (`_bytes`).
    """
    return self.native.statistics()

  def close(self) -> None:
    """Leaves the job. Operations that are not over fail with CommError, also for threads that wait
    for them. May be called again."""
    if not self._closed:
      for user in list(self._users):
        user.close()
      _watch.closing(self)
    OPEN.discard(self)
    if self._stop():
      self.native.close()
      self._retire("the engine")
      self.options = cast(Options, copied(self.options))
      self._drop(CommError("the engine was closed"))

  def _left_behind(self) -> None:
    super()._left_behind()
    self._reports.renew_locks()
    self.options = cast(Options, copied(self.options))
    OPEN.discard(self)


class Gradients(Completions):
  """Averages gradient buckets over ranks of the engine's job through a codec.

  All ranks make it with the same arguments. What a lossy codec loses is kept and added in the next
  step.

  Args:
    engine: this rank's engine.
    name: a name that no other object of these ranks has.
    ranks: the ranks to average over.
    codec: how gradients cross the wire, any value of `STRETTO_CODEC`.
    options: settings of the codec; None: the engine's.

  Raises:
    InvalidArgumentError: the codec is unknown, or a rank does not exist.
  """

  native: _stretto.CommGradients

  def __init__(self, engine: Engine, name: str, ranks: Sequence[int], codec: str = "none",
               options: Options | None = None) -> None:
    try:
      native = engine.native.gradients(name, list(ranks), codec,
                                       engine.options if options is None else options)
    except (AttributeError, TypeError) as error:
      raise wrong("Gradients", error, engine=(engine, ENGINE), name=(name, TEXT),
                  ranks=(ranks, RANKS), codec=(codec, TEXT),
                  options=(options, OPTIONS)) from None
    super().__init__(native)
    self.engine, self.codec = engine, codec
    engine._users.add(self)

  def submit(self, done: Done, slices: list[tuple[str, int, int, int, int]], dtype: str,
             address: int, step: int, loss_scale: float = 1.0, timeout_s: float = 0.0) -> None:
    """Starts to average a bucket, in place.

    Args:
      done: called as `done(error)` on the completion thread when the averages are there; `error`
        is None or the exception.
      slices: what the bucket holds, in this order: (parameter, first element, count, rows,
        columns). Rows and columns are 0 if the parameter is no matrix.
      dtype: NumPy's name of the element type.
      address: of the bucket in memory; it must stay alive until `done` is called.
      step: number of the training step, from 1.
      loss_scale: factor that the gradients of this step carry.
      timeout_s: the job fails if an operation of the bucket takes longer; 0: as the engine's
        options say.
    """
    require("submit", done=(done, FUNCTION))
    try:
      self._queue(lambda: self.native.submit(slices, dtype, address, step, loss_scale, timeout_s),
                  done)
    except TypeError as error:
      raise wrong("submit", error, slices=(slices, SLICES), dtype=(dtype, DTYPE),
                  address=(address, ADDRESS), step=(step, COUNT),
                  loss_scale=(loss_scale, NUMBER), timeout_s=(timeout_s, SECONDS)) from None

  def close(self) -> None:
    """Frees what it holds. Buckets that are not averaged yet end the job. May be called again."""
    if self._stop():
      self.native.close()
      self._retire("the gradients")
      self._drop(CommError("the gradients were closed"))


# Engines must end before the interpreter, because their threads call Python.
OPEN: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def close_all() -> None:
  for engine in list(OPEN):
    engine.close()
