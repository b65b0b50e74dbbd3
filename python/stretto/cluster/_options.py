"""The verbs of `stretto cluster` that Python does, and their options: one table, from which the
parsers, the help, shell completion and `stretto help --json` are made, as _launch_options.py is for
`stretto run`. To add a verb: a row in VERBS, its function in _verbs.py."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from stretto._launch_options import Option, add_to
from stretto.cluster import _pack, _state


class Verb(NamedTuple):
  name: str
  summary: str
  examples: tuple[str, ...]
  options: tuple[Option, ...]
  # (name, value, text, required); "..." after the name: any number.
  positional: tuple[tuple[str, str, str, bool], ...] = ()


class Many(Option):
  """May be given several times."""


CLUSTER = Option(("--cluster",), "Name of a cluster on this machine", "NAME", _state.DEFAULT)
WHERE = (
  Option(("--cluster",), "A cluster on this machine that `up --local-slurm` started", "NAME"),
  Option(("--host",), "Use the Slurm site of this login node, over ssh", "USER@HOST"),
)
BACKEND = Option(("--backend",), "Who runs jobs; by default the cluster that is up, else the Slurm "
                 "site of this host, else this machine's processes", "local|slurm|kubernetes|cloud")
KUBERNETES = (Option(("--context",), "Kubernetes: a context of kubectl's; by default its current "
                     "one", "NAME"),
              Option(("--namespace",), "Kubernetes: a namespace; by default that of the context",
                     "NAME"))
GENERAL = (Option(("-q", "--quiet"), "Print no notes"), Option(("-v", "--verbose"), "Print the "
                                                               "commands before they run"))
JSON = Option(("--json",), "Print the result as JSON, and nothing else")
# Names in _cloud.OPTIONS.
CLOUD = (
  Option(("--infra",), "With --backend cloud: the cloud, and its region; by default the cheapest",
         "CLOUD[/REGION]"),
  Option(("--setup",), "With --backend cloud: shell commands that prepare a node, in the job's "
         "tree", "TEXT"),
  Option(("--at-end",), "With --backend cloud: what becomes of the machines when they are idle for "
         "five minutes; by default stop, which keeps their disks", "stop|down|keep"),
  Option(("--yes",), "With --backend cloud: agree to the price without being asked"),
)
JOB = ("job", "JOB", "The job's number, or its name", True)

VERBS: tuple[Verb, ...] = (
  Verb("up", "Start a Slurm cluster on this machine, or say which schedulers there are",
       ("stretto cluster up --local-slurm", "stretto cluster up --local-slurm --site lab.toml"),
       (Option(("--local-slurm",), "slurmctld and a slurmd per node on this machine, for trying "
               "things out; as root it installs Slurm's packages if they are missing"),
        Option(("--site",), "The nodes and rules of this site file; by default two nodes",
               "FILE", type=Path), CLUSTER, *GENERAL)),
  Verb("run", "Run a script as a job: pack, submit, follow",
       ("stretto cluster run train.py", "stretto cluster run -n 4 train.py --epochs 3",
        "stretto cluster run --chips v100:8 --chips k40:4 train.py",
        "stretto cluster run --dry-run -n 4 train.py"),
       (Option(("-n", "--ranks"), "Ranks; by default one, or one per chip", "N", type=int),
        Many(("--chips",), "Chips of a kind, on as few nodes as have them; given several times, "
             "the kinds share one rank space (a heterogeneous job)", "KIND:N"),
        Option(("--nodes",), "Nodes; by default as few as possible", "N", type=int),
        Option(("--name",), "Name of the job; by default the script's", "TEXT"),
        Many(("--env",), "A variable of the ranks", "NAME=VALUE"),
        Many(("--secret",), "A variable of the ranks that is taken from this environment, and "
             "written nowhere", "NAME"),
        BACKEND, *WHERE, *KUBERNETES,
        Many(("--image",), "Kubernetes: the container image of the ranks, or of those on one kind "
             "of chip", "[KIND=]IMAGE"),
        Option(("--volume",), "Kubernetes: a PersistentVolumeClaim for the files of the job, which "
               "then outlive its pods", "CLAIM"),
        Many(("--resource",), "Kubernetes: what chips are called there; by default as the nodes "
             "say", "[KIND=]NAME"),
        Option(("--cpus",), "Kubernetes: processors for each rank; by default 1, or half of its "
               "chips' share of a node", "N", type=float),
        Option(("--memory",), "Kubernetes: memory for each rank, which it may not exceed; by "
               "default 1 GiB, or half of its chips' share of a node, and no limit", "SIZE"),
        Option(("--restricted",), "Kubernetes: give pods no more rights than the Pod Security "
               "Standard 'restricted' lets them; by default where the namespace enforces it"),
        Option(("--run-as",), "Kubernetes: the user of the ranks, by number; by default that of "
               "the image", "UID[:GID]"),
        Option(("--priority",), "Kubernetes: a WorkloadPriorityClass of Kueue", "NAME"),
        Option(("--queue",), "Slurm partition, or LocalQueue of Kueue; by default the site chooses",
               "NAME"),
        Option(("--time",), "Longest time: 90m, 2h, 1-12:00:00", "TIME"),
        Option(("--retries",), "How often the job is started again after the loss of a node", "N",
               2, int),
        Option(("--hang-after",), "End the job when its ranks finish no operation of the gradient "
               "engine for so long, and say which rank hangs where", "SECONDS", type=float),
        Many(("--python",), "The interpreter of the ranks, or of those on one kind of chip",
             "[KIND=]FILE"),
        Option(("--pack-limit",), "Largest size of the tree that is packed", "MB", _pack.LIMIT_MB,
               int),
        Option(("-m", "--module"), "The script is a Python module: package.train"),
        Option(("--no-python",), "The script is a program to run without Python"),
        Option(("--detach",), "Submit the job, print its number, and do not follow it"),
        Option(("--dry-run",), "Print what would be submitted, submit nothing"), *CLOUD,
        *GENERAL),
       (("script", "FILE", "A Python script, a module (-m) or a program", True),
        ("arguments...", "TEXT", "What the script is given", False))),
  Verb("ls", "List the jobs that wait or run", ("stretto cluster ls", "stretto cluster ls --all"),
       (Option(("-a", "--all"), "Also jobs of other users"),
        Option(("--over",), "Also jobs of `run` that are over and still have their folder"),
        BACKEND, *WHERE, *KUBERNETES, JSON, *GENERAL)),
  Verb("logs", "Show what the ranks of a job have printed",
       ("stretto cluster logs 12", "stretto cluster logs train -f --rank 0"),
       (Option(("-f", "--follow"), "Go on until the job is over"),
        Option(("--since",), "Kubernetes: only what is younger: 30s, 10m, 2h", "TIME"),
        Option(("--rank",), "Of this rank only, without a prefix", "N", type=int), *WHERE,
        *GENERAL), (JOB,)),
  Verb("ssh", "Open a shell where a rank of a job runs", ("stretto cluster ssh 12 3",),
       (*WHERE, *GENERAL), (JOB, ("rank", "RANK", "A rank; by default 0", False))),
  Verb("upload", "Copy files into the folder of a job", ("stretto cluster upload 12 labels.csv",),
       (Option(("--to",), "A folder in the job's tree", "PATH", "."), *WHERE, *GENERAL),
       (JOB, ("paths...", "PATH", "Files and folders of this machine", True))),
  Verb("download", "Copy the files that a job wrote", ("stretto cluster download 12 -o results",
                                                       "stretto cluster download 12 model.pt"),
       (Option(("-o", "--output"), "A folder of this machine", "FOLDER", ".", Path),
        Option(("--list",), "Only print their names"), *WHERE, *GENERAL),
       (JOB, ("paths...", "PATH", "Files or folders of the job; by default all that it wrote",
              False))),
  Verb("stop", "End a job", ("stretto cluster stop 12",), (*WHERE, *GENERAL),
       (("jobs...", "JOB", "Numbers or names", True),)),
  Verb("down", "End a cluster of this machine, and remove what belongs to it",
       ("stretto cluster down",),
       (Option(("--cluster",), "Name of the cluster; by default local, with --backend cloud "
               "stretto", "NAME"),
        Option(("--yes",), "With --backend cloud: end the machines without being asked"),
        Option(("--keep-jobs",), "Keep the folders of its jobs, with what they wrote"),
        Option(("--backend",), "kubernetes: end and remove all jobs that were started from here; "
               "cloud: the machines and disks that `run --backend cloud` has made",
               "slurm|kubernetes|cloud"), *KUBERNETES, *GENERAL)),
)

EXIT_CODES = {
  "0": "all went well; of run and logs -f: the job succeeded",
  "N": "of run and logs -f: the exit code of the job; 128 + the signal if one ended it",
  "2": "bad usage: an option or a value is wrong",
  "3": "a scheduler, a host, a job or a program is missing or does not answer",
  "124": "the job reached its time limit, or hung (--hang-after)",
  "130": "ended by Ctrl-C",
  "143": "the job was cancelled",
}


def verb_named(name: str) -> Verb | None:
  return next((verb for verb in VERBS if verb.name == name), None)


def parser(verb: Verb) -> argparse.ArgumentParser:
  p = argparse.ArgumentParser(
    prog=f"stretto cluster {verb.name}", description=verb.summary + ".", allow_abbrev=False,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    epilog="Examples\n" + "".join(f"  {line}\n" for line in verb.examples) + "\nExit codes\n"
    + "".join(f"  {code:<3}  {meaning}\n" for code, meaning in EXIT_CODES.items()))
  for option in verb.options:
    if isinstance(option, Many):
      p.add_argument(*option.names, metavar=option.value, action="append", default=[],
                     help=option.text)
    else:
      add_to(p, option)
  for name, _, text, required in verb.positional:
    count = {"arguments...": argparse.REMAINDER}.get(
      name, ("+" if required else "*") if name.endswith("...") else None if required else "?")
    p.add_argument(name.removesuffix("..."), nargs=count, help=text)
  return p


def describe() -> list[dict]:
  """What C++ needs to know for `stretto help --json` and for completion: a command per verb, with
  the fields of docs/formats/command-json.md."""
  return [{"name": f"stretto cluster {verb.name}", "summary": verb.summary,
           "examples": list(verb.examples), "commands": [],
           "exit_codes": [{"code": c, "meaning": m} for c, m in EXIT_CODES.items()],
           "options": [{"names": [name.removesuffix("...")], "value": value, "text": text,
                        "group": "", "default": "", "positional": True, "required": required,
                        "repeatable": name.endswith("...")}
                       for name, value, text, required in verb.positional]
           + [{"names": list(row.names), "value": row.value, "text": row.text,
               "group": "General" if row in (*GENERAL, JSON) else "Options",
               "default": "" if row.default is None else str(row.default), "positional": False,
               "required": False, "repeatable": isinstance(row, Many)} for row in verb.options]}
          for verb in VERBS]
