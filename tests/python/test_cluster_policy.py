"""Slurm itself obeys the policy of a site file: examples/cluster/three_kinds.toml on this machine,
with a slurmd for each of its nodes."""

import re
import subprocess
from pathlib import Path

import pytest
from cluster_loopback import Loopback, installed, program

ROOT = Path(__file__).parents[2]
GRACE_S = 4
SITE = (ROOT / "examples/cluster/three_kinds.toml").read_text().replace(
  "grace_s = 30", f"grace_s = {GRACE_S}") + """
[[queues]]
name = "eva-only"
priority = 10
users = ["eva"]
"""
SINGLE = "normal.single,normal.single.spare"
MULTI = "normal.multi,normal.multi.spare"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
  assert installed(), "this test needs Slurm: apt-get install slurmctld slurmd slurm-client"
  with Loopback(tmp_path_factory.mktemp("slurm"), SITE) as running:
    yield running


@pytest.fixture(autouse=True)
def nothing_left(cluster):
  yield
  cluster.empty()


def test_slurm_says_what_the_site_file_says(cluster):
  shown = cluster.must("scontrol", "show", "partition", "normal.single.spare", "-o")
  for word in ("Nodes=m[0-1],r0", "PriorityTier=1", "PreemptMode=REQUEUE", "MaxNodes=1",
               f"GraceTime={GRACE_S}", "MaxTime=1-00:00:00", "DefaultTime=00:10:00"):
    assert f" {word} " in f" {shown} ", shown
  shown = cluster.must("scontrol", "show", "partition", "urgent.multi", "-o")
  for word in ("Nodes=m[0-1],r0", "PriorityTier=20", "PreemptMode=OFF"):
    assert f" {word} " in f" {shown} ", shown
  node = cluster.must("scontrol", "show", "node", "s0", "-o")
  assert "Gres=gpu:k40:4" in node and "RealMemory=16384" in node and "CPUTot=8" in node, node
  errors = [line for line in cluster.logs().splitlines()
            if re.search("error.*(gres|partition|lua|configuration|more than once)", line, re.I)]
  assert not errors, errors


def check(cluster, code):
  """Compares the site file with the running slurmctld."""
  done = subprocess.run([program(), "cluster", "compile", "site.toml", "--check", "--for", "slurm"],
                        cwd=cluster.folder, env=cluster.environment, capture_output=True, text=True,
                        timeout=120)
  assert done.returncode == code, done.stdout + done.stderr
  return done.stdout


def test_check_finds_what_was_changed_in_slurm_and_nothing_else(cluster):
  assert check(cluster, 0) == ""
  state = cluster.must("scontrol", "-o", "show", "partition", "urgent.multi")
  cluster.must("scontrol", "update", "partitionname=urgent.multi", "prioritytier=7")
  cluster.must("scontrol", "update", "nodename=m[0-1]", "weight=5")
  cluster.must("scontrol", "create", "partitionname=past", "nodes=s0")
  cluster.must("scontrol", "create", "reservation", "reservationname=gift", "starttime=now+1day",
               "duration=60", "nodes=r0", "users=root")
  try:
    lines = check(cluster, 1).splitlines()
    assert len(lines) == 4, lines
    assert lines[0].endswith(": nodes m[0-1]: Weight is 5, expected 21"), lines
    assert lines[1].endswith(": partition urgent.multi: PriorityTier is 7, expected 20"), lines
    assert lines[2] == "partition past: Nodes s0, the site file has none", lines
    assert lines[3].endswith(": reservation gift: Nodes r0, the site file has none"), lines
  finally:
    cluster.must("scontrol", "delete", "reservation=gift")
    cluster.must("scontrol", "delete", "partition=past")
    cluster.must("scontrol", "update", "nodename=m[0-1]", "weight=21")
    cluster.must("scontrol", "update", "partitionname=urgent.multi", "prioritytier=20")
  assert check(cluster, 0) == ""
  assert cluster.must("scontrol", "-o", "show", "partition", "urgent.multi") == state


@pytest.mark.parametrize("words, partition", [
  ("--gres=gpu:1", SINGLE),
  ("--gpus=1", SINGLE),
  ("-n1 --gpus-per-task=1", SINGLE),
  ("--gres=gpu:k40:1", "normal.single"),
  ("--gres=gpu:v100:1", "normal.single.spare"),
  ("--gpus=8", MULTI),
  ("--gres=gpu:8", MULTI),
  ("-N2 --gres=gpu:v100:8", "normal.multi"),
  ("-N2 --gpus-per-node=4", "normal.multi"),
  ("-n4 --gpus-per-task=1", MULTI),
  ("-n4 --ntasks-per-gpu=2", MULTI),
  ("-n2 --ntasks-per-gpu=2", SINGLE),
  ("-p normal --gres=gpu:1", SINGLE),
  ("-p normal.single --gres=gpu:1", "normal.single"),
  ("-p urgent --gres=gpu:8", "urgent.multi"),
  ("-p urgent -N3 --gres=gpu:v100:8", "urgent.multi"),
  ("-p urgent --gres=gpu:1", "urgent.single,urgent.single.spare"),
])
def test_chips_and_queue_name_the_partitions(cluster, words, partition):
  job = cluster.submit("-H", *words.split())
  shown = cluster.must("scontrol", "show", "job", job)
  assert re.search(r"Partition=(\S+)", shown)[1] == partition


