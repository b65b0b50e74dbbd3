"""The controllers and nodes of a Kubernetes cluster, played for tests: JobSets become jobs and
pods, and the pods' commands run as processes of this machine, in folders that stand for volumes."""

import base64
import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import traceback
import uuid
from pathlib import Path

from stretto.cluster import _kubernetes_manifest as manifest

PERIOD_S = 0.05
LONG_AGO = "2026-01-02T03:04:05Z"
RESTART = manifest.RESTART_LABEL
KINDS = {"JobSet": "jobsets", "Job": "jobs", "Pod": "pods", "ConfigMap": "configmaps",
         "Secret": "secrets", "Event": "events", "Node": "nodes", "Namespace": "namespaces",
         "PersistentVolumeClaim": "persistentvolumeclaims", "LocalQueue": "localqueues",
         "Workload": "workloads"}


def stamp(fraction=False):
  now = datetime.datetime.now(datetime.timezone.utc)
  return now.strftime("%Y-%m-%dT%H:%M:%S" + (".%f000Z" if fraction else "Z"))


def true(kind, reason="", message=""):
  return {"type": kind, "status": "True", "reason": reason, "message": message,
          "lastTransitionTime": stamp()}


def inside(place, word):
  """A path of a pod as a path of this machine."""
  return str(place) + word[len(manifest.ROOT):] if word.startswith(manifest.ROOT) else word


def violations(spec):
  """What the Pod Security Standard "restricted" has against a pod, as far as it could concern jobs:
  https://kubernetes.io/docs/concepts/security/pod-security-standards."""
  pod, found = spec.get("securityContext", {}), []
  for container in spec["containers"]:
    own = container.get("securityContext", {})
    both = {**pod, **own}
    if own.get("allowPrivilegeEscalation") is not False:
      found.append("allowPrivilegeEscalation != false")
    if "ALL" not in own.get("capabilities", {}).get("drop", []):
      found.append("unrestricted capabilities")
    if both.get("runAsNonRoot") is not True:
      found.append("runAsNonRoot != true")
    if both.get("runAsUser") == 0:
      found.append("runAsUser=0")
    if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
      found.append("seccompProfile")
  allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
             "projected", "secret"}
  return found + [f"volume {v['name']}" for v in spec["volumes"] if not allowed & set(v)]


def free_ports(count):
  """The first of several in a row."""
  while True:
    with contextlib.ExitStack() as stack:
      first = stack.enter_context(socket.socket())
      first.bind(("", 0))
      port = first.getsockname()[1]
      with contextlib.suppress(OSError, OverflowError):
        for more in range(1, count):
          stack.enter_context(socket.socket()).bind(("", port + more))
        return port


class Process:
  """A pod's container."""

  def __init__(self, child, folder, log):
    self.child, self.folder, self.log = child, folder, log


