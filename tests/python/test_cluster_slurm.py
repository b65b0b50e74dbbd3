"""Jobs of `stretto cluster` with real daemons of Slurm on this machine: what is submitted, what the
ranks see, and what they write."""

import json
import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster_slurm import PATIENCE_S, SLEEPER, Cluster, read_until, reads, started, wait_until

from stretto.cluster import _programs

if _programs.missing():
  pytest.skip("Slurm's daemons are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
  yield from started(tmp_path_factory.mktemp("work"))


def test_the_job_ends_with_the_code_of_its_ranks(cluster):
  cluster.script("fail.py", "import os, sys; print('in', os.environ['RANK']); "
                 "sys.exit(7 * int(os.environ['RANK'] == '1'))")
  done = cluster.run("run", "-n", 2, "--nodes", 2, "fail.py", code=7)
  assert "[1] in 1" in done.stdout
  assert "over (7)" in cluster.run("ls", "--over").stdout


NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
         "STRETTO_RANK", "STRETTO_SIZE", "STRETTO_SECRET", "OMP_NUM_THREADS",
         "TORCHELASTIC_RESTART_COUNT")
SAME = f"""
import os
from stretto import _named_job as job
import numpy as np
job.init()
[total] = job.job().all_reduce([np.full(3, job.rank() + 1.0, np.float32)], ["x"], "sum")
names = [n for n in {NAMES!r} if n in os.environ]
if job.rank() == job.size() - 1:
  print("sum", total[0], "of", job.size(), "local", os.environ.get("LOCAL_WORLD_SIZE", 1), *names)
job.shutdown()
"""


def test_one_script_runs_unchanged_on_one_process_by_run_and_as_a_job(cluster):
  script = cluster.script("same.py", SAME)
  alone = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True,
                         timeout=PATIENCE_S)
  assert alone.stdout == "sum 1.0 of 1 local 1\n"
  by_run = subprocess.run([sys.executable, "-m", "stretto._launch", "-n", "4", script], text=True,
                          capture_output=True, check=True, timeout=PATIENCE_S).stdout
  as_job = cluster.run("run", "-n", 4, "same.py").stdout
  assert by_run.startswith("sum 10.0 of 4 local 4 RANK WORLD_SIZE")
  assert set(by_run.split()) - {"TORCHELASTIC_RESTART_COUNT"} <= set(as_job.split())
  on_nodes = cluster.run("run", "-n", 4, "--nodes", 2, "same.py").stdout
  assert on_nodes.startswith("[3] sum 10.0 of 4 local 2 RANK WORLD_SIZE")
  local = cluster.run("run", "--backend", "local", "-n", 4, "same.py").stdout
  assert local == as_job


HOSTILE = ("$(touch pwned)", "`touch pwned`", "a b", "q'u\"o", "new\nline", "-rf", "--help", "é漢",
           "; touch pwned #", "%j", "\\", "*", "", ":", "--no-such-option", "touch")


def test_hostile_words_are_only_words(cluster, tmp_path):
  folder = cluster.work / "a $(touch pwned) 'b\" é;\\n"
  folder.mkdir()
  script = folder / "-c $(touch pwned) '.py"
  script.write_text("import sys, os, json; print(json.dumps([sys.argv[1:], os.environ['ODD']]))")
  odd = "x\n$(touch pwned)'\""
  done = cluster.run("run", "--name", "-J $(touch pwned) 'é\"", "--env", f"ODD={odd}", "--",
                     script.name, *HOSTILE, cwd=folder)
  assert json.loads(done.stdout.removeprefix("[0] ")) == [list(HOSTILE), odd]
  assert not list(cluster.work.rglob("pwned")) and not list(cluster.state.rglob("pwned"))
  assert "-J $(touch pwned) 'é\"" in cluster.run("ls", "--over").stdout
  assert "expected 1 to 200 printable" in cluster.run("run", "--name", "a\nb", script,
                                                      code=2).stderr
  assert "--queue: expected" in cluster.run("run", "--queue", "a\n#SBATCH -p b", script,
                                            code=2).stderr
  assert "--time: expected" in cluster.run("run", "--time", "1 --uid=0", script, code=2).stderr
  assert "--chips: expected" in cluster.run("run", "--chips", "a b:1", script, code=2).stderr


def test_a_secret_is_in_no_file_and_no_command_line(cluster):
  secret = "tell-nobody-4711"
  cluster.script("secret.py", "import os, time; print(len(os.environ['KEY'])); time.sleep(2)")
  child = cluster.start("run", "--secret", "KEY", "secret.py", stdout=subprocess.PIPE)
  child.kill()
  child.wait()
  cluster.environment["KEY"] = secret
  try:
    child = cluster.start("run", "--secret", "KEY", "secret.py")
    shown = ""
    while child.poll() is None:
      for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
          try:
            shown += (entry / "cmdline").read_bytes().decode(errors="replace")
          except OSError:
            continue
      shown += cluster.slurm("scontrol", "show", "job")
      time.sleep(0.05)
    out, err = child.communicate(timeout=PATIENCE_S)
    dry = cluster.run("run", "--dry-run", "--secret", "KEY", "secret.py").stdout
  finally:
    del cluster.environment["KEY"]
  assert f"[0] {len(secret)}" in out
  assert secret not in shown + err + dry and "# secrets: KEY" in dry
  kept = [p for p in cluster.folder().rglob("*") if p.is_file()]
  assert len(kept) > 3 and all(secret.encode() not in p.read_bytes() for p in kept)
  assert "there is no such variable" in cluster.run("run", "--secret", "KEY", "secret.py",
                                                    code=2).stderr
  assert secret not in cluster.run("run", "--secret", f"K={secret}", "secret.py", code=2).stderr


