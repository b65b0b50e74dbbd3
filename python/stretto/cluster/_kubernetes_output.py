"""What kubectl prints as JSON, of Kubernetes 1.27 and JobSet 0.6 on: states, reasons, exit codes
and the chips of nodes. Fields that other versions lack are left out or empty, never an error."""

from __future__ import annotations

import datetime
import json
import re
import time
from typing import Any, NamedTuple

from stretto.cluster import _kubernetes_manifest as manifest
from stretto.cluster._backend import ENDS, OVER, RUNS, WAITS, Row, State
from stretto.cluster._host import ClusterError

Object = dict[str, Any]
LATE = "DeadlineExceeded"  # of a job to which somebody else has given a limit
ENDINGS = ("failed", "late")  # of messages: what _pod.py says of jobs that do not start again
ORDINARY = {"ContainerCreating", "PodInitializing", ""}
INDEX = "batch.kubernetes.io/job-completion-index"  # also an annotation, before 1.28 only that
PART = "jobset.sigs.k8s.io/replicatedjob-name"
LONGEST_REASON = 300
STUCK_S = 60.0  # after the time by which a pod should have ended


class Look(NamedTuple):
  """A job as Kubernetes has it now. `job_set` is None when there is none of this name."""
  job_set: Object | None
  jobs: list[Object]
  pods: list[Object]


def objects(text: str) -> list[Object]:
  """The items of a list. ClusterError for what is no JSON, such as a proxy's page."""
  try:
    found = json.loads(text)
    if not isinstance(found, dict):
      raise ValueError
    items = found["items"] if "items" in found else [found]
    return [item for item in items if isinstance(item, dict)]
  except (ValueError, KeyError, TypeError):
    raise ClusterError(f"kubectl: expected JSON, got {text.strip()[:200]!r}") from None


def look(items: list[Object], name: str) -> Look:
  def of(kind: str) -> list[Object]:
    return [item for item in items if item.get("kind") == kind]

  found = [item for item in of("JobSet") if meta(item).get("name") == name]
  return Look(found[0] if found else None, of("Job"), of("Pod"))


def meta(item: Object) -> Object:
  return item.get("metadata") or {}


def status(item: Object) -> Object:
  return item.get("status") or {}


def condition(item: Object, kind: str) -> Object:
  """The condition if it is true, else {}."""
  return next((c for c in status(item).get("conditions") or []
               if c.get("type") == kind and c.get("status") == "True"), {})


def about(job_set: Object) -> Object:
  try:
    found = json.loads((meta(job_set).get("annotations") or {}).get(manifest.ABOUT, "{}"))
  except ValueError:
    return {}
  return found if isinstance(found, dict) else {}


def topology_of(local_queue: Object) -> str:
  """The label of nodes by which the nodes of a queue are near each other; "": it says none."""
  found = str((meta(local_queue).get("annotations") or {}).get(manifest.TOPOLOGY, ""))
  return found if manifest.LABEL.fullmatch(found) else ""


def seconds(text: str | None) -> float:
  """A time of Kubernetes, in seconds since 1970; 0: none."""
  try:
    return datetime.datetime.fromisoformat((text or "").replace("Z", "+00:00")).timestamp()
  except ValueError:
    return 0.0


def expected_pods(job_set: Object) -> int:
  total = 0
  for each in (job_set.get("spec") or {}).get("replicatedJobs") or []:
    spec = (each.get("template") or {}).get("spec") or {}
    total += int(each.get("replicas", 1)) * int(spec.get("parallelism", 1))
  return total


def restarts(job_set: Object) -> int:
  return int(status(job_set).get("restarts") or 0)


def current(found: Look) -> list[Object]:
  """The pods of this start; those of earlier ones may still be ending."""
  number = str(restarts(found.job_set or {}))
  return [pod for pod in found.pods
          if (meta(pod).get("labels") or {}).get(manifest.RESTART_LABEL, number) == number
          and not meta(pod).get("deletionTimestamp")]


def container(pod: Object) -> Object:
  """The state of the ranks' container: {"running": ...}, {"waiting": ...}, {"terminated": ...}."""
  for each in status(pod).get("containerStatuses") or []:
    if each.get("name") == manifest.CONTAINER:
      return each.get("state") or {}
  return {}


