"""Pods that are asked to end, nodes that die and submissions that are cut off, on a cluster that is
played (kubernetes_server.py)."""

import json
import time

import pytest
from cluster_slurm import wait_until
from kubernetes_jobs import IMAGE, logged, pods, run, serving, with_kubectl


@pytest.fixture
def server(tmp_path):
  yield from serving(tmp_path)


@pytest.fixture
def cluster(tmp_path, server):
  return with_kubectl(tmp_path, server)


def heeds_sigterm(server, count):
  """Whether so many pods run and have their handlers."""
  found = []
  for process in list(server.nodes.processes.values()):
    try:
      with open(f"/proc/{process.child.pid}/status") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    except OSError:
      continue
    found.append(int(caught.split()[1], 16) & 1 << 14)
  return len([each for each in found if each]) == count


# Ranks of both pods have to meet to save, which then takes longer than the end of a failed job may.
SAVES = """
import os, pathlib, signal, sys, time
rank, marks = os.environ['RANK'], pathlib.Path({marks!r})

def save(*_):
  (marks / rank).write_text('')
  while len(list(marks.iterdir())) < 2:
    time.sleep(0.02)
  time.sleep(8)
  print('saved', flush=True)
  sys.exit(0)

if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':
  signal.signal(signal.SIGTERM, save)
  print('began', flush=True)
  time.sleep(600)
print('goes on', flush=True)
"""


@pytest.mark.parametrize("leaver", [0, 1])
def test_when_one_pod_is_asked_to_end_all_ranks_may_save(cluster, server, tmp_path, leaver):
  (tmp_path / "marks").mkdir()
  cluster.script("job.py", SAVES.format(marks=str(tmp_path / "marks")))
  child = cluster.start("run", *IMAGE, "-n", "2", "--nodes", "2", "job.py")
  wait_until(lambda: len(server.nodes.processes) == 2 and all(
    "began" in p.log.read_text() for p in server.nodes.processes.values()))
  server.nodes.delete("pods", pods(server)[f"ranks-{leaver}"])
  out, err = child.communicate(timeout=60)
  assert child.returncode == 0, out + err
  assert out.count("saved\n") == 2 and out.count("goes on\n") == 2


def test_a_pod_that_waits_for_the_first_one_ends_when_asked_and_is_no_failure(cluster, server):
  cluster.script("job.py", "print('ran')")
  server.nodes.nameless = True
  child = cluster.start("run", *IMAGE, "-n", "2", "--nodes", "2", "job.py")
  wait_until(lambda: heeds_sigterm(server, 2))
  begin = time.monotonic()
  server.nodes.delete("pods", pods(server)["ranks-1"])
  server.nodes.nameless = False
  out, err = child.communicate(timeout=60)
  assert child.returncode == 0 and out.count("ran\n") == 2, out + err
  assert time.monotonic() - begin < 40


def test_a_job_that_waits_for_its_first_pod_can_be_stopped(cluster, server):
  cluster.script("job.py", "print('ran')")
  server.nodes.nameless = True
  run(cluster, "-n", 2, "--nodes", 2, "--detach", "job.py")
  wait_until(lambda: heeds_sigterm(server, 2))
  cluster.run("stop", "job")
  wait_until(lambda: server.nodes.store == {})


def test_pods_of_a_dead_node_are_named_and_the_job_goes_on_without_them(cluster, server):
  cluster.script("job.py", "import os, time\n"
                 "start = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
                 "print('start', start, flush=True)\n"
                 "time.sleep(600 if start == '0' else 0)")
  child = cluster.start("run", *IMAGE, "-n", "2", "--nodes", "2", "job.py")
  wait_until(lambda: len(server.nodes.processes) == 2 and all(
    "start 0" in p.log.read_text() for p in server.nodes.processes.values()))
  name = pods(server)["ranks-1"]
  server.nodes.die(name)
  sign = f"Terminating: pod {name} on node node-1 does not end"
  shown = wait_until(lambda: (text := cluster.run("ls", "--backend", "kubernetes").stdout) and
                     sign in text and text)
  assert f"kubectl delete pod {name} -n lab --force" in shown and "pending" in shown
  assert not logged(server, "start 1")()
  server.nodes.force(name)
  out, err = child.communicate(timeout=60)
  assert child.returncode == 0 and out.count("start 1\n") == 2, out + err


# Submissions that are cut off.

def test_a_command_that_is_killed_before_the_job_is_there_holds_no_chips(cluster, server):
  cluster.script("job.py", "")
  server.late_s = 0.5
  child = cluster.start("run", *IMAGE, "job.py")
  wait_until(lambda: any(method == "POST" for method, _, _ in list(server.seen)))
  child.kill()
  child.wait()
  time.sleep(1.5)  # what kubectl has sent
  server.late_s = 0.0
  assert server.nodes.store != {}
  assert {kind for kind, _ in server.nodes.store} <= {"configmaps", "secrets"}
  cluster.run("down", "--backend", "kubernetes")
  assert server.nodes.store == {} and list((cluster.state / "jobs").iterdir()) == []


