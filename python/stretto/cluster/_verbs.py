"""What the verbs of `stretto cluster` do, but `run` (_run.py)."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stretto.cluster import _agent, _backends, _cloud, _follow, _loopback, _run, _state
from stretto.cluster._backend import Backend, Row
from stretto.cluster._host import ClusterError, Host, SshHost

Note = Callable[[str], None]
PROBE_S = 10.0
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


def up(args: argparse.Namespace, note: Note) -> int:
  if not args.local_slurm:
    if args.site:
      raise ValueError("--site: is for --local-slurm; `stretto cluster compile` writes what the "
                       "scheduler of a site reads")
    return look_around()
  if args.site and not args.site.is_file():
    raise ValueError(f"--site {args.site}: there is no such file")
  cluster = _loopback.named(args.cluster)
  fresh = _loopback.up(cluster, args.site, note)
  nodes = cluster.about()["nodes"]
  note(f"cluster {cluster.name} {'is up' if fresh else 'was up already'}: {len(nodes)} nodes on "
       "this machine; `stretto cluster run SCRIPT` uses it, `stretto cluster down"
       f"{_loopback.option(cluster)}` ends it")
  note("Slurm's own commands work with "
       f"SLURM_CONF={cluster.conf}")
  return 0


def look_around() -> int:
  """Which schedulers there are. 3 if there is none."""
  found = [f"cluster {cluster.name}: {len(cluster.about()['nodes'])} nodes on this machine"
           for cluster in _loopback.all_of_user()]
  here = Host()
  if shutil.which("sinfo"):
    done = here.run(["sinfo", "-h", "-o", "%D"], timeout=PROBE_S)
    nodes = sum(int(n) for n in done.out.split() if n.isdigit())
    found += [f"the Slurm site of this host: {nodes} nodes by partition"] if done.code == 0 else []
  if shutil.which("kubectl"):
    done = here.run(["kubectl", "config", "current-context"], timeout=PROBE_S)
    found += [f"Kubernetes: {done.out.strip()}, through kubectl"] if done.code == 0 else []
  for line in found:
    print(line)
  if not found:
    print("stretto cluster: there is no scheduler here: neither Slurm nor kubectl answers; "
          "`stretto cluster up --local-slurm` starts a Slurm cluster on this machine, and "
          "`stretto cluster run --backend local` needs none", file=sys.stderr)
  return 0 if found else 3


def down(args: argparse.Namespace, note: Note) -> int:
  if args.backend not in (None, "slurm", "kubernetes", "cloud"):
    raise ValueError(f"--backend: expected slurm, kubernetes or cloud, got {args.backend}")
  if args.backend == "kubernetes":
    return down_jobs(args, note)
  for option in ("context", "namespace"):
    if getattr(args, option):
      raise ValueError(f"--{option}: only with --backend kubernetes")
  if args.backend == _cloud.Cloud.name:
    return _cloud.down(args, note)
  if args.yes:
    raise ValueError("--yes: only with --backend cloud")
  cluster = _loopback.named(args.cluster or _state.DEFAULT)
  removed = _loopback.down(cluster, args.keep_jobs)
  if removed is None:
    note(f"there is no cluster {cluster.name} on this machine")
  else:
    note(f"cluster {cluster.name} is down" + (
      f", and the folders of {removed} jobs are removed" if removed else ""))
  return 0


def down_jobs(args: argparse.Namespace, note: Note) -> int:
  """Ends and removes the jobs of a cluster that is not ours, and their folders here."""
  from stretto.cluster._kubernetes import Kubernetes
  args.cluster = args.host = None  # its default is for clusters of this machine
  backend = _backends.chosen(args)
  place = {key: backend.describe()[key] for key in ("backend", "context", "namespace")}
  removed = failed = 0
  for folder, job in _state.known_jobs(Host()):
    if place.items() <= job.items():
      try:
        Kubernetes(job["context"], job["namespace"], job["kubeconfig"], job).clear(job["id"])
      except ClusterError as error:
        print(f"stretto cluster: job {job['id']}: {error}", file=sys.stderr)
        failed += 1
        continue
      if not args.keep_jobs:
        _agent.remove(folder)
      if job.get("volume"):
        note(f"the files of job {job['id']} stay on volume {job['volume']}, in "
             f"stretto/{job['id']}")
      removed += 1
  note(f"{removed} jobs are removed from {backend.about()}"
       + (f", {failed} are not" if failed else ""))
  return 3 if failed else 0


def ls(args: argparse.Namespace, note: Note) -> int:
  rows = _backends.chosen(args).rows(args.all)
  if args.over:
    rows += over(args, {os.path.basename(row.folder) for row in rows})
  if args.json:
    print(json.dumps({"jobs": [row._asdict() for row in rows]}, indent=1))
    return 0
  cells = [[shown(text) for text in (
    row.id, row.name, row.state, age(row.age_s), str(row.nodes), row.chips or "-", row.queue or "-",
    *([row.user] if args.all else []), row.reason)] for row in rows]
  titles = ["job", "name", "state", "age", "nodes", "chips/node", "queue",
            *(["user"] if args.all else []), "why"]
  widths = [max(map(len, column)) for column in zip(titles, *cells)]
  sys.stdout.write("".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() + "\n"
                           for line in [titles, *cells]))
  return 0


def over(args: argparse.Namespace, known: set[str]) -> list[Row]:
  """Jobs that are over, by what they have left. `known`: the last parts of the folders of jobs that
  wait or run; numbers begin at 1 in every cluster."""
  host = SshHost(args.host) if args.host else Host()
  rows = []
  for folder, job in _state.all_jobs(host):
    if not job or os.path.basename(folder) in known:
      continue
    left = (host.call("read_text", folder, "exit") or "").strip()
    state = f"over ({left})" if left else "over" if job["id"] else "never submitted"
    rows.append(Row(job["id"] or "-", job["name"], state,
                    max(time.time() - job["time"], 0), 0, "", "", "", "", folder))
  return rows


def shown(text: str) -> str:
  """Names of other users' jobs may hold what moves the cursor."""
  return "".join(c if c.isprintable() else "?" for c in text)


