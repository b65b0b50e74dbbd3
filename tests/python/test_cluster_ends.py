"""How jobs of `stretto cluster` end, with real daemons of Slurm on this machine."""

import json

import pytest
from cluster_slurm import PATIENCE_S, Cluster, short_folder, wait_until

from stretto.cluster import _programs

if _programs.missing():
  pytest.skip("Slurm's daemons are not installed", allow_module_level=True)

SLEEPER = """
import os, signal, sys, time
def end(number, frame):
  print("saved", flush=True)
  sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("start", os.environ["RANK"], flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
  with short_folder() as state:
    c = Cluster(state, tmp_path_factory.mktemp("work"))
    c.run("up", "--local-slurm")
    yield c
    c.run("down")
    assert c.processes() == []


@pytest.mark.parametrize("end, code", [
  ("sys.exit(7)", 7), ("sys.exit(127)", 127), ("os.kill(os.getpid(), 11)", 139)])
def test_the_code_is_that_of_the_rank_that_failed_first(cluster, end, code):
  """The others still run; srun ends them by a signal, and would exit with that."""
  cluster.script("fail.py", "import os, sys, time\n"
                 f"if os.environ['RANK'] == '1': {end}\n"
                 "time.sleep(600)\n")
  cluster.run("run", "-n", 3, "--nodes", 1, "fail.py", code=code)


def test_variables_of_the_ranks_are_not_those_of_the_script(cluster):
  cluster.script("env.py", "import os, sys\n"
                 "print(*(os.environ[n] for n in ('folder', 'code', 'lost', 'PATH')))\n"
                 "sys.exit(5)")
  done = cluster.run("run", *(w for n in ("folder=data", "code=0", "lost=9", "PATH=/none")
                              for w in ("--env", n)), "env.py", code=5)
  assert "[0] data 0 9 /none\n" in done.stdout
  assert "belong to the batch script" in cluster.run("run", "--env", "_stretto_code=0", "env.py",
                                                     code=2).stderr


def test_a_job_that_saves_its_state_at_the_time_limit_has_code_124(cluster):
  """Slurm sends the signal when it looks at limits, every half a minute; here it is sent now."""
  cluster.script("sleep.py", SLEEPER)
  child = cluster.start("run", "--time", "10m", "sleep.py")
  assert child.stdout.readline() == "[0] start 0\n"
  job = json.loads((cluster.folder() / "job.json").read_text())["id"]
  cluster.slurm("scontrol", "update", f"JobId={job}", "TimeLimit=1")
  cluster.slurm("scancel", "--batch", "--signal=TERM", job)
  out, err = child.communicate(timeout=PATIENCE_S)
  assert child.returncode == 124, out + err
  assert "saved" in out and "the time limit is near" in out


def test_run_that_is_killed_while_its_job_waits_is_found_by_stop_and_down(tmp_path):
  with short_folder() as state:
    own = Cluster(state, tmp_path)
    own.script("sleep.py", SLEEPER)
    own.run("up", "--local-slurm")
    nodes = own.slurm("sinfo", "-h", "-N", "-o", "%N").split()
    for node in nodes:  # what is submitted now waits
      own.slurm("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    for name in ("first", "second"):
      own.run("run", "--detach", "--name", name, "sleep.py")
      about = own.folder() / "job.json"  # as if `run` had been killed before it wrote the number
      about.write_text(json.dumps({**json.loads(about.read_text()), "id": ""}))
    assert "(first) is asked to end" in own.run("stop", "first").stderr
    wait_until(lambda: "first" not in own.slurm("squeue", "-h", "-o", "%j"))
    # Killed before sbatch: a folder and nothing else.
    (own.state / "jobs/20260101-000000-0-x").mkdir()
    (own.state / "jobs/20260101-000000-0-x/job.json").write_text(json.dumps(
      {"id": "", "name": "x", "backend": "slurm", "cluster": str(own.conf)}))
    own.run("down")
    assert list((own.state / "jobs").iterdir()) == [] and own.processes() == []
