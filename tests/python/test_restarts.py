"""Jobs that torchrun, or `stretto run` itself, starts again after a rank has failed."""

import re
import sys

import pytest
from conftest import free_port
from followed_job import Job

pytest.importorskip("torch", reason="torchrun comes with torch, which is not installed")

CHECKPOINTED = """
import os, signal, sys, torch, torch.distributed as dist
import stretto.torch
folder = sys.argv[1]
dist.init_process_group("stretto")
rank, file = dist.get_rank(), f"{folder}/checkpoint"
step, total = torch.load(file) if os.path.exists(file) else (0, torch.zeros(1))
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
sys.stdout.write(f"begins at {step} attempt {attempt}\\n")  # in one piece
while step < 10:
  x = torch.ones(1)
  dist.all_reduce(x)
  total, step = total + x, step + 1
  if rank == 0:
    torch.save((step, total), file + ".new")
    os.rename(file + ".new", file)
  dist.barrier()
  if step == 4 and rank == 1 and attempt == "0":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdout.write(f"total {float(total)}\\n")
dist.destroy_process_group()
"""


def test_torchruns_restarts_go_on_from_the_scripts_checkpoint(tmp_path):
  script = tmp_path / "train.py"
  script.write_text(CHECKPOINTED)
  with Job(tmp_path, "--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint",
           f"127.0.0.1:{free_port()}", "--rdzv-conf", "last_call_timeout=1", "-n", 2,
           "--max-restarts", 1, script, tmp_path) as job:
    job.ended()
  assert job.text.count("begins at 0 attempt 0") == 2
  assert job.text.count("begins at 4 attempt 1") == 2
  assert job.text.count("total 20.0") == 2


RESTARTED = """#!{python}
import os, sys, numpy as np
from stretto import _named_job as named_job
named_job.init()
job = named_job.job()
one = np.ones(2)
for step in range(3):
  [one] = job.all_reduce([one], [f"step {{step}}"])
  if job.place.rank == 1 and os.environ.get("STRETTO_EPOCH", "0") == "0":
    os._exit(7)
sys.stdout.write(f"rank {{job.place.rank}} of {{job.place.size}} is through\\n")
"""


@pytest.mark.parametrize("name", ["train.py", "train"])
def test_ranks_without_a_store_of_torchs_are_started_again(tmp_path, name):
  """Through torchrun, and as a program without it. Each attempt has an epoch of its own, because
  the folder where ranks meet still has the addresses of those that are dead."""
  script = tmp_path / name
  script.write_text(RESTARTED.format(python=sys.executable))
  script.chmod(0o755)
  with Job(tmp_path, "-n", 2, "--max-restarts", 1, script) as job:
    job.ended()
  assert sorted(re.findall("rank . of 2 is through", job.text)) == [
      "rank 0 of 2 is through", "rank 1 of 2 is through"]
