"""`stretto cluster run --backend kubernetes` with kubectl and an API server that plays a cluster:
the pods' commands run as processes of this machine."""

import json
import os
import pty
import signal
import sys
import time
from pathlib import Path

import pytest
from cluster_slurm import read_until, wait_until
from kubernetes_jobs import IMAGE, know_each_other, logged, pods, run, serving, with_kubectl


@pytest.fixture
def server(tmp_path):
  yield from serving(tmp_path)


@pytest.fixture
def cluster(tmp_path, server):
  return with_kubectl(tmp_path, server)


def test_a_job_from_start_to_end(cluster, server):
  cluster.script("job.py", "import os, sys\n"
                 "names = ['RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'GROUP_RANK',\n"
                 "         'STRETTO_RANK', 'STRETTO_SIZE', 'A']\n"
                 "print(*[os.environ[n] for n in names], sys.argv[1:], flush=True)\n"
                 "print('a half line', end='')")
  done = run(cluster, "-n", 4, "--nodes", 2, "--env", "A=$(B) $$ 'x'", "job.py", "$(KEY) y", "-q")
  for rank in range(4):
    assert f"[{rank}] {rank} 4 {rank % 2} 2 {rank // 2} {rank} 4 $(B) $$ 'x' ['$(KEY) y', '-q']" \
      in done.stdout
    assert f"[{rank}] a half line\n" in done.stdout
  assert "Kubernetes 1.31.4, context here, namespace lab" in done.stderr
  assert sorted(cluster.run("logs", "job").stdout.splitlines()) == sorted(done.stdout.splitlines())
  assert cluster.run("logs", "job", "--rank", 3).stdout.splitlines()[1] == "a half line"
  listed = json.loads(cluster.run("ls", "--backend", "kubernetes", "--over", "--json").stdout)
  assert [(row["name"], row["state"]) for row in listed["jobs"]] == [("job", "over (0)")]
  job = listed["jobs"][0]["id"]
  cluster.run("down", "--backend", "kubernetes")
  assert "there is no such job" in cluster.run("logs", job, code=3).stderr
  wait_until(lambda: {k for k, _ in server.nodes.store} == set())
  assert list((cluster.state / "jobs").iterdir()) == []


def test_the_first_failing_rank_gives_the_code_and_ends_the_others(cluster, server):
  cluster.script("job.py", "import os, sys, time\n"
                 "rank = int(os.environ['RANK'])\n"
                 "if rank == 2:\n  time.sleep(1)\n  print('fails', flush=True)\n  sys.exit(7)\n"
                 "time.sleep(600)")
  begin = time.monotonic()
  done = run(cluster, "-n", 3, "job.py", code=7)
  assert time.monotonic() - begin < 40
  assert done.stdout == "[2] fails\n"
  job_set, = server.nodes.of("jobsets")
  assert job_set["status"]["restarts"] == 0  # what fails by itself is not started again
  assert cluster.run("logs", "job", "-f", code=7).stdout == "[2] fails\n"


def test_a_rank_that_a_signal_ends(cluster):
  cluster.script("job.py", "import os; os.kill(os.getpid(), 9)")
  assert run(cluster, "job.py", code=137)


def test_a_lost_pod_starts_the_job_again_and_no_more_often_than_asked(cluster, server):
  cluster.script("job.py", "import os, sys, time\n"
                 "start = os.environ['TORCHELASTIC_RESTART_COUNT']\n"
                 "print('start', start, flush=True)\n"
                 "time.sleep(600 if start == '0' else 0.1)")
  child = cluster.start("run", *IMAGE, "-n", "3", "--nodes", "3", "job.py")
  out = ""
  while out.count("start 0\n") < 3:  # what pods print before it looks may go with them
    line = child.stdout.readline()
    assert line, out + child.stderr.read()
    out += line
  wait_until(know_each_other(server, 3))
  lost = pods(server)["ranks-1"]
  server.nodes.die(lost)  # the others find out before Kubernetes does, which would end them
  wait_until(logged(server, "pod 1 of the job was lost"))
  server.nodes.lose(lost)
  out += child.stdout.read()
  assert child.wait() == 0, out + child.stderr.read()
  assert out.count("start 1\n") == 3 and "[job] stretto cluster: a pod was lost; start 2" in out
  assert "pod 1 of the job was lost" in out  # as the others say


