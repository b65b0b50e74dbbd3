"""The batch script of a job. Only words that were checked stand in its #SBATCH lines; what a user
may write freely is quoted for the shell, or given to sbatch as a word of its own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from stretto.cluster import _task, _watch_steps
from stretto.cluster._backend import Request

LONGEST_GRACE_S = 60  # SIGTERM comes so long before the time limit, or a tenth of it before
GRACE_SHARE = 10
# slurmctld looks at limits every half a minute and may signal a minute early, so a warning before
# the end of a short job would come at its start; Slurm's own SIGTERM at the limit is enough there.
SHORTEST_WARNED_S = 240
EARLY_S = 90  # an end that is nearer than the grace time and this is why SIGTERM came


class Component(NamedTuple):
  """A part of a job as Slurm wants it: everything per node, the form that most sites take."""
  nodes: int | None
  ranks: int
  gres: str  # per node: "gpu:v100:8"; empty: none
  python: str


# What a start does. The folder of the job is that which sbatch was called in. The names of these
# variables begin with _stretto_: no variable that a user gives the ranks can change what they mean.
BEGIN = r'''
_stretto_folder=$PWD
if [ ! -e "$_stretto_folder/job.json" ]; then
  echo "stretto cluster: $_stretto_folder is no longer the folder of a job" >&2
  exit 1
fi
readonly _stretto_folder
echo "$SLURM_JOB_ID" >"$_stretto_folder/id"
_stretto_finish() {
  printf '%s\n' "$1" >"$_stretto_folder/exit.part" &&
    mv "$_stretto_folder/exit.part" "$_stretto_folder/exit"
  exit "$1"
}
rm -f "$_stretto_folder/exit" "$_stretto_folder/hangs" "$_stretto_folder"/progress/*

# Slurm starts the job again when it was preempted or has lost a node. The loss of nodes is counted:
# no SIGTERM came to this script, or slurmd gave the reason when it did.
_stretto_lost=$(cat "$_stretto_folder/lost" 2>/dev/null || echo 0)
_stretto_named=$(grep -c 'JOB .* DUE TO NODE FAILURE' "$_stretto_folder/logs/batch.log")
_stretto_before=$(cat "$_stretto_folder/named" 2>/dev/null || echo 0)
echo "$_stretto_named" >"$_stretto_folder/named"
rm "$_stretto_folder/asked" 2>/dev/null && _stretto_asked=1 || _stretto_asked=0
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] &&
  { [ "$_stretto_asked" = 0 ] || [ "$_stretto_named" != "$_stretto_before" ]; }; then
  _stretto_lost=$((_stretto_lost + 1)) && echo "$_stretto_lost" >"$_stretto_folder/lost"
  if [ "$_stretto_lost" -gt "$_stretto_retries" ]; then
    echo "stretto cluster: the job has lost a node $_stretto_lost times;" \
      "--retries allows $_stretto_retries"
    _stretto_finish 1
  fi
  echo "stretto cluster: a node was lost; start $((SLURM_RESTART_COUNT + 1))"
elif [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  echo "stretto cluster: the job was preempted; start $((SLURM_RESTART_COUNT + 1))"
fi

# SIGTERM: preempted, cancelled, or near the time limit. Ranks get it too, and can save their state.
# Slurm has sent it to them already, if the job is ending.
_stretto_job() { timeout 10 scontrol -o show job "$SLURM_JOB_ID" 2>/dev/null; }
_stretto_asked=0 _stretto_late=0 _stretto_code=
_stretto_on_term() {
  local about end
  _stretto_asked=1
  touch "$_stretto_folder/asked"
  about=$(_stretto_job)
  [[ $about == *' JobState=RUNNING '* ]] || return
  if [[ $about != *' PreemptTime=2'* && $about =~ ' EndTime='([0-9T:-]+) ]] &&
    end=$(date -d "${BASH_REMATCH[1]}" +%s 2>/dev/null) &&
    [ $((end - $(date +%s))) -le "$_stretto_near" ]; then
    _stretto_late=1
    echo "stretto cluster: the time limit is near; the ranks get SIGTERM"
  fi
  timeout 10 scancel --signal=TERM "$SLURM_JOB_ID"
}
trap _stretto_on_term TERM

# Where the ranks meet: on the node of rank 0, which this script runs on.
MASTER_ADDR=$(timeout 10 scontrol -o show node "$SLURMD_NODENAME" 2>/dev/null |
  sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
export MASTER_ADDR=${MASTER_ADDR:-$(hostname)}
'''

END = r'''
_stretto_step=$!
while :; do
  _stretto_asked=0
  wait "$_stretto_step"
  _stretto_now=$?
  # 127 is also what the shell says of a process that it has reported already.
  [ "$_stretto_now" = 127 ] && [ -n "$_stretto_code" ] || _stretto_code=$_stretto_now
  [ "$_stretto_asked" = 1 ] || break
done

# A preempted job has a time in which to save its state. When it has done so, it gives its chips
# back, and waits again.
if [[ $(_stretto_job) == *' PreemptTime=2'* ]]; then
  touch "$_stretto_folder/asked"
  timeout 30 scontrol requeue "$SLURM_JOB_ID" && sleep 600
fi

# When a rank fails, srun ends the others, and exits with the signal that ended them. The job's code
# is that of the rank that srun saw failing first.
if [ "$_stretto_code" != 0 ]; then
  _stretto_first=$(tail -c "+$((_stretto_size + 1))" "$_stretto_folder/logs/batch.log" |
    grep -m 1 -E '^srun: error: .*: tasks? [0-9,-]+: (Exited with|[A-Z][a-z])')
  case $_stretto_first in
    *': Exited with exit code '*)
      _stretto_now=${_stretto_first##*: Exited with exit code }
      _stretto_now=${_stretto_now%%[!0-9]*}
      [ -z "$_stretto_now" ] || _stretto_code=$_stretto_now ;;
    *': Illegal instruction'*) _stretto_code=132 ;;
    *': Aborted'*) _stretto_code=134 ;;
    *': Bus error'*) _stretto_code=135 ;;
    *': Floating point exception'*) _stretto_code=136 ;;
    *': Killed'* | *': Out Of Memory'*) _stretto_code=137 ;;
    *': Segmentation fault'*) _stretto_code=139 ;;
    *': Terminated'*) _stretto_code=143 ;;
  esac
fi
[ "$_stretto_late" = 0 ] || _stretto_code=124
'''

# A port that is free together with the next one.
PORT = '''import socket
while True:
  with socket.socket() as a, socket.socket() as b:
    a.bind(("", 0))
    port = a.getsockname()[1]
    try: b.bind(("", port + 1))
    except (OSError, OverflowError): continue
    print(port)
    break'''


def text(request: Request, components: list[Component], here: bool, resv_ports: bool) -> str:
  """`here`: nodes see this host's files, so a rank starts without searching for the package.
  `resv_ports`: the site has ports that Slurm reserves for jobs."""
  first = components[0].python
  # Each component of a heterogeneous job is a step, and Slurm reserves other ports for each.
  resv_ports = resv_ports and len(components) == 1
  lines = ["#!/bin/bash", *directives(request, components), "",
           "# Written by `stretto cluster run`; docs/howto/cluster.md says what it does.",
           f"_stretto_retries={int(request.retries)}",
           f"_stretto_near={grace_of(request.time) + EARLY_S}", BEGIN.strip("\n")]
  if not resv_ports:
    lines.append(f"MASTER_PORT=$({shlex.quote(first)} -I -S -c {shlex.quote(PORT)}) || "
                 "_stretto_finish 1")
    lines.append("export MASTER_PORT")
  lines += ['export STRETTO_JOB_FOLDER="$_stretto_folder"',
            f"cd -- work/{shlex.quote(request.inside)} || _stretto_finish 1", ""]
  if request.hang_after:
    lines += ['export STRETTO_PROGRESS="$_stretto_folder/progress"', shlex.join(
      [first, *program(_watch_steps, here), "--slurm", str(request.hang_after)]) + " &",
      "_stretto_watcher=$!"]
  parts = [step(request, c, group if len(components) > 1 else None, here, resv_ports)
           for group, c in enumerate(components)]
  ports = " --resv-ports=2" if resv_ports else ""
  exported = {"PYTHONUNBUFFERED": "1", **request.environment}
  lines += ["set -m  # a process group of its own: SIGTERM is for the ranks, not for srun",
            "_stretto_srun=$(command -v srun) || _stretto_finish 127",
            '_stretto_size=$(wc -c <"$_stretto_folder/logs/batch.log")', "(",
            *(f"  export {name}={shlex.quote(value)}" for name, value in exported.items()),
            f'  exec "$_stretto_srun" --kill-on-bad-exit=1{ports} {parts[0]}' +
            "".join(f" \\\n    : --kill-on-bad-exit=1{ports} {p}" for p in parts[1:]), ") &",
            END.strip("\n")]
  if request.hang_after:
    lines += ['kill "$_stretto_watcher" 2>/dev/null',
              '[ ! -e "$_stretto_folder/hangs" ] || _stretto_code=124']
  return "\n".join([*lines, '_stretto_finish "$_stretto_code"', ""])


def seconds_of(time: str) -> int:
  """Of a time limit in Slurm's form: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS."""
  days, dash, rest = time.rpartition("-")
  words = [int(word) for word in rest.split(":")]
  if dash:
    hours, minutes, seconds = (*words, 0, 0)[:3]
  elif len(words) == 3:
    hours, minutes, seconds = words
  else:
    hours, (minutes, seconds) = 0, (*words, 0)[:2]
  return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def grace_of(time: str) -> int:
  """How long before the time limit SIGTERM comes; 0: Slurm's own signals at the limit suffice."""
  if not time:
    return LONGEST_GRACE_S  # the site's limit, or none
  limit = seconds_of(time)
  return min(LONGEST_GRACE_S, limit // GRACE_SHARE) if limit >= SHORTEST_WARNED_S else 0


def directives(request: Request, components: list[Component]) -> list[str]:
  found = ["--output=logs/batch.log", "--open-mode=append", "--requeue"]
  if grace := grace_of(request.time):
    found.append(f"--signal=B:TERM@{grace}")
  if request.time:
    found.append(f"--time={request.time}")
  if request.queue:
    found.append(f"--partition={request.queue}")
  for number, part in enumerate(components):
    if number:
      found.append("hetjob")
      found += [f"--partition={request.queue}"] if request.queue else []
    found += wants(part)
  return [f"#SBATCH {line}" for line in found]


def wants(part: Component) -> list[str]:
  """Which nodes and chips, in the options of sbatch and salloc."""
  found = [f"--nodes={part.nodes}", f"--ntasks-per-node={part.ranks // part.nodes}"] \
    if part.nodes is not None else [f"--ntasks={part.ranks}"]
  return [*found, f"--gres={part.gres}"] if part.gres else found


def step(request: Request, part: Component, group: int | None, here: bool,
         resv_ports: bool) -> str:
  """Only words of ours: what a rank runs is in words.json. srun takes a word ":" for the beginning
  of another component, also behind the program, and what follows for its own options."""
  words = [] if group is None else [f"--het-group={group}"]
  words += [f"--nodes={part.nodes}"] if part.nodes is not None else []
  options = ["--ranks-per-node", str(part.ranks // part.nodes)] if part.nodes else []
  options += [] if group is None else ["--group", str(group)]
  options += ["--reserved-ports"] if resv_ports else []
  return shlex.join([*words, f"--ntasks={part.ranks}", part.python, *program(_task, here),
                     *options])


def program(module, here: bool) -> list[str]:
  return [str(Path(module.__file__).resolve())] if here else ["-m", module.__name__]
