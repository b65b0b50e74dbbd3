"""Runs checks as one rank of a job of torch.distributed (ranks.py says how)."""

import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from ranks import run_checks


def main(checks: dict) -> None:
  folder, rank, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
  torch.set_num_threads(1)
  dist.init_process_group("stretto", init_method=f"file://{folder}/store", rank=rank,
                          world_size=size, timeout=timedelta(seconds=120))
  run_checks(checks, folder, rank, size, sys.argv[4:])
  dist.destroy_process_group()