def test_ranks_that_fail_because_a_pod_was_lost_are_no_failure(cluster, server):
  """A rank sees the end of another long before Kubernetes does."""
  cluster.script("job.py", "import os, pathlib, sys, time\n"
                 "print('began', flush=True)\n"
                 f"mark = pathlib.Path({str(cluster.work / 'lost')!r})\n"
                 "while not mark.exists():\n  time.sleep(0.02)\n"
                 "sys.exit(1 if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' else 0)")
  child = cluster.start("run", *IMAGE, "-n", "3", "--nodes", "3", "job.py")
  wait_until(lambda: len(server.nodes.processes) == 3 and all(
    "began" in p.log.read_text() for p in server.nodes.processes.values()))
  wait_until(know_each_other(server, 3))
  name = pods(server)["ranks-2"]
  process = server.nodes.processes[name]
  process.child.send_signal(signal.SIGSTOP)  # its node no longer answers, and nobody knows yet
  (cluster.work / "lost").write_text("")
  wait_until(logged(server, "pod 2 of the job was lost"))
  server.nodes.lose(name)
  out, err = child.communicate(timeout=60)
  assert child.returncode == 0, out + err


def test_when_the_retries_are_used_up_the_job_has_failed(cluster, server):
  cluster.script("job.py", "import time; print('began', flush=True); time.sleep(600)")
  child = cluster.start("run", *IMAGE, "--retries", "0", "job.py")
  wait_until(logged(server, "began"))
  server.nodes.lose(pods(server)["ranks-0"])
  _, err = child.communicate(timeout=60)
  assert child.returncode == 1 and "ended: POD_" in err, err


def test_the_time_limit(cluster):
  cluster.script("job.py", "import signal, sys, time\n"
                 "signal.signal(signal.SIGTERM, lambda *_: (print('saves', flush=True),"
                 " sys.exit(0)))\n"
                 "time.sleep(600)")
  done = run(cluster, "-n", "2", "--time", "8s", "job.py", code=124)
  assert "[0] saves" in done.stdout and "[1] saves" in done.stdout
  assert "the time limit is reached; the ranks get SIGTERM" in done.stdout
  assert "ended: TIMEOUT" in done.stderr


def test_the_time_limit_counts_from_the_start_of_the_ranks(cluster, server):
  """A pod that waits for a node longer than --time costs the job nothing of it."""
  cluster.script("job.py", "print('ran')")
  server.nodes.ready = lambda pod: "" if "-0-0-" in pod["metadata"]["name"] else "no node is free"
  child = cluster.start("run", *IMAGE, "-n", "2", "--time", "10s", "job.py")
  wait_until(lambda: server.nodes.processes)
  time.sleep(12)
  server.nodes.ready = lambda pod: ""
  out, err = child.communicate(timeout=60)
  assert child.returncode == 0 and out.count("ran\n") == 2, out + err


