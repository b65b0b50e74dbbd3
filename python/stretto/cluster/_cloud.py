"""Jobs in a cloud, through SkyPilot: its command `sky` makes a cluster of machines, or takes the
one that has the name, queues the job there, and stops the machines when they are idle."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stretto.cluster import _agent, _cloud_sky, _cloud_task, _state
from stretto.cluster._backend import OVER, Backend, News, Request, Row, State
from stretto.cluster._cloud_logs import Pump
from stretto.cluster._host import ClusterError, Host, Refused, SshHost
from stretto.cluster._slurm import SECRET, SECRET_BYTES

DEFAULT = "stretto"  # name of a cluster
NAME = re.compile(r"[a-zA-Z](?:[-_.a-zA-Z0-9]{0,38}[a-zA-Z0-9])?")
INFRA = re.compile(r"[a-zA-Z0-9*][a-zA-Z0-9*/_.-]*")
IDLE_MINUTES = 5
# What becomes of the machines when they are idle, as options of `sky launch`.
AT_END = {"stop": ["-i", str(IDLE_MINUTES)], "down": ["-i", str(IDLE_MINUTES), "--down"],
          "keep": []}
DOWN = "stretto cluster down --backend cloud"
OPTIONS = ("infra", "setup", "at_end", "yes")  # of `run`, for this back end alone
PLACE = "sky_workdir"  # where SkyPilot puts the folder that it is given, in the home of a node
END_S, POLL_S = 60.0, 1.0


class CloudHost(Host):
  """Of a job that was submitted: what it wrote is on the first node, its logs are here. SkyPilot
  has told ssh the names of its nodes."""

  def __init__(self, cluster: str, tag: str) -> None:
    super().__init__()
    self.cluster, self.far = cluster, f"~/{PLACE}/{tag}"

  def call(self, do: str, *arguments: Any, **how: Any) -> Any:
    if do == "written":
      return self.on_node(lambda node: node.call(do, self.far))
    return super().call(do, *arguments, **how)

  def put_tree(self, folder: str, files: Any, follow: bool = False) -> None:
    self.on_node(lambda node: node.put_tree(self.far, files, follow))

  def get_tree(self, folder: str, paths: list[str], target: Path) -> None:
    self.on_node(lambda node: node.get_tree(self.far, paths, target))

  def on_node(self, do: Callable[[SshHost], Any]) -> Any:
    try:
      return do(SshHost(self.cluster))
    except ClusterError as error:
      status = _cloud_sky.clusters(Host()).get(self.cluster)
      if status == "STOPPED":
        raise ClusterError(f"cluster {self.cluster} is stopped: `sky start {self.cluster}`, then "
                           "again") from None
      if status is None:
        raise ClusterError(f"cluster {self.cluster} is gone, with what jobs wrote") from None
      raise error


class Cloud(Backend):

  name = "cloud"

  def __init__(self, host: Host, cluster: str, tag: str = "", how: argparse.Namespace | None = None,
               nodes: int = 1, ranks: int = 1, number: str = "") -> None:
    self.host, self.cluster, self.tag = host, cluster, tag or secrets.token_hex(6)
    self.how = how or argparse.Namespace()
    self.nodes, self.ranks, self.number = nodes, ranks, number
    self.pump: Pump | None = None
    self.is_new = False  # this process has submitted the job
    self.was_there = False  # the cluster, before this process has asked for it
    self.is_cancelled = False  # before SkyPilot had submitted it

  def asked(self, option: str, default: Any = "") -> Any:
    return getattr(self.how, option, None) or default

  def show(self, line: str) -> None:
    if not self.asked("quiet", False):
      print(f"  {line}", file=sys.stderr, flush=True)

  def about(self) -> str:
    return f"SkyPilot, cluster {self.cluster} in a cloud"

  def describe(self) -> dict[str, Any]:
    return {"backend": self.name, "cloud": self.cluster, "tag": self.tag, "nodes": self.nodes}

  def files(self, request: Request) -> dict[str, str]:
    for option, value in (("--queue", request.queue), ("--hang-after", request.hang_after)):
      if value:
        raise ValueError(f"{option}: not with --backend cloud")
    task = _cloud_task.config(request, self.tag, self.asked("infra"), self.asked("setup"))
    self.nodes, self.ranks = task["num_nodes"], request.ranks
    text = _cloud_task.yaml(task)
    if self.asked("dry_run", False):
      problem = _cloud_task.check(task)
      if problem:
        raise ClusterError(f"SkyPilot refuses this task: {problem}")
      if problem is None:
        self.show("SkyPilot is not installed beside Stretto, so its schema was not asked")
    return {_cloud_task.TASK: text, "spec.json": _cloud_task.as_json(
      _cloud_task.spec(request, self.tag)), "words.json": _cloud_task.as_json(request.words)}

  def words(self, request: Request) -> list[str]:
    """Of a secret only its name: sky takes the value from the environment."""
    named = [word for name in (*request.secrets, SECRET) for word in ("--secret", name)]
    return [_cloud_sky.PROGRAM, "launch", "--yes", "--detach-run", "--cluster", self.cluster,
            *AT_END[self.asked("at_end", "stop")], *named, _cloud_task.TASK]

  def submit(self, request: Request, folder: str) -> str:
    _cloud_task.pack(folder, self.tag)
    environment = {**request.secrets, SECRET: os.environ.get(SECRET)
                   or secrets.token_hex(SECRET_BYTES)}
    words = self.words(request)
    try:
      question = self.show_cost(words, folder, environment)
      agreed = self.asked("yes", False) or _cloud_sky.confirmed(question)
    except KeyboardInterrupt:
      agreed = False
    except ClusterError as error:
      raise Refused(str(error)) from None
    if not agreed:
      raise Refused("nothing was submitted")
    lines: list[str] = []
    try:
      code, out = _cloud_sky.stream(words, folder, environment, self.show, lines)
    except BaseException:
      self.cancel_launch("".join(lines))
      raise
    found = _cloud_sky.SUBMITTED.findall(out)
    if not found:
      self.say(self.rest())
      kind = ClusterError if code == 0 or os.path.basename(folder) in self.numbers() else Refused
      raise kind(f"sky launch: {_cloud_sky.complaint(out) or f'exit code {code}'}")
    shutil.rmtree(Path(folder, _cloud_task.SENT), ignore_errors=True)
    self.is_new = True
    self.number = f"{self.cluster}-{found[-1]}"
    self.host.call("write", folder, "id", self.number + "\n")
    if self.asked("at_end") == "keep":
      self.keep()
    return self.number

  def cancel_launch(self, out: str) -> None:
    """A launch that is interrupted goes on in SkyPilot's server, and submits the job."""
    found = _cloud_sky.CANCEL.findall(out)
    for request in found[-1:]:
      try:
        _cloud_sky.ask(self.host, "api", "cancel", request)
        self.say("the launch is cancelled")
        self.is_cancelled = True
      except ClusterError as error:
        self.say(f"{error}; the launch goes on: `sky api cancel {request}` ends it")
    if not found:
      self.say("SkyPilot has named no request that could be cancelled; `sky api status` shows "
               "those that go on")
    self.say(self.rest())

  def rest(self) -> str:
    """What costs money after a launch that came to no end. SkyPilot tells machines when to stop
    only after it has made them and copied the tree there."""
    down = f"`{DOWN} --cluster {self.cluster}` ends it"
    costs = f"cluster {self.cluster} may have been made, and then costs money until {down}"
    try:
      status = _cloud_sky.clusters(self.host).get(self.cluster)
      how = AT_END[self.asked("at_end", "stop")]
      if status is None:
        return f"there is no cluster {self.cluster}, so nothing costs money"
      if status == "STOPPED":
        return f"cluster {self.cluster} is stopped; its disks cost money until {down}"
      if self.was_there:
        return (f"cluster {self.cluster} was there before, and ends as it was told before; {down} "
                "now")
      if status == "UP" and how:
        _cloud_sky.ask(self.host, "autostop", "--yes", *how, self.cluster)
        return (f"cluster {self.cluster} is up, and told to end when it is idle for {IDLE_MINUTES} "
                f"minutes; {down} now")
    except ClusterError as error:
      return f"{error}; {costs}"
    return (f"cluster {self.cluster} is {status.lower()}, and does not stop by itself: it costs "
            f"money until {down}")

  def say(self, line: str) -> None:
    """Also with --quiet: it is about money."""
    print(f"stretto cluster: {line}", file=sys.stderr, flush=True)

  def keep(self) -> None:
    """A cluster that is used again may have been told to stop."""
    try:
      _cloud_sky.ask(self.host, "autostop", "--yes", "--cancel", self.cluster)
    except ClusterError as error:  # the job is there all the same
      self.say(f"{error}; `sky autostop --cancel {self.cluster}` keeps the machines")

  def show_cost(self, words: list[str], folder: str, environment: dict[str, str]) -> str:
    """What SkyPilot would take, and its price by SkyPilot's catalogue. Returns the question that
    is to be answered: SkyPilot goes on to others of its list when those machines are sold out."""
    dry = [words[0], words[1], "--dryrun", *words[2:]]
    lines: list[str] = []
    code, out = _cloud_sky.stream(dry, folder, environment, lines.append)
    if code != 0:
      raise Refused(f"sky launch --dryrun: {_cloud_sky.complaint(out) or f'exit code {code}'}")
    self.was_there = not _cloud_sky.PRICE.search(out)
    if self.was_there:
      lines.append(f"SkyPilot names no price: cluster {self.cluster} may be there already, at the "
                   "price that the cloud's console and `sky cost-report` tell")
      question = f"Run on cluster {self.cluster}, whatever it costs?"
    else:
      lines.append("If these machines are sold out, SkyPilot takes others, which may be dearer; "
                   "--infra says where it looks")
      question = f"Run on cluster {self.cluster}, for this price, or a higher one if need be?"
    for line in lines:
      if self.asked("yes", False):
        self.show(line)
      else:
        print(f"  {line}", file=sys.stderr, flush=True)  # also with --quiet: a question follows
    return question

  def withdraw(self, folder: str) -> bool:
    number = self.numbers().get(os.path.basename(folder))
    if number is None:
      return self.is_cancelled  # else it may still be on its way
    self.stop(number, folder)
    return self.until_over(number, folder, END_S, POLL_S)

  def numbers(self) -> dict[str, str]:
    """Of jobs of this cluster, by the names that their folders have."""
    jobs = {job.name: job for job in _cloud_sky.queue(self.host, self.cluster) or []}
    found = {}
    for place, about in _state.all_jobs(Host()):
      job = jobs.get(_cloud_task.name_of(str(about.get("tag", ""))))
      if job and about.get("cloud") == self.cluster:
        found[os.path.basename(place)] = f"{self.cluster}-{job.number}"
    return found

  def job(self, number: str) -> _cloud_sky.Job | None:
    """Another cluster of this name counts from 1 again: the job is the one that has its name, too.
    None: the cluster is up, and has no such job. ClusterError("...") if it is not up."""
    jobs = _cloud_sky.queue(self.host, self.cluster)
    if jobs is None:
      status = _cloud_sky.clusters(self.host).get(self.cluster)
      if status in ("UP", "INIT"):
        raise ClusterError(f"sky queue: cluster {self.cluster} does not answer ({status})")
      raise Gone(f"cluster {self.cluster} is {status.lower() if status else 'gone'}", status)
    name = _cloud_task.name_of(self.tag)
    return next((job for job in jobs if job.name == name
                 and f"{self.cluster}-{job.number}" == number), None)

  def state(self, job: str, folder: str) -> State:
    try:
      found = self.job(job)
    except Gone as gone:
      left = (_agent.read_text(folder, "exit") or "").strip()
      if not left and gone.status == "STOPPED":
        return State(OVER, "UNKNOWN", f"{gone}, and how the job ended is not known here; "
                     f"`sky start {self.cluster}`, then `logs` again, shows it")
      return State(OVER, {"": "LOST", "0": "COMPLETED"}.get(left, "FAILED"), str(gone))
    return found.state if found else State(OVER)

  def stop(self, job: str, folder: str) -> None:
    try:
      found = self.job(job)
    except Gone:
      return  # with the cluster
    if found is not None and found.state.what != OVER:
      _cloud_sky.ask(self.host, "cancel", "--yes", self.cluster, found.number)

  def rows(self, everybody: bool) -> list[Row]:
    rows = []
    known = {about.get("tag"): (place, about) for place, about in _state.all_jobs(Host())
             if about.get("backend") == self.name}
    names = {_cloud_task.name_of(str(tag)): pair for tag, pair in known.items()}
    for job in _cloud_sky.queue(self.host, self.cluster, everybody) or []:
      if job.state.what == OVER:
        continue
      place, about = names.get(job.name, ("", {}))
      rows.append(Row(f"{self.cluster}-{job.number}", about.get("name", job.name),
                      job.status.lower(), max(time.time() - job.submitted, 0),
                      about.get("nodes", 0), job.resources, self.cluster, job.state.reason,
                      job.user, place))
    return rows

  def shell(self, job: str, folder: str, rank: int) -> list[str]:
    node = rank // max(self.ranks // self.nodes, 1)
    name = self.cluster if node == 0 else f"{self.cluster}-worker{node}"
    return ["ssh", "-t", name, f'cd {PLACE}/{self.tag}/work && exec "${{SHELL:-/bin/bash}}" -i']

  def news(self, folder: str, offsets: dict[str, int]) -> tuple[list[News], str | None]:
    if self.pump is None:
      self.pump = Pump(folder, self.cluster, self.number.rpartition("-")[2], self.nodes)
      if not self.is_new and self.pump.is_ours():
        self.pump.snapshot()  # `logs` without -f shows what there is, and ends
    elif self.pump.is_ours():
      self.pump.go_on()
    news, left = super().news(folder, offsets)
    return news, left if self.pump.is_done() else None


