"""kubectl: executed as a list of words, with a time limit, objects and secrets on standard input.
What a job's pods hold is reached by `kubectl exec`, with the program that works behind ssh
(_agent.py)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stretto.cluster import _agent
from stretto.cluster import _kubernetes_manifest as manifest
from stretto.cluster._host import ANSWER_S, CONNECT_S, READS, ClusterError, Done, Host, SshHost

REQUEST_S = 20  # for one request of kubectl, which may make several
INSTALL = "https://kubernetes.io/docs/tasks/tools says how to install it"
DOWN = ("unable to connect", "connection refused", "was refused", "no such host", "i/o timeout",
        "network is unreachable", "tls handshake timeout", "deadline exceeded")
NO_KIND = ("the server doesn't have a resource type", "no matches for kind",
           "could not find the requested resource")


class Kubectl(SshHost):
  """This host, for the folders of jobs; pods, for what is in them."""

  package = "kubectl: " + INSTALL

  def __init__(self, context: str = "", namespace: str = "", kubeconfig: str = "") -> None:
    Host.__init__(self, {"KUBECONFIG": kubeconfig} if kubeconfig else {})
    self.where, self.way = "of Kubernetes", "kubectl exec"
    self.context, self.namespace = context, namespace
    self.pods: list[tuple[str, str]] = []  # which hold the files that are copied; interpreters

  def place(self) -> list[str]:
    return [*([f"--context={self.context}"] if self.context else []),
            *([f"--namespace={self.namespace}"] if self.namespace else [])]

  def words(self, *words: str, limited: bool = True) -> list[str]:
    return ["kubectl", *self.place(), *([f"--request-timeout={REQUEST_S}s"] if limited else []),
            *words]

  def kubectl(self, *words: str, text: str = "", timeout: float = ANSWER_S) -> Done:
    """`text` goes to standard input, and is never shown."""
    whole = self.words(*words)
    if self.trace:
      self.trace(" ".join(whole))
    return Done(*Host.call(self, "run", whole, self.environment, None, text, timeout,
                           timeout=timeout + CONNECT_S))

  def must(self, *words: str, **how: Any) -> str:
    done = self.kubectl(*words, **how)
    if done.code != 0:
      raise self.error(done, words)
    return done.out

  def error(self, done: Done, words: Iterable[str]) -> ClusterError:
    """What went wrong, and what to do."""
    what = f"kubectl {next(iter(words))}"
    told = done.err.lower()
    asks = " ".join(["kubectl", *self.place(), "version"])
    if done.code == _agent.NOT_FOUND:
      return ClusterError(f"{done.err}; {INSTALL}")
    if done.code == _agent.TIMED_OUT or any(sign in told for sign in DOWN):
      return ClusterError(f"{what}: {done.reason}; is the cluster up? `{asks}` asks it")
    if any(sign in told for sign in NO_KIND):
      kind = "Kueue" if "queue" in told or "workload" in told else "JobSet"
      page = "https://kueue.sigs.k8s.io/docs/installation" if kind == "Kueue" else \
        "https://jobset.sigs.k8s.io/docs/installation"
      return ClusterError(f"{what}: {kind} is not installed in this cluster; {page} says how")
    if "forbidden" in told and "quota" not in told:
      return ClusterError(f"{what}: {done.reason}; you have no permission for this in namespace "
                          f"{self.namespace or 'default'}: choose another with --namespace, or ask "
                          "who runs the cluster")
    return ClusterError(f"{what}: {done.reason}")

  def resolve(self) -> None:
    """Fixes context and namespace, so that later commands ask the same cluster. Inside of a cluster
    there may be no configuration, and kubectl knows by itself where it is."""
    done = self.kubectl("config", "view", "--minify", "-o", "json")
    if done.code == _agent.NOT_FOUND or (done.code != 0 and self.context):
      raise self.error(done, ["config"])
    if done.code != 0:
      return
    with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):
      found = json.loads(done.out)
      self.context = self.context or found["current-context"]
      self.namespace = self.namespace or found["contexts"][0]["context"].get("namespace", "")
    self.namespace = self.namespace or "default"

  # Files of pods.

  def call(self, do: str, *arguments: Any, timeout: float = ANSWER_S) -> Any:
    if do != "written":
      return Host.call(self, do, *arguments, timeout=timeout)
    return self.exchange(do, [self.folder()], None, timeout)

  def folder(self) -> str:
    return f"{manifest.ROOT}/job"

  def agent(self) -> list[str]:
    if not self.pods:
      raise ClusterError("no pod of this job runs")
    pod, python = self.pods[0]
    return self.words("exec", "-i", pod, "-c", manifest.CONTAINER, "--", python, "-c", READS,
                      limited=False)

  def put_tree(self, folder: str, files: Iterable[tuple[str, Path]], follow: bool = False) -> None:
    """Into all pods. Before there are any, the tree is in objects of the job."""
    all_files, every = list(files), self.pods
    try:
      for pod in every:
        self.pods = [pod]
        SshHost.put_tree(self, self.folder(), all_files, follow)
    finally:
      self.pods = every

  def get_tree(self, folder: str, paths: list[str], target: Path) -> None:
    SshHost.get_tree(self, self.folder(), paths, target)

  def shell_words(self, words: list[str], terminal: bool = False) -> list[str]:
    return words