def age(seconds: float) -> str:
  for unit, size in (("d", DAY_S), ("h", HOUR_S), ("m", MINUTE_S)):
    if seconds >= size:
      return f"{int(seconds // size)}{unit}"
  return f"{int(seconds)}s"


def logs(args: argparse.Namespace, note: Note) -> int:
  backend, folder, job = _backends.of_job(args, args.job)
  printer = Plain(sys.stdout, args.rank) if args.rank is not None else _follow.Printer(sys.stdout)
  if args.rank is not None and not 0 <= args.rank < job["ranks"]:
    raise ValueError(f"--rank: the job has ranks 0 to {job['ranks'] - 1}")
  offsets: dict[str, int] = {}
  if args.since and (args.follow or not re.fullmatch(r"\d+[smh]", args.since)):
    raise ValueError("--since: not with --follow" if args.follow else
                     f"--since: expected 30s, 10m or 2h, got {args.since!r}")
  if args.follow:
    return _follow.until_signal(
      lambda: _follow.follow(backend, job["id"], folder, note, printer, offsets),
      lambda why: 130, lambda: 130, question=False)
  printer.show(backend.past(folder, args.since or ""))
  printer.finish()
  return 0


class Plain(_follow.Printer):
  """One rank's output as it is."""

  def line(self, rank: int | None, data: bytes) -> None:
    self.out.write(data.decode(errors="replace") + "\n")


def ssh(args: argparse.Namespace, note: Note) -> int:
  backend, folder, job = _backends.of_job(args, args.job)
  rank = args.rank or "0"
  if not rank.isdigit() or int(rank) >= job["ranks"]:
    raise ValueError(f"rank: the job has ranks 0 to {job['ranks'] - 1}, got {rank}")
  words = backend.host.shell_words(backend.shell(job["id"], folder, int(rank)), terminal=True)
  os.environ.update(backend.host.environment)
  sys.stdout.flush()
  try:
    os.execvp(words[0], words)
  except OSError as error:
    raise ClusterError(f"{words[0]}: {error.strerror}") from None


def upload(args: argparse.Namespace, note: Note) -> int:
  backend, folder, _ = _backends.of_job(args, args.job)
  to = os.path.normpath(args.to)
  if os.path.isabs(to) or to.split(os.sep)[0] == "..":
    raise ValueError(f"--to {args.to}: expected a folder inside the job's tree")
  files: list[tuple[str, Path]] = []
  for text in args.paths:
    path = Path(text)
    if not path.exists():
      raise ValueError(f"{text}: there is no such file")
    base = Path(os.path.abspath(path)).name  # of a link: its own name, with what it leads to
    if path.is_dir():
      files += [(os.path.join(to, base, name), path / name)
                for name in sorted(_agent.files_in(str(path))) if (path / name).is_file()]
    else:
      files.append((os.path.join(to, base), path))
  with backend.reach(folder, write=True):
    backend.host.put_tree(folder, files, follow=True)
  note(f"{len(files)} file{'' if len(files) == 1 else 's'}")
  return 0


def download(args: argparse.Namespace, note: Note) -> int:
  backend, folder, job = _backends.of_job(args, args.job)
  with backend.reach(folder, write=False):
    return downloaded(args, note, backend, folder, job)


def downloaded(args: argparse.Namespace, note: Note, backend: Backend, folder: str,
               job: dict[str, Any]) -> int:
  paths = args.paths or backend.host.call("written", folder)
  if args.list:
    print("".join(f"{path}\n" for path in paths), end="")
    return 0
  if not paths:
    note(f"job {job['id']} has written no file")
    return 0
  args.output.mkdir(parents=True, exist_ok=True)
  backend.host.get_tree(folder, paths, args.output)
  note(f"{len(paths)} files or folders in {args.output}")
  return 0


def stop(args: argparse.Namespace, note: Note) -> int:
  found = [_backends.of_job(args, wanted) for wanted in args.jobs]  # all are known, or none ends
  for backend, folder, job in found:
    backend.stop(job["id"], folder)
    note(f"job {job['id']} ({job['name']}) is asked to end")
  return 0


FUNCTIONS: dict[str, Callable[[argparse.Namespace, Note], int]] = {
  "up": up, "run": _run.run, "ls": ls, "logs": logs, "ssh": ssh, "upload": upload,
  "download": download, "stop": stop, "down": down,
}
