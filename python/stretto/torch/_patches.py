"""What `import stretto.torch` changes in torch, where torch asks for one of its own backends or
loses the class of an error. Other process groups are not affected."""

from __future__ import annotations

import copy
import functools
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import device_mesh, distributed_c10d

from stretto._errors import Error
from stretto.torch import _jobs as jobs
from stretto.torch._process_group import ProcessGroup


def group_of(group) -> ProcessGroup | None:
  """The process group, None: the default one, if it is Stretto's."""
  if group is None and dist.is_initialized():
    group = dist.group.WORLD
  return group if isinstance(group, ProcessGroup) else None


def replace(module, name: str, make) -> None:
  original = getattr(module, name)
  changed = functools.wraps(original)(make(original))
  for place in (module, dist, device_mesh):  # a mesh makes the default group if there is none
    if getattr(place, name, None) is original:
      setattr(place, name, changed)


def monitored_barrier(original):

  def changed(group=None, timeout=None, wait_all_ranks=False):
    ours = group_of(group)
    if ours is None:
      return original(group, timeout, wait_all_ranks)
    if isinstance(timeout, float):
      timeout = timedelta(seconds=timeout)
    return ours.monitored_barrier(timeout, wait_all_ranks)

  return changed


def set_pg_timeout(original):

  def changed(timeout, group=None):
    ours = group_of(group)
    return original(timeout, group) if ours is None else ours.set_timeout(timeout)

  return changed


def keeping_class(original):
  """The class of an error is lost in a future that C++ waits for, as DDP's reducer does, and in
  what its then() returns."""

  def changed(*args, **words):
    try:
      return original(*args, **words)
    except Error:
      raise
    except RuntimeError as error:
      failure = jobs.failure()
      if failure is None:
        raise
      raise copy.copy(failure) from error

  return changed


def destroy_process_group(original):
  """Before 2.6 torch does not tell a group of Python that it is destroyed."""

  def changed(group=None):
    everything = group is None or group is dist.group.WORLD
    groups = list(distributed_c10d._world.pg_map) if everything else [group]
    original(group)
    for each in groups:
      if isinstance(each, ProcessGroup):
        each.shutdown()

  return changed


def replace_backend() -> None:
  """Makes scripts and libraries that ask for gloo or nccl, or for no backend, use Stretto.

  Call it before `init_process_group`, or before the library that calls that, for example
  Accelerate or the Trainer of Transformers, which refuse a backend that they do not know.
  `stretto run --replace-backend` calls it. Groups that `new_group` makes for an explicit backend
  are not affected.

  Examples:
    ```python
    import stretto.torch
    stretto.torch.replace_backend()
    ```
  """
  if not getattr(dist.init_process_group, "replaces_backend", False):
    replace(distributed_c10d, "init_process_group", stretto_instead)
    distributed_c10d.init_process_group.replaces_backend = True
    dist.init_process_group.replaces_backend = True


def is_replaced(backend: str | None) -> bool:
  """None, gloo, nccl, or these by device, in any order: "cuda:nccl,cpu:gloo"."""
  names = {part.rpartition(":")[2] for part in (backend or "undefined").lower().split(",")}
  return names <= {"gloo", "nccl", "undefined"}


def stretto_instead(original):

  def changed(backend=None, *args, **words):
    if is_replaced(backend):
      backend = "stretto"
    return original(backend, *args, **words)

  return changed


def apply() -> None:
  replace(distributed_c10d, "monitored_barrier", monitored_barrier)
  replace(distributed_c10d, "_set_pg_timeout", set_pg_timeout)
  replace(distributed_c10d, "destroy_process_group", destroy_process_group)
  replace(torch.autograd, "backward", keeping_class)
  replace(torch.autograd, "grad", keeping_class)
