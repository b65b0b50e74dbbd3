"""How jobs of Slurm end, or go on: signals, preemption, lost nodes and hangs, with real daemons on
this machine."""

import json
import os
import pty
import signal
import sys

import pytest
from cluster_slurm import PATIENCE_S, SLEEPER, read_until, started, wait_until

from stretto.cluster import _programs

if _programs.missing():
  pytest.skip("Slurm's daemons are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
  yield from started(tmp_path_factory.mktemp("work"))


def test_a_killed_command_leaves_the_job_and_logs_follow_it(cluster):
  cluster.script("slow.py", "import time; print('one', flush=True); time.sleep(4); print('two')")
  child = cluster.start("run", "slow.py")
  assert child.stdout.readline() == "[0] one\n"
  child.kill()
  child.wait()
  assert "running" in cluster.run("ls").stdout
  done = cluster.run("logs", "slow", "-f")
  assert done.stdout == "[0] one\n[0] two\n"
  assert cluster.run("logs", "slow", "--rank", 0).stdout == "one\ntwo\n"


def test_ctrl_c_without_a_terminal_cancels_the_job(cluster):
  cluster.script("sleep.py", SLEEPER)
  child = cluster.start("run", "sleep.py", preexec_fn=lambda: signal.signal(
    signal.SIGINT, signal.default_int_handler))
  assert child.stdout.readline() == "[0] start 0\n"
  child.send_signal(signal.SIGINT)
  out, err = child.communicate(timeout=PATIENCE_S)
  assert child.returncode == 130 and "saved 0" in out and "cancelling job" in err
  wait_until(lambda: cluster.slurm("squeue", "-h") == "")


def test_sigterm_leaves_the_job(cluster):
  cluster.script("sleep.py", SLEEPER)
  child = cluster.start("run", "sleep.py")
  assert child.stdout.readline() == "[0] start 0\n"
  child.terminate()
  _, err = child.communicate(timeout=PATIENCE_S)
  assert child.returncode == 128 + signal.SIGTERM and "goes on after SIGTERM" in err
  assert "running" in cluster.run("ls").stdout
  assert "is asked to end" in cluster.run("stop", "sleep").stderr
  assert "saved 0" in cluster.run("logs", "sleep", "-f", code=143).stdout


@pytest.mark.parametrize("answer", [b"d\n", b"c\n", b"\x03"])
def test_ctrl_c_in_a_terminal_asks(cluster, answer):
  cluster.script("sleep.py", SLEEPER)
  pid, terminal = pty.fork()
  if pid == 0:
    os.chdir(cluster.work)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.execvpe(sys.executable, cluster.words("run", "sleep.py"), cluster.environment)
  shown = read_until(terminal, b"start 0")
  os.write(terminal, b"\x03")
  read_until(terminal, b"detach from it, or go on?")
  os.write(terminal, answer)
  shown = read_until(terminal, b"")
  _, status = os.waitpid(pid, 0)
  os.close(terminal)
  if answer == b"d\n":
    assert os.waitstatus_to_exitcode(status) == 0 and b"goes on" in shown
    assert "running" in cluster.run("ls").stdout
    cluster.run("stop", "sleep")
  else:
    assert os.waitstatus_to_exitcode(status) == 130 and b"saved 0" in shown
  wait_until(lambda: cluster.slurm("squeue", "-h") == "")


def test_a_preempted_job_starts_again_however_few_retries(cluster):
  cluster.script("sleep.py", SLEEPER)
  child = cluster.start("run", "--retries", 0, "-n", 2, "--nodes", 2, "sleep.py")
  assert "start 0" in child.stdout.readline() + child.stdout.readline()
  cluster.slurm("scontrol", "requeue", json.loads(
    (cluster.folder() / "job.json").read_text())["id"])
  out, _ = child.communicate(timeout=PATIENCE_S)
  assert child.returncode == 0
  assert "saved 0" in out and "the job was preempted; start 2" in out and "end 1" in out


@pytest.mark.parametrize("retries", [0, 1])
def test_lost_nodes_are_counted(cluster, retries):
  cluster.script("sleep.py", SLEEPER)
  child = cluster.start("run", "--retries", retries, "-n", 2, "--nodes", 2, "sleep.py")
  assert "start 0" in child.stdout.readline() + child.stdout.readline()
  cluster.slurm("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=test")
  out, _ = child.communicate(timeout=PATIENCE_S)
  if retries:
    assert child.returncode == 0 and "a node was lost; start 2" in out and "end 1" in out
  else:
    assert child.returncode == 1, out
    assert "has lost a node 1 times; --retries allows 0" in out


HANGS = """
import time
import numpy as np
from stretto import _named_job as job
job.init()
def stuck_here():
  time.sleep(600)
for step in range(4):
  if job.rank() == 1 and step == 3:
    stuck_here()
  job.job().all_reduce([np.ones(4, np.float32)], ["g"])
"""


@pytest.mark.parametrize("backend", ["slurm", "local"])
def test_a_hang_is_noticed_and_the_rank_named(cluster, backend):
  cluster.script("hang.py", HANGS)
  done = cluster.run("run", "--backend", backend, "-n", 3, "--hang-after", 3, "hang.py", code=124)
  assert "no rank has finished an operation for 3 s" in done.stdout
  assert "rank 1 hangs here:" in done.stdout and "stuck_here()" in done.stdout
  assert "rank 0 hangs" not in done.stdout and "rank 2 hangs" not in done.stdout
  assert (cluster.folder() / "hangs").read_text() == "1\n"
