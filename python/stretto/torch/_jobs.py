"""The engines of process groups: one per default group, whose connections subgroups share."""

from __future__ import annotations

import os
import threading
import time
import weakref
from dataclasses import dataclass

from stretto import comm

LONGEST_PAUSE_S = 0.1  # between two looks into a store, which many ranks may share


@dataclass(frozen=True)
class GroupOptions:
  """What init_process_group and new_group take as `pg_options`.

  Attributes:
    codec: how gradients of DDP modules cross the wire, any value of `STRETTO_CODEC`; empty: that
      variable's. All codecs but topk, powersgd and mixed also hold for every sum and average of
      1024 fp32 values and more.

  Examples:
    ```python
    options = stretto.torch.GroupOptions(codec="bf16")
    torch.distributed.init_process_group("stretto", pg_options=options)
    ```
  """
  codec: str = ""


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
      time.sleep(pause_s)
      pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return self._store.get(key)


class Job:
  """An engine and the ranks of its default group. The engine is closed with its last process
  group."""

  def __init__(self, engine: comm.Engine, ranks: tuple[int, ...]):
    self.engine, self.ranks = engine, ranks
    self._users = 0
    self.failed = False

  def attach(self, group: object) -> None:
    with LOCK:
      self._users += 1
    weakref.finalize(group, self.release).atexit = False

  def release(self) -> None:
    with LOCK:
      self._users -= 1
      last = self._users == 0
      if last and self in JOBS:
        JOBS.remove(self)
    if last:
      self.engine.close()


LOCK = threading.RLock()
JOBS: list[Job] = []


def join(options, size: int) -> tuple[Job, int, str, list[int]]:
  """Returns, for a new process group of `size` ranks: its job, the group's number in the engine, a
  name, and the group's ranks within the job. `options` are torch's _DistributedBackendOptions."""
  rank, ranks = options.group_rank, tuple(options.global_ranks_in_group)
  name = str(options.group_id)
  if ranks:
    with LOCK:
      candidates = [job for job in JOBS if set(ranks) <= set(job.ranks) and not job.failed]
    if candidates:
      job = candidates[-1]
      members = [job.ranks.index(r) for r in ranks]
      return job, job.engine.add_group(name, members), name, members
  engine_options = comm.Options.from_environment()
  if "STRETTO_OPERATION_TIMEOUT" not in os.environ:
    engine_options.operation_timeout_s = options.timeout.total_seconds()
  engine = comm.Engine(TorchStore(options.store), rank, size, engine_options)
  job = Job(engine, ranks or tuple(range(size)))
  with LOCK:
    JOBS.append(job)
  return job, comm.WORLD, name, list(range(size))
