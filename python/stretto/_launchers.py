"""Which rank of how many a launcher says that this process is: one list of variables."""

from __future__ import annotations

from collections.abc import Mapping

from stretto._errors import InvalidArgumentError

# Of rank and size, as `stretto run`, torchrun, mpirun and srun set them. Ranks of mpirun may have,
# besides, what srun set for the daemon that started them, so Slurm is asked last.
VARIABLES = (("STRETTO_RANK", "STRETTO_SIZE"), ("RANK", "WORLD_SIZE"),
             ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
             ("SLURM_PROCID", "SLURM_NTASKS"))


def rank_and_size(environment: Mapping[str, str]) -> tuple[int, int, str] | None:
  """Rank, size and the name of the variable that holds the size; None: no launcher started this.

  Raises:
    InvalidArgumentError: one of the variables holds no number.
  """
  for rank, size in VARIABLES:
    if rank in environment and size in environment:
      if rank == "SLURM_PROCID" and not in_slurm_step(environment):
        continue
      return _number(rank, environment), _number(size, environment), size
  return None


def in_slurm_step(environment: Mapping[str, str]) -> bool:
  """Whether srun started this process. In a batch script Slurm sets rank and size of a job whose
  other tasks do not exist."""
  return (environment.get("SLURM_STEP_NUM_TASKS") == environment.get("SLURM_NTASKS")
          and "SLURM_STEP_NUM_TASKS" in environment)


def _number(name: str, environment: Mapping[str, str]) -> int:
  try:
    return int(environment[name])
  except ValueError:
    raise InvalidArgumentError(f"{name}: expected a number, got {environment[name]!r}") from None
