"""Ranks that end without shutdown() or destroy_process_group()."""

import subprocess
import sys

import pytest
import ranks

pytest.importorskip("torch", reason="the backend is for torch, which is not installed")

# Rank 1 leaves after the last operation that needs it; the others go on for a moment, and end with
# a call that fails if they believe that it is lost.
SCRIPT = """
import multiprocessing, os, signal, sys, time

def job(folder, rank, api, how):
  import torch
  import torch.distributed as dist
  import stretto.torch
  store = dist.FileStore(folder + "/meet", 3)
  dist.init_process_group(api.replace("horovod", "stretto"), store=store, rank=rank, world_size=3)
  if api == "horovod":
    import stretto.horovod as hvd
    hvd.init()
    hvd.allreduce(torch.ones(1000), name="x")
    hvd.barrier()
  pair = dist.new_group([0, 2])
  dist.all_reduce(torch.ones(1000))
  dist.barrier()
  if rank == 1:
    if how == "exits": sys.exit(0)
    if how == "raises": raise RuntimeError("boom")
    if how == "vanishes": os._exit(0)
    if how == "is killed": os.kill(os.getpid(), signal.SIGKILL)
    if how == "destroys": dist.destroy_process_group()
    return
  time.sleep(0.5)
  if how in ("raises", "vanishes", "is killed"):
    dist.all_reduce(torch.ones(1000))
  else:
    dist.all_reduce(torch.ones(1000), group=pair)
  if how == "destroys": dist.destroy_process_group()
  elif api == "horovod": hvd.shutdown()

if __name__ == "__main__":
  folder, rank, api, how, process = sys.argv[1:]
  if process == "itself":
    job(folder, int(rank), api, how)
  else:
    child = multiprocessing.get_context(process).Process(
        target=job, args=(folder, int(rank), api, how))
    child.start()
    child.join()
    sys.exit(child.exitcode != 0)
"""


def run(folder, api, how, process):
  script = folder / "script.py"
  script.write_text(SCRIPT)
  job = [subprocess.Popen([sys.executable, str(script), str(folder), str(rank), api, how, process],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
         for rank in range(3)]
  return [(rank.communicate(timeout=ranks.TIMEOUT_S)[0], rank.returncode) for rank in job]


@pytest.mark.parametrize("process", ["itself", "fork"])
@pytest.mark.parametrize("how", ["returns", "exits", "destroys"])
@pytest.mark.parametrize("api", ["horovod", "stretto"])
def test_a_rank_that_is_done_is_not_lost(tmp_path, api, how, process):
  for rank, (output, code) in enumerate(run(tmp_path, api, how, process)):
    assert code == 0, f"rank {rank}:\n{output}"
    assert "Error" not in output, f"rank {rank}:\n{output}"


@pytest.mark.parametrize("process", ["itself", "fork"])
@pytest.mark.parametrize("how", ["raises", "vanishes", "is killed"])
@pytest.mark.parametrize("api", ["horovod", "stretto"])
def test_a_rank_that_fails_is_lost(tmp_path, api, how, process):
  results = run(tmp_path, api, how, process)
  for rank in (0, 2):
    output, code = results[rank]
    assert code == 1, f"rank {rank}:\n{output}"
    assert "CommError: rank 1 " in output, f"rank {rank}:\n{output}"


def test_init_begins_anew_after_the_script_has_destroyed_all_groups():
  script = """
import torch
import torch.distributed as dist
import stretto.horovod as hvd
for _ in range(3):
  hvd.init()
  assert hvd.is_initialized()
  assert hvd.allreduce(torch.full((8,), 3.0), name="x").sum() == 24
  dist.destroy_process_group()
  assert not hvd.is_initialized()
"""
  done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                        timeout=ranks.TIMEOUT_S)
  assert (done.returncode, done.stderr) == (0, "")
