"""Where clusters on this machine and the folders of jobs are. There is no database: a job's folder
holds what was asked for (job.json), its script, its copy of the tree and its logs; whether it runs
is the scheduler's to say."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any

from stretto.cluster._host import ClusterError, Host

VARIABLE = "STRETTO_STATE_DIR"
DEFAULT = "local"  # name of a cluster
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LONGEST_NAME = 200


def folder() -> Path:
  own = os.environ.get(VARIABLE)
  if own:
    return Path(own).absolute()
  xdg = os.environ.get("XDG_STATE_HOME")
  return (Path(xdg) if xdg else Path.home() / ".local/state") / "stretto"


def cluster_folder(name: str) -> Path:
  if not NAME.fullmatch(name):
    raise ValueError(f"--cluster: expected letters, digits, '.', '_' and '-', got {name!r}")
  return folder() / "clusters" / name


def jobs_folder(host: Host) -> str:
  """Of another host the folder is below its home, which all nodes usually share."""
  return "~/.local/state/stretto/jobs" if host.name else str(folder() / "jobs")


def check_job_name(name: str) -> str:
  """Any text that fits on one line of a table."""
  if not name or len(name) > LONGEST_NAME or not name.isprintable():
    raise ValueError(f"--name: expected 1 to {LONGEST_NAME} printable characters, got {name!r}")
  return name


def new_job_folder(host: Host) -> str:
  """Sorts by time; nothing in it comes from the user."""
  stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime()) + f"-{time.time_ns() % 10**9:09}"
  return f"{jobs_folder(host)}/{stamp}-{secrets.token_hex(3)}"


def known_jobs(host: Host) -> list[tuple[str, dict[str, Any]]]:
  """(folder, job.json) of jobs that were submitted from here, the newest first."""
  found = []
  for place, text, number in host.call("folders_below", jobs_folder(host)):
    try:
      job = json.loads(text)
    except ValueError:
      continue
    if isinstance(job, dict) and not job.get("id"):
      job["id"] = number
    if isinstance(job, dict) and job.get("id"):
      found.append((place, job))
  return found


def find_job(host: Host, wanted: str) -> tuple[str, dict[str, Any]]:
  """By the scheduler's number, or the newest of that name."""
  jobs = known_jobs(host)
  wanted = wanted.split("+")[0] if wanted.split("+")[0].isdigit() else wanted  # a part of a job
  for match in ("id", "name"):
    for place, job in jobs:
      if job.get(match) == wanted:
        return place, job
  names = ", ".join(f"{job['id']} ({job['name']})" for _, job in jobs[:5])
  raise ClusterError(f"{wanted}: there is no such job among those started with `stretto cluster "
                     f"run`" + (f"; the last ones are {names}" if names else ""))
