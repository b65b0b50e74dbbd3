"""Jobs of a Kubernetes cluster: a JobSet each, through kubectl. Kubernetes keeps the job and its
state; docs/design/cluster-kubernetes.md says why it is done so."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any

from stretto.cluster import _agent
from stretto.cluster import _kubernetes_manifest as manifest
from stretto.cluster import _kubernetes_output as output
from stretto.cluster import _kubernetes_request as asked
from stretto.cluster._backend import OVER, WAITS, Backend, News, Request, Row, State
from stretto.cluster._host import ClusterError, Refused
from stretto.cluster._kubectl import NO_KIND, Kubectl
from stretto.cluster._kubernetes_logs import LAST_LINES_S, Logs
from stretto.cluster._slurm import SECRET, SECRET_BYTES

SUBMIT_S, ACCESS_S, ACCESS_LIVES_S = 60.0, 180.0, 900
LOOK_S, LOOK_SLOWEST_S = 0.7, 4.0  # between two questions about a job
# Without --validate=false kubectl loads the schemas of all kinds first, which takes long.
CREATE = ("create", "--validate=false", "-f", "-", "-o", "json")
KINDS = "jobsets.jobset.x-k8s.io"
# What kubectl says when a connection broke while it waited for the answer.
UNSURE = ("timeout", "eof", "reset by peer", "broken pipe", "deadline exceeded", "connection lost")
COMPANIONS = ("configmaps", "secrets")
NODES = r'{range .items[*]}{.metadata.labels.stretto/chip}{"\t"}{.status.allocatable}{"\n"}{end}'
FINAL = "end.json"  # in the job's folder here: what was seen when the job was over


class Kubernetes(Backend):

  name = "kubernetes"
  host: Kubectl
  spread_s = 3 * LAST_LINES_S  # news() says when all is read

  def __init__(self, context: str = "", namespace: str = "", kubeconfig: str = "",
               job: dict[str, Any] | None = None) -> None:
    self.host = Kubectl(context, namespace, kubeconfig)
    self.resolved = job is not None
    self.job = job or {}  # job.json
    self.objects: tuple[Request, list[manifest.Part], list[bytes]] | None = None
    self.logs: Logs | None = None
    self.seen, self.seen_at, self.pause, self.over_at = output.Look(None, [], []), 0.0, LOOK_S, 0.0
    self.starts = 0
    self.topology = ""  # in one place of which the job's queue can put its pods
    self.sent = False  # whether a JobSet may be in the cluster

  def resolve(self) -> None:
    if not self.resolved:
      self.host.resolve()
      self.resolved = True

  def about(self) -> str:
    self.resolve()
    text = self.host.must("version", "-o", "json")
    try:
      version = json.loads(text)["serverVersion"]["gitVersion"].lstrip("v")
    except (ValueError, KeyError, TypeError, AttributeError):
      version = "?"
    context = f", context {self.host.context}" if self.host.context else ""
    return f"Kubernetes {version}{context}, namespace {self.host.namespace}"

  def describe(self) -> dict[str, Any]:
    self.resolve()
    # The name is known before there is a JobSet, so a command that is killed leaves no job unknown.
    return {"backend": self.name, "id": self.job.get("id", ""), "context": self.host.context,
            "namespace": self.host.namespace, "kubeconfig": kubeconfig(),
            **{key: self.job.get(key, "")
               for key in ("image", "python", "volume", "parts", "pythons", "security")}}

  # Submitting.

  def files(self, request: Request) -> dict[str, str]:
    self.resolve()
    asked.check(request)
    found = self.host.kubectl("api-resources", "--api-group=jobset.x-k8s.io", "-o", "name")
    if KINDS not in found.out:
      if found.code != 0:
        raise self.host.error(found, ["api-resources"])
      raise ClusterError("JobSet is not installed in this cluster; "
                         "https://jobset.sigs.k8s.io/docs/installation says how")
    self.check_queue(request)
    parts = self.parts_of(request)
    self.check_volume(request, sum(part.pods for part in parts))
    security = self.security_of(request)
    try:
      chunks = manifest.packed(request.tree)
    except manifest.TooLarge:
      raise ClusterError(
        f"{request.tree.root}: the packed tree has more than "
        f"{manifest.CHUNK_BYTES * manifest.MOST_CHUNKS >> 20} MB compressed, and it travels in "
        "objects of Kubernetes. Name in .gitignore what jobs do not need, and put data into the "
        "image or on a volume (--volume)") from None
    name = f"{manifest.name_of(request.name, 20, 'job')}-{secrets.token_hex(3)}"
    self.job = {"id": name, "image": parts[0].image, "python": parts[0].python,
                "volume": request.volume, "parts": {part.name: part.ranks for part in parts},
                "pythons": {part.name: part.python for part in parts},
                "security": list(security)}
    self.objects = request, parts, chunks
    chips = ",".join(f"{p.kind}:{p.chips}" for p in parts if p.chips)
    about = {"name": request.name, "user": user(), "chips": chips}
    job_set = manifest.job_set(name, request, parts, len(chunks), about, self.topology,
                               security)
    return {"jobset.json": json.dumps(job_set, indent=1) + "\n",
            "pod.json": json.dumps(manifest.pod_json(name, request, parts), indent=1) + "\n"}

  def check_queue(self, request: Request) -> None:
    if not request.queue:
      return
    found = self.host.kubectl("get", "localqueues.kueue.x-k8s.io", "-o", "json")
    if found.code != 0 and any(sign in found.err.lower() for sign in NO_KIND):
      raise self.host.error(found, ["get localqueues"])
    queues = {output.meta(each).get("name", ""): each
              for each in (output.objects(found.out) if found.code == 0 else [])}
    known = list(queues)
    self.topology = output.topology_of(queues.get(request.queue, {}))
    if found.code == 0 and request.queue not in known:
      raise ClusterError(f"--queue {request.queue}: namespace {self.host.namespace} has no such "
                         "LocalQueue" + (f", but {', '.join(sorted(known))}" if known else "")
                         + "; --namespace chooses another namespace")

  def security_of(self, request: Request) -> manifest.Security:
    """The namespace says what its pods need; one that may not be looked at says nothing."""
    restricted = request.restricted
    if not restricted:
      found = self.host.kubectl("get", "namespaces", self.host.namespace, "-o", "json")
      labels = output.meta(output.objects(found.out)[0]).get("labels") if found.code == 0 else None
      restricted = (labels or {}).get(manifest.SECURITY_LABEL) == manifest.RESTRICTED
    return manifest.Security(restricted, *asked.run_as(request.run_as))

  def check_volume(self, request: Request, pods: int) -> None:
    if not request.volume:
      return
    found = self.host.kubectl("get", "persistentvolumeclaims", request.volume, "-o", "json")
    if found.code != 0 and "(notfound)" in found.err.lower():
      raise ClusterError(f"--volume {request.volume}: namespace {self.host.namespace} has no such "
                         "PersistentVolumeClaim")
    if found.code != 0:
      return  # there may be no permission to look
    modes = (output.objects(found.out)[0].get("spec") or {}).get("accessModes") or []
    if pods > 1 and "ReadWriteMany" not in modes:
      raise ClusterError(f"--volume {request.volume}: a job of {pods} pods needs a claim with "
                         f"ReadWriteMany, this one has {', '.join(modes) or 'no access mode'}")

  def parts_of(self, request: Request) -> list[manifest.Part]:
    nodes: asked.Nodes | None = None
    sizes: asked.Sizes = {}
    if any(part.total for part in request.parts):
      found = self.host.kubectl("get", "nodes", "-o", f"jsonpath={NODES}")
      if found.code != 0 and "forbidden" not in found.err.lower():
        raise self.host.error(found, ["get nodes"])
      nodes = output.chips_of(found.out) if found.code == 0 else None
      sizes = output.sizes_of(found.out) if found.code == 0 else {}
    taken: list[str] = []
    parts = []
    for part in request.parts:
      short = manifest.name_of(part.kind, 12, "ranks")
      taken.append(short)
      short += f"-{taken.count(short)}" if taken.count(short) > 1 else ""
      python = part.python or request.python or "python3"
      made = asked.shape(part, nodes, request.resources)._replace(
        name=short, image=request.images.get(part.kind, request.images.get("", "")), python=python)
      most = nodes[made.kind][0][made.resource] if nodes and made.kind else 0
      parts.append(asked.needs(made, request, sizes, most))
    return parts

  def words(self, request: Request) -> list[str]:
    return self.host.words(*CREATE)

  def submit(self, request: Request, folder: str) -> str:
    assert self.objects is not None
    name = self.job["id"]
    job_set = json.loads(_agent.read_text(folder, "jobset.json") or "")
    about = {**output.about(job_set), "folder": os.path.basename(folder)}
    job_set["metadata"]["annotations"][manifest.ABOUT] = json.dumps(about)
    own = {**request.secrets, SECRET: os.environ.get(SECRET) or secrets.token_hex(SECRET_BYTES)}
    pod_text = _agent.read_text(folder, "pod.json") or ""
    companions = manifest.companions(name, pod_text, self.objects[2], own)
    tried: list[str] = []
    # One by one: a list of all could be larger than what a server takes at once.
    for each in companions:
      done = self.create(each)
      if not refused(done):
        tried.append(f"{each['kind'].lower()}s")
      if done.code != 0:
        raise self.undone(name, tried, str(self.host.error(done, ["create"])))
    self.sent = True
    done = self.create(job_set)
    if done.code != 0 and not refused(done):
      raise self.host.error(done, ["create"])
    if done.code != 0:
      self.sent = False
      raise self.undone(name, tried, str(self.host.error(done, ["create"])))
    made = output.objects(done.out)[0]
    if not ((made.get("spec") or {}).get("failurePolicy") or {}).get("rules"):
      raise self.undone(name, tried, "JobSet in this cluster is older than 0.6, which cannot tell "
                        "a script that has failed from a pod that was lost: a newer one is needed")
    done = self.give(companions, output.meta(made))
    if done.code != 0:
      raise self.undone(name, tried, str(self.host.error(done, ["patch"])))
    return str(name)

  def give(self, companions: list[dict[str, Any]], job_set: output.Object) -> Any:
    """Makes them the JobSet's: they are gone when it is."""
    return self.host.kubectl(
      "patch", *(f"{each['kind'].lower()}/{each['metadata']['name']}" for each in companions),
      "--type=merge", "-p", json.dumps({"metadata": {
        "ownerReferences": [manifest.owner(job_set["name"], job_set.get("uid", ""))]}}),
      timeout=SUBMIT_S)

  def undone(self, name: str, kinds: list[str], error: str) -> ClusterError:
    """The error of a submission of which nothing, or something unknown, is left."""
    gone = (not self.sent or self.remove(name)) and self.sweep(name, kinds)
    return (Refused if gone else ClusterError)(error)

  def sweep(self, name: str, kinds: Iterable[str] = COMPANIONS) -> bool:
    """Removes what pods of the job read, if it is still there: nobody owns it before the JobSet
    does. Whether all of it is gone."""
    which = ",".join(dict.fromkeys(kinds))
    return not which or self.host.kubectl(
      "delete", which, "-l", f"{manifest.JOB_LABEL}={name}", "--ignore-not-found",
      "--wait=false").code == 0

  def create(self, each: dict[str, Any]) -> Any:
    return self.host.kubectl(*CREATE, text=json.dumps(each), timeout=SUBMIT_S)

  def remove(self, name: str) -> bool:
    done = self.host.kubectl("delete", KINDS, name, "--ignore-not-found", "--wait=false")
    return done.code == 0

  def withdraw(self, folder: str) -> bool:
    """A JobSet that is not there yet may still be on its way, and then needs the rest: without that
    its pods would wait for ever, and hold their chips."""
    if self.sent and self.host.kubectl("delete", KINDS, self.job["id"], "--wait=false").code != 0:
      return False
    return self.sweep(self.job["id"])

  def where_option(self) -> str:
    return ""  # job.json says it

  # Looking.

  def look(self, job: str, now: bool = False) -> output.Look:
    """What Kubernetes says about the job, not more often than it is asked to."""
    if not now and time.monotonic() - self.seen_at < self.pause:
      return self.seen
    begin = time.monotonic()
    text = self.host.must("get", f"{KINDS},jobs.batch,pods", "-l", f"{manifest.JOB_LABEL}={job}",
                          "-o", "json")
    took = time.monotonic() - begin
    before = self.seen
    self.seen, self.seen_at = output.look(output.objects(text), job), time.monotonic()
    # Soon again after a change; otherwise ever more rarely, and not all the time.
    same = output.state(before) == output.state(self.seen) and len(before.pods) == len(
      self.seen.pods)
    self.pause = max(min(self.pause * 1.3, LOOK_SLOWEST_S), took) if same else max(LOOK_S, took)
    return self.seen

  def state(self, job: str, folder: str) -> State:
    found = self.look(job)
    state = self.explained(found, output.state(found))
    if state.what == OVER:
      self.over_at = self.over_at or time.monotonic()
      if found.job_set is None:
        ended = json.loads(_agent.read_text(folder, FINAL) or "{}")
        return State(OVER, ended["word"], ended["reason"]) if ended else state
      self.note_end(folder, found, state)
    return state

  def note_end(self, folder: str, found: output.Look, state: State) -> None:
    """For `ls --over`, and for those who ask when the JobSet is gone."""
    if os.path.isdir(folder) and not os.path.exists(os.path.join(folder, FINAL)):
      _agent.write(folder, "exit", f"{self.code(found, state)}\n")
      _agent.write(folder, FINAL, json.dumps({"word": state.word, "reason": state.reason}))

  def code(self, found: output.Look, state: State) -> int:
    return 124 if state.word == "TIMEOUT" else output.exit_code(found)

  def explained(self, found: output.Look, state: State) -> State:
    """With what Kueue, or the controller that makes the pods, says about the waiting."""
    if state.what != WAITS or found.job_set is None or state.reason:
      return state
    if state.word == "SUSPENDED":
      uid = output.meta(found.job_set).get("uid", "")
      done = self.host.kubectl("get", "workloads.kueue.x-k8s.io", "-l",
                               f"kueue.x-k8s.io/job-uid={uid}", "-o", "json")
      loads = output.objects(done.out) if done.code == 0 else []
      return state._replace(reason=output.why_suspended(loads))
    if len(output.current(found)) < output.expected_pods(found.job_set):
      return state._replace(reason=self.why_no_pods(output.meta(found.job_set)["name"]))
    return state

  def why_no_pods(self, job: str) -> str:
    done = self.host.kubectl("get", "events", "--field-selector",
                             "type=Warning,reason=FailedCreate", "-o", "json")
    found = [event for event in (output.objects(done.out) if done.code == 0 else [])
             if str((event.get("involvedObject") or {}).get("name", "")).startswith(job)]
    return output.why_refused(found[-1].get("message")) if found else ""

  def news(self, folder: str, offsets: dict[str, int]) -> tuple[list[News], str | None]:
    job = self.job["id"]
    self.logs = self.logs or Logs(self.host, job)
    news = self.logs.read()
    if news:
      return news, None
    found = self.look(job)
    news += self.started_again(found)
    self.logs.follow(found)
    state = output.state(found)
    if state.what != OVER or news:
      return news, None
    self.over_at = self.over_at or time.monotonic()
    # Pods of a short last start may not be read yet, or only just.
    since = max(self.over_at, self.logs.began_at)
    if self.logs.waits_since or (not self.logs.ended and time.monotonic() - since < LAST_LINES_S):
      return news, None
    text = _agent.read_text(folder, "exit")
    if found.job_set is None:
      return news, text or "143\n"
    return news, f"{self.code(found, state)}\n"

  def started_again(self, found: output.Look) -> list[News]:
    if found.job_set is None or output.restarts(found.job_set) <= self.starts:
      return []
    self.starts = output.restarts(found.job_set)
    return [News(None, f"stretto cluster: a pod was lost; start {self.starts + 1}\n".encode())]

  def past(self, folder: str, since: str) -> list[News]:
    found = self.look(self.job["id"], now=True)
    if found.job_set is None:
      raise ClusterError(f"job {self.job['id']}: it is no longer in the cluster, and its output "
                         "went with it")
    return Logs(self.host, self.job["id"]).past(len(found.pods), since)

  def stop(self, job: str, folder: str) -> None:
    """Pods get SIGTERM; the JobSet stays until they are gone, so that one can see them ending. One
    that is over stays, with its output, until `down` or Kubernetes removes it."""
    found = self.look(job, now=True)
    if output.state(found).what != OVER:
      self.end(job)
    elif found.job_set is None:
      self.sweep(job)

  def end(self, job: str) -> None:
    done = self.host.kubectl("delete", KINDS, job, "--ignore-not-found", "--wait=false",
                             "--cascade=foreground")
    if done.code != 0:
      raise self.host.error(done, ["delete"])
    self.seen_at = 0.0

  def clear(self, job: str) -> None:
    """Ends it, and removes what a `run` that was killed while it submitted has left."""
    self.end(job)
    self.sweep(job)

  def rows(self, everybody: bool) -> list[Row]:
    self.resolve()
    selector = ",".join([f"{k}={v}" for k, v in manifest.MANAGED.items()] + (
      [] if everybody else [f"{manifest.USER_LABEL}={manifest.label_of(user())}"]))
    items = output.objects(self.host.must("get", f"{KINDS},pods", "-l", selector, "-o", "json"))
    pods: dict[str, list[output.Object]] = {}
    for item in items:
      if item.get("kind") == "Pod":
        job = (output.meta(item).get("labels") or {}).get(manifest.JOB_LABEL, "")
        pods.setdefault(job, []).append(item)
    found: list[Row] = []
    for item in items:
      if item.get("kind") != "JobSet":
        continue
      look = output.Look(item, [], pods.get(output.meta(item).get("name", ""), []))
      state = output.state(look)
      if state.what != OVER:
        row = output.row(item, look.pods)
        found.append(row if row.reason or len(found) > 20 else row._replace(
          reason=self.explained(look, state).reason))
    return found

  # Pods.

  def pod_of(self, rank: int) -> tuple[str, str]:
    """The pod that a rank runs in, and its interpreter."""
    found = self.look(self.job["id"], now=True)
    if found.job_set is None:
      raise ClusterError(f"job {self.job['id']}: it is no longer in the cluster")
    first = 0
    for each in found.job_set["spec"]["replicatedJobs"]:
      count = each["template"]["spec"]["parallelism"]
      ranks = int(self.job["parts"][each["name"]])
      if rank < first + ranks:
        place = (each["name"], (rank - first) // (ranks // count))
        for pod in output.current(found):
          if output.place(pod) == place and output.is_running(pod):
            return str(output.meta(pod)["name"]), str(self.job["pythons"][each["name"]])
        raise ClusterError(f"rank {rank}: its pod does not run; `stretto cluster ls` says what the "
                           "job waits for")
      first += ranks
    raise ClusterError(f"rank {rank}: the job has {first} ranks")

  def shell(self, job: str, folder: str, rank: int) -> list[str]:
    program = f"{manifest.ROOT}/packed/stretto/cluster/_pod.py"
    pod, python = self.pod_of(rank)
    return self.host.words("exec", "-it", pod, "-c", manifest.CONTAINER, "--", python, program,
                           manifest.ROOT, "shell", limited=False)

  @contextlib.contextmanager
  def reach(self, folder: str, write: bool) -> Iterator[None]:
    """Files of a job are in its pods; on a volume they outlive them."""
    found = self.look(self.job["id"], now=True)
    running = [(str(output.meta(pod)["name"]), str(self.job["pythons"][output.place(pod)[0]]))
               for pod in output.current(found) if output.is_running(pod)]
    made = None
    if running and self.job.get("volume"):
      self.host.pods = running[:1]
    elif running:
      self.host.pods = running if write else [self.pod_of(0)]
    elif found.job_set is not None and self.job.get("volume"):
      made = self.access_pod(output.meta(found.job_set))
      self.host.pods = [(made, self.job["python"])]
    elif self.job.get("volume"):
      raise ClusterError(f"job {self.job['id']}: it is no longer in the cluster. Its files are on "
                         f"volume {self.job['volume']}, in stretto/{self.job['id']}; a job with "
                         "this --volume does not see them, but a pod that mounts all of it")
    else:
      raise ClusterError(f"job {self.job['id']}: no pod of it runs, and its files are in its pods "
                         "only; those of jobs with --volume outlive them")
    try:
      yield
    finally:
      if made:
        self.host.kubectl("delete", "pod", made, "--ignore-not-found", "--wait=false")

  def access_pod(self, job_set: output.Object) -> str:
    each = manifest.access_pod(job_set["name"], job_set.get("uid", ""), self.job["volume"],
                               self.job["image"], self.job["python"], ACCESS_LIVES_S,
                               manifest.Security(*(self.job.get("security") or ())))
    name = each["metadata"]["name"]
    done = self.create(each)
    if done.code != 0:
      raise self.host.error(done, ["create pod"])
    stop = time.monotonic() + ACCESS_S
    while True:
      found = output.objects(self.host.must("get", "pod", name, "-o", "json"))[0]
      if output.is_running(found):
        return str(name)
      if time.monotonic() > stop or output.status(found).get("phase") in ("Failed", "Succeeded"):
        self.host.kubectl("delete", "pod", name, "--ignore-not-found", "--wait=false")
        raise ClusterError(f"pod {name}, which gives access to the files of the job, has not "
                           f"started within {ACCESS_S:g} s: "
                           f"{output.why_pod_waits(found) or 'it has ended'}")
      time.sleep(LOOK_S)


def kubeconfig() -> str:
  """The configuration as whole paths: later commands may start in another folder or shell."""
  given = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
  return os.pathsep.join(os.path.abspath(path) for path in given.split(os.pathsep)
                         if path and os.path.exists(path))


def refused(done: Any) -> bool:
  """Whether it is certain that nothing was created: a server may take what a kubectl that has given
  up waiting has sent."""
  told = done.err.lower()
  return bool(done.code not in (0, _agent.TIMED_OUT) and not any(sign in told for sign in UNSURE))


def user() -> str:
  try:
    return getpass.getuser()
  except (KeyError, OSError):  # a number without a name
    return str(os.getuid())
