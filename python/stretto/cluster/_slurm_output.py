"""What Slurm's commands print, of versions 22.05 to 25.x. Fields are asked for one by one, with a
separator that no field holds; --json has another schema in every version."""

from __future__ import annotations

import datetime
import re
import time

from stretto.cluster._backend import ENDS, OVER, RUNS, WAITS, Row, State
from stretto.cluster._host import ClusterError

SEPARATOR = "\x1f"
# Job, state, time of submission, nodes, chips per node, partition, reason, user, folder, name.
QUEUE = SEPARATOR.join(("%i", "%T", "%V", "%D", "%b", "%P", "%r", "%u", "%Z", "%j"))
STATE = SEPARATOR.join(("%T", "%r"))
NODES = SEPARATOR.join(("%N", "%G"))

WAITING = {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
RUNNING = {"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"}
ENDING = {"COMPLETING"}
GONE = ("invalid job id", "invalid job array")  # as squeue says of a job it has forgotten


def state_of(word: str, reason: str) -> State:
  if word in WAITING:
    return State(WAITS, word, reason)
  if word in RUNNING:
    return State(RUNS, word, reason)
  return State(ENDS if word in ENDING else OVER, word, reason)


def states(out: str) -> State | None:
  """Of a heterogeneous job, the part that is least far; None: no line."""
  order = (WAITS, RUNS, ENDS, OVER)
  found = [state_of(*line.split(SEPARATOR, 1)) for line in out.splitlines() if SEPARATOR in line]
  return min(found, key=lambda state: order.index(state.what), default=None)


def rows(out: str, now: float | None = None) -> list[Row]:
  now = time.time() if now is None else now
  found: list[Row] = []
  ages: dict[str, float] = {}  # many jobs are submitted in the same second
  for line in out.splitlines():
    fields = line.split(SEPARATOR, 9)
    if len(fields) != 10:  # the rest of a name with a line break
      continue
    job, word, submitted, nodes, chips, queue, reason, user, folder, name = fields
    if submitted not in ages:
      ages[submitted] = age(submitted, now)
    found.append(Row(job, name, word.lower(), ages[submitted], int(nodes) if nodes.isdigit() else 0,
                     chips_of(chips), queue, "" if reason == "None" else reason, user, folder))
  return found


def age(submitted: str, now: float) -> float:
  try:
    return max(now - datetime.datetime.fromisoformat(submitted).timestamp(), 0.0)
  except ValueError:  # N/A
    return 0.0


def chips_of(text: str) -> str:
  """ "gres:gpu:v100:8" of 22.05, "gres/gpu:v100:8" later, "N/A": per node, without the class."""
  if text in ("N/A", "(null)", ""):
    return ""
  return ",".join(re.sub(r"^(gres[:/])?(gpu:)?", "", one) for one in text.split(","))


def gres_of(out: str) -> dict[str, tuple[str, dict[str, int]]]:
  """Kind of chip to its spelling for --gres ("gpu:v100") and its count per node, from sinfo -N."""
  found: dict[str, tuple[str, dict[str, int]]] = {}
  for line in out.splitlines():
    node, _, text = line.partition(SEPARATOR)
    plain = re.sub(r"\([^)]*\)", "", text)  # "gpu:v100:8(S:0-1)", "(null)"
    for one in plain.split(","):
      words = one.split(":")
      if len(words) < 2 or not words[-1].isdigit():
        continue
      kind = words[-2]  # the type, or the name where there is no type
      spelling, nodes = found.setdefault(kind, (":".join(words[:-1]), {}))
      nodes[node] = int(words[-1])
  return found


def job_number(out: str) -> str:
  """ "12" or "12;cluster", as sbatch --parsable prints it, perhaps below a site's greeting."""
  for line in reversed(out.splitlines()):
    if found := re.fullmatch(r"(\d+)(;[\w.-]+)?", line.strip()):
      return found[1]
  raise ClusterError(f"sbatch: expected the number of the job, got {out.strip()[:200]!r}")


def has_reserved_ports(out: str) -> bool:
  """MpiParams of `scontrol show config`."""
  return re.search(r"^MpiParams\s*=.*\bports=\d+-\d+", out, re.MULTILINE) is not None


def version_of(out: str) -> str:
  found = re.search(r"\d+\.\d+(\.\d+)?", out)
  return found[0] if found else "?"
