"""Which of how many ranks this process is, and what share of the machine it has."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from stretto import _stretto
from stretto._errors import InvalidArgumentError
from stretto._launchers import in_slurm_step, rank_and_size


def place_of(rank: int | None, world: int | None,
             environment: Mapping[str, str]) -> tuple[int, int]:
  """Rank and number of ranks: those given, else torch.distributed's, else the launcher's."""
  if (rank is None) != (world is None):
    raise InvalidArgumentError("ImageLoader: rank and world are given together, or neither")
  if rank is not None and world is not None:
    return rank, world
  distributed = _torch_distributed()
  if distributed is not None:
    return distributed.get_rank(), distributed.get_world_size()
  found = rank_and_size(environment)
  return found[:2] if found is not None else (0, 1)


def _torch_distributed() -> Any:
  """torch.distributed if the script has set it up; torch is not imported for it."""
  distributed = getattr(sys.modules.get("torch"), "distributed", None)
  if distributed is not None and distributed.is_available() and distributed.is_initialized():
    return distributed
  return None


def local_ranks(environment: Mapping[str, str]) -> int:
  """How many ranks share this machine, as torchrun, mpirun or srun say."""
  for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"):
    text = environment.get(name, "")
    if text.isdigit():
      return max(1, int(text))
  return _slurm_tasks_here(environment) if in_slurm_step(environment) else 1


def _slurm_tasks_here(environment: Mapping[str, str]) -> int:
  """Of SLURM_STEP_TASKS_PER_NODE, "8(x2),4" for 8, 8 and 4, the number of this node."""
  text = environment.get("SLURM_STEP_TASKS_PER_NODE", "")
  tasks: list[int] = []
  for many, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
    tasks += [int(many)] * min(int(times or 1), 1 << 16)
  node = environment.get("SLURM_NODEID", "0")
  at = int(node) if node.isdigit() else 0
  return max(1, tasks[at]) if at < len(tasks) else 1


def default_threads(environment: Mapping[str, str]) -> int:
  """This rank's share of the cores less one, which trains; 0: the engine's own default, where no
  other rank is on this machine or each is bound to its cores, as srun and mpirun bind them."""
  ranks = local_ranks(environment)
  if ranks == 1 or environment.get("STRETTO_BIND") == "1":
    return 0
  if "LOCAL_WORLD_SIZE" not in environment and _is_bound():
    return 0
  return max(1, _stretto.core_count() // ranks - 1)


def _is_bound() -> bool:
  """Whether this process may use a part of the machine's processors only."""
  return (hasattr(os, "sched_getaffinity")
          and len(os.sched_getaffinity(0)) < (os.cpu_count() or 1))


def default_cache_bytes(environment: Mapping[str, str]) -> int:
  """A quarter of the memory of the machine or the container, shared by the ranks on it."""
  return int(_stretto.memory_bytes()) // 4 // local_ranks(environment)
