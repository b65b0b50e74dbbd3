"""--hang-after: watches the counters that the ranks of a job leave in its folder (_heartbeat.py),
and ends the job when none of them has finished an operation of the gradient engine for so long.
What it prints says which rank hangs where.

  python _watch_steps.py --slurm SECONDS         beside the ranks, in the batch script
  python _watch_steps.py --group PID SECONDS     of a job of processes that PID leads

It is started as a file, and imports nothing of Stretto."""

import json
import os
import signal
import subprocess
import sys
import time

LONGEST_PERIOD_S = 5.0
ANSWER_S = 3.0  # for records and stacks, after they were asked for
COMMAND_S = 30.0
SHOWN_FRAMES = 12  # of a stack, the innermost


def counters(folder):
  """Finished operations by rank; ranks without an engine are missing."""
  found = {}
  for name in os.listdir(folder):
    if name.startswith("rank-") and name.endswith(".json"):
      try:
        with open(os.path.join(folder, name)) as file:
          beat = json.load(file)
        found[beat["rank"]] = beat["operations"]
      except (OSError, ValueError, KeyError):  # it is just being written
        continue
  return found


def wait_for_hang(folder, seconds, sleep=time.sleep, clock=time.monotonic):
  """Returns how many operations each rank had finished when none went on any more."""
  began = changed = clock()
  before, told = {}, False
  while True:
    now = clock()
    found = counters(folder)
    if found != before:
      before, changed = found, now
    if any(found.values()) and now - changed >= seconds:
      return found
    if not found and not told and now - began >= max(seconds, 60):
      told = True
      print("stretto cluster: --hang-after sees nothing yet: no rank uses the gradient engine",
            flush=True)
    sleep(min(LONGEST_PERIOD_S, max(seconds / 10, 0.1)))


def send(number, how):
  if how[0] == "--group":
    os.kill(int(how[1]), number)  # it hands SIGUSR2 on to the ranks, and ends them on SIGTERM
    return
  job = os.environ["SLURM_JOB_ID"]
  # The step is the ranks; the batch script goes on, and leaves the exit code.
  words = [f"{job}.0"] if number == signal.SIGTERM else ["--signal=USR2", job]
  subprocess.run(["scancel", *words], timeout=COMMAND_S, check=False)


def records_text(folder):
  """The ranks' last operations, as `stretto run --dump` shows them, and as JSON."""
  def dump(*more):
    return subprocess.run([sys.executable, "-m", "stretto._launch", *more, "--dump", folder],
                          capture_output=True, text=True, timeout=COMMAND_S, check=False).stdout
  try:
    merged = json.loads(dump("--json") or "{}")
    return dump(), merged
  except (subprocess.TimeoutExpired, ValueError):
    return "", {}


def culprits(finished, merged, answers):
  """The ranks whose script is not in a call of the engine, or whose Python does not answer. If that
  is true of all or none: those that others wait for, or that have finished least."""
  outside = sorted(rank for rank in finished if not answers.get(rank, {}).get("in_engine"))
  if 0 < len(outside) < len(finished):
    return outside
  missing = {rank for row in merged.get("open", []) for rank in row["missing"] + row["unknown"]}
  least = min(finished.values())
  return sorted(missing) or sorted(rank for rank, count in finished.items() if count == least)


def answers_in(folder, ranks):
  found = {}
  for rank in ranks:
    try:
      with open(os.path.join(folder, f"rank-{rank:05}.stack"), errors="replace") as file:
        found[rank] = json.load(file)
    except (OSError, ValueError):
      continue
  return found


def report(seconds, finished, text, merged, answers):
  hanging = culprits(finished, merged, answers)
  lines = [f"stretto cluster: no rank has finished an operation for {seconds:g} s; it is ended",
           "finished operations by rank: " + ", ".join(f"{r}: {n}" for r, n in
                                                       sorted(finished.items())),
           *text.splitlines()]
  for rank in hanging:
    lines.append(f"stretto cluster: rank {rank} hangs here:")
    stack = answers.get(rank, {}).get("stack") or [
      "its Python does not answer: it is stopped, or a call outside of Python does not return"]
    lines += ["  " + line for line in "\n".join(stack[-SHOWN_FRAMES:]).splitlines()]
  return hanging, "\n".join(lines)


def main():
  how, seconds = sys.argv[1:-1], float(sys.argv[-1])
  job = os.environ["STRETTO_JOB_FOLDER"]
  folder = os.environ["STRETTO_PROGRESS"]
  finished = wait_for_hang(folder, seconds)
  with open(os.path.join(folder, "asked"), "w"):
    pass
  send(signal.SIGUSR2, how)
  time.sleep(ANSWER_S)
  text, merged = records_text(os.path.join(job, "records"))
  answers = answers_in(folder, finished)
  hanging, lines = report(seconds, finished, text, merged, answers)
  print(lines, flush=True)
  with open(os.path.join(job, "hangs"), "w") as file:
    file.write(",".join(map(str, hanging)) + "\n")
  send(signal.SIGTERM, how)


if __name__ == "__main__":
  main()
