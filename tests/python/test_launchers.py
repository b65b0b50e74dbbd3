"""Rank and size as launchers set them, some of which start others."""

import pytest
from stretto._launchers import rank_and_size
from stretto._named_job import place_in

import stretto

BATCH = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
STEP = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4"}
# mpirun starts a daemon per node by srun, and the daemon the ranks.
MPIRUN = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "SLURM_PROCID": "1",
          "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"}


@pytest.mark.parametrize("environment, expected", [
  ({}, None),
  (BATCH, None),
  (STEP, (3, 4, "SLURM_NTASKS")),
  (MPIRUN, (5, 8, "OMPI_COMM_WORLD_SIZE")),
  (STEP | {"RANK": "1", "WORLD_SIZE": "2"}, (1, 2, "WORLD_SIZE")),
  ({"RANK": "1"}, None)])
def test_the_launcher_that_started_this_process_counts(environment, expected):
  assert rank_and_size(environment) == expected


def test_a_variable_that_is_no_number_is_named():
  with pytest.raises(stretto.InvalidArgumentError, match="WORLD_SIZE: expected a number, got 'x'"):
    rank_and_size({"RANK": "0", "WORLD_SIZE": "x"})


def test_ranks_of_mpirun_inside_slurm_meet_as_mpirun_counts_them():
  assert place_in(MPIRUN | {"STRETTO_ADDRESS": "h:1"}) == (5, 8, "h:1")
  assert place_in(BATCH) is None
  with pytest.raises(stretto.InvalidArgumentError, match="STRETTO_ADDRESS is not set"):
    place_in(STEP)