def test_stop_gives_the_ranks_time_and_says_that_it_was_cancelled(cluster, server):
  cluster.script("job.py", "import signal, sys, time\n"
                 "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(7), print('saved',"
                 " flush=True), sys.exit(0)))\n"
                 "print('began', flush=True)\ntime.sleep(600)")
  child = cluster.start("run", *IMAGE, "-n", "2", "job.py")
  assert {child.stdout.readline() for _ in range(2)} == {"[0] began\n", "[1] began\n"}
  cluster.run("stop", "job")
  out, err = child.communicate(timeout=60)
  assert child.returncode == 143 and "[0] saved\n" in out and "[1] saved\n" in out, out + err
  wait_until(lambda: server.nodes.store == {})


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(cluster, server, number, code):
  cluster.script("job.py", "import time; print('began', flush=True); time.sleep(600)")
  child = cluster.start("run", *IMAGE, "job.py",
                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
  assert child.stdout.readline() == "[0] began\n"
  child.send_signal(number)
  _, err = child.communicate(timeout=60)
  assert child.returncode == code, err
  if number == signal.SIGINT:
    wait_until(lambda: server.nodes.store == {})
  else:
    assert "goes on after SIGTERM" in err and pods(server)


def test_a_killed_command_leaves_nothing_running_here_and_the_job_goes_on(cluster, server):
  cluster.script("job.py", "import time; print('began', flush=True); time.sleep(3); print('ends')")
  child = cluster.start("run", *IMAGE, "job.py")
  assert child.stdout.readline() == "[0] began\n"
  assert kubectls(cluster)
  child.kill()
  child.wait()
  wait_until(lambda: not kubectls(cluster))
  assert cluster.run("logs", "job", "-f").stdout == "[0] began\n[0] ends\n"


def kubectls(cluster):
  found = []
  for entry in Path("/proc").iterdir():
    if entry.name.isdigit():
      try:
        if b"kubectl" in (entry / "cmdline").read_bytes() and \
            str(cluster.work.parent / "kubeconfig").encode() in (entry / "environ").read_bytes():
          found.append(int(entry.name))
      except OSError:
        continue
  return found


def test_logs_of_the_last_seconds(cluster, server):
  cluster.script("job.py", "print('a line')")
  assert run(cluster, "job.py").stdout == "[0] a line\n"
  assert cluster.run("logs", "job", "--since", "1h").stdout == "[0] a line\n"
  assert any("/log?" in path and "sinceSeconds=3600" in path for _, path, _ in server.seen)
  time.sleep(2.5)
  assert cluster.run("logs", "job", "--since", "1s").stdout == ""
  assert "--since: expected 30s" in cluster.run("logs", "job", "--since", "x", code=2).stderr
  assert "not with --follow" in cluster.run("logs", "job", "-f", "--since", "5s", code=2).stderr


def test_files_go_to_the_pods_and_come_back(cluster, server):
  cluster.script("job.py", "import os, pathlib, time\n"
                 "print('began', flush=True)\n"
                 "open('out-' + os.environ['RANK'], 'w').write('result')\n"
                 "while not pathlib.Path('in/labels.csv').exists():\n  time.sleep(0.05)\n"
                 "print(open('in/labels.csv').read(), flush=True)\n"
                 "time.sleep(600)")
  cluster.script("labels.csv", "a,b")
  cluster.run("run", *IMAGE, "-n", 2, "--detach", "job.py")
  wait_until(lambda: len(server.nodes.processes) == 2 and all(
    "began" in p.log.read_text() for p in server.nodes.processes.values()))
  cluster.run("upload", "job", "labels.csv", "--to", "in")
  wait_until(lambda: all("a,b" in p.log.read_text() for p in server.nodes.processes.values()))
  assert cluster.run("download", "job", "--list").stdout == "out-0\n"
  cluster.run("download", "job", "-o", "results")
  assert (cluster.work / "results/out-0").read_text() == "result"
  assert "no such file" in cluster.run("download", "job", "nothing", code=3).stderr
  assert "outside" in cluster.run("download", "job", "../../message", code=3).stderr
  cluster.run("stop", "job")
  wait_until(lambda: not server.nodes.of("pods"))
  assert "no pod of it runs" in cluster.run("download", "job", code=3).stderr


def test_ssh_opens_a_shell_in_the_tree_of_the_job(cluster, server):
  cluster.script("job.py", "import time\nprint('began', flush=True)\ntime.sleep(600)")
  cluster.run("run", *IMAGE, "-n", 2, "--detach", "job.py")
  wait_until(lambda: len(server.nodes.processes) == 2 and all(
    "began" in p.log.read_text() for p in server.nodes.processes.values()))
  pid, terminal = pty.fork()
  if pid == 0:
    os.execvpe(sys.executable, cluster.words("ssh", "job", 1), cluster.environment)
  os.write(terminal, b"echo here-$(ls job.py)-$((6 * 7)); exit\n")
  assert b"here-job.py-42" in read_until(terminal, b"here-job.py-42")
  read_until(terminal, b"")
  os.waitpid(pid, 0)
  os.close(terminal)


def test_files_on_a_volume_outlive_the_pods(cluster, server):
  server.nodes.add({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
    "name": "results"}, "spec": {"accessModes": ["ReadWriteMany"]}})
  cluster.script("job.py", "import os; open('out-' + os.environ['RANK'], 'w').write('result')")
  run(cluster, "-n", 2, "--volume", "results", "job.py")
  cluster.run("download", "job", "-o", "results")
  assert (cluster.work / "results/out-0").read_text() == "result"
  assert (cluster.work / "results/out-1").read_text() == "result"
  wait_until(lambda: len(server.nodes.of("pods")) == 2)  # that which gave access is gone
  assert "no such PersistentVolumeClaim" in run(cluster, "--volume", "other", "job.py",
                                                code=3).stderr
  server.nodes.get("persistentvolumeclaims", "results")["spec"]["accessModes"] = ["ReadWriteOnce"]
  assert "a job of 2 pods needs a claim with ReadWriteMany" in run(
    cluster, "-n", 2, "--volume", "results", "job.py", code=3).stderr


