"""Jobs on Kubernetes without a cluster: the objects that are written, what versions of Kubernetes
and JobSet print, and the connections between pods."""

import base64
import gzip
import io
import json
import queue
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from kubernetes_nodes import free_ports
from stretto.cluster._backend import ENDS, OVER, RUNS, WAITS, Chips, Request, State
from stretto.cluster._host import ClusterError, Done
from stretto.cluster._kubectl import Kubectl
from stretto.cluster._kubernetes import Kubernetes, refused
from stretto.cluster._kubernetes_logs import Logs, parsed
from stretto.cluster._kubernetes_request import bytes_of, shape

from stretto.cluster import _kubernetes_manifest as manifest
from stretto.cluster import _kubernetes_output as output
from stretto.cluster import _pack, _pod, _pod_link

SCHEMA = Path(__file__).parents[1] / "cluster/crds/jobset.json"


def request(**more):
  return Request("a name", [Chips("", 0, 2)], ["./train.py"], **more)


def parts():
  return [manifest.Part("v100", 2, 16, "lab/cuda:1", "python3", "v100", "nvidia.com/gpu", 8),
          manifest.Part("ascend", 1, 4, "lab/cann:1", "/opt/py/$(x)", "ascend", "huawei.com/A", 4)]


def job_set(**more):
  about = {"user": "ann", "name": "x"}
  return manifest.job_set("a-name-1f2e3d", request(**more), parts(), 2, about)


# What is written.

@pytest.mark.parametrize("more", [
  {}, {"queue": "normal-multi", "priority": "normal", "time": "0-01:30:00", "retries": 5,
       "volume": "results"}])
def test_job_sets_fit_the_schema_of_job_set(tmp_path, more):
  path = tmp_path / "jobset.json"
  path.write_text(json.dumps(job_set(**more)))
  checked(path)


@pytest.mark.parametrize("change", [
  lambda spec: spec.update(activeDeadlineSeconds=1),
  lambda spec: spec["failurePolicy"].update(maxRestart=1),
  lambda spec: spec["failurePolicy"]["rules"][0].update(action="Fail"),
  lambda spec: spec["replicatedJobs"][0]["template"]["spec"].update(backOffLimit=0),
  lambda spec: spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][
    0].update(imagePullSecret="x")])
def test_the_schema_refuses_unknown_fields(tmp_path, change):
  path = tmp_path / "jobset.json"
  each = job_set()
  change(each["spec"])
  path.write_text(json.dumps(each))
  with pytest.raises(subprocess.CalledProcessError):
    checked(path)


def checked(path):
  subprocess.run([sys.executable, "-m", "check_jsonschema", "--schemafile", SCHEMA, path],
                 check=True, capture_output=True, timeout=120)


