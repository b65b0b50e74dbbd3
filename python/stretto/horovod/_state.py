"""init(), shutdown(), and the place of this process in the job."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterable

import torch.distributed as dist

import stretto.torch  # noqa: F401  registers the backend
from stretto import _process_end
from stretto._checks import expected
from stretto._errors import Error, InvalidArgumentError
from stretto._launchers import rank_and_size
from stretto._place import Place
from stretto.horovod import _epochs
from stretto.horovod._members import Members
from stretto.torch import _jobs as jobs

JOB: State | None = None


class State:

  def __init__(self):
    self.owns_group = not dist.is_initialized()
    self._hook = sys.excepthook
    if self.owns_group:
      initialise()
    self.everyone = Members()
    self.place = Place.of(self.everyone.group.engine)
    self.sets: dict[int, Members] = {0: self.everyone}  # by id, the oldest first
    self.next_set = 1

  def restore_hook(self) -> None:
    """torch wraps the hook in every init_process_group(), to put the rank before lines of errors;
    after ten epochs it would stand there ten times."""
    if getattr(sys.excepthook, "__name__", "") == "_distributed_excepthook":
      sys.excepthook = self._hook


def initialise() -> None:
  """Rank and size as torchrun, srun or mpirun set them; otherwise a job of one rank."""
  environment = os.environ
  if (epochs := _epochs.epochs()) is not None:
    epochs.join()
    horovods_words()
    with jobs.giving_up(epochs.lost):
      dist.init_process_group("stretto", store=_epochs.torch_store(), rank=epochs.rank,
                              world_size=len(epochs.members),
                              pg_options=jobs.GroupOptions(epoch=epochs.number))
    return
  found = rank_and_size(environment)
  if found is not None:
    rank, size, name = found
    if "MASTER_ADDR" in environment:
      environment.setdefault("MASTER_PORT", "29500")
      horovods_words()
      dist.init_process_group("stretto", rank=rank, world_size=size)
      return
    if size > 1:
      raise InvalidArgumentError(
          f"init: {name} is {size}, but MASTER_ADDR, the host of rank 0, is not set; "
          "stretto run and torchrun set it")
  horovods_words()
  dist.init_process_group("stretto", store=dist.HashStore(), rank=0, world_size=1)


def horovods_words() -> None:
  """Takes over Horovod's variables that have a counterpart here, unless that is set."""
  environment = os.environ
  if environment.get("HOROVOD_STALL_CHECK_TIME_SECONDS"):
    environment.setdefault("STRETTO_STALL_WARNING",
                           environment["HOROVOD_STALL_CHECK_TIME_SECONDS"])


def init(comm=None, process_sets=None) -> None:
  """Joins the job that the launcher describes in the environment. May be called again.

  Args:
    comm: Horovod's; must be None.
    process_sets: process sets to make at once, as by `add_process_set`.

  Raises:
    InvalidArgumentError: `comm` is given, or the environment does not say where ranks meet.
    CommError: the other ranks did not come in time.
  """
  global JOB
  if comm is not None:
    raise InvalidArgumentError(
        "init: no communicators and lists of ranks; use process sets for subsets")
  if process_sets and process_sets != "dynamic" and (
      isinstance(process_sets, str) or not isinstance(process_sets, Iterable)):
    raise expected("init: process_sets", "a list of process sets", process_sets)
  if is_initialized():
    return
  shutdown()  # what is left of a job whose groups the script has destroyed
  _process_end.at_end_of_child(at_exit, _process_end.EARLY)
  JOB = State()
  _timeline().begin()
  if process_sets and process_sets != "dynamic":
    from stretto.horovod._process_sets import add_process_set
    for process_set in process_sets:
      add_process_set(process_set)


def _timeline():
  from stretto.horovod import _timeline  # it needs job()
  return _timeline


def shutdown() -> None:
  """Leaves the job. Waits for the other ranks to call it too; the end of the process calls it.

  Operations that other ranks have started and that need this rank fail there.
  """
  global JOB
  if JOB is None:
    return
  job, JOB = JOB, None
  try:
    for members in reversed(job.sets.values()):
      members.leave()
  finally:
    if job.owns_group and dist.is_initialized():  # the script may have destroyed all groups
      dist.destroy_process_group()
      job.restore_hook()


def abandon() -> None:
  """Leaves a job that has failed, without waiting for the other ranks."""
  global JOB
  job, JOB = JOB, None
  for members in reversed(job.sets.values()) if job else []:
    if members.included:
      members.unordered.close()
      for gradients in members.gradients:
        gradients.close()
      members.prepare = None
  if job:
    job.restore_hook()
  if dist.is_initialized():
    with contextlib.suppress(Error):  # it has failed already
      dist.destroy_process_group()


@atexit.register
def at_exit() -> None:
  """A script that failed does not wait for the other ranks; they raise an error."""
  if JOB is not None and JOB.everyone.group.engine.forked:
    return  # the rank itself goes on
  if JOB is not None and _process_end.failed():
    for members in reversed(JOB.sets.values()):
      if members.included:
        members.unordered.close()
  else:
    shutdown()


def job() -> State:
  if JOB is None:
    raise InvalidArgumentError("horovod: call hvd.init() first")
  return JOB


def is_initialized() -> bool:
  """Whether `init` was called.

  Returns:
    True between `init` and `shutdown` or `torch.distributed.destroy_process_group`.
  """
  return JOB is not None and JOB.everyone.prepare is not None


def rank() -> int:
  """The number of this rank.

  Returns:
    A number from 0, unique in the job.
  """
  return job().place.rank


def size() -> int:
  """The number of ranks.

  Returns:
    A number from 1.
  """
  return job().place.size


def local_rank() -> int:
  """The number of this rank among those on the same host.

  Returns:
    A number from 0.
  """
  return job().place.local_rank


def local_size() -> int:
  """The number of ranks on this host.

  Returns:
    A number from 1.
  """
  return job().place.local_size


def cross_rank() -> int:
  """The number of this rank among those with the same local rank, one per host.

  Returns:
    A number from 0.
  """
  return job().place.cross_rank


def cross_size() -> int:
  """The number of ranks with this local rank, one per host.

  Returns:
    A number from 1.
  """
  return job().place.cross_size


def is_homogeneous() -> bool:
  """Whether every host has the same number of ranks.

  Returns:
    True if it has.
  """
  return job().place.homogeneous