class Gone(ClusterError):
  """The cluster is stopped, or there is none."""

  def __init__(self, text: str, status: str | None) -> None:
    super().__init__(text)
    self.status = status


def checked_name(name: str | None) -> str:
  if name is None:
    return DEFAULT
  if not NAME.fullmatch(name or ""):
    raise ValueError(f"--cluster: expected up to 40 letters, digits, '.', '_' and '-', the first a "
                     f"letter, got {name!r}")
  return str(name)


def of_options(args: argparse.Namespace) -> Cloud:
  if args.host:
    raise ValueError("--host: not with --backend cloud")
  cluster = checked_name(args.cluster)
  if getattr(args, "infra", None) and not INFRA.fullmatch(args.infra):
    raise ValueError(f"--infra: expected a cloud, or CLOUD/REGION, such as aws/us-east-1, got "
                     f"{args.infra!r}")
  if getattr(args, "at_end", None) and args.at_end not in AT_END:
    raise ValueError(f"--at-end: expected {', '.join(AT_END)}, got {args.at_end!r}")
  costs = hasattr(args, "yes") and not args.yes and not args.dry_run
  if costs and not (sys.stdin.isatty() and sys.stderr.isatty()):
    raise ValueError("--backend cloud: machines cost money, and nobody can be asked, because "
                     "standard input or standard error is no terminal; --yes agrees to the price, "
                     "--dry-run shows the task")
  return Cloud(Host(), cluster, how=args)