def test_what_a_job_asks_for():
  each = job_set(queue="normal-multi", time="0-01:30:00", retries=5, volume="results")
  first, second = each["spec"]["replicatedJobs"]
  assert each["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "normal-multi"
  assert each["spec"]["failurePolicy"]["maxRestarts"] == 5
  job = first["template"]["spec"]
  assert (job["parallelism"], job["backoffLimit"]) == (2, 0)
  pod = second["template"]["spec"]["template"]["spec"]
  assert pod["containers"][0]["command"][0] == "/opt/py/$$(x)"  # Kubernetes expands $(x)
  assert {"name": "job", "mountPath": "/stretto/job", "subPath": "stretto/a-name-1f2e3d"} in \
    pod["containers"][0]["volumeMounts"]
  assert "activeDeadlineSeconds" not in json.dumps(each), "it would count the time in the queue"
  told = manifest.pod_json("a-name-1f2e3d", request(time="0-01:30:00"), parts())
  assert (told["limit_s"], told["grace_s"]) == (5400, 60)
  assert told["address"] == "a-name-1f2e3d-v100-0-0.a-name-1f2e3d"


def test_pods_tolerate_what_closes_nodes_with_chips_to_others():
  first, second = job_set()["spec"]["replicatedJobs"]
  for each, resource in (first, "nvidia.com/gpu"), (second, "huawei.com/A"):
    assert each["template"]["spec"]["template"]["spec"]["tolerations"] == [
      {"key": resource, "operator": "Exists", "effect": "NoSchedule"}]
  plain = manifest.job_set("a-name", request(), [manifest.Part("ranks", 1, 2, "lab/a:1", "python")],
                           1, {"user": "ann", "name": "x"})
  assert "tolerations" not in json.dumps(plain)


def test_pods_of_a_part_come_into_one_rack_where_the_queue_has_racks(tmp_path):
  about = {"user": "ann", "name": "x"}
  each = manifest.job_set("a-name-1f2e3d", request(queue="q"), parts(), 2, about, "stretto/rack")
  path = tmp_path / "jobset.json"
  path.write_text(json.dumps(each))
  checked(path)
  notes = [part["template"]["spec"]["template"]["metadata"].get("annotations")
           for part in each["spec"]["replicatedJobs"]]
  assert notes == [{"kueue.x-k8s.io/podset-preferred-topology": "stretto/rack"}, None]
  assert "podset" not in json.dumps(job_set(queue="q"))


@pytest.mark.parametrize("queue, topology", [
  ({"metadata": {"annotations": {"stretto/topology": "stretto/rack"}}}, "stretto/rack"),
  ({"metadata": {"annotations": {"stretto/topology": "a b\n"}}}, ""),
  ({"metadata": {"annotations": None}}, ""), ({}, "")])
def test_the_topology_of_a_queue(queue, topology):
  assert output.topology_of(queue) == topology


def test_secrets_are_made_last_and_the_tree_is_whole(tmp_path):
  for name in ("train.py", "lib/mod.py"):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(name)
  (tmp_path / "link").symlink_to("train.py")
  (tmp_path / "data.bin").write_bytes(bytes(range(256)) * 9000)
  tree = _pack.tree_of(tmp_path)
  chunks = manifest.packed(tree)
  made = manifest.companions("n", "{}", chunks, {"KEY": "v\u00e9"})
  assert base64.b64decode(made[-1]["data"]["KEY"]).decode() == "v\u00e9"
  whole = b"".join(base64.b64decode(each["binaryData"]["tree"]) for each in made[1:-1])
  with tarfile.open(fileobj=io.BytesIO(gzip.decompress(whole))) as tar:
    assert sorted(tar.getnames()) == ["data.bin", "lib/mod.py", "link", "train.py"]
  assert all(len(json.dumps(each)) < 1 << 20 for each in made)


@pytest.mark.parametrize("text, name", [
  ("train", "train"), ("-n; $(x) \u00e9", "n-x"), ("9lives", "lives"), ("\u6f22", "job"),
  ("A_B.c", "a-b-c"), ("x" * 40, "x" * 20)])
def test_names_become_labels(text, name):
  assert manifest.name_of(text, 20, "job") == name


def test_chips_become_pods():
  nodes = {"v100": ({"nvidia.com/gpu": 8}, 2), "two": ({"a.b/x": 1, "a.b/y": 1}, 1)}

  def of(kind, total, pods=None, ranks=None, known=nodes, **names):
    part = shape(Chips(kind, total, ranks or total, pods), known, names)
    return part.pods, part.ranks, part.resource, part.chips

  assert of("v100", 8) == (1, 8, "nvidia.com/gpu", 8)
  assert of("v100", 16) == (2, 16, "nvidia.com/gpu", 8)
  with pytest.raises(ClusterError, match="all nodes together have 16"):
    of("v100", 17)
  assert of("v100", 4, known=None, v100="a.b/c") == (4, 4, "a.b/c", 1)
  assert of("v100", 8, ranks=2, known=None, v100="a.b/c") == (2, 2, "a.b/c", 4)
  with pytest.raises(ClusterError, match="its nodes have a.b/x, a.b/y; --resource two="):
    of("two", 1)


# What Kubernetes prints.

def condition(kind, status="True", **more):
  return {"type": kind, "status": status, **more}


def pod(name="p", restart=0, phase="Running", state=None, conditions=(), **meta):
  return {"kind": "Pod", "metadata": {"name": name, "labels": {
    manifest.RESTART_LABEL: str(restart)}, **meta}, "status": {
      "phase": phase, "conditions": list(conditions), "containerStatuses": [
        {"name": "ranks", "state": state}] if state else []}}


def of_status(status, pods=(), jobs=(), **spec):
  return output.Look({"kind": "JobSet", "metadata": {"name": "n"}, "status": status, "spec": {
    "replicatedJobs": [{"replicas": 1, "template": {"spec": {"parallelism": 1}}}], **spec}},
    list(jobs), list(pods))


def ended(code, told=None, at="2026-01-02T03:04:05Z", **more):
  return {"terminated": {"exitCode": code, "finishedAt": at, **more,
                         **({"message": json.dumps(told)} if told else {})}}


RUNNING = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
FAILED = {"why": "failed", "rank": 1, "code": 7, "pods": []}
LOST = {"why": "lost", "rank": None, "code": 0, "pods": [1]}
TOO_LATE = {"why": "late", "rank": None, "code": 124, "pods": []}


@pytest.mark.parametrize("look, state", [
  (of_status({}), State(WAITS, "PENDING")),
  (of_status({"conditions": []}, [pod(state=RUNNING)]), State(RUNS, "RUNNING")),
  # JobSet 0.6 has no terminalState, later versions do.
  (of_status({"conditions": [condition("Completed")]}), State(OVER, "COMPLETED")),
  (of_status({"terminalState": "Completed", "restarts": 1}), State(OVER, "COMPLETED")),
  (of_status({"conditions": [condition("Failed")]}, [pod(state=ended(1, FAILED))]),
   State(OVER, "FAILED")),
  (of_status({"conditions": [condition("Failed")]}, [
    pod("a", state=ended(1, TOO_LATE)), pod("b", state=ended(75, LOST))]), State(OVER, "TIMEOUT")),
  (of_status({"conditions": [condition("Failed")]}, [], [
    {"kind": "Job", "status": {"conditions": [condition("FailureTarget", reason="x"), condition(
      "Failed", reason="DeadlineExceeded")]}}]), State(OVER, "TIMEOUT")),
  (of_status({"conditions": [condition("Failed")]}, [pod(state=ended(
    128, reason="StartError", message="no python3"))]),
   State(OVER, "POD_FAILED", "StartError: no python3")),
  (of_status({}, suspend=True), State(WAITS, "SUSPENDED")),
  (of_status({"restarts": 1}, [pod(state=RUNNING)]), State(WAITS, "PENDING")),  # of the first start
  (of_status({}, [pod(phase="Pending", conditions=[condition(
    "PodScheduled", "False", reason="SchedulingGated", message="gated")])]),
   State(WAITS, "PENDING", "SchedulingGated: gated")),
  (of_status({}, [pod(phase="Pending", state={"waiting": {"reason": "ContainerCreating"}})]),
   State(WAITS, "PENDING")),
  (of_status({"conditions": [condition("InventedLater")]}, [pod(state=RUNNING)]),
   State(RUNS, "RUNNING")),
])
def test_states(look, state):
  assert output.state(look) == state


def test_states_of_jobs_that_end_or_are_gone():
  assert output.state(output.Look(None, [], [])) == State(OVER, "CANCELLED",
                                                          "it is no longer there")
  ending = of_status({})
  ending.job_set["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
  assert output.state(ending).what == ENDS


@pytest.mark.parametrize("pods, code", [
  ([pod(state=ended(1, FAILED))], 7),
  ([pod(state=ended(1, TOO_LATE))], 124),
  ([pod("a", state=ended(75, LOST)), pod("b", state=ended(1, FAILED))], 7),
  ([pod("a", state=ended(75, LOST))], 1),
  # The start before has failed in another way.
  ([pod("a", 0, state=ended(1, {**FAILED, "code": 3})), pod("b", 1, state=ended(1, FAILED))], 7),
  ([pod(state=ended(137, reason="OOMKilled"))], 137),
  ([pod(state=ended(1, message="no JSON"))], 1),
  ([], 1)])
def test_the_code_of_a_job(pods, code):
  assert output.exit_code(of_status({"conditions": [condition("Failed")]}, pods)) == code


def test_the_index_of_a_pod_is_a_label_or_before_1_28_an_annotation():
  name = "batch.kubernetes.io/job-completion-index"
  new = {"metadata": {"labels": {output.PART: "v100", name: "3"}}}
  old = {"metadata": {"labels": {output.PART: "v100"}, "annotations": {name: "3"}}}
  assert output.place(new) == output.place(old) == ("v100", 3)


def test_what_kueue_says_in_its_versions():
  old = [{"status": {"conditions": [condition("QuotaReserved", "False", message="no quota")]}}]
  new = [{"status": {"conditions": [condition("QuotaReserved"), condition(
    "Admitted", "False", message="waits for checks")]}}]
  assert output.why_suspended(old) == "Kueue: no quota"
  assert output.why_suspended(new) == "Kueue: waits for checks"
  assert output.why_suspended([]) == "Kueue has not admitted it"


@pytest.mark.parametrize("text", ["", "<html>proxy</html>", "[1]", "null"])
def test_an_answer_that_is_no_list_is_an_error(text):
  with pytest.raises(ClusterError, match="kubectl: expected JSON"):
    output.objects(text)


@pytest.mark.parametrize("code, err, expected", [
  (1, "Unable to connect to the server: dial tcp: lookup k8s: no such host", "is the cluster up"),
  (1, "The connection to the server localhost:8080 was refused - did you specify the right host",
   "is the cluster up"),
  (1, 'error: the server doesn\'t have a resource type "jobsets"', "JobSet is not installed"),
  (1, 'error: resource mapping not found for name: "x": no matches for kind "JobSet" in version '
   '"jobset.x-k8s.io/v1alpha2"\nensure CRDs are installed first', "JobSet is not installed"),
  (1, 'error: the server doesn\'t have a resource type "localqueues"', "Kueue is not installed"),
  (1, 'Error from server (Forbidden): jobsets is forbidden: User "ann" cannot list', "permission"),
  (1, 'Error from server (Forbidden): pods "x" is forbidden: exceeded quota', "exceeded quota"),
  (124, "no answer within 30 s", "is the cluster up"),
  (127, "kubectl: not found", "how to install it")])
def test_what_is_wrong_is_said_with_what_to_do(code, err, expected):
  assert expected in str(Kubectl("c", "n").error(Done(code, "", err), ["get"]))


@pytest.mark.parametrize("code, err, certain", [
  (1, 'Error from server (Forbidden): jobsets is forbidden: User "ann" cannot create', True),
  (1, "The connection to the server localhost:8080 was refused - did you specify the right", True),
  (1, "error: unexpected EOF", False), (1, "read: connection reset by peer", False),
  (1, "Error from server (Timeout): the server was unable to return a response", False),
  (124, "no answer within 60 s", False), (0, "", False)])
def test_whether_it_is_certain_that_nothing_was_created(code, err, certain):
  assert refused(Done(code, "", err)) == certain


# Output.

def line(text, at, name="n-v100-0-0-abcde"):
  return f"[pod/{name}/ranks] 2026-01-02T03:04:{at}Z {text}".encode()


def test_lines_of_pods():
  name, at, news = parsed(line("[3] a [4] b", "05.123456789"))
  assert (name, news) == ("n-v100-0-0-abcde", (3, b"a [4] b\n"))
  assert parsed(line("from the pod", "05.1"))[2] == (None, b"from the pod\n")
  assert parsed(line("", "05"))[2] == (None, b"\n")
  # Some versions leave out the last zeros.
  assert parsed(line("", "05.12"))[1] < parsed(line("", "05.120000001"))[1]
  assert parsed(b"error: container is waiting to start") is None


def test_a_stream_that_is_opened_again_shows_no_line_twice():
  logs = Logs(Kubectl("c", "n"), "n")
  first = [line("[0] a", "05.1"), line("[0] b", "05.2"), line("[0] c", "05.2"),
           line("[1] x", "05.15", "other")]
  assert all(logs.fresh(each) for each in first)
  logs.before = dict(logs.known)
  again = [*first, line("[0] d", "05.2"), line("[0] e", "05.3"), line("[1] y", "05.15", "other")]
  shown = [news.data for each in again if (news := logs.fresh(each))]
  assert shown == [b"d\n", b"e\n", b"y\n"]


def test_a_shell_is_opened_in_the_pod_of_the_rank():
  job = {"id": "n", "parts": {"v100": 4, "ascend": 2},
         "pythons": {"v100": "py", "ascend": "/opt/py"}}
  backend = Kubernetes("c", "lab", "", job)
  found = of_status({})
  found.job_set["spec"]["replicatedJobs"] = [
    {"name": name, "template": {"spec": {"parallelism": count}}}
    for name, count in (("v100", 2), ("ascend", 1))]
  found.pods[:] = [pod(f"n-{part}-{index}", state=RUNNING) for part, index in (
    ("v100", 0), ("v100", 1), ("ascend", 0))]
  for each, (part, index) in zip(found.pods, (("v100", 0), ("v100", 1), ("ascend", 0))):
    each["metadata"]["labels"] |= {output.PART: part, output.INDEX: str(index)}
  backend.look = lambda job, now=False: found
  for rank, name in ((0, "n-v100-0"), (3, "n-v100-1"), (4, "n-ascend-0"), (5, "n-ascend-0")):
    words = backend.shell("n", "", rank)
    assert words[:3] == ["kubectl", "--context=c", "--namespace=lab"]
    assert words[3:6] == ["exec", "-it", name] and words[-1] == "shell"
    assert words[9] == ("/opt/py" if "ascend" in name else "py"), words
  with pytest.raises(ClusterError, match="the job has 6 ranks"):
    backend.shell("n", "", 6)


# Connections between pods.

@pytest.fixture
def link():
  events, port = queue.Queue(), free_ports(1)
  leader = _pod_link.Leader(port, "secret", events)
  yield leader, port, events
  leader.shut()


def heard(events, what, seconds=10):
  stop = time.monotonic() + seconds
  while time.monotonic() < stop:
    try:
      found = events.get(timeout=0.1)
    except queue.Empty:
      continue
    if found[0] == what:
      return found
  return None


def joined(leader, port, pod=1, secret="secret"):
  events = queue.Queue()
  peer = _pod_link.Peer("127.0.0.1", port, pod, secret, events)
  stop = time.monotonic() + 10
  while not peer.welcome and time.monotonic() < stop:
    time.sleep(0.01)
  return peer, events


def test_a_pod_that_leaves_in_order_is_not_lost(link):
  leader, port, events = link
  peer, _ = joined(leader, port)
  assert peer.send({"do": "failed", "rank": 3, "code": 7})
  assert heard(events, "said")[1:] == (1, {"do": "failed", "rank": 3, "code": 7})
  peer.leave()
  assert leader.over == {1} and heard(events, "lost", 0.3) is None


def test_a_pod_whose_connection_ends_is_lost(link):
  leader, port, events = link
  peer, _ = joined(leader, port)
  peer.line.close()
  assert heard(events, "lost")[1] == 1


def test_a_silent_pod_is_absent(link, monkeypatch):
  leader, port, _ = link
  monkeypatch.setattr(_pod_link, "ANSWER_S", 0.5)
  joined(leader, port, 1)
  quiet, _ = joined(leader, port, 2)
  assert leader.absent() == []
  with quiet.line.lock:  # it cannot answer
    assert leader.absent() == [2]


def test_strangers_are_not_let_in(link, monkeypatch):
  leader, port, events = link
  monkeypatch.setattr(_pod_link, "RETRY_S", 0.05)
  peer = _pod_link.Peer("127.0.0.1", port, 1, "guess", queue.Queue())
  time.sleep(0.5)
  assert not peer.welcome and leader.all() == {} and events.empty()
  peer.gone = True


def test_peers_hear_of_the_end_before_the_leader_is_gone(link):
  leader, port, _ = link
  _, events = joined(leader, port)
  leader.send({"do": "end", "why": "failed", "rank": 0, "code": 7, "pods": []})
  leader.all()[1].close()
  assert heard(events, "said")[2]["code"] == 7
  assert heard(events, "lost")


def test_ranks_wait_until_the_name_of_the_first_pod_is_known(monkeypatch):
  tries = []

  def late(name, port):
    tries.append(name)
    if len(tries) < 3:
      raise OSError("Name or service not known")
    return ["10.0.0.1"]

  monkeypatch.setattr(_pod.socket, "getaddrinfo", late)
  monkeypatch.setattr(_pod.time, "sleep", lambda seconds: None)
  monkeypatch.setattr(_pod, "PATIENCE_S", 0.0)
  said = []
  monkeypatch.setattr(_pod, "note", said.append)
  assert _pod.await_name("n-ranks-0-0.n", {"term": False})
  assert len(said) == 2 and "its name n-ranks-0-0.n is not known yet" in said[0]
  assert not _pod.await_name("n-ranks-0-0.n", {"term": True})


def test_a_pod_that_waits_for_the_volume_ends_when_asked(tmp_path, monkeypatch):
  monkeypatch.setattr(_pod, "PATIENCE_S", 0.0)
  asked, said = {"term": False}, []
  monkeypatch.setattr(_pod, "note", said.append)
  monkeypatch.setattr(_pod.time, "sleep", lambda seconds: asked.update(term=len(said) > 2))
  assert _pod.prepare(str(tmp_path), [], False, True, asked) is None
  assert "unpacks the tree on the volume" in said[0]


def test_a_start_on_a_volume_begins_without_the_records_of_the_last_one(tmp_path):
  for inner in ("progress", "records", "work"):
    (tmp_path / "job" / inner).mkdir(parents=True)
    (tmp_path / "job" / inner / "old").write_text("")
  (tmp_path / "job/unpacked").write_text("")
  assert _pod.prepare(str(tmp_path), [], True, True, {"term": False}) == str(tmp_path / "job")
  assert [p.parent.name for p in (tmp_path / "job").rglob("old")] == ["work"]


@pytest.mark.parametrize("ended, found", [
  ("2026-01-02T03:00:00Z", "Terminating: pod a on node n7 does not end, and the job waits for "
   "that; if the node is dead: kubectl delete pod a -n lab --force"),
  ("2026-01-02T03:04:00Z", "")])
def test_pods_that_do_not_end_are_told(ended, found):
  one = pod("a", state=RUNNING, deletionTimestamp=ended, namespace="lab")
  one["spec"] = {"nodeName": "n7"}
  now = output.seconds("2026-01-02T03:04:30Z")
  assert output.why_stuck(of_status({"restarts": 1}, [one]), now) == found


@pytest.mark.parametrize("text, size", [("4Gi", 4 << 30), ("1.5GB", 1500000000), ("2Mi", 2 << 20)])
def test_sizes_of_memory(text, size):
  assert bytes_of(text) == size


def test_nodes_say_how_much_they_have():
  line = "v100\t" + json.dumps({"cpu": "7910m", "memory": "31Gi", "nvidia.com/gpu": "8"})
  assert output.sizes_of(f"{line}\nk40\t\n{line.replace('7910m', '4')}\n") == {
    "v100": (4000, 31 << 30)}


def test_only_files_of_the_job_are_taken_from_other_pods():
  for name in ("progress/rank-00001.json", "records/rank-00001.json"):
    assert _pod.SHARED.fullmatch(name)
  for name in ("../x", "progress/../x", "work/a", "progress/a/b", "progress/.x", "/etc/passwd"):
    assert not _pod.SHARED.fullmatch(name)