def has_begun(pod: Object) -> bool:
  state = container(pod)
  return "running" in state or "terminated" in state


def is_running(pod: Object) -> bool:
  return "running" in container(pod) and not meta(pod).get("deletionTimestamp")


def place(pod: Object) -> tuple[str, int]:
  """The replicated job and the number of the pod in it."""
  labels, notes = meta(pod).get("labels") or {}, meta(pod).get("annotations") or {}
  index = str(labels.get(INDEX, notes.get(INDEX, "0")))
  return labels.get(PART, ""), int(index) if index.isdigit() else 0


def why_pod_waits(pod: Object) -> str:
  for each in status(pod).get("conditions") or []:
    if each.get("type") == "PodScheduled" and each.get("status") == "False":
      return words(each.get("reason"), each.get("message"))
  for each in [*(status(pod).get("initContainerStatuses") or []),
               *(status(pod).get("containerStatuses") or [])]:
    waiting = (each.get("state") or {}).get("waiting") or {}
    if waiting.get("reason", "") not in ORDINARY:
      return words(waiting.get("reason"), waiting.get("message"))
  return words(status(pod).get("reason"), status(pod).get("message"))


def why_stuck(found: Look, now: float | None = None) -> str:
  """Kubernetes waits for the end of a pod until its node says so, and a dead node says nothing. It
  might still run behind a broken network, so only a human can decide."""
  for pod in found.pods:
    ends = seconds(meta(pod).get("deletionTimestamp"))
    if ends and (time.time() if now is None else now) - ends > STUCK_S:
      name, node = meta(pod).get("name", ""), (pod.get("spec") or {}).get("nodeName", "?")
      space = meta(pod).get("namespace", "default")
      return words("Terminating", f"pod {name} on node {node} does not end, and the job waits for "
                   f"that; if the node is dead: kubectl delete pod {name} -n {space} --force")
  return ""


def words(reason: str | None, message: str | None) -> str:
  text = ": ".join(part for part in (reason, message) if part)
  return " ".join(text.split())[:LONGEST_REASON]


def why_refused(message: str | None) -> str:
  """What the API server says about pods that it does not make."""
  advice = ("run with --restricted, or where the image runs as root with --restricted --run-as UID"
            if f'violates PodSecurity "{manifest.RESTRICTED}' in (message or "") else "")
  return words(f"FailedCreate ({advice})" if advice else "FailedCreate", message)


def why_suspended(workloads: list[Object]) -> str:
  """What Kueue says about the job's Workload."""
  for each in workloads:
    for found in status(each).get("conditions") or []:
      if found.get("type") in ("QuotaReserved", "Admitted") and found.get("status") == "False":
        return words("Kueue", found.get("message") or found.get("reason"))
  return "Kueue has not admitted it"


def state(found: Look) -> State:
  job_set = found.job_set
  if job_set is None:
    return State(OVER, "CANCELLED", "it is no longer there")
  if meta(job_set).get("deletionTimestamp"):
    return State(ENDS, "CANCELLING", why_stuck(found))
  failed = condition(job_set, "Failed")
  if condition(job_set, "Completed") or status(job_set).get("terminalState") == "Completed":
    return State(OVER, "COMPLETED")
  if failed or status(job_set).get("terminalState") == "Failed":
    late = any(condition(job, "Failed").get("reason") == LATE for job in found.jobs)
    told = message(found).get("why")
    if late or told in ENDINGS:
      return State(OVER, "TIMEOUT" if late or told == "late" else "FAILED")
    if told or restarts(job_set):
      return State(OVER, "POD_LOST",
                   f"in start {restarts(job_set) + 1}, the last that --retries allows")
    return State(OVER, "POD_FAILED", why_failed(found))
  if (job_set.get("spec") or {}).get("suspend"):
    return State(WAITS, "SUSPENDED")
  pods = current(found)
  for pod in pods:
    if not has_begun(pod):
      return State(WAITS, "PENDING", why_pod_waits(pod))
  if len(pods) < expected_pods(job_set):
    return State(WAITS, "PENDING", why_stuck(found))
  return State(RUNS, "RUNNING")


