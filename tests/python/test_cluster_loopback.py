"""The Slurm cluster that `stretto cluster up` starts on this machine, and what `down` leaves."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pytest
from cluster_slurm import PATIENCE_S, Cluster, not_started, started, wait_until

from stretto.cluster import _loopback, _programs

if _programs.missing():
  pytest.skip("Slurm's daemons are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
  yield from started(tmp_path_factory.mktemp("work"))


@pytest.fixture
def own(tmp_path):
  yield from not_started(tmp_path)


def test_a_folder_whose_path_is_too_long_is_refused(tmp_path):
  c = Cluster(tmp_path / ("x" * 80), tmp_path)
  assert "set STRETTO_STATE_DIR to a shorter one" in c.run("up", "--local-slurm", code=3).stderr
  assert not (c.state / "clusters/local").exists()


def test_a_newcomer_needs_two_commands_and_nothing_is_left(own):
  own.script("train.py", "import os; print('hello from', os.environ['RANK'])")
  assert "cluster local is up: 2 nodes" in own.run("up", "--local-slurm").stderr
  assert own.run("run", "train.py").stdout == "[0] hello from 0\n"
  port = json.loads((own.conf.parent.parent / "cluster.json").read_text())["port"]
  with socket.create_connection(("127.0.0.1", port)):
    pass
  assert "was up already" in own.run("up", "--local-slurm").stderr
  assert "folders of 1 jobs are removed" in own.run("down").stderr
  assert own.processes() == []
  assert [p for p in own.state.rglob("*") if p.is_file()] == []
  with pytest.raises(ConnectionRefusedError):
    socket.create_connection(("127.0.0.1", port))
  assert "there is no cluster local" in own.run("down").stderr


def test_daemons_listen_on_this_machine_only(cluster):
  own = {pid for pid, _ in cluster.processes()}
  inodes = set()
  for pid in own:
    for link in Path(f"/proc/{pid}/fd").iterdir():
      try:
        inodes.add(os.readlink(link))
      except OSError:
        continue
  listening = [line.split() for name in ("tcp", "tcp6")
               for line in Path("/proc/net", name).read_text().splitlines()[1:]]
  places = {f[1].split(":")[0] for f in listening
            if f[3] == "0A" and f"socket:[{f[9]}]" in inodes}
  assert places == {"0100007F"}


def test_down_ends_running_jobs_and_their_ranks(own):
  own.script("sleep.py", "import time; time.sleep(600)")
  own.run("up", "--local-slurm")
  own.run("run", "--detach", "-n", 3, "sleep.py")
  wait_until(lambda: sum(b"_task.py" in line for _, line in own.processes()) >= 3)
  own.run("down")
  assert own.processes() == []


@pytest.mark.parametrize("victims", ["slurmctld", "slurmd", "slurmstepd", "all"])
def test_after_kill_9_of_daemons_up_repairs_and_down_cleans(own, victims):
  own.script("sleep.py", "import time; time.sleep(600)")
  own.run("up", "--local-slurm")
  own.run("run", "--detach", "sleep.py")
  wait_until(lambda: any(b"_task.py" in line for _, line in own.processes()))
  for pid, line in own.processes():
    if victims.encode() in line.split(b"\0")[0] or victims == "all":
      with contextlib.suppress(ProcessLookupError):  # it has ended with another one
        os.kill(pid, signal.SIGKILL)
  if victims in ("slurmctld", "slurmd"):
    own.run("up", "--local-slurm")
    own.script("quick.py", "print('ok')")
    assert own.run("run", "quick.py").stdout == "[0] ok\n"
  own.run("down")
  assert own.processes() == []


def test_after_kill_9_of_up_down_cleans(own):
  place = own.state / "clusters/local"
  for sign in ("etc", "cluster.json", "run/slurmctld.pid", "run/slurmd.n1.pid"):
    child = own.start("up", "--local-slurm")
    while child.poll() is None and not (place / sign).exists():
      pass
    child.kill()
    child.wait()
    assert (place / sign).exists()  # it was killed in the middle
    own.run("down")
    assert own.processes() == []
    assert not (own.state / "clusters/local").exists()


def test_a_job_starts_as_soon_as_it_is_submitted(own):
  """And not when slurmctld's loop wakes next, which takes half a second on average: the end of a
  job that is there for it makes slurmctld look. How long the command takes to end that job does not
  count: on a busy machine that may be long."""
  own.script("quick.py", "print('ok')")
  own.run("up", "--local-slurm")
  waits = []
  for number in range(6):
    own.run("run", "-n", 2, "quick.py")
    time.sleep(0.15 * number)
    log = (own.state / "clusters/local/log/slurmctld.log").read_text()

    def when(what, job, log=log):
      [time_of] = re.findall(rf"\[(\S+)\] {what} JobId={job}\b", log)
      return datetime.fromisoformat(time_of)

    job = re.findall(r"_submit_batch_job: JobId=(\d+)", log)[-1]
    waker = re.findall(r"_slurm_rpc_allocate_resources JobId=(\d+)", log)[-1]
    submitted = when("_slurm_rpc_submit_batch_job:", job)
    woken = when("_job_complete:", f"{waker} done")
    assert woken >= submitted, log[-2000:]
    waits.append(when("sched.*(?:Allocate|Started)", job) - woken)
  # By chance a wait is below 0.25 s once in four; of six, four are once in 27.
  assert sum(wait.total_seconds() < 0.25 for wait in waits) >= 4, waits
  rows = json.loads(own.run("ls", "--all", "--json").stdout)["jobs"]
  assert rows == []  # what has woken slurmctld is gone


def test_a_full_cluster_keeps_no_job_from_being_submitted(own):
  own.script("sleep.py", "import time; time.sleep(600)")
  own.run("up", "--local-slurm")
  cores = max(4, len(os.sched_getaffinity(0)))
  own.run("run", "--detach", "-n", 2 * cores, "--nodes", 2, "sleep.py")
  wait_until(lambda: "running" in own.run("ls").stdout)
  own.run("run", "--detach", "--name", "second", "sleep.py")
  rows = json.loads(own.run("ls", "--all", "--json").stdout)["jobs"]
  assert sorted((row["name"], row["state"]) for row in rows) == [
    ("second", "pending"), ("sleep", "running")]


def test_kill_9_of_run_before_the_job_is_submitted_holds_no_nodes(own, tmp_path):
  own.script("quick.py", "print('ok')")
  own.run("up", "--local-slurm")
  (tmp_path / "bin").mkdir()
  late = tmp_path / "bin/sbatch"
  late.write_text("#!/bin/sh\nexec sleep 600\n")
  late.chmod(0o755)
  own.environment["PATH"] = f"{late.parent}:{own.environment['PATH']}"
  child = own.start("run", "quick.py")
  wait_until(lambda: "wake" in own.slurm("squeue", "-h", "-t", "running", "-o", "%j"))
  child.kill()
  child.wait()
  wait_until(lambda: own.slurm("squeue", "-h", "-o", "%j") == "")
  for pid, line in own.processes():
    if line.startswith(b"sleep"):  # the late sbatch, which is no process of the cluster
      with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
  own.run("down")
  assert own.processes() == []


def test_a_scheduler_that_is_down_is_named(own):
  own.script("quick.py", "print('ok')")
  own.run("up", "--local-slurm")
  [(pid, _)] = [(p, line) for p, line in own.processes() if line.startswith(b"slurmctld")]
  os.kill(pid, signal.SIGSTOP)  # late for ever
  own.environment["SLURM_MSG_TIMEOUT"] = "1"
  try:
    begin = time.monotonic()
    error = own.run("ls", code=3).stderr
    assert "squeue here: " in error and time.monotonic() - begin < PATIENCE_S
  finally:
    os.kill(pid, signal.SIGCONT)
  os.kill(pid, signal.SIGKILL)
  assert "squeue here: " in own.run("ls", code=3).stderr
  error = own.run("run", "quick.py", code=3).stderr
  assert "sbatch here: " in error
  assert list((own.state / "jobs").iterdir()) == []  # nothing half-submitted


def test_a_shell_that_knows_the_cluster_is_not_ended_with_it(own):
  own.run("up", "--local-slurm")
  shell = subprocess.Popen(["sleep", "60"], env={**os.environ, "SLURM_CONF": str(own.conf)})
  try:
    own.run("down")
    assert shell.poll() is None
  finally:
    shell.kill()
    shell.wait()


def test_two_ups_at_once_make_one_cluster(own):
  children = [own.start("up", "--local-slurm") for _ in range(3)]
  errors = [child.communicate(timeout=PATIENCE_S)[1] for child in children]
  assert [child.returncode for child in children] == [0, 0, 0], errors
  assert sum("was up already" in error for error in errors) == 2
  daemons = [line for _, line in own.processes() if line.startswith((b"slurmctld", b"slurmd"))]
  assert len(daemons) == 3


def test_packages_that_are_missing_are_named(monkeypatch):
  monkeypatch.setattr(_programs, "search_path", lambda: "/nowhere")
  monkeypatch.setattr(os, "geteuid", lambda: 1000)
  with pytest.raises(_loopback.ClusterError, match="slurmctld.*sudo apt-get install"):
    _programs.require(print)
