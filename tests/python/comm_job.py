"""Runs checks as one rank of a job of torch.distributed (ranks.py says how).

With STRETTO_TEST_DEVICE=cuda every tensor that does not name its device lies on the first GPU,
which all ranks share."""

import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from ranks import run_checks


def generator(seed: int) -> torch.Generator:
  """For tensors on the job's device."""
  return torch.Generator(torch.get_default_device()).manual_seed(seed)


def main(checks: dict) -> None:
  folder, rank, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
  torch.set_num_threads(1)
  device = os.environ.get("STRETTO_TEST_DEVICE", "cpu")
  if device != "cpu":
    torch.set_default_device(device)
  dist.init_process_group("stretto", init_method=f"file://{folder}/store", rank=rank,
                          world_size=size, timeout=timedelta(seconds=120))
  run_checks(checks, folder, rank, size, sys.argv[4:])
  dist.destroy_process_group()
