"""Runs checks as one rank of a job: all `check_*` functions of a script, one after the other.

  python SCRIPT FOLDER RANK SIZE [CHECKS...]

writes FOLDER/RANK.json: for every check "" or what went wrong. No port of this machine has to be
free: ranks meet in FOLDER.
"""

import json
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist


def main(checks: dict) -> None:
  folder, rank, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
  only = sys.argv[4:]
  torch.set_num_threads(1)
  outcome = {}
  dist.init_process_group("stretto", init_method=f"file://{folder}/store", rank=rank,
                          world_size=size, timeout=timedelta(seconds=120))
  for name, check in sorted(checks.items()):
    if name.startswith("check_") and (not only or name in only):
      try:
        check(rank, size)
        outcome[name] = ""
      except Exception:
        outcome[name] = traceback.format_exc()
      (folder / f"{rank}.json").write_text(json.dumps(outcome))
  dist.destroy_process_group()