def message(found: Look) -> Object:
  """How the pods say that the job ended: what the failing rank's pod says before all others."""
  ends = []
  for pod in found.pods:
    ended = container(pod).get("terminated") or {}
    try:
      told = json.loads(ended.get("message") or "{}")
    except ValueError:
      continue
    if isinstance(told, dict) and "why" in told:
      ends.append((restart_of(pod), told["why"] in ENDINGS, -seconds(ended.get("finishedAt")),
                   told))
  return max(ends, key=lambda end: end[:3])[3] if ends else {}


def restart_of(pod: Object) -> int:
  text = str((meta(pod).get("labels") or {}).get(manifest.RESTART_LABEL, "0"))
  return int(text) if text.isdigit() else 0


def why_failed(found: Look) -> str:
  for pod in found.pods:
    ended = container(pod).get("terminated") or {}
    if ended.get("exitCode") and not (ended.get("message") or "").startswith("{"):
      return words(ended.get("reason"), ended.get("message") or f"exit code {ended['exitCode']}")
    if status(pod).get("phase") == "Failed" and not ended:
      return why_pod_waits(pod)
  return words(None, condition(found.job_set or {}, "Failed").get("message"))


def exit_code(found: Look) -> int:
  """Of a job that is over."""
  if condition(found.job_set or {}, "Completed"):
    return 0
  told = message(found)
  if told.get("why") in ENDINGS and isinstance(told.get("code"), int):
    return told["code"] or 1
  # The whole container was killed, with the program that leaves the message.
  codes = [container(pod).get("terminated", {}).get("exitCode") for pod in found.pods]
  killed = [code for code in codes if isinstance(code, int) and code > 128]
  return killed[0] if killed else 1


def row(job_set: Object, pods: list[Object], now: float | None = None) -> Row:
  told = about(job_set)
  found = Look(job_set, [], pods)
  now_is = state(found)
  age = max((time.time() if now is None else now)
            - seconds(meta(job_set).get("creationTimestamp")), 0)
  labels = meta(job_set).get("labels") or {}
  return Row(meta(job_set).get("name", ""), str(told.get("name", "")), now_is.word.lower(), age,
             expected_pods(job_set), str(told.get("chips", "")),
             labels.get(manifest.QUEUE_LABEL, ""), now_is.reason,
             str(told.get("user", labels.get(manifest.USER_LABEL, ""))),
             str(told.get("folder", "")))


UNITS = {"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20,
         "Gi": 2**30, "Ti": 2**40}


def quantity(text: object) -> float:
  """A number as Kubernetes writes it, 0 if it is none: 7910m, 32Gi."""
  found = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", str(text))
  return float(found[1]) * UNITS.get(found[2], 0) if found else 0.0


def sizes_of(text: str) -> dict[str, tuple[int, int]]:
  """Kind of chip to thousandths of processors and bytes of memory that its smallest nodes have,
  from the same lines as chips_of()."""
  found: dict[str, tuple[int, int]] = {}
  for line in text.splitlines():
    kind, tab, resources = line.partition("\t")
    try:
      given = json.loads(resources or "{}")
    except ValueError:
      continue
    cpus, memory = int(quantity(given.get("cpu")) * 1000), int(quantity(given.get("memory")))
    if tab and kind and cpus and memory:
      least = found.get(kind, (cpus, memory))
      found[kind] = min(least[0], cpus), min(least[1], memory)
  return found


def chips_of(text: str) -> dict[str, tuple[dict[str, int], int]]:
  """Kind of chip to the chips of one node per resource (the most of any), and the number of such
  nodes, from lines of label and allocatable resources."""
  found: dict[str, tuple[dict[str, int], int]] = {}
  for line in text.splitlines():
    kind, tab, resources = line.partition("\t")
    if not tab or not kind or kind == "none":
      continue
    try:
      given = json.loads(resources or "{}")
    except ValueError:
      continue
    known, nodes = found.get(kind, ({}, 0))
    for name, count in given.items():
      # Chips are extended resources, which have a domain; memory and processors have none.
      if "/" in name and re.fullmatch(r"\d+", str(count)) and int(count) > 0:
        known[name] = max(known.get(name, 0), int(count))
    found[kind] = (known, nodes + 1)
  return found
