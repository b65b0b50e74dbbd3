"""The options of `stretto run`: one table, from which the parser, the help, shell completion and
`stretto help --json` are made. Its fields are those of docs/formats/command-json.md."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stretto import _validate as validate

MASTER_PORT = 29411
CODECS = "none|fp16|bf16|int8|topk|powersgd|mixed"

EXAMPLES = (
  "stretto run -n 4 train.py --epochs 3",
  "stretto run -n 4 -m package.train",
  "stretto run -n 4 ./train_c",
  "stretto run -H host1:2,host2:2 train.py",
  "stretto run train.py    # inside an sbatch: as many ranks as the job has tasks",
  "stretto run --elastic 2:4 --max-restarts 3 train.py    # a lost rank is replaced, others go on",
  "stretto run -n 4 --validate 'validate.py --data val' train.py    # as checkpoints are written",
  "stretto run --dump /tmp/stretto-dump-x    # who waits for whom; the failed run names the folder",
  "stretto run --nnodes 2 --node-rank 0 --nproc-per-node 4 --master-addr host1 train.py",
)

EXIT_CODES = {
  "0": "every rank succeeded",
  "N": "the exit code of the first rank that failed; 128 + the signal if one ended it",
  "2": "bad usage: an option or a value is wrong",
  "3": "this computer lacks something: a program, a package",
  "130": "ended by Ctrl-C",
}


@dataclass(frozen=True)
class Option:
  names: tuple[str, ...]
  text: str
  value: str = ""  # what stands for the value, as in OptionInfo (cli/command_info.h); "": a flag
  default: Any = None
  type: Any = str


GROUPS: dict[str, tuple[Option, ...]] = {
  "Ranks": (
    Option(("-n", "--ranks"), "Ranks on this host, or of the Slurm job", "N", type=int),
    Option(("-H", "--hosts"), "Ranks per host, started over ssh: host1:2,host2:2; every host needs "
           "the same folders", "HOST:N,..."),
    Option(("--port",), "Port of the first host, for -H and srun", "N", MASTER_PORT, int),
    Option(("--threads",), "Threads per rank; by default the cores of the host, divided", "N",
           type=int),
    Option(("--no-bind",), "Let ranks run on any core"),
    Option(("--elastic",), "Go on with the ranks that are left, down to MIN, and take new ones in, "
           "for scripts that use hvd.elastic.run", "MIN:MAX"),
  ),
  "Program": (
    Option(("-m", "--module"), "The script is a Python module: package.train"),
    Option(("--no-python",), "The script is a program to run without Python"),
  ),
  "Gradients": (
    Option(("--codec",), "How gradients are encoded on the wire", CODECS),
    Option(("--step-policy",), "What a step exchanges", "every|accumulate:K|local:K[:overlap]|"
           "gossip:K[:overlap]"),
    Option(("--replace-backend",), "Scripts that ask for gloo or nccl get stretto"),
  ),
  "As torchrun": (
    Option(("--nproc-per-node",), "Ranks on this host", "auto|cpu|gpu|N"),
    Option(("--nnodes",), "Hosts, each of which runs this command", "N|MIN:MAX"),
    Option(("--node-rank",), "Which of the hosts this one is", "N", type=int),
    Option(("--master-addr",), "Host of rank 0", "HOST"),
    Option(("--master-port",), "Port of rank 0", "N", type=int),
    Option(("--rdzv-backend",), "How the hosts find each other", "static|c10d|etcd-v2"),
    Option(("--rdzv-endpoint",), "Where they find each other", "HOST:PORT"),
    Option(("--rdzv-id",), "Name of the job", "TEXT"),
    Option(("--rdzv-conf",), "Settings of the rendezvous", "KEY=VALUE,..."),
    Option(("--max-restarts",), "How often all ranks are started again after a failure; with "
           "--elastic: how many lost ranks are replaced", "N", type=int),
    Option(("--role",), "Name of the ranks, shown in prefixes", "TEXT", "default"),
  ),
  "Output": (
    Option(("-t", "--tee"), "Write the output of ranks to files and, with the rank before each "
           "line, to the terminal. 1: standard output, 2: standard error, 3: both; 0:3,1:1 by "
           "local rank", "0|1|2|3|RANK:N,..."),
    Option(("-r", "--redirects"), "Like --tee, but to files only", "0|1|2|3|RANK:N,..."),
    Option(("--log-dir",), "Folder for these files; a temporary one by default", "FOLDER"),
    Option(("--trace",), "Write a timeline for Perfetto", "FILE", type=Path),
    Option(("--report",), "Write one HTML page about what was sent", "FILE", type=Path),
    Option(("--dump",), "Run nothing; show the operations that ranks were in when a job failed or "
           "got SIGUSR2, and which rank lacks which. Files, or folders of them", "FILE"),
  ),
  "Validation": (
    Option(("--validate",), "Validate checkpoints while the ranks train: a script or a program "
           "with its arguments, which reads the file STRETTO_CHECKPOINT and prints a JSON object",
           "COMMAND"),
    Option(("--validate-on",), "Which files are checkpoints", "PATTERN,...", validate.PATTERN),
    Option(("--validate-timeout",), "How long one validation may take, and the run may wait for "
           "the last", "SECONDS", validate.TIMEOUT_S, float),
    Option(("--validate-results",), "File to which results are added, a JSON object per line",
           "FILE", validate.RESULTS),
  ),
  "General": (
    Option(("--dry-run",), "Print the commands, run nothing"),
    Option(("--json",), "With --dry-run: print them as JSON; with --dump: what it shows"),
    Option(("-q", "--quiet"), "Print no notes and no warnings"),
    Option(("-v", "--verbose"), "Print the commands before they run"),
  ),
}

# Words that torchrun takes in the same way, when it starts the ranks.
PASSED_ON = ("nnodes", "node_rank", "master_addr", "master_port", "rdzv_backend", "rdzv_endpoint",
             "rdzv_id", "rdzv_conf", "max_restarts", "role", "tee", "redirects", "log_dir")


def parser() -> argparse.ArgumentParser:
  p = argparse.ArgumentParser(
    prog="stretto run", formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    description="Starts a training script on several ranks: through torchrun here, over ssh, or "
    "through srun.\nWithout torch, and for programs that are not Python scripts, it starts the "
    "ranks itself.",
    usage="stretto run [options] script [arguments...]",
    epilog="Examples\n" + "".join(f"  {line}\n" for line in EXAMPLES) + "\nExit codes\n"
    + "".join(f"  {code:<3}  {meaning}\n" for code, meaning in EXIT_CODES.items()))
  for title, options in GROUPS.items():
    group = p.add_argument_group(title)
    for option in options:
      action = add_to(group, option)
      # torchrun takes underscores too; they need not fill the help.
      for name in option.names:
        if name.startswith("--") and "-" in name[2:]:
          p._option_string_actions["--" + name[2:].replace("-", "_")] = action
  p.add_argument("script", help="a Python script, a module (-m) or a program")
  p.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
  return p


def add_to(group, option: Option) -> argparse.Action:
  text = option.text.replace("%", "%%") + ("" if option.default is None else " [%(default)s]")
  if not option.value:
    return group.add_argument(*option.names, action="store_true", help=text)
  return group.add_argument(*option.names, metavar=option.value, type=option.type,
                            default=option.default, help=text)


def describe() -> dict:
  """What C++ needs to know for `stretto help --json` and for completion."""
  options = [{"names": ["script"], "value": "FILE", "text": "A Python script, a module (-m) or a "
              "program", "group": "", "default": "", "positional": True, "required": True,
              "repeatable": False},
             {"names": ["arguments"], "value": "TEXT", "text": "What the script is given",
              "group": "", "default": "", "positional": True, "required": False,
              "repeatable": True}]
  for group, rows in GROUPS.items():
    options += [{"names": list(row.names), "value": row.value, "text": row.text, "group": group,
                 "default": "" if row.default is None else str(row.default), "positional": False,
                 "required": False, "repeatable": False} for row in rows]
  return {"name": "stretto run", "summary": "Start a training script on several ranks",
          "examples": list(EXAMPLES), "options": options, "commands": [],
          "exit_codes": [{"code": c, "meaning": m} for c, m in EXIT_CODES.items()]}


def drop_interpreter(args: argparse.Namespace) -> None:
  """`python train.py`, as mpirun and horovodrun want it, means train.py, with this Python."""
  if args.module or args.no_python or not args.arguments or \
      not re.fullmatch(r"python[\d.]*", os.path.basename(args.script)):
    return
  found = shutil.which(args.script)
  if found is None or os.path.dirname(os.path.abspath(found)) != os.path.dirname(sys.executable):
    raise ValueError(f"{args.script}: ranks run with {sys.executable}; give the script alone, or "
                     "--no-python to start another Python as a program")
  script, *arguments = args.arguments
  if script == "-u":
    os.environ["PYTHONUNBUFFERED"] = "1"
    script, *arguments = arguments or [""]
  if script == "-m" and arguments:
    args.module = True
    script, *arguments = arguments
  if not script or script.startswith("-"):
    raise ValueError(f"{args.script}: only -u and -m can stand before the script; --no-python "
                     "starts Python as a program")
  args.script, args.arguments = script, arguments
