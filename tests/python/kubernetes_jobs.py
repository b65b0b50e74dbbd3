"""A command line, kubectl and an API server that plays a cluster: what tests of jobs on Kubernetes
begin with."""

import os
import shutil
import sys
from pathlib import Path

from cluster_slurm import without_scheduler
from kubernetes_server import Server

from stretto.cluster import _pod

# The real kubectl where it is installed, else a program that does the same.
REAL = os.environ.get("STRETTO_TEST_KUBECTL") != "own"
KUBECTL = Path(__file__).parent / "kubernetes_kubectl.py"
IMAGE = ("--backend", "kubernetes", "--image", "registry.lab/train:1")


def serving(tmp_path):
  found = Server(tmp_path)
  yield found
  found.close()


def with_kubectl(tmp_path, server):
  found = without_scheduler(tmp_path)
  kubectl = tmp_path / "bin/kubectl"
  if real := shutil.which("kubectl", path=os.environ["PATH"]) if REAL else None:
    kubectl.symlink_to(real)
  else:
    kubectl.write_text(f"#!/bin/sh\nexec {sys.executable} {KUBECTL} \"$@\"\n")
    kubectl.chmod(0o755)
  found.environment |= {"KUBECONFIG": str(server.config), "HOME": str(tmp_path)}
  return found


def run(cluster, *words, **how):
  return cluster.run("run", *IMAGE, *words, **how)


def pods(server):
  return {f"{pod['metadata']['labels']['jobset.sigs.k8s.io/replicatedjob-name']}-"
          f"{pod['metadata']['labels']['batch.kubernetes.io/job-completion-index']}":
          pod["metadata"]["name"] for pod in server.nodes.of("pods")
          if "deletionTimestamp" not in pod["metadata"]}


def logged(server, text):
  """For wait_until(): whether some pod has printed it."""
  return lambda: any(text in process.log.read_text()
                     for process in list(server.nodes.processes.values()))


def know_each_other(server, count):
  """For wait_until(): whether so many pods are connected, each with the first of its job."""
  def connected():
    ports = {port + _pod.LINK_PORT for port in server.nodes.ports.values()}
    found = 0
    for name in ("tcp", "tcp6"):
      for line in Path("/proc/net", name).read_text().splitlines()[1:]:
        _, local, _, state = line.split()[:4]
        found += state == "01" and int(local.rpartition(":")[2], 16) in ports
    return found >= count - 1
  return connected