def test_files_travel_to_a_job_and_back(cluster, tmp_path):
  cluster.script("write.py", "import os, time\n"
                 "os.makedirs('out/deep', exist_ok=True)\n"
                 "while not os.path.exists('extra/given.txt'): time.sleep(0.05)\n"
                 "open('out/deep/a b.txt', 'w').write(open('extra/given.txt').read())")
  given = tmp_path / "given.txt"
  given.write_text("from here")
  job = cluster.run("run", "--detach", "write.py").stdout.strip()
  cluster.run("upload", job, given, "--to", "extra")
  assert cluster.run("logs", job, "-f").returncode == 0
  assert cluster.run("download", job, "--list").stdout == "out/deep/a b.txt\n"
  cluster.run("download", job, "-o", tmp_path / "all")
  assert [p.name for p in (tmp_path / "all").rglob("*") if p.is_file()] == ["a b.txt"]
  cluster.run("download", job, "out", "-o", tmp_path / "one")
  assert (tmp_path / "one/out/deep/a b.txt").read_text() == "from here"
  assert "outside the job's folder" in cluster.run("download", job, "../job.json", code=3).stderr
  assert "inside the job's tree" in cluster.run("upload", job, given, "--to", "../logs",
                                                code=2).stderr
  assert "there is no such job" in cluster.run("logs", "99999", code=3).stderr


def test_ssh_opens_a_shell_where_the_rank_runs(cluster):
  cluster.script("sleep.py", SLEEPER)
  job = cluster.run("run", "--detach", "-n", 2, "--nodes", 2, "sleep.py").stdout.strip()
  wait_until(reads(cluster.folder() / "logs/rank-00001.log", "start"))
  pid, terminal = pty.fork()
  if pid == 0:
    os.execvpe(sys.executable, cluster.words("ssh", job, 1), cluster.environment)
  os.write(terminal, b"echo on-$SLURMD_NODENAME-$((6 * 7)); exit\n")
  assert b"on-n1-42" in read_until(terminal, b"on-n1-42")
  read_until(terminal, b"")
  os.waitpid(pid, 0)
  os.close(terminal)
  cluster.run("stop", job)
  assert "job has ranks 0 to 1" in cluster.run("ssh", job, 2, code=2).stderr


SSH = """#!/bin/sh
# Stands in for a login node: another home, and the words joined by blanks, as ssh does it.
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
[ "$1" = me@far ] || { echo "ssh: Could not resolve hostname $1" >&2; exit 255; }
shift
HOME=$FAR_HOME exec sh -c "$*"
"""


def test_a_site_is_used_through_ssh(cluster, tmp_path, monkeypatch):
  tools = tmp_path / "bin"
  tools.mkdir()
  (tools / "ssh").write_text(SSH)
  (tools / "ssh").chmod(0o755)
  home = tmp_path / "far"
  home.mkdir()
  far = Cluster(tmp_path / "unused", cluster.work, {
    "PATH": f"{tools}:{os.environ['PATH']}", "FAR_HOME": str(home), "SLURM_CONF": str(cluster.conf),
    "KEY": "tell-nobody"})
  far.script("far.py", "import os; print('rank', os.environ['RANK'], len(os.environ['KEY']));\n"
             "open('result.txt', 'w').write('done')")
  where = ("--host", "me@far")
  done = far.run("run", *where, "--python", sys.executable, "-n", 2, "--secret", "KEY", "far.py")
  assert sorted(done.stdout.splitlines()) == ["[0] rank 0 11", "[1] rank 1 11"]
  assert "the site of me@far" in done.stderr
  assert not (tmp_path / "unused").exists()
  [folder] = (home / ".local/state/stretto/jobs").iterdir()
  assert all(b"tell-nobody" not in p.read_bytes() for p in folder.rglob("*") if p.is_file())
  assert "rank 1" in far.run("logs", *where, "far").stdout
  far.run("download", *where, "far", "-o", tmp_path / "got")
  assert (tmp_path / "got/result.txt").read_text() == "done"
  far.run("upload", *where, "far", far.work / "far.py", "--to", "more")
  assert (folder / "work/more/far.py").exists()
  assert far.run("ls", *where).stdout.startswith("job")
  far.script("fail.py", "raise SystemExit(5)")
  far.run("run", *where, "--python", sys.executable, "fail.py", code=5)
  assert "Could not resolve" in far.run("ls", "--host", "me@nowhere", code=3).stderr
  assert "--host: expected" in far.run("ls", "--host=-oProxyCommand=x", code=2).stderr


def test_dry_run_prints_what_is_submitted(cluster):
  cluster.script("quick.py", "print('ok')")
  shown = cluster.run("run", "--dry-run", "-n", 2, "--time", "90m", "quick.py").stdout
  cluster.run("run", "-q", "-n", 2, "--time", "90m", "quick.py")
  assert (cluster.folder() / "job.sh").read_text() in shown
  assert "#SBATCH --time=0-01:30:00\n" in shown and "--job-name=quick" in shown
  bash = shutil.which("bash")
  subprocess.run([bash, "-n", cluster.folder() / "job.sh"], check=True)
