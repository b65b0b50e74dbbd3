"""One rank of `stretto run`: puts it on its cores, then runs the script, module or program.

  python -m stretto._rank [-m | --no-python] train.py ARGUMENTS
"""

from __future__ import annotations

import os
import runpy
import sys


def from_slurm() -> None:
  """Sets what torch.distributed reads from the variables that Slurm sets."""
  pairs = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}
  if "RANK" not in os.environ:
    for ours, slurms in pairs.items():
      if slurms in os.environ:
        os.environ[ours] = os.environ[slurms]


def for_c_programs() -> None:
  """Sets what stretto_comm_from_environment() reads from the variables that torch reads."""
  for ours, torchs in (("STRETTO_RANK", "RANK"), ("STRETTO_SIZE", "WORLD_SIZE")):
    if ours not in os.environ and torchs in os.environ:
      os.environ[ours] = os.environ[torchs]


def count_restarts() -> None:
  """torchrun starts all ranks again, and the place where they meet still has the addresses of those
  that are dead: another epoch keeps them apart."""
  restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
  if restarts != "0":
    os.environ.setdefault("STRETTO_EPOCH", restarts)


def bind() -> None:
  """Restricts this process to the rank's share of the cores."""
  if os.environ.get("STRETTO_BIND") != "1" or "LOCAL_WORLD_SIZE" not in os.environ:
    return
  cores = sorted(os.sched_getaffinity(0))
  rank, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
  share = len(cores) // ranks
  if share:
    os.sched_setaffinity(0, cores[rank * share:(rank + 1) * share])


def replace_backend() -> None:
  """Makes init_process_group() use stretto if the script asks for gloo, nccl or no backend."""
  if os.environ.get("STRETTO_REPLACE_BACKEND") != "1":
    return
  import stretto.torch
  stretto.torch.replace_backend()


def main() -> None:
  from_slurm()
  for_c_programs()
  count_restarts()
  bind()
  how, sys.argv = ("", sys.argv[1:])
  if sys.argv[0] in ("-m", "--no-python"):
    how, sys.argv = sys.argv[0], sys.argv[1:]
  script = sys.argv[0]
  if how == "--no-python":
    os.execvp(script, sys.argv)
  if not how and not script.endswith(".py") and os.access(script, os.X_OK):
    os.execv(os.path.abspath(script), sys.argv)
  replace_backend()
  if how == "-m":
    sys.path[0] = os.getcwd()
    runpy.run_module(script, run_name="__main__", alter_sys=True)
    return
  sys.path[0] = os.path.dirname(os.path.abspath(script))
  runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
  main()