class Nodes:
  """`folder` has a folder per pod. `ready` says why a pod finds no node; "": it does."""

  def __init__(self, folder: Path):
    self.folder, self.lock = folder, threading.RLock()
    self.store: dict[tuple[str, str], dict] = {}  # plural and name
    self.processes: dict[str, Process] = {}
    self.ports: dict[tuple[str, int], int] = {}
    self.dead: set[str] = set()  # pods whose node does not answer
    self.nameless = False  # DNS does not know the first pod
    self.ready = lambda pod: ""
    self.kueue, self.quota = False, ""  # queues admit nothing; why pods are refused
    self.restricted = False  # whether the namespace enforces the Pod Security Standard
    self.prunes_rules = False  # as JobSet before 0.6
    self.stopping, self.error = threading.Event(), ""
    self.thread = threading.Thread(target=self.work, daemon=True)
    self.thread.start()

  # Objects.

  def add(self, each):
    with self.lock:
      each = json.loads(json.dumps(each))
      meta = each.setdefault("metadata", {})
      meta.update(uid=str(uuid.uuid4()), creationTimestamp=stamp(), namespace="lab",
                  resourceVersion="1")
      if each["kind"] == "JobSet":
        each["status"] = {"restarts": 0}
        if self.prunes_rules:
          del each["spec"]["failurePolicy"]["rules"]
        if self.kueue and manifest.QUEUE_LABEL in meta["labels"]:
          each["spec"]["suspend"] = True
          self.add({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": {
            "name": f"jobset-{meta['name']}", "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]},
            "ownerReferences": [{"uid": meta["uid"]}]}, "status": {"conditions": [
              {"type": "QuotaReserved", "status": "False", "reason": "Pending",
               "message": "couldn't assign flavors to pod set: insufficient quota for gpu"}]}})
      if each["kind"] == "Pod":
        each.setdefault("status", {"phase": "Pending", "conditions": []})
      key = (KINDS[each["kind"]], meta["name"])
      if key in self.store:
        return None
      self.store[key] = each
      return each

  def of(self, plural):
    with self.lock:
      return [each for (kind, _), each in self.store.items() if kind == plural]

  def get(self, plural, name):
    return self.store.get((plural, name))

  def own(self, plural, name, patch):
    """The only patch that is understood: an owner."""
    each = self.store.get((plural, name))
    if each is not None:
      assert patch.keys() == {"metadata"} and patch["metadata"].keys() == {"ownerReferences"}
      each["metadata"] |= patch["metadata"]
    return each

  def delete(self, plural, name, foreground=False):
    with self.lock:
      each = self.store.get((plural, name))
      if each is None:
        return None
      if plural == "pods" or foreground:
        each["metadata"].setdefault("deletionTimestamp", stamp())
        if foreground:
          self.collect(each["metadata"]["uid"])
        if plural == "pods" and name in self.dead:
          each["metadata"]["deletionTimestamp"] = LONG_AGO
        elif plural == "pods" and name not in self.processes:
          del self.store[plural, name]
        elif plural == "pods":
          self.signal(name, signal.SIGTERM)
      else:
        del self.store[plural, name]
        self.collect(each["metadata"]["uid"])
      return each

  def collect(self, owner):
    for (plural, name), each in list(self.store.items()):
      if any(ref["uid"] == owner for ref in each["metadata"].get("ownerReferences", [])):
        self.delete(plural, name)

  # What the controllers do.

  def work(self):
    while not self.stopping.wait(PERIOD_S):
      try:
        with self.lock:
          for pod in self.of("pods"):
            self.tend(pod)
          for job in self.of("jobs"):
            self.judge(job)
          for job_set in self.of("jobsets"):
            self.tend_set(job_set)
      except Exception:  # close() shows it
        self.error = traceback.format_exc()
        return

  def owned(self, plural, owner):
    uid = owner["metadata"]["uid"]
    return [each for each in self.of(plural) if any(
      ref["uid"] == uid for ref in each["metadata"].get("ownerReferences", []))]

  def tend_set(self, job_set):
    meta, status = job_set["metadata"], job_set["status"]
    jobs = self.owned("jobs", job_set)
    pods = [pod for pod in self.of("pods")
            if pod["metadata"].get("labels", {}).get(manifest.JOB_LABEL) == meta["name"]]
    if "deletionTimestamp" in meta:
      for job in jobs:
        self.delete("jobs", job["metadata"]["name"])
      if not jobs and not pods:
        self.delete("jobsets", meta["name"])
      return
    if status.get("terminalState") or job_set["spec"].get("suspend"):
      return
    count = str(status["restarts"])
    for job in jobs:
      if job["metadata"]["labels"][RESTART] != count:
        self.delete("jobs", job["metadata"]["name"])
    jobs = [job for job in jobs if job["metadata"]["labels"][RESTART] == count]
    if not jobs:
      if not pods:
        self.start_jobs(job_set)
      return
    failed = [job for job in jobs if self.has(job, "Failed")]
    if failed:
      self.fail_set(job_set, failed[0], jobs)
    elif all(self.has(job, "Complete") for job in jobs):
      status.update(terminalState="Completed", conditions=[true("Completed", "AllJobsCompleted")])

  def fail_set(self, job_set, job, jobs):
    policy, status = job_set["spec"]["failurePolicy"], job_set["status"]
    reason = next(c["reason"] for c in job["status"]["conditions"] if c["type"] == "Failed")
    rule = next((r for r in policy["rules"] if reason in r["onJobFailureReasons"]), None)
    if rule is None and status["restarts"] < policy["maxRestarts"]:
      status["restarts"] += 1
      return
    status.update(terminalState="Failed", conditions=[true(
      "Failed", "FailJobSetFailurePolicyAction" if rule else "ReachedMaxRestarts",
      f"applying FailJobSet failure policy action (first failed job: {job['metadata']['name']})")])
    for other in jobs:
      if not self.has(other, "Failed") and not self.has(other, "Complete"):
        self.delete("jobs", other["metadata"]["name"])

  def has(self, each, kind):
    return any(c["type"] == kind for c in each["status"].get("conditions", []))

  def start_jobs(self, job_set):
    meta = job_set["metadata"]
    for replicated in job_set["spec"]["replicatedJobs"]:
      template = replicated["template"]
      name = f"{meta['name']}-{replicated['name']}-0"
      labels = {**template["metadata"]["labels"], RESTART: str(job_set["status"]["restarts"]),
                "jobset.sigs.k8s.io/jobset-name": meta["name"],
                "jobset.sigs.k8s.io/replicatedjob-name": replicated["name"]}
      job = self.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": {
        "name": name, "labels": labels, "ownerReferences": [{"uid": meta["uid"]}]},
        "spec": template["spec"], "status": {"startTime": time.time()}})
      wrong = self.restricted and violations(template["spec"]["template"]["spec"])
      refusal = self.quota or wrong and (
        f'pods "{name}" is forbidden: violates PodSecurity "restricted:latest": '
        + ", ".join(wrong))
      if refusal:
        self.add({"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.1"},
                  "involvedObject": {"kind": "Job", "name": name}, "type": "Warning",
                  "reason": "FailedCreate", "message": refusal})
        continue
      for index in range(template["spec"]["completions"]):
        pod = json.loads(json.dumps(template["spec"]["template"]))
        self.add({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {
          "name": f"{name}-{index}-{uuid.uuid4().hex[:5]}",
          "labels": {**labels, "batch.kubernetes.io/job-completion-index": str(index)},
          "ownerReferences": [{"uid": job["metadata"]["uid"]}]}})

  def judge(self, job):
    """What the Job controller says about the job's pods."""
    if self.has(job, "Failed") or self.has(job, "Complete"):
      return
    pods, spec = self.owned("pods", job), job["spec"]
    reason = ""
    limit = spec.get("activeDeadlineSeconds")
    if limit and time.time() - job["status"]["startTime"] > limit:
      reason = "DeadlineExceeded"
    for pod in pods:
      if "terminated" in self.state(pod):
        reason = reason or self.judged(pod, spec)
    if job["metadata"]["labels"].get("lost"):
      reason = reason or "BackoffLimitExceeded"
    if reason:
      job["status"]["conditions"] = [true("Failed", reason)]
      for pod in pods:
        if "running" in self.state(pod) or not self.state(pod):
          self.delete("pods", pod["metadata"]["name"])
    elif pods and all("terminated" in self.state(pod) for pod in pods):
      job["status"]["conditions"] = [true("Complete")]

  def judged(self, pod, spec):
    code = self.state(pod)["terminated"]["exitCode"]
    conditions = {c["type"] for c in pod["status"]["conditions"] if c["status"] == "True"}
    if code == 0:
      return ""
    for rule in spec["podFailurePolicy"]["rules"]:
      on = rule.get("onExitCodes")
      if on and (code in on["values"]) == (on["operator"] == "In") or not on and any(
          c["type"] in conditions for c in rule["onPodConditions"]):
        return "PodFailurePolicy" if rule["action"] == "FailJob" else "BackoffLimitExceeded"
    return "BackoffLimitExceeded"

  # What a node does.

  def state(self, pod):
    found = pod["status"].get("containerStatuses", [])
    return found[0]["state"] if found else {}

  def tend(self, pod):
    name = pod["metadata"]["name"]
    process = self.processes.get(name)
    if name in self.dead:
      return
    if process is None:
      if "deletionTimestamp" not in pod["metadata"] and not self.state(pod).get("terminated"):
        self.begin(pod)
      return
    code = process.child.poll()
    if code is None or "terminated" in self.state(pod):
      if code is not None and "deletionTimestamp" in pod["metadata"]:
        self.store.pop(("pods", name), None)
      return
    message = process.folder / "message"
    began = self.state(pod).get("running", {}).get("startedAt")
    code = code if code >= 0 else 128 - code
    pod["status"].update(phase="Failed" if code else "Succeeded", containerStatuses=[
      {"name": manifest.CONTAINER, "state": {"terminated": {
        "exitCode": code, "reason": "Error" if code else "Completed", "startedAt": began,
        "finishedAt": stamp(), "message": message.read_text() if message.exists() else ""}}}])

  def waits(self, pod, reason, message):
    pod["status"]["containerStatuses"] = [{"name": manifest.CONTAINER, "state": {
      "waiting": {"reason": reason, "message": message}}}]

  def begin(self, pod):
    why = self.ready(pod)
    if why:
      pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False",
                                      "reason": "Unschedulable", "message": why}]
      return
    pod["status"]["conditions"] = []
    pod["spec"]["nodeName"] = "node-1"
    spec = pod["spec"]["containers"][0]
    if spec["image"].startswith("missing/"):
      return self.waits(pod, "ErrImagePull", f"pull access denied for {spec['image']}")
    place = self.folder / pod["metadata"]["name"]
    shutil.rmtree(place, ignore_errors=True)
    (place / "packed").mkdir(parents=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "STRETTO_"))}
    environment["PATH"] = f"{Path(os.sys.executable).parent}:{environment['PATH']}"
    for source in spec.get("envFrom", []):
      secret = self.get("secrets", source["secretRef"]["name"])
      if secret is None:
        return self.waits(pod, "CreateContainerConfigError", "secret not found")
      environment |= {k: base64.b64decode(v).decode() for k, v in secret["data"].items()}
    for volume in pod["spec"]["volumes"]:
      if not self.mount(volume, place, spec):
        return self.waits(pod, "ContainerCreating", "")
    labels = pod["metadata"]["labels"]
    for each in spec.get("env", []):
      key = re.fullmatch(r"metadata\.labels\['(.*)'\]", each["valueFrom"]["fieldRef"]["fieldPath"])
      environment[each["name"]] = labels.get(key[1], "")
    environment["JOB_COMPLETION_INDEX"] = labels.get("batch.kubernetes.io/job-completion-index",
                                                     "0")
    # Pods have addresses of their own; here all have this machine's, so a job gets its own port.
    told = place / "packed/pod.json"
    if told.exists():
      told.write_text(json.dumps({**json.loads(told.read_text()), "address":
                                  "first.invalid" if self.nameless else "127.0.0.1",
                                  "port": self.port(labels)}))
    words = [inside(place, word.replace("$$", "$")) for word in spec["command"]]
    log = open(place / "log", "ab")
    reader, writer = os.pipe()
    try:
      child = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=writer,
                               stderr=writer, cwd=place, start_new_session=True)
    except OSError as error:
      pod["status"].update(phase="Failed", containerStatuses=[
        {"name": manifest.CONTAINER, "state": {"terminated": {
          "exitCode": 128, "reason": "StartError", "message": str(error),
          "startedAt": stamp(), "finishedAt": stamp()}}}])
      os.close(reader)
      return None
    finally:
      os.close(writer)
    threading.Thread(target=self.note_lines, args=(reader, log), daemon=True).start()
    self.processes[pod["metadata"]["name"]] = Process(child, place, place / "log")
    pod["status"].update(phase="Running", containerStatuses=[
      {"name": manifest.CONTAINER, "state": {"running": {"startedAt": stamp()}}}])
    return None

  def note_lines(self, reader, log):
    with os.fdopen(reader, "rb") as lines, log:
      for line in lines:
        log.write(stamp(True).encode() + b" " + line)
        log.flush()

  def mount(self, volume, place, spec):
    if "persistentVolumeClaim" in volume:
      mount = next(m for m in spec["volumeMounts"] if m["name"] == volume["name"])
      target = self.folder / "claims" / volume["persistentVolumeClaim"]["claimName"] / \
          mount["subPath"]
      target.mkdir(parents=True, exist_ok=True)
      (place / Path(mount["mountPath"]).name).symlink_to(target)
    for source in volume.get("projected", {}).get("sources", []):
      found = self.get("configmaps", source["configMap"]["name"])
      if found is None:
        return False
      for item in source["configMap"]["items"]:
        target = place / volume["name"] / item["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        binary = found.get("binaryData", {}).get(item["key"])
        target.write_bytes(base64.b64decode(binary) if binary else
                           found["data"][item["key"]].encode())
    return True

  def port(self, labels):
    key = labels.get(manifest.JOB_LABEL, ""), int(labels.get(RESTART, "0"))
    if key not in self.ports:
      self.ports[key] = free_ports(3)
    return self.ports[key]

  def signal(self, name, number):
    process = self.processes.get(name)
    if process and process.child.poll() is None:
      process.child.send_signal(number)

  def lose(self, name):
    """The node of a pod dies, and Kubernetes is told that it is gone, as clouds do."""
    with self.lock:
      pod = self.store.pop(("pods", name))
      self.kill(self.processes[name])
      for job in self.of("jobs"):
        if any(r["uid"] == job["metadata"]["uid"] for r in pod["metadata"]["ownerReferences"]):
          job["metadata"]["labels"]["lost"] = "yes"

  def die(self, name):
    """The node of a pod dies, and nobody knows whether it comes back: the pod stays."""
    with self.lock:
      self.dead.add(name)
      self.kill(self.processes[name])

  def force(self, name):
    """kubectl delete pod --force"""
    with self.lock:
      del self.store["pods", name]

  def kill(self, process):
    """The container, with the ranks' sessions: all that work in its folder."""
    process.child.kill()
    for entry in Path("/proc").iterdir():
      if entry.name.isdigit():
        with contextlib.suppress(OSError):
          if str(process.folder).encode() in (entry / "environ").read_bytes() or \
              str(process.folder).encode() in (entry / "cmdline").read_bytes():
            os.kill(int(entry.name), signal.SIGKILL)
    process.child.wait()

  def close(self):
    self.stopping.set()
    self.thread.join()
    for process in self.processes.values():
      self.kill(process)
    assert not self.error, self.error
