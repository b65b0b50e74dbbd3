"""`stretto run`: starts a training script on several ranks, through torchrun or srun. A program
that is no Python script, or any script where torch is not installed, is started without torchrun.

  stretto run -n 4 train.py --epochs 3
  stretto run -n 4 ./train_c
  stretto run -H host1:2,host2:2 train.py
  stretto run train.py                      # inside an sbatch: as many ranks as it has tasks
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from stretto import _processes as processes

MASTER_PORT = 29411

Command = tuple[list[str], dict[str, str]]  # words, changes to the environment


def parser() -> argparse.ArgumentParser:
  p = argparse.ArgumentParser(prog="stretto run", description=__doc__,
                              formatter_class=argparse.RawDescriptionHelpFormatter)
  p.add_argument("-n", "--ranks", type=int, help="processes on this host, or of the Slurm job")
  p.add_argument("-H", "--hosts", help="host1:2,host2:2: ranks per host, over ssh; every host has "
                 "the same folders")
  p.add_argument("--port", type=int, default=MASTER_PORT, help="of the first host, for -H and srun")
  p.add_argument("--threads", type=int, help="per rank (default: the host's cores, divided)")
  p.add_argument("--no-bind", action="store_true", help="let ranks run on any core")
  p.add_argument("--replace-backend", action="store_true",
                 help="scripts that ask for gloo or nccl get stretto")
  p.add_argument("--codec", help="how gradients cross the wire: none, fp16, bf16, int8, "
                 "topk, powersgd, mixed")
  p.add_argument("--step-policy", metavar="POLICY",
                 help="what a step exchanges: every, accumulate:K, local:K, gossip:K")
  p.add_argument("--trace", type=Path, metavar="FILE", help="write a timeline for Perfetto")
  p.add_argument("--report", type=Path, metavar="FILE",
                 help="write one HTML page about what was sent")
  p.add_argument("--dry-run", action="store_true", help="print the commands, run nothing")
  p.add_argument("script")
  p.add_argument("arguments", nargs=argparse.REMAINDER)
  return p


def hosts_of(text: str) -> list[tuple[str, int]]:
  hosts = []
  for word in text.split(","):
    name, colon, count = word.partition(":")
    count = count if colon else "1"
    if not name or not count.isdigit() or int(count) < 1:
      raise ValueError(f"-H: '{word}' is not HOST:RANKS")
    hosts.append((name, int(count)))
  return hosts


def settings(args: argparse.Namespace, ranks_here: int, folder: str) -> dict[str, str]:
  """The environment of the ranks, as far as it differs."""
  cores = len(os.sched_getaffinity(0))
  chosen = {}
  if args.threads or "OMP_NUM_THREADS" not in os.environ:
    chosen["OMP_NUM_THREADS"] = str(args.threads or max(cores // ranks_here, 1))
  if not args.no_bind and ranks_here <= cores:
    chosen["STRETTO_BIND"] = "1"
  if args.replace_backend:
    chosen["STRETTO_REPLACE_BACKEND"] = "1"
  if args.codec:
    chosen["STRETTO_CODEC"] = args.codec
  if args.step_policy:
    chosen["STRETTO_STEP_POLICY"] = args.step_policy
  if args.trace or args.report:
    chosen["STRETTO_RUN_FOLDER"] = folder
  if args.trace:
    chosen["STRETTO_TRACE"] = f"{folder}/engine.json"  # every rank's is merged into the file
  return chosen


def rank_command(args: argparse.Namespace) -> list[str]:
  return ["-m", "stretto._rank", args.script, *args.arguments]


def torchrun() -> list[str]:
  return [sys.executable, "-m", "torch.distributed.run"]


def commands(args: argparse.Namespace, folder: str,
             environment: Mapping[str, str]) -> list[Command]:
  """What to start here."""
  if args.ranks is not None and args.ranks < 1:
    raise ValueError(f"-n: {args.ranks} is no number of ranks")
  if args.hosts:
    return over_ssh(args, folder)
  if "SLURM_JOB_ID" in environment and shutil.which("srun"):
    return [through_srun(args, folder, environment)]
  ranks = args.ranks or 1
  # Ranks that meet through the C face; torch's have a store of their own.
  address = {"STRETTO_ADDRESS": f"{folder}/meet"}
  if not takes_torchrun(args.script):
    return [(own_rank(args), settings(args, ranks, folder) | address | places(r, ranks, r, ranks))
            for r in range(ranks)]
  # torchrun's words end where a word without a dash comes: `-m` would be taken for its own.
  return [([*torchrun(), "--standalone", f"--nproc-per-node={ranks}", *rank_command(args)],
           settings(args, ranks, folder) | address)]


def is_program(script: str) -> bool:
  return not script.endswith(".py") and os.path.isfile(script) and os.access(script, os.X_OK)


def takes_torchrun(script: str) -> bool:
  """A script that uses another framework does without it."""
  return not is_program(script) and has_torch()


def has_torch() -> bool:
  return importlib.util.find_spec("torch") is not None


def own_rank(args: argparse.Namespace) -> list[str]:
  return [sys.executable, *rank_command(args)]


def places(rank: int, ranks: int, local: int, local_ranks: int) -> dict[str, str]:
  """What torchrun would tell a rank about itself."""
  return {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(local),
          "LOCAL_WORLD_SIZE": str(local_ranks)}


def over_ssh(args: argparse.Namespace, folder: str) -> list[Command]:
  hosts = hosts_of(args.hosts)
  address = {"STRETTO_ADDRESS": f"{hosts[0][0]}:{args.port + 1}"}
  todo = []  # host, words, settings
  for index, (host, ranks) in enumerate(hosts):
    chosen = settings(args, ranks, folder) | address
    if not takes_torchrun(args.script):
      total, before = sum(n for _, n in hosts), sum(n for _, n in hosts[:index])
      todo += [(host, own_rank(args), chosen | places(before + r, total, r, ranks))
               for r in range(ranks)]
      continue
    todo.append((host, [*torchrun(), f"--nnodes={len(hosts)}", f"--node-rank={index}",
                        f"--nproc-per-node={ranks}", f"--master-addr={hosts[0][0]}",
                        f"--master-port={args.port}", *rank_command(args)], chosen))
  result = []
  for host, words, chosen in todo:
    if host in ("localhost", socket.gethostname()):
      result.append((words, chosen))
      continue
    carried = {k: v for k, v in os.environ.items()
               if k.startswith("STRETTO_") or k == "PYTHONPATH"} | chosen
    line = f"cd {shlex.quote(os.getcwd())} && exec env " + " ".join(
        shlex.quote(f"{k}={v}") for k, v in carried.items()) + " " + shlex.join(words)
    # -tt: the remote side hangs up when this side ends.
    result.append((["ssh", "-tt", "-o", "BatchMode=yes", host, line], {}))
  return result


def through_srun(args: argparse.Namespace, folder: str, environment: Mapping[str, str]) -> Command:
  """srun starts the ranks; stretto._rank turns Slurm's variables into torch's."""
  nodes = subprocess.run(["scontrol", "show", "hostnames", environment["SLURM_JOB_NODELIST"]],
                         capture_output=True, text=True, check=True).stdout.split()
  ranks = args.ranks or int(environment.get("SLURM_NTASKS", len(nodes)))
  chosen = settings(args, max(-(-ranks // len(nodes)), 1), folder)
  chosen |= {"MASTER_ADDR": nodes[0], "MASTER_PORT": str(args.port),
             "STRETTO_ADDRESS": f"{nodes[0]}:{args.port + 1}"}
  return ["srun", f"--ntasks={ranks}", "--kill-on-bad-exit=1", sys.executable,
          *rank_command(args)], chosen


def collect(args: argparse.Namespace, folder: Path) -> None:
  """Turns what the ranks have left in the folder into the files asked for."""
  ranks = [json.loads(file.read_text()) for file in sorted(folder.glob("rank-*.json"))]
  if args.trace:
    events = [event for rank in ranks for event in rank["trace"]]
    write(args.trace, json.dumps({"traceEvents": events}))
  if args.report:
    from stretto._comm_report import page
    write(args.report, page(" ".join([args.script, *args.arguments]), ranks))


def write(path: Path, text: str) -> None:
  partial = path.with_name(path.name + ".partial")
  partial.write_text(text)
  os.replace(partial, path)


def main(words: list[str] | None = None) -> int:
  args = parser().parse_args(words)
  with tempfile.TemporaryDirectory(prefix="stretto-run-") as folder:
    try:
      todo = commands(args, folder, os.environ)
    except ValueError as error:
      print(f"stretto run: {error}", file=sys.stderr)
      return 2
    if args.dry_run:
      for line, chosen in todo:
        print(" ".join([*(f"{k}={v}" for k, v in chosen.items()), shlex.join(line)]))
      return 0
    code = processes.run_all(todo)
    if args.trace or args.report:
      collect(args, Path(folder))
    return code


if __name__ == "__main__":
  sys.exit(main())
