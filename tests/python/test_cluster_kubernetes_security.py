"""Jobs in namespaces of Kubernetes that restrict what pods may do, and as whom they run."""

import json
import os
import pwd
from pathlib import Path

import pytest
from cluster_slurm import wait_until
from kubernetes_jobs import run, serving, with_kubectl
from kubernetes_nodes import violations
from stretto.cluster._backend import Chips, Request
from test_cluster_kubernetes_parts import checked

from stretto.cluster import _kubernetes_manifest as manifest
from stretto.cluster import _kubernetes_request as asked
from stretto.cluster import _pod

PART = manifest.Part("ranks", 1, 2, "lab/a:1", "python3")
GOLDEN = Path(__file__).parents[1] / "cluster/golden/security.json"


@pytest.fixture
def server(tmp_path):
  yield from serving(tmp_path)


@pytest.fixture
def cluster(tmp_path, server):
  return with_kubectl(tmp_path, server)


def enforce(server, standard="restricted"):
  server.nodes.restricted = standard == "restricted"
  server.nodes.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {
    "name": "lab", "labels": {"pod-security.kubernetes.io/enforce": standard}}})


def specs(security):
  """Of a job's pods, and of the one that gives access to its volume."""
  job_set = manifest.job_set("n-1", Request("n", [Chips("", 0, 2)], ["a.py"], volume="v"), [PART],
                             1, {"user": "ann", "name": "n"}, security=security)
  access = manifest.access_pod("n-1", "u", "v", "lab/a:1", "python3", 60, security)
  return job_set, [job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"],
                   access["spec"]]


CASES = {"": manifest.Security(), "restricted": manifest.Security(True),
         "run-as": manifest.Security(False, 1000),
         "restricted run-as": manifest.Security(True, 1000, 2000)}


def written():
  return {name: [{"pod": spec.get("securityContext"),
                  "container": spec["containers"][0].get("securityContext")}
                 for spec in specs(security)[1]] for name, security in CASES.items()}


def test_security_contexts_are_the_golden_ones():
  assert written() == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("name", CASES)
def test_restricted_pods_meet_the_standard_and_fit_the_schema(name, tmp_path):
  job_set, found = specs(CASES[name])
  assert all(bool(violations(spec)) != CASES[name].restricted for spec in found)
  path = tmp_path / "jobset.json"
  path.write_text(json.dumps(job_set))
  checked(path)


@pytest.mark.parametrize("text, user", [("", (None, None)), ("1000", (1000, None)),
                                        ("1000:0", (1000, 0))])
def test_users_by_number(text, user):
  assert asked.run_as(text) == user


@pytest.mark.parametrize("text", ["ann", "-1", "1:", ":1", "1:2:3", "1\n", "\u0661", "9" * 10])
def test_users_that_are_no_numbers_are_refused(text):
  with pytest.raises(ValueError, match="--run-as: expected"):
    asked.run_as(text)


def test_a_restricted_namespace_gets_restricted_pods(cluster, server):
  enforce(server)
  cluster.script("job.py", "print('ran')")
  assert run(cluster, "job.py").stdout == "[0] ran\n"


@pytest.mark.parametrize("standard", ["baseline", "privileged"])
def test_other_namespaces_get_pods_with_their_rights(cluster, server, standard):
  enforce(server, standard)
  cluster.script("job.py", "")
  assert "securityContext" not in run(cluster, "--dry-run", "job.py").stdout


def test_a_namespace_that_may_not_be_looked_at_says_what_to_do(cluster, server):
  enforce(server)
  server.forbidden.add("namespaces")
  cluster.script("job.py", "print('ran')")
  child = cluster.start("run", "--backend", "kubernetes", "--image", "lab/a:1", "job.py")

  def told():
    return "run with --restricted" in cluster.run("ls", "--backend", "kubernetes").stdout

  wait_until(told)
  cluster.run("stop", "job")
  child.communicate(timeout=60)
  assert run(cluster, "--restricted", "--run-as", "1000", "job.py").stdout == "[0] ran\n"


def test_root_is_no_restricted_user(cluster):
  cluster.script("job.py", "")
  error = run(cluster, "--restricted", "--run-as", "0", "job.py", code=2).stderr
  assert "--restricted pods do not run as root" in error
  error = cluster.run("run", "--backend", "local", "--restricted", "job.py", code=2).stderr
  assert "--restricted: only with --backend kubernetes" in error


def test_a_user_without_a_name_has_a_home_that_can_be_written(monkeypatch, tmp_path):
  assert _pod.nameless() == {}

  def unknown(number):
    raise KeyError(number)

  monkeypatch.setattr(pwd, "getpwuid", unknown)
  monkeypatch.delenv("USER", raising=False)
  monkeypatch.setenv("HOME", "/proc")
  found = _pod.nameless()
  assert os.access(found["HOME"], os.W_OK) and found["USER"] == str(os.getuid())
  monkeypatch.setenv("HOME", str(tmp_path))
  assert _pod.nameless()["HOME"] == str(tmp_path)


if __name__ == "__main__":
  GOLDEN.write_text(json.dumps(written(), indent=1) + "\n")
