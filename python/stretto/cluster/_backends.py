"""The back ends, and which one a command means."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from typing import Any

from stretto.cluster import _cloud, _loopback, _state
from stretto.cluster._backend import Backend
from stretto.cluster._host import ClusterError, Host, SshHost
from stretto.cluster._local import Local
from stretto.cluster._slurm import Slurm

PROBE_S = 10.0


def local(args: argparse.Namespace) -> Backend:
  for option in ("host", "cluster"):
    if getattr(args, option, None):
      raise ValueError(f"--{option}: not with --backend local")
  return Local(Host())


def slurm(args: argparse.Namespace) -> Backend:
  """The cluster that is named, else the site of --host, else a cluster of this user that is up,
  else the site of this host."""
  if args.host:
    if args.cluster:
      raise ValueError("--host and --cluster: give one of them")
    return Slurm(SshHost(args.host))
  cluster = up_cluster(args.cluster)
  return Slurm(Host(cluster.environment()), cluster) if cluster else Slurm(Host())


def kubernetes(args: argparse.Namespace) -> Backend:
  for option in ("host", "cluster"):
    if getattr(args, option, None):
      raise ValueError(f"--{option}: not with --backend kubernetes; --context chooses a cluster")
  return of_kubernetes(args.context or "", args.namespace or "")


def of_kubernetes(*how: Any) -> Backend:
  from stretto.cluster._kubernetes import Kubernetes  # other commands need not wait for it
  return Kubernetes(*how)


# A row per back end.
BACKENDS: dict[str, Callable[[argparse.Namespace], Backend]] = {
  "local": local,
  "slurm": slurm,
  "kubernetes": kubernetes,
  "cloud": _cloud.of_options,
}
# Options that only one of them understands.
OWN_OPTIONS = {"kubernetes": ("context", "namespace", "image", "volume", "resource", "cpus",
                              "memory", "restricted", "run_as", "priority"),
               "cloud": _cloud.OPTIONS}


def up_cluster(name: str | None) -> _loopback.Loopback | None:
  """The loopback cluster of that name, which has to be up; without a name, the one that is."""
  if name:
    cluster = _loopback.named(name)
    if not cluster.about():
      others = ", ".join(c.name for c in _loopback.all_of_user())
      raise ClusterError(f"--cluster {name}: there is no such cluster" + (
        f", but {others}" if others else "") + "; `stretto cluster up --local-slurm --cluster "
        f"{name}` starts it")
    return check_up(cluster)
  found = _loopback.all_of_user()
  if len(found) > 1 and _state.DEFAULT not in (c.name for c in found):
    raise ClusterError("there are several clusters: " + ", ".join(c.name for c in found)
                       + "; name one with --cluster")
  return check_up(next((c for c in found if c.name == _state.DEFAULT), found[0])) if found else None


def check_up(cluster: _loopback.Loopback) -> _loopback.Loopback:
  """After a restart of the machine its files are still there."""
  if not any(_loopback.runs(p, cluster) for p in (cluster.folder / "run").glob("*.pid")):
    raise ClusterError(f"cluster {cluster.name} has ended, perhaps with a restart of this machine: "
                       f"`stretto cluster up --local-slurm{_loopback.option(cluster)}` starts it "
                       f"again, `stretto cluster down{_loopback.option(cluster)}` removes its rest")
  return cluster


def chosen(args: argparse.Namespace) -> Backend:
  for owner, options in OWN_OPTIONS.items():
    for option in options:
      if getattr(args, option, None) and getattr(args, "backend", None) != owner:
        raise ValueError(f"--{option.replace('_', '-')}: only with --backend {owner}")
  if getattr(args, "backend", None):
    if args.backend not in BACKENDS:
      raise ValueError(f"--backend: expected {', '.join(BACKENDS)}, got {args.backend}")
    return BACKENDS[args.backend](args)
  if args.host or up_cluster(args.cluster) or site_answers():
    return slurm(args)
  return local(args)


def site_answers() -> bool:
  """Whether this host belongs to a Slurm site. A site that is down is an error, not an absence."""
  if shutil.which("sinfo") is None or shutil.which("sbatch") is None:
    return False
  done = Host().run(["sinfo", "-h", "-o", "%P"], timeout=PROBE_S)
  if done.code == 0:
    return bool(done.out.strip())
  unconfigured = ("slurm.conf", "configless", "resolve_ctls_from_dns_srv", "could not establish")
  if any(text in done.err for text in unconfigured):
    return False  # the commands are installed, and no more
  raise ClusterError(f"sinfo: {done.reason}; `--backend local` runs jobs without the scheduler")


def of_job(args: argparse.Namespace, wanted: str) -> tuple[Backend, str, dict[str, Any]]:
  """The back end of a job that `run` has started, the job's folder and job.json."""
  host = SshHost(args.host) if args.host else Host()
  jobs = [(place, job) for place, job in _state.all_jobs(host) if job]
  if args.cluster:
    conf = str(_loopback.named(args.cluster).conf)
    jobs = [(place, job) for place, job in jobs
            if job.get("cluster") == conf or job.get("cloud") == args.cluster]
  folder, job = chosen_of(jobs, host, wanted)
  return back_end_of(job, host), folder, job


