"""One rank of a job: sends what it prints to the rank's log, sets the variables that `stretto run`
sets, and becomes the rank.

  python _task.py [--ranks-per-node N] [--group K] [--reserved-ports] [--inherit-output]

words.json in the job's folder says what the rank runs: [-m | --no-python] train.py ARGUMENTS.

It is started as a file, and imports nothing of Stretto: `import stretto` takes a third of a second,
and a script may not need it. STRETTO_JOB_FOLDER names the job's folder; Slurm's variables say which
rank this is, or STRETTO_TASK (RANK/RANKS/LOCAL RANK/LOCAL RANKS[/NODE/RESTARTS]) where there is no
Slurm. --inherit-output: whoever has started it reads what it prints."""

import importlib.util
import json
import os
import re
import sys


def here_of(environment, per_node=0):
  """Rank, ranks, rank and ranks of this node, number of the node. `per_node`: if it is known; of a
  heterogeneous job, Slurm 22.05 lists the tasks of nodes in another order than it numbers them."""
  if "STRETTO_TASK" in environment:
    numbers = [int(word) for word in environment.pop("STRETTO_TASK").split("/")]
    rank, ranks, local, locals_, node = [*numbers, 0][:5]
    return rank, ranks, local, locals_, node
  counts = environment.get("SLURM_STEP_TASKS_PER_NODE", "")
  tasks = []
  for many, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", counts):  # "8(x2),4"
    tasks += [int(many)] * min(int(times or 1), 1 << 16)
  node = int(environment.get("SLURM_NODEID", "0"))
  local = int(environment["SLURM_LOCALID"])
  locals_ = per_node or (tasks[node] if node < len(tasks) else 1)
  return (int(environment["SLURM_PROCID"]), int(environment["SLURM_NTASKS"]), local,
          max(locals_, local + 1), node)


def restarts_of(environment):
  task = environment.get("STRETTO_TASK", "").split("/")
  return task[5] if len(task) > 5 else environment.get("SLURM_RESTART_COUNT", "0")


def settings(environment, place, use_reserved=False, restarts="0"):
  rank, ranks, local, locals_, node = place
  address = environment["MASTER_ADDR"]
  port = environment.get("MASTER_PORT", "")
  reserved = re.findall(r"\d+", environment.get("SLURM_STEP_RESV_PORTS", ""))
  if use_reserved and len(reserved) > 1:  # --resv-ports: free on every node
    port, second = reserved[0], reserved[1]
  else:
    second = str(int(port) + 1)
  chosen = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(locals_), "GROUP_RANK": str(node), "MASTER_ADDR": address,
            "MASTER_PORT": port, "STRETTO_RANK": str(rank), "STRETTO_SIZE": str(ranks),
            "STRETTO_ADDRESS": f"{address}:{second}", "TORCHELASTIC_RESTART_COUNT": restarts}
  if "OMP_NUM_THREADS" not in environment:
    given = environment.get("SLURM_CPUS_ON_NODE", "")
    cores = len(os.sched_getaffinity(0))
    cores = min(cores, int(given)) if given.isdigit() else cores
    chosen["OMP_NUM_THREADS"] = str(max(cores // locals_, 1))
  if "STRETTO_DUMP" not in environment:
    chosen["STRETTO_DUMP"] = os.path.join(environment["STRETTO_JOB_FOLDER"], "records")
  return chosen


def to_log(folder, rank):
  """Output and errors of this process and its children, in the order in which they are written."""
  log = os.open(os.path.join(folder, "logs", f"rank-{rank:05}.log"),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
  os.dup2(log, 1)
  os.dup2(log, 2)
  os.close(log)


def note_node(environment, rank, group):
  """For `stretto cluster ssh`: on which node, and in which part of a heterogeneous job. Slurm gives
  the ranks of every part the number of the first."""
  if "SLURMD_NODENAME" in environment:
    with open(os.path.join(environment["STRETTO_JOB_FOLDER"], "progress", f"rank-{rank:05}.node"),
              "w") as file:
      file.write(f"{environment['SLURMD_NODENAME']} {environment['SLURM_JOB_ID']} {group}\n")


def rank_program():
  """stretto._rank, without its package."""
  path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_rank.py")
  spec = importlib.util.spec_from_file_location("stretto._rank", path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def words_of(folder):
  with open(os.path.join(folder, "words.json"), encoding="utf-8") as file:
    return json.load(file)


def main():
  per_node, group, use_reserved, own_log = 0, "", False, True
  given = sys.argv[1:]
  while given:
    option = given.pop(0)
    if option == "--ranks-per-node":
      per_node = int(given.pop(0))
    elif option == "--group":
      group = given.pop(0)
    elif option == "--reserved-ports":
      use_reserved = True
    elif option == "--inherit-output":
      own_log = False
  folder = os.environ["STRETTO_JOB_FOLDER"]
  restarts = restarts_of(os.environ)
  place = here_of(os.environ, per_node)
  if own_log:
    to_log(folder, place[0])
  note_node(os.environ, place[0], group)
  os.environ.update(settings(os.environ, place, use_reserved, restarts))
  sys.argv[1:] = words_of(folder)
  sys.path.pop(0)  # this folder's files are no modules for the script
  sys.path.insert(0, "")
  rank_program().main()


if __name__ == "__main__":
  main()
