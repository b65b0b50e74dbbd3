"""Engines behind process groups: one per default group; its subgroups share the connections."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass
from datetime import timedelta

from stretto import comm


@dataclass(frozen=True)
class GroupOptions:
  """`pg_options` of init_process_group and new_group."""
  # How gradients of DDP modules cross the wire, and, but for topk, powersgd and mixed, every sum
  # and average of 1024 fp32 values and more; empty: STRETTO_CODEC.
  codec: str = ""


class TorchStore:
  """A torch.distributed store as the engine wants it."""

  def __init__(self, store):
    self._store = store

  def set(self, key: str, value: bytes) -> None:
    self._store.set(key, value)

  def get(self, key: str, timeout_s: float) -> bytes:
    self._store.wait([key], timedelta(seconds=max(timeout_s, 0.001)))
    return self._store.get(key)


class Job:
  """An engine and the ranks of the default group that it connects. It is closed with the last
  process group over it."""

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
  """The job for a new process group of `size` ranks, the group's number in its engine, a name, and
  the group's ranks within the job. `options` are torch's _DistributedBackendOptions."""
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