def chosen_of(jobs: list[_state.Known], host: Host, wanted: str) -> _state.Known:
  found = _state.matches(jobs, wanted)
  # The command may have been killed before it knew the number; the scheduler knows the folder.
  if not found or not found[0][1]["id"]:
    find_numbers(jobs, host)
    found = _state.matches(jobs, wanted)
  found = [pair for pair in found if pair[1]["id"]]
  if not found:
    raise _state.no_such_job(jobs, wanted)
  if found[0][1]["name"] == wanted:
    return found[0]
  # Each cluster counts its jobs itself.
  live = [pair for pair in found if is_live(pair[1], host)]
  places = sorted({name_of_cluster(job) for _, job in live})
  if len(places) > 1:
    raise ClusterError(f"job {wanted}: there is one in each of {', '.join(places)}; name it by its "
                       "name, or give --cluster")
  return (live or found)[0]


def name_of_cluster(job: dict[str, Any]) -> str:
  if "cloud" in job:
    return f"cluster {job['cloud']} in a cloud"
  conf = job.get("cluster")
  return f"cluster {os.path.basename(os.path.dirname(os.path.dirname(conf)))}" if conf else \
    "the site of this host"


def is_live(job: dict[str, Any], host: Host) -> bool:
  """Whether the scheduler that counts this job is there."""
  try:
    back_end_of(job, host)
  except ClusterError:
    return False
  return True


def find_numbers(jobs: list[_state.Known], host: Host) -> None:
  """Completes the numbers of jobs that have none, and notes them."""
  by_scheduler: dict[tuple[str, str], list[_state.Known]] = {}
  for place, job in jobs:
    if not job["id"]:
      cluster = job.get("cluster") or job.get("cloud", "")
      by_scheduler.setdefault((job.get("backend", ""), cluster), []).append((place, job))
  for some in by_scheduler.values():
    if not is_live(some[0][1], host):
      continue
    try:
      numbers = back_end_of(some[0][1], host).numbers()
    except ClusterError:
      if some[0][1].get("backend") != _cloud.Cloud.name:
        raise
      continue  # a cloud that does not answer is no reason to leave other jobs alone
    for place, job in some:
      job["id"] = numbers.get(os.path.basename(place), "")
      if job["id"]:
        host.call("write", place, "id", job["id"] + "\n")


def back_end_of(job: dict[str, Any], host: Host) -> Backend:
  if job["backend"] == "local":
    return Local(host)
  if job["backend"] == "kubernetes":
    return of_kubernetes(job["context"], job["namespace"], job["kubeconfig"], job)
  if job["backend"] == _cloud.Cloud.name:
    return _cloud.of_job(job)
  conf = job.get("cluster")
  if not conf:
    return Slurm(host)
  if host.name:
    raise ClusterError(f"job {job['id']}: it is a job of a cluster on {host.name} itself; log in "
                       "there")
  for cluster in _loopback.all_of_user():
    if str(cluster.conf) == conf and cluster.identity() == job.get("identity", ""):
      return Slurm(Host(cluster.environment()), cluster)
  raise ClusterError(f"job {job['id']}: its cluster is no longer up; its files are in "
                     f"{_state.jobs_folder(host)}")
