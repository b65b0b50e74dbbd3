"""`stretto cluster run --backend local`: jobs that are processes of this machine."""

import json
import os
import signal
from pathlib import Path

import pytest
from cluster_slurm import reads, wait_until, without_scheduler


@pytest.fixture
def cluster(tmp_path):
  return without_scheduler(tmp_path)


def test_a_local_job_from_start_to_end(cluster):
  cluster.script("job.py", "import os, sys, time\n"
                 "print('rank', os.environ['RANK'], sys.argv[1:], os.environ['A'])\n"
                 "open(f\"out-{os.environ['RANK']}\", 'w').write('x')\n"
                 "sys.exit(3 * (os.environ['RANK'] == '1'))")
  done = cluster.run("run", "-n", 2, "--env", "A=a b", "job.py", "x y", code=3)
  assert "[1] rank 1 ['x y'] a b" in done.stdout and "no scheduler" in done.stderr
  assert "[1] rank 1" in cluster.run("logs", "job").stdout
  assert "out-1" in cluster.run("download", "job", "--list").stdout
  listed = json.loads(cluster.run("ls", "--over", "--json").stdout)["jobs"]
  assert [(row["name"], row["state"]) for row in listed] == [("job", "over (3)")]


def test_modules_and_programs(cluster):
  (cluster.work / "package").mkdir()
  (cluster.work / "package/__init__.py").write_text("")
  (cluster.work / "package/train.py").write_text("import sys; print('module', sys.argv[1])")
  assert cluster.run("run", "-m", "package.train", "-x").stdout == "[0] module -x\n"
  program = cluster.script("program.sh", '#!/bin/sh\necho "program $RANK $1"\n')
  program.chmod(0o755)
  assert cluster.run("run", "program.sh", "a").stdout == "[0] program 0 a\n"
  assert cluster.run("run", "--no-python", "./program.sh", "b").stdout == "[0] program 0 b\n"
  inside = cluster.work / "package"
  assert cluster.run("run", "train.py", "here", cwd=inside).stdout == "[0] module here\n"


def test_a_local_job_outlives_the_command_and_can_be_stopped(cluster):
  cluster.script("slow.py", "import time; print('began', flush=True); time.sleep(600)")
  child = cluster.start("run", "slow.py")
  assert child.stdout.readline() == "[0] began\n"
  child.kill()
  child.wait()
  assert "running" in cluster.run("ls").stdout
  cluster.run("stop", "slow")
  assert cluster.run("logs", "slow", "-f", code=143).stdout == "[0] began\n"
  assert "running" not in cluster.run("ls").stdout


def test_a_local_job_whose_leader_was_killed_is_over(cluster):
  cluster.script("slow.py", "import time; print('began', flush=True); time.sleep(600)")
  cluster.run("run", "--detach", "--hang-after", 600, "slow.py")
  wait_until(reads(cluster.folder() / "logs/rank-00000.log", "began"))
  assert cluster_ranks(cluster, b"_watch_steps.py")
  leader = json.loads((cluster.folder() / "leader.json").read_text())["pid"]
  os.kill(leader, signal.SIGKILL)
  done = cluster.run("logs", "slow", "-f", code=137)
  assert "ended: KILLED" in done.stderr
  wait_until(lambda: not cluster_ranks(cluster))
  # The watcher must not go on, and signal whichever process gets the leader's number.
  wait_until(lambda: not cluster_ranks(cluster, b"_watch_steps.py"))


def test_a_local_job_whose_starter_was_killed_early_is_found(cluster):
  cluster.script("slow.py", "import time; time.sleep(600)")
  job = cluster.run("run", "--detach", "slow.py").stdout.strip()
  about = cluster.folder() / "job.json"  # as if `run` had been killed as soon as the leader began
  about.write_text(json.dumps({**json.loads(about.read_text()), "id": ""}))
  wait_until(lambda: cluster_ranks(cluster))
  cluster.run("stop", job)
  wait_until(lambda: not cluster_ranks(cluster))


def cluster_ranks(cluster, program=b"_task.py"):
  found = []
  for entry in Path("/proc").iterdir():
    if entry.name.isdigit():
      try:
        if str(cluster.state).encode() in (entry / "environ").read_bytes() and \
            program in (entry / "cmdline").read_bytes():
          found.append(int(entry.name))
      except OSError:
        continue
  return found


def test_secrets_of_local_jobs_are_in_no_file(cluster):
  cluster.script("job.py", "import os; print(len(os.environ['KEY']))")
  cluster.run("run", "--secret", "KEY", "job.py", KEY="tell-nobody")
  kept = [p for p in cluster.folder().rglob("*") if p.is_file()]
  assert kept and all(b"tell-nobody" not in p.read_bytes() for p in kept)
