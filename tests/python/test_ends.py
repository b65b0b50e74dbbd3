"""Ranks that end without shutdown() or destroy_process_group()."""

import functools
import json
import subprocess
import sys

import pytest
import ranks

pytest.importorskip("torch", reason="the backend is for torch, which is not installed")

# Rank 1 leaves after the last operation that needs it; the others go on for a moment, and end with
# a call that fails if they believe that it is lost. The ranks of all jobs are forks of one process
# that has imported torch, which takes longer than a job; a fork ends as a script of its own does.
SCRIPT = """
import json, multiprocessing, os, signal, sys, time
import torch
import torch.distributed as dist

def job(folder, rank, api, how):
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

def fork_ranks(folder, hows):
  # (folder, rank, how) in a rank; None in their parent, once all have ended.
  for how in hows:
    place = os.path.join(folder, how)
    os.mkdir(place)
    children = []
    for rank in range(3):
      child = os.fork()
      if child == 0:
        log = os.open(f"{place}/{rank}.log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        return place, rank, how
      children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    with open(f"{place}/codes.json", "w") as file:
      json.dump(codes, file)

if __name__ == "__main__":
  folder, api, process, *hows = sys.argv[1:]
  if found := fork_ranks(folder, hows):
    place, rank, how = found
    if process == "itself":
      job(place, rank, api, how)
    else:
      child = multiprocessing.get_context(process).Process(
          target=job, args=(place, rank, api, how))
      child.start()
      child.join()
      sys.exit(child.exitcode != 0)
"""
QUIET = "returns", "exits", "destroys"
FAILING = "raises", "vanishes", "is killed"


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
  """What ranks 0 to 2 printed, and their exit codes, by function, process and end."""
  @functools.cache
  def run(api, process):
    folder = tmp_path_factory.mktemp("job")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    subprocess.run([sys.executable, str(script), str(folder), api, process, *QUIET, *FAILING],
                   check=True, timeout=ranks.TIMEOUT_S)
    return {how: [((folder / how / f"{rank}.log").read_text(), code) for rank, code in
                  enumerate(json.loads((folder / how / "codes.json").read_text()))]
            for how in QUIET + FAILING}
  return run


@pytest.mark.parametrize("process", ["itself", "fork"])
@pytest.mark.parametrize("how", QUIET)
@pytest.mark.parametrize("api", ["horovod", "stretto"])
def test_a_rank_that_is_done_is_not_lost(ended, api, how, process):
  for rank, (output, code) in enumerate(ended(api, process)[how]):
    assert code == 0, f"rank {rank}:\n{output}"
    assert "Error" not in output, f"rank {rank}:\n{output}"


@pytest.mark.parametrize("process", ["itself", "fork"])
@pytest.mark.parametrize("how", FAILING)
@pytest.mark.parametrize("api", ["horovod", "stretto"])
def test_a_rank_that_fails_is_lost(ended, api, how, process):
  results = ended(api, process)[how]
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
