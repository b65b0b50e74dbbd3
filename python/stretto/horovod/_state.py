"""What init() sets up, and where this process stands in the job."""

from __future__ import annotations

import atexit
import os
import sys

import torch.distributed as dist

import stretto.torch  # noqa: F401  registers the backend
from stretto._place import Place
from stretto.horovod._members import Members

JOB: State | None = None


class State:

  def __init__(self):
    self.owns_group = not dist.is_initialized()
    if self.owns_group:
      initialise()
    self.everyone = Members()
    self.place = Place.of(self.everyone.group.engine)
    self.sets: dict[int, Members] = {0: self.everyone}  # by id, the oldest first
    self.next_set = 1


def initialise() -> None:
  """As torchrun, srun or mpirun started this process; alone otherwise."""
  environment = os.environ
  for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
                     ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")):
    if rank not in environment or size not in environment:
      continue
    if "MASTER_ADDR" in environment:
      environment.setdefault("MASTER_PORT", "29500")
      horovods_words(int(environment[rank]))
      dist.init_process_group("stretto", rank=int(environment[rank]),
                              world_size=int(environment[size]))
      return
    if int(environment[size]) > 1:
      raise ValueError(f"init: {size} is {environment[size]}, but MASTER_ADDR, the host of rank 0, "
                       "is not set; stretto run and torchrun set it")
  horovods_words(0)
  dist.init_process_group("stretto", store=dist.HashStore(), rank=0, world_size=1)


def horovods_words(rank: int) -> None:
  """Its variables that have a counterpart here, unless that is set."""
  environment = os.environ
  if rank == 0 and environment.get("HOROVOD_TIMELINE"):
    environment.setdefault("STRETTO_TRACE", environment["HOROVOD_TIMELINE"])
  if environment.get("HOROVOD_STALL_CHECK_TIME_SECONDS"):
    environment.setdefault("STRETTO_STALL_WARNING",
                           environment["HOROVOD_STALL_CHECK_TIME_SECONDS"])


def init(comm=None, process_sets=None) -> None:
  """Joins the job that the launcher describes in the environment. May be called again."""
  global JOB
  if comm is not None:
    raise ValueError("init: no communicators and lists of ranks; use process sets for subsets")
  if JOB is not None:
    return
  JOB = State()
  if process_sets and process_sets != "dynamic":
    from stretto.horovod._process_sets import add_process_set
    for process_set in process_sets:
      add_process_set(process_set)


def shutdown() -> None:
  """Waits for the other ranks to call it too; the end of the process does. What they still have
  open that needs this rank fails there."""
  global JOB
  if JOB is None:
    return
  job, JOB = JOB, None
  try:
    for members in reversed(job.sets.values()):
      members.leave()
  finally:
    if job.owns_group:
      dist.destroy_process_group()


@atexit.register
def at_exit() -> None:
  """A script that has failed does not wait for the others: they are told."""
  if JOB is not None and hasattr(sys, "last_value"):
    for members in reversed(JOB.sets.values()):
      if members.included:
        members.unordered.close()
  else:
    shutdown()


def job() -> State:
  if JOB is None:
    raise ValueError("horovod: call hvd.init() first")
  return JOB


def is_initialized() -> bool:
  return JOB is not None


def rank() -> int:
  return job().place.rank


def size() -> int:
  return job().place.size


def local_rank() -> int:
  return job().place.local_rank


def local_size() -> int:
  return job().place.local_size


def cross_rank() -> int:
  """Among the ranks with the same local rank, one per host."""
  return job().place.cross_rank


def cross_size() -> int:
  return job().place.cross_size


def is_homogeneous() -> bool:
  return job().place.homogeneous