def test_secrets_are_in_one_object_only(cluster, server):
  cluster.script("job.py", "import os; print(os.environ['KEY'] == 'tell-nobody $(A)')")
  shown = cluster.run("run", *IMAGE, "--dry-run", "--secret", "KEY", "job.py",
                      KEY="tell-nobody $(A)")
  assert "# secrets: KEY" in shown.stdout and "tell-nobody" not in shown.stdout + shown.stderr
  done = cluster.run("run", *IMAGE, "-v", "--secret", "KEY", "job.py", KEY="tell-nobody $(A)")
  assert done.stdout == "[0] True\n" and "tell-nobody" not in done.stderr
  assert [p for p in cluster.state.rglob("*")
          if p.is_file() and b"tell-nobody" in p.read_bytes()] == []
  import base64
  hidden = base64.b64encode(b"tell-nobody $(A)").decode()
  assert [path for _, path, body in server.seen if hidden in body or "tell-nobody" in body] == [
    next(path for _, path, _ in server.seen if "/secrets" in path)]


HOSTILE = "-n; $(touch owned) `x` \" ' {{.}} \u00e9"


def test_hostile_names_are_only_names(cluster, server):
  script = cluster.script(f"{HOSTILE}.py", "import sys; print(*sys.argv)")
  done = run(cluster, f"--name={HOSTILE}", f"./{script.name}", HOSTILE)
  assert HOSTILE in done.stdout
  shown = cluster.run("ls", "--backend", "kubernetes", "--over").stdout
  assert HOSTILE in shown and not (cluster.work / "owned").exists()
  assert cluster.run("logs", "--", HOSTILE).stdout == done.stdout
  job_set, = server.nodes.of("jobsets")
  assert job_set["metadata"]["name"].startswith("n-touch-owned-x")


def test_ranks_begin_when_all_pods_are_there(cluster, server):
  cluster.script("job.py", "print('ran')")
  server.nodes.ready = lambda pod: "" if "-0-0-" in pod["metadata"]["name"] else "no node is free"
  child = cluster.start("run", *IMAGE, "-n", "3", "job.py")
  wait_until(lambda: server.nodes.processes)
  time.sleep(3)
  assert not logged(server, "ran")()
  server.nodes.ready = lambda pod: ""
  out, err = child.communicate(timeout=60)
  assert child.returncode == 0 and out.count("ran\n") == 3, err
  assert "waits: Unschedulable: no node is free" in err


# The gradient engine.

SUM = """
import numpy as np
from stretto import _named_job as job
job.init()
[total] = job.job().all_reduce([np.full(3, job.rank() + 1.0, np.float32)], ["x"], "sum")
print("sum", total[0], "of", job.size())
job.shutdown()
"""
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


def test_ranks_of_several_pods_meet(cluster):
  cluster.script("sum.py", SUM)
  done = run(cluster, "-n", 4, "--nodes", 2, "sum.py")
  assert sorted(done.stdout.splitlines()) == [f"[{rank}] sum 10.0 of 4" for rank in range(4)]


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_hang_is_noticed_and_the_rank_named(cluster, nodes):
  cluster.script("hang.py", HANGS)
  done = run(cluster, "-n", 3, "--nodes", nodes, "--hang-after", 3, "hang.py", code=124)
  assert "no rank has finished an operation for 3 s" in done.stdout
  assert "rank 1 hangs here:" in done.stdout and "stuck_here()" in done.stdout
  assert "rank 0 hangs" not in done.stdout and "rank 2 hangs" not in done.stdout


# Waiting, with its reason.