@pytest.mark.parametrize("words, reason", [
  ("", "no group takes jobs of 0 chips; groups and their sizes are 'single' (1) and 'multi' (2+)"),
  ("--gres=gpu:p100:1", "this site has no gpu of type 'p100'; it has k40 and v100"),
  ("--gres=gpu:k40:2", "a job of 2 chips belongs to group 'multi': its nodes have no k40"),
  ("--gres=gpu:v100:9", "a node has at most 8 chips of kind v100, the job asks for 9 per node"),
  ("-n17 --ntasks-per-gpu=1", "a job of 17 chips belongs to group 'multi': its nodes have 16"),
  ("--gpus=17", "a job of 17 chips belongs to group 'multi': its nodes have 16 chips, the job"),
  ("-N3 --gres=gpu:v100:8", "its nodes have 16 chips of kind v100, the job asks for 24"),
  ("-p normal.multi --gres=gpu:1", "a job of 1 chip may not run in partition 'normal.multi'"),
  ("-p eva-only --gres=gpu:1", "queue 'eva-only' is for eva, not for "),
  ("-p eva-only.single --gres=gpu:1", "queue 'eva-only' is for eva, not for "),
  ("-p normal,urgent --gres=gpu:1", "a job belongs to one queue; there are 'urgent', 'normal' and"),
  ("-p nowhere --gres=gpu:1", "invalid partition"),
])
def test_what_can_never_run_is_refused_at_once_with_the_reason(cluster, words, reason):
  assert reason in cluster.refusal(*words.split())


def test_a_part_of_a_heterogeneous_job_may_have_any_size(cluster):
  job = cluster.must("sbatch", "--parsable", "-H", "-o", "log/h.out", "--gres=gpu:k40:4", "-N1",
                     ":", "--gres=gpu:v100:1", "-N1", "--wrap", "true")
  shown = cluster.must("scontrol", "show", "job", job)
  assert re.findall(r"Partition=(\S+)", shown) == ["normal.single", "normal.multi"]


def test_jobs_spill_and_give_way_and_urgent_ones_start_at_once(cluster, tmp_path):
  """Nine single-chip jobs fill the small nodes, and one of them spills; a large job and then urgent
  ones take chips back. What is preempted is told by SIGTERM, and starts again."""
  saved, ready = tmp_path / "saved", tmp_path / "ready"
  step = tmp_path / "step.sh"
  step.write_text(f"""#!/bin/bash
trap 'echo $SLURM_JOB_NAME $SLURM_RESTART_COUNT >> {saved}' TERM
echo $SLURM_JOB_NAME >> {ready}
for i in $(seq 36000); do sleep 0.1; done
""")
  step.chmod(0o755)
  for number in range(9):
    cluster.submit("-J", f"one{number}", "--gres=gpu:1", script=f"srun {step}")
  cluster.wait(lambda: all(job[0] == "RUNNING" for job in cluster.jobs().values()))
  jobs = cluster.jobs()
  spilled = [name for name, job in jobs.items() if job[1] == "normal.single.spare"]
  assert len(jobs) == 9 and len(spilled) == 1, jobs
  assert jobs[spilled[0]][2] in ("m0", "m1", "r0")

  # Two large jobs need both large nodes; the reserve is lent to a third one.
  for number in range(3):
    cluster.submit("-J", f"large{number}", "--gres=gpu:v100:8", script=f"srun {step}")
  large = ["large0", "large1", "large2"]
  cluster.wait(lambda: sum(cluster.jobs()[name][0] == "RUNNING" for name in large) >= 2)
  # A step that is told before it has set its trap ends, and its job with it.
  cluster.wait(lambda: {name for name in large if cluster.jobs()[name][0] == "RUNNING"} <=
               set(ready.read_text().split()))

  # An urgent job needs three nodes, so it takes lent and owned ones.
  cluster.submit("-J", "urgent", "-p", "urgent", "-N3", "--gres=gpu:v100:8",
                 script="srun -N3 sleep 3")
  cluster.wait(lambda: cluster.jobs().get("urgent", ("",))[0] == "RUNNING")
  jobs = cluster.jobs()
  assert jobs["urgent"][2] == "m[0-1],r0"
  assert all(jobs[name][0] != "RUNNING" for name in large), jobs
  assert saved.exists(), "a preempted step gets SIGTERM first"
  told = {line.split()[0] for line in saved.read_text().splitlines()}
  assert told & set(large), told

  # When it is done, they start again by themselves.
  cluster.wait(lambda: "urgent" not in cluster.jobs())
  cluster.wait(lambda: sum(cluster.jobs()[name][0] == "RUNNING" for name in large) >= 2)
  running = next(name for name in large if cluster.jobs()[name][0] == "RUNNING")
  number = cluster.must("squeue", "-h", "-n", running, "-o", "%A")
  shown = cluster.must("scontrol", "show", "job", number)
  assert int(re.search(r"Restarts=(\d+)", shown)[1]) >= 1, shown


def test_an_urgent_job_takes_the_reserve_first(cluster):
  cluster.submit("-J", "urgent", "-p", "urgent", "--gres=gpu:8")
  cluster.wait(lambda: cluster.jobs()["urgent"][0] == "RUNNING")
  assert cluster.jobs()["urgent"][2] == "r0"
