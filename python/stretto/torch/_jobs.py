"""The engines of process groups: one per default group, whose connections subgroups share."""

from __future__ import annotations

import _thread
import contextlib
import os
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch.distributed as dist

from stretto import comm
from stretto._checks import expected, is_count
from stretto._comm_arguments import check_codec
from stretto._errors import Error
from stretto.torch import _attempt as attempt

LONGEST_PAUSE_S = 0.1  # between two looks into a store, which many ranks may share


@dataclass(frozen=True)
class GroupOptions:
  """What init_process_group and new_group take as `pg_options`.

  Attributes:
    codec: how gradients of DDP modules cross the wire, any value of `STRETTO_CODEC`; empty: that
      variable's. All codecs but topk, powersgd and mixed also hold for every sum and average of
      1024 fp32 values and more.
    epoch: number of the attempt, where ranks that are left form the job again in one store.

  Raises:
    InvalidArgumentError: there is no such codec, or `epoch` is no number.

  Examples:
    ```python
    options = stretto.torch.GroupOptions(codec="bf16")
    torch.distributed.init_process_group("stretto", pg_options=options)
    ```
  """
  codec: str = ""
  epoch: int = 0

  def __post_init__(self) -> None:
    check_codec("GroupOptions", self.codec)
    if not is_count(self.epoch):
      raise expected("GroupOptions: epoch", "an integer from 0 on", self.epoch)


# Says why it is no use to wait for other ranks any longer; empty: it is.
LOST: Callable[[], str] = str


@contextlib.contextmanager
def giving_up(lost: Callable[[], str]) -> Iterator[None]:
  global LOST
  before, LOST = LOST, lost
  try:
    yield
  finally:
    LOST = before


class TorchStore:
  """A torch.distributed store with the methods that the engine calls."""

  def __init__(self, store):
    self._store = store

  def set(self, key: str, value: bytes) -> None:
    self._store.set(key, value)

  def get(self, key: str, timeout_s: float) -> bytes:
    # Store.wait() does not hear Ctrl-C.
    deadline, pause_s = time.monotonic() + timeout_s, 0.001
    while not self._store.check([key]):
      if time.monotonic() > deadline:
        raise TimeoutError(f"nobody set it within {timeout_s:g} s")
      if lost := LOST():
        raise TimeoutError(lost)
      time.sleep(pause_s)
      pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return self._store.get(key)


class Job:
  """An engine and the ranks of its default group. The engine is closed with its last process
  group: by destroy_process_group(), or when nobody refers to the group any more."""

  def __init__(self, engine: comm.Engine, ranks: tuple[int, ...]):
    self.engine, self.ranks = engine, ranks
    self.groups: weakref.WeakValueDictionary[int, object] = weakref.WeakValueDictionary()
    self.failed = False
    self.error: Error | None = None  # how an operation failed
    self._users: set[int] = set()  # numbers of groups in the engine
    self._leaving: list[int] = []  # of these, groups that are gone but for their operations
    self._made: Counter[tuple[int, ...]] = Counter()  # groups by their ranks

  def add_group(self, name: str, members: list[int]) -> tuple[int, str]:
    """The number of a new group, and its name in the engine. A rank may make a group again before
    another one has destroyed it, so each gets another name there."""
    self.remove_groups()
    self._made[tuple(members)] += 1
    name = f"{name} ({self._made[tuple(members)]})"
    return self.engine.add_group(name, members), name

  def attach(self, group, number: int) -> None:
    self._users.add(number)
    self.groups[number] = group
    weakref.finalize(group, self._forget, number).atexit = False

  def release(self, number: int) -> None:
    """Destroys a group; its engine too if it was the last one."""
    if self._forget_group(number):
      self.engine.close()
    else:
      self.remove_groups()

  def remove_groups(self) -> None:
    for number in list(self._leaving):
      # If an operation is not over, a later call removes the group.
      with contextlib.suppress(Error, ValueError):
        self.engine.native.remove_group(number)
        self._leaving.remove(number)

  def _forget_group(self, number: int) -> bool:
    """True if it was the last one. Takes no lock, because destructors call it."""
    if number not in self._users:
      return False
    self._users.discard(number)
    if number != comm.WORLD:
      self._leaving.append(number)
    if self._users:
      return False
    with contextlib.suppress(ValueError):
      JOBS.remove(self)
    return True

  def _forget(self, number: int) -> None:
    """When nobody refers to a group any more, perhaps in the middle of what holds locks."""
    if self._forget_group(number):
      _thread.start_new_thread(self.engine.close, ())


JOBS: list[Job] = []


def failure() -> Error | None:
  """How an operation of a job of this process failed."""
  return next((job.error for job in JOBS if job.error is not None), None)


def join(options, size: int, epoch: int = 0) -> tuple[Job, int, str, list[int]]:
  """Returns, for a new process group of `size` ranks: its job, the group's number in the engine,
  its name there, and its ranks within the job. `options` are torch's _DistributedBackendOptions."""
  rank, ranks = options.group_rank, tuple(options.global_ranks_in_group)
  name = str(options.group_id)
  if ranks:
    candidates = [job for job in JOBS if set(ranks) <= set(job.ranks) and not job.failed]
    if candidates:
      job = candidates[-1]
      members = [job.ranks.index(r) for r in ranks]
      return job, *job.add_group(name, members), members
  engine_options = comm.Options.from_environment()
  if "STRETTO_OPERATION_TIMEOUT" not in os.environ:
    engine_options.operation_timeout_s = options.timeout.total_seconds()
  store = options.store
  if attempt.needed() and not epoch:
    store = dist.PrefixStore(
        attempt.agree(store, rank, size, engine_options.connect_timeout_s), store)
  engine = comm.Engine(TorchStore(store), rank, size, engine_options, epoch)
  job = Job(engine, ranks or tuple(range(size)))
  JOBS.append(job)
  return job, comm.WORLD, "world", list(range(size))