def test_why_a_job_waits(cluster, server):
  cluster.script("job.py", "print('ran')")
  server.nodes.ready = lambda pod: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
  child = cluster.start("run", *IMAGE, "job.py")
  shown = wait_until(lambda: (s := cluster.run("ls", "--backend", "kubernetes").stdout) and
                     "Unschedulable" in s and s)
  assert "pending" in shown and "3 Insufficient nvidia.com/gpu" in shown
  wait_until(lambda: server.nodes.ready)
  time.sleep(3)
  server.nodes.ready = lambda pod: ""
  out, err = child.communicate(timeout=60)
  assert child.returncode == 0 and out == "[0] ran\n"
  assert "waits: Unschedulable: 0/3 nodes are available" in err


def test_what_kueue_and_quotas_say(cluster, server):
  server.nodes.add({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue",
                    "metadata": {"name": "normal-multi"}})
  cluster.script("job.py", "print('ran')")
  assert "no such LocalQueue, but normal-multi" in run(cluster, "--queue", "other", "job.py",
                                                       code=3).stderr
  server.nodes.kueue = True
  run(cluster, "--queue", "normal-multi", "--priority", "normal", "--detach", "job.py")
  job_set, = server.nodes.of("jobsets")
  assert job_set["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "normal"
  shown = cluster.run("ls", "--backend", "kubernetes").stdout
  assert "suspended" in shown and "normal-multi" in shown and "insufficient quota for gpu" in shown
  server.nodes.quota = "pods is forbidden: exceeded quota: lab, requested: pods=1"
  run(cluster, "--detach", "--name", "full", "job.py")
  wait_until(lambda: "exceeded quota: lab" in cluster.run("ls", "--backend", "kubernetes").stdout)


def test_an_image_that_is_missing_or_has_no_python(cluster, server):
  cluster.script("job.py", "")
  cluster.run("run", "--backend", "kubernetes", "--image", "missing/it", "--detach", "job.py")
  wait_until(lambda: "ErrImagePull: pull access denied for missing/it" in cluster.run(
    "ls", "--backend", "kubernetes").stdout)
  done = run(cluster, "--python", "/opt/none/python3", "job.py", code=1)
  assert "ended: POD_FAILED (StartError" in done.stderr and "/opt/none/python3" in done.stderr


# What goes wrong.

def test_a_cluster_without_jobset_or_with_an_old_one(cluster, server):
  cluster.script("job.py", "")
  server.nodes.prunes_rules = True
  assert "JobSet in this cluster is older than 0.6" in run(cluster, "job.py", code=3).stderr
  wait_until(lambda: server.nodes.store == {})
  assert list((cluster.state / "jobs").iterdir()) == []
  del server.groups["jobset.x-k8s.io/v1alpha2"]
  assert "JobSet is not installed in this cluster" in run(cluster, "job.py", code=3).stderr
  assert "JobSet is not installed" in cluster.run("ls", "--backend", "kubernetes", code=3).stderr


def test_a_cluster_that_is_down_or_late_or_unknown(cluster, server, tmp_path):
  cluster.script("job.py", "")
  assert "is the cluster up? `kubectl --context=away" in run(cluster, "--context", "away", "job.py",
                                                             code=3).stderr
  error = run(cluster, "--context", "other", "job.py", code=3).stderr
  assert "other" in error and "context" in error
  (tmp_path / "bin/kubectl").unlink()
  assert "kubectl: not found; https://kubernetes.io" in run(cluster, "job.py", code=3).stderr
  (tmp_path / "bin/kubectl").write_text("#!/bin/sh\nexec sleep 600\n")
  (tmp_path / "bin/kubectl").chmod(0o755)
  from stretto.cluster import _kubectl
  done = _kubectl.Kubectl("late").kubectl
  os.environ["PATH"], path = f"{tmp_path / 'bin'}:{os.environ['PATH']}", os.environ["PATH"]
  try:
    answer = done("version", timeout=0.3)
  finally:
    os.environ["PATH"] = path
  assert "no answer within 0.3 s; is the cluster up?" in str(
    _kubectl.Kubectl("late").error(answer, ["version"]))


def test_permissions(cluster, server):
  cluster.script("job.py", "print('ran')")
  server.forbidden = {"jobsets"}
  assert "you have no permission for this in namespace lab" in run(cluster, "job.py",
                                                                   code=3).stderr
  assert list((cluster.state / "jobs").iterdir()) == []
  server.forbidden = {"secrets"}
  assert "secrets is forbidden" in run(cluster, "job.py", code=3).stderr
  wait_until(lambda: server.nodes.store == {})  # nothing is left half submitted
  assert list((cluster.state / "jobs").iterdir()) == []
  server.forbidden = {"pods/log"}
  done = run(cluster, "job.py")
  assert "[job] stretto cluster: kubectl logs" in done.stdout and "no permission" in done.stdout


def test_chips_are_asked_for_as_the_nodes_name_them(cluster, server):
  for number in range(2):
    server.nodes.add({"apiVersion": "v1", "kind": "Node", "metadata": {
      "name": f"n{number}", "labels": {"stretto/chip": "v100"}}, "status": {"allocatable": {
        "cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8", "hugepages-2Mi": "0"}}})
  server.nodes.add({"apiVersion": "v1", "kind": "Node", "metadata": {
    "name": "a0", "labels": {"stretto/chip": "ascend"}}, "status": {"allocatable": {
      "huawei.com/Ascend910": "4"}}})
  cluster.script("job.py", "import os; print('rank', os.environ['RANK'])")
  for words, error in (
      (["--chips", "h100:1"], "no node has the label stretto/chip=h100; there are ascend (1"),
      (["--chips", "v100:17"], "all nodes together have 16"),
      (["--chips", "v100:16", "--nodes", "1"], "a node has 8 at most; --nodes 2"),
      (["--chips", "v100:4", "--resource", "amd.com/gpu"], "its nodes have no amd.com/gpu")):
    assert error in run(cluster, *words, "job.py", code=3).stderr
  assert "no --chips x:N" in run(cluster, "--image", "x=y", "job.py", code=2).stderr
  done = cluster.run("run", *IMAGE, "--image", "ascend=registry.lab/cann:2", "--chips", "v100:2",
                     "--chips", "ascend:2", "job.py")
  assert sorted(done.stdout.splitlines()) == sorted(
    f"[{r}] rank {r}" for r in range(4))
  first, second = server.nodes.of("jobsets")[0]["spec"]["replicatedJobs"]
  pod = second["template"]["spec"]["template"]["spec"]
  assert (first["name"], second["name"]) == ("v100", "ascend")
  assert pod["nodeSelector"] == {"stretto/chip": "ascend"}
  assert pod["containers"][0]["image"] == "registry.lab/cann:2"
  assert pod["containers"][0]["resources"]["limits"] == {"huawei.com/Ascend910": "2"}
  server.forbidden = {"nodes"}
  assert "--resource v100=DOMAIN/NAME" in run(cluster, "--chips", "v100:2", "job.py",
                                              code=3).stderr
  shown = run(cluster, "--dry-run", "--chips", "v100:2", "--resource", "nvidia.com/gpu", "job.py")
  assert '"nvidia.com/gpu": "1"' in shown.stdout and '"parallelism": 2' in shown.stdout


@pytest.mark.parametrize("words, error", [
  (["--backend", "kubernetes"], "--image IMAGE: jobs on Kubernetes run in a container"),
  (["--backend", "local", "--image", "x"], "--image: only with --backend kubernetes"),
  ([*IMAGE, "--host", "a@b"], "--host: not with --backend kubernetes"),
  ([*IMAGE[:2], "--image=-x"], "--image: expected REGISTRY/NAME:TAG"),
  ([*IMAGE, "--volume", "../x"], "--volume: expected"),
  ([*IMAGE, "--priority", "a b"], "--priority: expected"),
  ([*IMAGE, "--resource", "gpu"], "--resource: expected DOMAIN/NAME"),
])
def test_wrong_options(cluster, words, error):
  cluster.script("job.py", "")
  assert error in cluster.run("run", *words, "job.py", code=2).stderr
  assert not (cluster.state / "jobs").exists()


def test_a_tree_that_does_not_fit_is_refused(cluster):
  cluster.script("job.py", "")
  (cluster.work / "data.bin").write_bytes(os.urandom(17 << 20))
  assert "more than 15 MB compressed" in run(cluster, "job.py", code=3).stderr
  (cluster.work / "data.bin").write_bytes(os.urandom(2 << 20))  # several objects
  cluster.script("job.py", "import os; print(os.path.getsize('data.bin'))")
  assert run(cluster, "job.py").stdout == f"[0] {2 << 20}\n"
