"""The batch script of a job. Only words that were checked stand in its #SBATCH lines; what a user
may write freely is quoted for the shell, or given to sbatch as a word of its own."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from stretto.cluster import _task, _watch_steps
from stretto.cluster._backend import Request

GRACE_S = 60  # SIGTERM comes so long before the time limit


class Component(NamedTuple):
  """A part of a job as Slurm wants it: everything per node, the form that most sites take."""
  nodes: int | None
  ranks: int
  gres: str  # per node: "gpu:v100:8"; empty: none
  python: str


# What a start does. $folder is the job's folder, which sbatch was called in.
BEGIN = r'''
folder=$PWD
echo "$SLURM_JOB_ID" >"$folder/id"
finish() {
  printf '%s\n' "$1" >"$folder/exit.part" && mv "$folder/exit.part" "$folder/exit"
  exit "$1"
}
rm -f "$folder/exit" "$folder/hangs" "$folder"/progress/*

# Slurm starts the job again when it was preempted or has lost a node. The loss of nodes is counted:
# no SIGTERM came to this script, or slurmd gave the reason when it did.
lost=$(cat "$folder/lost" 2>/dev/null || echo 0)
named=$(grep -c 'JOB .* DUE TO NODE FAILURE' "$folder/logs/batch.log")
before=$(cat "$folder/named" 2>/dev/null || echo 0)
echo "$named" >"$folder/named"
rm "$folder/asked" 2>/dev/null && asked=1 || asked=0
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] && { [ "$asked" = 0 ] || [ "$named" != "$before" ]; }; then
  lost=$((lost + 1)) && echo "$lost" >"$folder/lost"
  if [ "$lost" -gt "$retries" ]; then
    echo "stretto cluster: the job has lost a node $lost times; --retries allows $retries"
    finish 1
  fi
  echo "stretto cluster: a node was lost; start $((SLURM_RESTART_COUNT + 1))"
elif [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  echo "stretto cluster: the job was preempted; start $((SLURM_RESTART_COUNT + 1))"
fi

# SIGTERM: preempted, cancelled, or near the time limit. Ranks get it too, and can save their state.
# Slurm has sent it to them already, if the job is ending.
job() { timeout 10 scontrol -o show job "$SLURM_JOB_ID" 2>/dev/null; }
asked=0
on_term() {
  asked=1
  touch "$folder/asked"
  if job | grep -q ' JobState=RUNNING '; then
    timeout 10 scancel --signal=TERM "$SLURM_JOB_ID"
  fi
}
trap on_term TERM

# Where the ranks meet: on the node of rank 0, which this script runs on.
MASTER_ADDR=$(timeout 10 scontrol -o show node "$SLURMD_NODENAME" 2>/dev/null |
  sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
export MASTER_ADDR=${MASTER_ADDR:-$(hostname)}
'''

END = r'''
step=$!
while :; do
  asked=0
  wait "$step"
  now=$?
  [ "$now" = 127 ] || code=$now
  [ "$asked" = 1 ] || break
done

# A preempted job has a time in which to save its state. When it has done so, it gives its chips
# back, and waits again.
if job | grep -q ' PreemptTime=[0-9]'; then
  touch "$folder/asked"
  timeout 30 scontrol requeue "$SLURM_JOB_ID" && sleep 600
fi
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
  lines = ["#!/bin/bash", *directives(request, components), "",
           "# Written by `stretto cluster run`; docs/howto/cluster.md says what it does.",
           f"retries={int(request.retries)}", BEGIN.strip("\n")]
  if not resv_ports:
    lines.append(f"MASTER_PORT=$({shlex.quote(first)} -I -S -c {shlex.quote(PORT)}) || finish 1")
    lines.append("export MASTER_PORT")
  exported = {"PYTHONUNBUFFERED": "1", **request.environment}
  lines += [f"export {name}={shlex.quote(value)}" for name, value in exported.items()]
  lines += ['export STRETTO_JOB_FOLDER="$folder"', f"cd -- work/{shlex.quote(request.inside)} || "
            "finish 1", ""]
  if request.hang_after:
    lines += ['export STRETTO_PROGRESS="$folder/progress"', shlex.join(
      [first, *program(_watch_steps, here), "--slurm", str(request.hang_after)]) + " &",
      "watcher=$!"]
  parts = [step(request, c, group if len(components) > 1 else None, here)
           for group, c in enumerate(components)]
  ports = " --resv-ports=2" if resv_ports else ""
  lines += ["set -m  # a process group of its own: SIGTERM is for the ranks, not for srun",
            f"srun --kill-on-bad-exit=1{ports} {parts[0]}" +
            "".join(f" \\\n  : --kill-on-bad-exit=1{ports} {p}" for p in parts[1:]) + " &",
            END.strip("\n")]
  if request.hang_after:
    lines += ['kill "$watcher" 2>/dev/null', '[ ! -e "$folder/hangs" ] || code=124']
  return "\n".join([*lines, 'finish "$code"', ""])


def directives(request: Request, components: list[Component]) -> list[str]:
  found = ["--output=logs/batch.log", "--open-mode=append", "--requeue",
           f"--signal=B:TERM@{GRACE_S}"]
  if request.time:
    found.append(f"--time={request.time}")
  if request.queue:
    found.append(f"--partition={request.queue}")
  for number, part in enumerate(components):
    if number:
      found.append("hetjob")
      found += [f"--partition={request.queue}"] if request.queue else []
    if part.nodes is not None:
      found += [f"--nodes={part.nodes}", f"--ntasks-per-node={part.ranks // part.nodes}"]
    else:
      found.append(f"--ntasks={part.ranks}")
    found += [f"--gres={part.gres}"] if part.gres else []
  return [f"#SBATCH {line}" for line in found]


def step(request: Request, part: Component, group: int | None, here: bool) -> str:
  words = [] if group is None else [f"--het-group={group}"]
  words += [f"--nodes={part.nodes}"] if part.nodes is not None else []
  return shlex.join([*words, f"--ntasks={part.ranks}", part.python, *program(_task, here),
                     *(["--ranks-per-node", str(part.ranks // part.nodes)] if part.nodes else []),
                     *request.words])


def program(module, here: bool) -> list[str]:
  return [str(Path(module.__file__).resolve())] if here else ["-m", module.__name__]