def of_job(job: dict[str, Any]) -> Cloud:
  """Of a job's job.json."""
  return Cloud(CloudHost(job["cloud"], job["tag"]), job["cloud"], job["tag"],
               nodes=job.get("nodes", 1), ranks=job.get("ranks", 1), number=job.get("id", ""))


def tell_of(cluster: str, here: Host) -> None:
  """What would be lost."""
  known = {_cloud_task.name_of(str(about.get("tag", ""))) for _, about in _state.all_jobs(here)
           if about.get("cloud") == cluster}
  jobs = _cloud_sky.queue(here, cluster, everybody=True) or []
  lines = [f"job {cluster}-{job.number} of {job.user} is {job.status.lower()}" for job in jobs
           if job.state.what != OVER]
  if not known:
    lines.append(f"no job that is known here was started on cluster {cluster}: is it yours?")
  for line in lines:
    print(f"  {line}", file=sys.stderr, flush=True)


def down(args: argparse.Namespace, note: Any) -> int:
  cluster = checked_name(args.cluster)
  here = Host()
  if not args.yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
    raise ValueError(f"down --backend cloud: the disks of cluster {cluster} are lost, and nobody "
                     "can be asked, because standard input or standard error is no terminal; --yes "
                     "agrees")
  if cluster not in _cloud_sky.clusters(here):
    note(f"SkyPilot knows no cluster {cluster}")
  else:
    if not args.yes:
      tell_of(cluster, here)
      if not _cloud_sky.confirmed(f"End cluster {cluster}, and lose its disks?"):
        raise ClusterError("nothing was ended")
    _cloud_sky.ask(here, "down", "--yes", cluster, timeout=600.0)
    note(f"cluster {cluster} is gone, with its disks")
  removed = 0
  for place, about in _state.all_jobs(here):
    if about.get("cloud") == cluster and not args.keep_jobs:
      here.call("remove", place)
      removed += 1
  if removed:
    note(f"the folders of {removed} jobs are removed")
  return 0
