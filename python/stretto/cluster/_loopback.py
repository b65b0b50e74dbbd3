"""`stretto cluster up --local-slurm` and `down`: slurmctld and a slurmd per node on this machine,
without root. What belongs to such a cluster is one folder and the processes whose environment names
it, so `down` finds all of it whatever was killed before."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from stretto.cluster import _loopback_files as files
from stretto.cluster import _programs, _state
from stretto.cluster._host import ClusterError, Host

MARK = "STRETTO_LOOPBACK"  # in the environment of daemons: the cluster's folder
CONF = "SLURM_CONF"
READY_S, DRAIN_S, END_S, POLL_S = 30.0, 15.0, 10.0, 0.02
LOCK_S = 60.0
LOG_LINES = 5
LONGEST_SOCKET = 107  # bytes of a path
Talk = Callable[[str], None]


class Loopback(NamedTuple):
  name: str
  folder: Path

  @property
  def conf(self) -> Path:
    return self.folder / "etc/slurm.conf"

  def environment(self) -> dict[str, str]:
    return {CONF: str(self.conf), "PATH": _programs.search_path()}

  def about(self) -> dict[str, Any]:
    """What `up` has noted: nodes, port, digest of the site. Empty: there is no such cluster."""
    try:
      found = json.loads((self.folder / "cluster.json").read_text())
    except (OSError, ValueError):
      return {}
    return found if isinstance(found, dict) else {}


def named(name: str) -> Loopback:
  return Loopback(name, _state.cluster_folder(name))


def all_of_user() -> list[Loopback]:
  place = _state.folder() / "clusters"
  return [Loopback(p.name, p) for p in sorted(place.iterdir())
          if (p / "cluster.json").exists()] if place.is_dir() else []


@contextlib.contextmanager
def locked(cluster: Loopback) -> Iterator[None]:
  """One `up` or `down` of a cluster at a time; the lock ends with its process."""
  cluster.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
  path = cluster.folder.parent / f".{cluster.name}.lock"
  stop = time.monotonic() + LOCK_S
  while True:
    with open(path, "w") as file:
      if has_lock(file, path):
        try:
          yield
        finally:
          path.unlink()
        return
    if time.monotonic() > stop:
      raise ClusterError(f"cluster {cluster.name}: another `up` or `down` of it still runs after "
                         f"{LOCK_S:g} s")
    time.sleep(POLL_S)


def has_lock(file: IO[str], path: Path) -> bool:
  """Whether this process holds the lock, on the file that has the name now: its last owner has
  removed it."""
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
  except (BlockingIOError, FileNotFoundError):
    return False


def up(cluster: Loopback, site: Path | None, talk: Talk) -> bool:
  """False: it was up already."""
  _programs.require(talk)
  digest = hashlib.sha256(site.read_bytes() if site else b"").hexdigest()
  with locked(cluster):
    about = cluster.about()
    if about and processes(cluster):
      if about.get("site") != digest:
        raise ClusterError(f"cluster {cluster.name} runs with another site; `stretto cluster down"
                           f"{option(cluster)}` ends it")
      if start_daemons(cluster, about["nodes"]) == 0 and is_ready(cluster, about["nodes"]):
        return False
      wait_until_ready(cluster, about["nodes"])
      return True
    remove(cluster)  # what a killed `up` or a restart of the machine has left
    try:
      nodes = write(cluster, site, digest)
      start_daemons(cluster, nodes)
      wait_until_ready(cluster, nodes)
    except BaseException:
      remove(cluster)
      raise
  return True


def option(cluster: Loopback) -> str:
  return "" if cluster.name == _state.DEFAULT else f" --cluster {cluster.name}"


def write(cluster: Loopback, site: Path | None, digest: str) -> list[str]:
  folder = cluster.folder
  if any(c in str(folder) for c in "%,()[]\n\" #"):
    raise ClusterError(f"{folder}: Slurm takes no path with such characters; set "
                       f"{_state.VARIABLE} to another folder")
  for inner in ("etc", "state", "run", "log"):
    (folder / inner).mkdir(mode=0o700, parents=True)
  folder.chmod(0o700)
  base = files.free_base(files.MOST_NODES if site else 2)
  plan = files.compiled_site(site, folder, base) if site else files.default_site(base)
  # slurmstepd listens on a socket in a file: NODE_JOB.STEP.
  if len(f"{folder}/spool/") + max(2 * len(node) for node in plan.nodes) > LONGEST_SOCKET - 23:
    raise ClusterError(f"{folder}: this path is too long for the sockets of Slurm; set "
                       f"{_state.VARIABLE} to a shorter one")
  for node in plan.nodes:
    (folder / "spool" / node).mkdir(parents=True)
  (folder / "etc/gres.conf").write_text(plan.gres)
  (folder / "etc/cgroup.conf").write_text(files.cgroups())
  for name, text in plan.other.items():
    (folder / "etc" / name).write_text(text)
  cluster.conf.write_text(files.head(folder, base, cluster.name) + files.rules() + plan.conf)
  about = folder / "cluster.json"
  part = about.with_suffix(".part")
  part.write_text(json.dumps({"nodes": plan.nodes, "port": base, "site": digest}))
  part.rename(about)
  return plan.nodes


def start_daemons(cluster: Loopback, nodes: list[str]) -> int:
  """Starts those that do not run; how many that were."""
  todo = [("slurmctld", ["slurmctld", "-i"])]  # -i: there is no state yet
  todo += [(f"slurmd.{node}", ["slurmd", "-N", node]) for node in nodes]
  environment = {**os.environ, **cluster.environment(), MARK: str(cluster.folder)}
  # A daemon must not inherit a job or the variables of one.
  environment = {k: v for k, v in environment.items() if k == CONF or not k.startswith("SLURM_")}
  started = []
  for name, words in todo:
    if not runs(cluster.folder / "run" / f"{name}.pid", cluster):
      started.append((name, subprocess.Popen(
        words, env=environment, cwd=cluster.folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)))
  for name, child in started:  # each goes on in the background
    try:
      _, err = child.communicate(timeout=READY_S)
    except subprocess.TimeoutExpired:
      child.kill()
      raise ClusterError(f"{name}: did not start within {READY_S:g} s") from None
    if child.returncode != 0:
      raise ClusterError(f"{name}: {err.strip() or log_of(cluster, name)}")
  return len(started)


def log_of(cluster: Loopback, name: str) -> str:
  try:
    lines = (cluster.folder / "log" / f"{name}.log").read_text(errors="replace").splitlines()
  except OSError:
    return "it left no log"
  bad = [line for line in lines if "error" in line or "fatal" in line] or lines
  return "; ".join(bad[-LOG_LINES:])


def runs(pid_file: Path, cluster: Loopback) -> bool:
  try:
    pid = int(pid_file.read_text())
  except (OSError, ValueError):
    return False
  return belongs(pid, cluster)


def belongs(pid: int, cluster: Loopback) -> bool:
  """A daemon, or a process of a job; a shell that merely knows the configuration is neither."""
  try:
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
  except OSError:
    return False
  if f"{MARK}={cluster.folder}".encode() in variables:
    return True
  return (f"{CONF}={cluster.conf}".encode() in variables
          and any(v.startswith(b"SLURM_JOB_ID=") for v in variables))


def processes(cluster: Loopback) -> list[int]:
  own = os.getpid()
  return [int(entry) for entry in os.listdir("/proc")
          if entry.isdigit() and int(entry) != own and belongs(int(entry), cluster)]


def is_ready(cluster: Loopback, nodes: list[str]) -> bool:
  done = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %t"], capture_output=True, text=True,
                        timeout=READY_S, env={**os.environ, **cluster.environment()})
  usable = {line.split()[0] for line in done.stdout.splitlines()
            if line.split()[-1] in ("idle", "mix", "alloc", "comp")}
  return usable >= set(nodes)


def wait_until_ready(cluster: Loopback, nodes: list[str]) -> None:
  stop = time.monotonic() + READY_S
  while not is_ready(cluster, nodes):
    if time.monotonic() > stop:
      raise ClusterError(f"cluster {cluster.name}: its nodes are not idle after {READY_S:g} s: "
                         f"{log_of(cluster, 'slurmctld')}")
    time.sleep(POLL_S)


def down(cluster: Loopback, keep_jobs: bool) -> int | None:
  """How many folders of jobs were removed; None: there was nothing."""
  with locked(cluster):
    found = bool(cluster.about()) or cluster.folder.exists() or bool(processes(cluster))
    if not found:
      return None
    cancel_jobs(cluster)
    remove(cluster)
  return 0 if keep_jobs else remove_jobs(cluster)


def cancel_jobs(cluster: Loopback) -> None:
  """Jobs end in order while their daemons are there; what is left then is killed."""
  here = Host(cluster.environment())
  if not runs(cluster.folder / "run/slurmctld.pid", cluster):
    return
  queue = here.run(["squeue", "-h", "-o", "%i"], timeout=DRAIN_S)
  if queue.code != 0 or not queue.out.strip():
    return
  here.run(["scancel", *{i.split("+")[0] for i in queue.out.split()}], timeout=DRAIN_S)
  stop = time.monotonic() + DRAIN_S
  while time.monotonic() < stop:
    queue = here.run(["squeue", "-h", "-o", "%i"], timeout=DRAIN_S)
    if queue.code != 0 or not queue.out.strip():
      return
    time.sleep(POLL_S)


def remove(cluster: Loopback) -> None:
  """Processes first, so that nothing is written into the folder any more."""
  stop = time.monotonic() + END_S
  number = signal.SIGTERM
  asked: set[int] = set()
  while alive := [pid for pid in processes(cluster) if not is_zombie(pid)]:
    if time.monotonic() > stop:
      number = signal.SIGKILL
    for pid in alive:
      if number == signal.SIGKILL or pid not in asked:
        asked.add(pid)
        with contextlib.suppress(ProcessLookupError):
          os.kill(pid, number)
          os.kill(pid, signal.SIGCONT)
    if time.monotonic() > stop + END_S:
      raise ClusterError(f"cluster {cluster.name}: processes {alive} do not end; are they "
                         "another user's?")
    time.sleep(POLL_S)
  shutil.rmtree(cluster.folder, ignore_errors=True)


def is_zombie(pid: int) -> bool:
  try:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
  except OSError:
    return True


def remove_jobs(cluster: Loopback) -> int:
  here = Host()
  mine = [place for place, job in _state.known_jobs(here)
          if job.get("cluster") == str(cluster.conf)]
  for place in mine:
    here.call("remove", place)
  return len(mine)
