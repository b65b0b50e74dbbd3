"""The objects of a job on Kubernetes: a JobSet with a replicated job per kind of chip, ConfigMaps
with the packed tree and the program of the pods, and a Secret. Only words that were checked stand
where Kubernetes expands $(NAME); what the ranks run and their variables are in pod.json."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import secrets
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

from stretto.cluster import _pack, _slurm_script
from stretto.cluster._backend import Request

API, KIND = "jobset.x-k8s.io/v1alpha2", "JobSet"
ROOT = "/stretto"
CONTAINER = "ranks"
PORT = 29500  # a pod has its own ports; the next two are the engine's and _pod_link's
KEPT_S = 7 * 86400  # jobs that are over, with what they have printed
GRACE_S = 60  # for ranks that save their state on SIGTERM
PROGRAM = ("stretto/_rank.py", "stretto/cluster/_pod.py", "stretto/cluster/_pod_link.py",
           "stretto/cluster/_agent.py", "stretto/cluster/_task.py",
           "stretto/cluster/_watch_steps.py")
CHUNK_BYTES = 640 << 10  # an object has 1 MiB at most, in base64
MOST_CHUNKS = 24
CHIP_LABEL = "stretto/chip"  # as label-nodes.sh of `stretto cluster compile` sets it
JOB_LABEL, USER_LABEL = "stretto/job", "stretto/user"
MANAGED = {"app.kubernetes.io/managed-by": "stretto"}
ABOUT = "stretto/about"  # an annotation, in JSON: what `ls` shows
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
# Of LocalQueues, as site.yaml of `stretto cluster compile` has it: the label of a rack. Kueue never
# admits a job that asks for a topology on nodes without.
TOPOLOGY, NEAR = "stretto/topology", "kueue.x-k8s.io/podset-preferred-topology"
LABEL = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?"
                   r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
# Of namespaces: which Pod Security Standard their pods have to meet.
SECURITY_LABEL, RESTRICTED = "pod-security.kubernetes.io/enforce", "restricted"
RESTART_LABEL = "jobset.sigs.k8s.io/restart-attempt"
AGAIN = 75  # as _pod.py exits when a pod was lost; other codes but 0 end the job


class Part(NamedTuple):
  """Pods that run on one kind of chip."""
  name: str
  pods: int
  ranks: int
  image: str
  python: str
  kind: str = ""  # empty: no chips
  resource: str = ""  # "nvidia.com/gpu"
  chips: int = 0  # per pod
  millicpus: int = 0  # per pod, as are the next
  memory: int = 0  # bytes
  limited: bool = False  # whether a pod that needs more memory is ended


class Security(NamedTuple):
  """As whom containers run, and with which rights."""
  restricted: bool = False  # as the Pod Security Standard "restricted" wants it
  user: int | None = None  # None: that of the image
  group: int | None = None

  def of_pod(self) -> dict[str, Any]:
    """What stands in the spec of a pod."""
    given: dict[str, Any] = {}
    if self.restricted:
      given = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if self.user is not None:
      group = self.user if self.group is None else self.group
      # The group is also that of the job's volume, as far as its driver knows groups.
      given |= {"runAsUser": self.user, "runAsGroup": group, "fsGroup": group,
                "fsGroupChangePolicy": "OnRootMismatch"}
    return {"securityContext": given} if given else {}

  def of_container(self) -> dict[str, Any]:
    return {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {
      "drop": ["ALL"]}}} if self.restricted else {}


AS_THE_IMAGE = Security()


class TooLarge(Exception):
  """The packed tree does not fit into objects of Kubernetes."""


def name_of(text: str, longest: int, otherwise: str) -> str:
  """A DNS label that resembles the text."""
  plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
  plain = re.sub(r"^[^a-z]+", "", plain)[:longest].rstrip("-")
  return plain or otherwise


def label_of(text: str) -> str:
  """A value of a label that resembles the text."""
  return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$", "",
                re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63]) or "unknown"


def literal(text: str) -> str:
  """Of commands, Kubernetes expands $(NAME); a doubled dollar is a dollar."""
  return text.replace("$", "$$")


def packed(tree: _pack.Tree) -> list[bytes]:
  """The tree as parts of a compressed tar file."""
  out = io.BytesIO()
  with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as stream, \
      tarfile.open(fileobj=stream, mode="w") as tar:
    for name, source in tree.files:
      tar.add(source, arcname=name, recursive=False)
      if out.tell() > CHUNK_BYTES * MOST_CHUNKS:
        raise TooLarge
  data = out.getvalue()
  if len(data) > CHUNK_BYTES * MOST_CHUNKS:
    raise TooLarge
  return [data[at:at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]


def job_set(name: str, request: Request, parts: list[Part], chunks: int,
            about: dict[str, Any], topology: str = "",
            security: Security = AS_THE_IMAGE) -> dict[str, Any]:
  labels = {**MANAGED, JOB_LABEL: name, USER_LABEL: label_of(about["user"])}
  queue = {QUEUE_LABEL: request.queue} if request.queue else {}
  priority = {PRIORITY_LABEL: request.priority} if request.priority else {}
  return {
    "apiVersion": API, "kind": KIND,
    "metadata": {"name": name, "labels": {**labels, **queue, **priority},
                 "annotations": {ABOUT: json.dumps(about)}},
    "spec": {
      "ttlSecondsAfterFinished": KEPT_S,
      "network": {"enableDNSHostnames": True, "subdomain": name,
                  "publishNotReadyAddresses": True},
      # The exit code of a pod says whether the script has failed, or a pod was lost. What fails for
      # another reason, such as a node that is drained, starts again, so many times; with
      # BlockingRecreate, no replicated job does so while pods of another still end.
      "failurePolicy": {
        "maxRestarts": request.retries, "restartStrategy": "BlockingRecreate", "rules": [
          {"name": "script", "action": "FailJobSet",
           "onJobFailureReasons": ["PodFailurePolicy", "DeadlineExceeded"]}]},
      "replicatedJobs": [
        {"name": part.name, "replicas": 1,
         "template": {"metadata": {"labels": labels},
                      "spec": job(name, request, parts, number, chunks, labels, topology,
                                  security)}}
        for number, part in enumerate(parts)]}}


def job(name: str, request: Request, parts: list[Part], number: int, chunks: int,
        labels: dict[str, str], topology: str, security: Security) -> dict[str, Any]:
  part = parts[number]
  near = {"annotations": {NEAR: topology}} if topology and part.pods > 1 else {}
  return {
    "parallelism": part.pods, "completions": part.pods, "completionMode": "Indexed",
    "backoffLimit": 0,
    "podFailurePolicy": {"rules": [
      {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
      {"action": "Count", "onExitCodes": {"containerName": CONTAINER, "operator": "In",
                                          "values": [AGAIN]}},
      {"action": "FailJob", "onExitCodes": {"containerName": CONTAINER, "operator": "NotIn",
                                            "values": [0]}}]},
    "template": {"metadata": {"labels": labels, **near},
                 "spec": pod(name, request, parts, number, chunks, security)}}


def pod(name: str, request: Request, parts: list[Part], number: int, chunks: int,
        security: Security) -> dict[str, Any]:
  part = parts[number]
  selector = {"nodeSelector": {CHIP_LABEL: part.kind}} if part.kind else {}
  memory = {"memory": str(part.memory)}
  resources = {"requests": {"cpu": f"{part.millicpus}m", **memory}}
  limits = {**({part.resource: str(part.chips)} if part.chips else {}),
            **(memory if part.limited else {})}
  if limits:
    resources["limits"] = limits
  sources = [{"configMap": {"name": f"{name}-program", "items": [
    {"key": "pod.json", "path": "pod.json"},
    *({"key": os.path.basename(p), "path": p} for p in PROGRAM)]}}]
  sources += [{"configMap": {"name": tree_map(name, chunk), "items": [
    {"key": "tree", "path": f"tree.{chunk:03}"}]}} for chunk in range(chunks)]
  # A rank may share memory with its neighbours, and with the processes that load its data.
  volumes = [{"name": "packed", "projected": {"sources": sources}},
             {"name": "job", "persistentVolumeClaim": {"claimName": request.volume}}
             if request.volume else {"name": "job", "emptyDir": {}},
             {"name": "shm", "emptyDir": {"medium": "Memory"}}]
  # What Kubernetes' own plugin adds where it is on: nodes with chips are often closed to others.
  tolerations = {"tolerations": [{"key": part.resource, "operator": "Exists",
                                  "effect": "NoSchedule"}]} if part.chips else {}
  job_mount = {"name": "job", "mountPath": f"{ROOT}/job"}
  return {
    "restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_S,
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,  # a service called "master" would set MASTER_PORT
    **selector, **tolerations, **security.of_pod(),
    "containers": [{
      "name": CONTAINER, "image": part.image,
      "command": [literal(part.python), f"{ROOT}/packed/stretto/cluster/_pod.py", ROOT, "run",
                  str(number)],
      "terminationMessagePath": f"{ROOT}/message",
      "env": [{"name": "STRETTO_RESTARTS", "valueFrom": {"fieldRef": {
        "fieldPath": f"metadata.labels['{RESTART_LABEL}']"}}}],
      "envFrom": [{"secretRef": {"name": f"{name}-secret"}}], "resources": resources,
      **security.of_container(),
      "volumeMounts": [{"name": "packed", "mountPath": f"{ROOT}/packed", "readOnly": True},
                       {**job_mount, "subPath": f"stretto/{name}"} if request.volume else job_mount,
                       {"name": "shm", "mountPath": "/dev/shm"}]}],
    "volumes": volumes}


def pod_json(name: str, request: Request, parts: list[Part]) -> dict[str, Any]:
  """What the pods are told. It holds no secret."""
  first = f"{name}-{parts[0].name}-0-0.{name}"
  return {"parts": [{"pods": p.pods, "ranks": p.ranks, "python": p.python} for p in parts],
          "words": request.words, "environment": request.environment, "inside": request.inside,
          # From the start of the ranks. A job's activeDeadlineSeconds would count from the start of
          # its first pod, and others may wait long for a node or an image.
          "limit_s": _slurm_script.seconds_of(request.time) if request.time else 0,
          "grace_s": _slurm_script.grace_of(request.time),
          "hang_after": request.hang_after, "cpus": request.cpus, "volume": bool(request.volume),
          "address": first if sum(p.pods for p in parts) > 1 else "127.0.0.1", "port": PORT}


def tree_map(name: str, chunk: int) -> str:
  return f"{name}-tree-{chunk}"


def owner(name: str, uid: str) -> dict[str, Any]:
  """Of objects that are gone when the JobSet is."""
  return {"apiVersion": API, "kind": KIND, "name": name, "uid": uid, "blockOwnerDeletion": False}


def companions(name: str, pod_text: str, chunks: list[bytes],
               own: dict[str, str]) -> list[dict[str, Any]]:
  """The objects that pods of the JobSet read. They are there before it, so that no pod waits for
  them and holds chips; the Secret is last, so that it is without an owner for the shortest time."""
  folder = Path(__file__).parent.parent.parent
  program = {os.path.basename(p): (folder / p).read_text(encoding="utf-8") for p in PROGRAM}

  def made(kind: str, called: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {
      "name": called, "labels": {**MANAGED, JOB_LABEL: name}}, "immutable": True, **more}

  return [
    made("ConfigMap", f"{name}-program", data={**program, "pod.json": pod_text}),
    *(made("ConfigMap", tree_map(name, at), binaryData={
      "tree": base64.b64encode(data).decode()}) for at, data in enumerate(chunks)),
    made("Secret", f"{name}-secret", type="Opaque", data={
      key: base64.b64encode(os.fsencode(value)).decode() for key, value in own.items()})]


def access_pod(name: str, uid: str, request_volume: str, image: str, python: str,
               seconds: int, security: Security) -> dict[str, Any]:
  """A pod that gives access to what a job that is over has left on its volume."""
  return {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": f"{name}-files-{secrets.token_hex(3)}",
                 "labels": {**MANAGED, f"{JOB_LABEL}-files": name},
                 "ownerReferences": [owner(name, uid)]},
    "spec": {
      "restartPolicy": "Never", "activeDeadlineSeconds": seconds,
      "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
      **security.of_pod(),
      "containers": [{
        "name": CONTAINER, "image": image,
        "command": [literal(python), f"{ROOT}/packed/stretto/cluster/_pod.py", ROOT, "wait",
                    str(seconds)],
        **security.of_container(),
        "volumeMounts": [{"name": "packed", "mountPath": f"{ROOT}/packed", "readOnly": True},
                         {"name": "job", "mountPath": f"{ROOT}/job",
                          "subPath": f"stretto/{name}"}]}],
      "volumes": [{"name": "packed", "projected": {"sources": [{"configMap": {
        "name": f"{name}-program", "items": [{"key": os.path.basename(p), "path": p}
                                             for p in PROGRAM]}}]}},
                  {"name": "job", "persistentVolumeClaim": {"claimName": request_volume}}]}}