@pytest.mark.parametrize("what", ["POST secrets", "POST configmaps", "POST jobsets",
                                  "PATCH configmaps", "PATCH secrets"])
def test_a_submission_that_is_refused_leaves_nothing(cluster, server, what):
  cluster.script("job.py", "")
  server.forbidden = {what}
  error = run(cluster, "job.py", code=3).stderr
  assert f"{what.split()[1]} is forbidden" in error or "you have no permission" in error
  wait_until(lambda: server.nodes.store == {})
  assert list((cluster.state / "jobs").iterdir()) == []


def test_what_pods_read_is_there_before_the_job_and_belongs_to_it(cluster, server):
  cluster.script("job.py", "")
  run(cluster, "job.py")
  made = [path.rpartition("/")[2].partition("?")[0] for method, path, _ in server.seen
          if method == "POST"]
  assert made == ["configmaps", "configmaps", "secrets", "jobsets"]
  job_set, = server.nodes.of("jobsets")
  for kind in ("configmaps", "secrets"):
    for each in server.nodes.of(kind):
      owner, = each["metadata"]["ownerReferences"]
      assert owner["uid"] == job_set["metadata"]["uid"] and owner["kind"] == "JobSet"


# Processors and memory.

def test_processors_and_memory_of_the_pods(cluster, server):
  cluster.script("job.py", "import os; print('threads', os.environ['OMP_NUM_THREADS'])")
  done = run(cluster, "-n", 4, "--nodes", 2, "--cpus", 3, "--memory", "500M", "job.py")
  assert done.stdout.count("threads 3\n") == 4
  assert resources(server) == {"requests": {"cpu": "6000m", "memory": "1000000000"},
                               "limits": {"memory": "1000000000"}}
  for words, error in ((["--memory", "4x"], "--memory: expected a size"),
                       (["--memory", "12"], "--memory: expected a size"),
                       (["--cpus", "0"], "--cpus: expected 0.001 to 4096"),
                       (["--cpus", "nan"], "--cpus: expected 0.001 to 4096")):
    assert error in run(cluster, *words, "job.py", code=2).stderr
  assert "--cpus: only with --backend kubernetes" in cluster.run(
    "run", "--backend", "local", "--cpus", "1", "job.py", code=2).stderr


def test_processors_and_memory_that_nobody_has_asked_for(cluster, server):
  cluster.script("job.py", "")
  run(cluster, "-n", 4, "--nodes", 2, "job.py")
  assert resources(server) == {"requests": {"cpu": "2000m", "memory": str(2 << 30)}}
  for name, cpu, memory in (("n0", "64", "256Gi"), ("n1", "31900m", "131072Mi")):
    server.nodes.add({"apiVersion": "v1", "kind": "Node", "metadata": {
      "name": name, "labels": {"stretto/chip": "v100"}}, "status": {"allocatable": {
        "cpu": cpu, "memory": memory, "nvidia.com/gpu": "8"}}})
  run(cluster, "--chips", "v100:2", "job.py")  # a quarter of the smaller node, and of that half
  assert resources(server) == {
    "requests": {"cpu": "3987m", "memory": str(16 << 30)}, "limits": {"nvidia.com/gpu": "2"}}


def resources(server):
  """Of the newest job."""
  job_set = server.nodes.of("jobsets")[-1]
  pod = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
  return pod["containers"][0]["resources"]


# Where jobs are.

def test_jobs_remember_the_configuration_and_one_that_fails_does_not_stop_down(cluster, server,
                                                                               tmp_path):
  cluster.script("job.py", "")
  (cluster.work / "config").symlink_to(server.config)
  for name in ("one", "two"):
    cluster.run("run", *IMAGE, "--name", name, "job.py", KUBECONFIG="config")
  told = [folder / "job.json" for folder in (cluster.state / "jobs").iterdir()]
  assert {json.loads(path.read_text())["kubeconfig"] for path in told} == {
    str(cluster.work / "config")}
  broken = json.loads(told[0].read_text()) | {"kubeconfig": str(tmp_path / "none")}
  told[0].write_text(json.dumps(broken))
  error = cluster.run("down", "--backend", "kubernetes", code=3).stderr
  assert f"job {broken['id']}: kubectl" in error and "1 jobs are removed" in error
  assert [each["metadata"]["name"] for each in server.nodes.of("jobsets")] == [broken["id"]]
  assert [folder / "job.json" for folder in (cluster.state / "jobs").iterdir()] == [told[0]]
