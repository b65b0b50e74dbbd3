"""The back ends, and which one a command means."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from typing import Any

from stretto.cluster import _loopback, _state
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


# A row per back end.
BACKENDS: dict[str, Callable[[argparse.Namespace], Backend]] = {
  "local": local,
  "slurm": slurm,
}


def up_cluster(name: str | None) -> _loopback.Loopback | None:
  """The loopback cluster of that name, which has to be up; without a name, the one that is."""
  if name:
    cluster = _loopback.named(name)
    if not cluster.about():
      others = ", ".join(c.name for c in _loopback.all_of_user())
      raise ClusterError(f"--cluster {name}: there is no such cluster" + (
        f", but {others}" if others else "") + "; `stretto cluster up --local-slurm --cluster "
        f"{name}` starts it")
    return cluster
  found = _loopback.all_of_user()
  if len(found) > 1 and _state.DEFAULT not in (c.name for c in found):
    raise ClusterError("there are several clusters: " + ", ".join(c.name for c in found)
                       + "; name one with --cluster")
  return next((c for c in found if c.name == _state.DEFAULT), found[0] if found else None)


def chosen(args: argparse.Namespace) -> Backend:
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
  folder, job = _state.find_job(host, wanted)
  return back_end_of(job, host), folder, job


def back_end_of(job: dict[str, Any], host: Host) -> Backend:
  if job["backend"] == "local":
    return Local(host)
  conf = job.get("cluster")
  if not conf:
    return Slurm(host)
  for cluster in _loopback.all_of_user():
    if str(cluster.conf) == conf:
      return Slurm(Host(cluster.environment()), cluster)
  raise ClusterError(f"job {job['id']}: its cluster is no longer up; its files are in "
                     f"{_state.jobs_folder(host)}")
