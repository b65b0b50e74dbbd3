"""`stretto run`: starts a training script on several ranks, through torchrun, ssh or srun. A
program that is no Python script, or any script where torch is not installed, is started without
torchrun."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from stretto import _flight as flight
from stretto import _launch_elastic as elastic
from stretto import _processes as processes
from stretto import _stretto
from stretto import _validate as validate
from stretto._errors import CommError, FormatError
from stretto._launch_options import MASTER_PORT, PASSED_ON, describe, drop_interpreter, parser
from stretto._log import VARIABLE as LOG_LEVEL
from stretto._processes import Command
from stretto._program import run_program
from stretto._rank_output import outputs
from stretto._remote import ENVIRONMENT, FETCH, FOLDER

# Torchrun's own words, which say how hosts find each other.
MEETING = ("nnodes", "node_rank", "master_addr", "master_port", "rdzv_backend", "rdzv_endpoint",
           "rdzv_id", "rdzv_conf")

SECRET = "STRETTO_SECRET"
SECRET_BYTES = 32
RECORDS = "records"  # of the folder of a run: flight records
FETCH_S = 30.0  # for what the ranks of another host have left


class MissingError(Exception):
  """This computer lacks something. Exit code 3."""


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
  cores = _stretto.core_count()
  chosen = {}
  if args.threads or "OMP_NUM_THREADS" not in os.environ:
    chosen["OMP_NUM_THREADS"] = str(args.threads or max(cores // ranks_here, 1))
  if not args.no_bind and ranks_here <= len(os.sched_getaffinity(0)):
    chosen["STRETTO_BIND"] = "1"
  if args.replace_backend:
    chosen["STRETTO_REPLACE_BACKEND"] = "1"
  if args.codec:
    chosen["STRETTO_CODEC"] = args.codec
  if args.step_policy:
    chosen["STRETTO_STEP_POLICY"] = args.step_policy
  if LOG_LEVEL not in os.environ:
    chosen[LOG_LEVEL] = "warning"
  if "STRETTO_DUMP" not in os.environ:
    chosen["STRETTO_DUMP"] = f"{folder}/{RECORDS}"
  if args.trace or args.report:
    chosen["STRETTO_RUN_FOLDER"] = folder
  if args.trace:
    chosen["STRETTO_TRACE"] = f"{folder}/engine.json"  # every rank's is merged into the file
  return chosen


def rank_command(args: argparse.Namespace) -> list[str]:
  how = ["-m"] if args.module else ["--no-python"] if args.no_python else []
  return ["-m", "stretto._rank", *how, args.script, *args.arguments]


def torchrun() -> list[str]:
  return [sys.executable, "-m", "torch.distributed.run"]


def passed_on(args: argparse.Namespace, but: tuple[str, ...] = ()) -> list[str]:
  """The options that torchrun takes as they are, where they were given."""
  given = {name: getattr(args, name) for name in PASSED_ON if name not in but}
  return [f"--{name.replace('_', '-')}={value}" for name, value in given.items()
          if value is not None and (name, value) != ("role", "default")]


def check(args: argparse.Namespace) -> None:
  """ValueError for what can be known to be wrong before anything starts."""
  if args.ranks is not None and args.ranks < 1:
    raise ValueError(f"-n: expected a number of ranks from 1 on, got {args.ranks}")
  if args.ranks is not None and args.nproc_per_node not in (None, str(args.ranks)):
    raise ValueError("-n and --nproc-per-node: give one of them")
  if args.module and args.no_python:
    raise ValueError("-m and --no-python: give one of them")
  if args.elastic:
    elastic.check(args)
  if args.hosts and (used := [n for n in MEETING if getattr(args, n) is not None]):
    raise ValueError(f"-H starts the ranks of all hosts; --{used[0].replace('_', '-')} is for "
                     "running this command on each host")
  validate.check(args)
  check_engine_options(args)


def check_engine_options(args: argparse.Namespace) -> None:
  """Reads the environment that the ranks will have, as they will."""
  from stretto.comm import Options
  chosen = {"STRETTO_CODEC": args.codec, "STRETTO_STEP_POLICY": args.step_policy}
  before = {name: os.environ.get(name) for name in chosen}
  os.environ.update({name: value for name, value in chosen.items() if value})
  try:
    Options.from_environment()
  finally:
    for name, value in before.items():
      os.environ.pop(name, None)
      if value is not None:
        os.environ[name] = value


def warnings(args: argparse.Namespace, environment: Mapping[str, str]) -> list[str]:
  """Options that have no effect."""
  by_srun = uses_srun(args, environment)
  found = []
  if args.port != MASTER_PORT and not args.hosts and not by_srun:
    found.append("--port has no effect: only -H and srun use it")
  if args.replace_backend and (is_program(args) or not has_torch()):
    found.append("--replace-backend has no effect: it is for scripts that use torch")
  if args.json and not args.dry_run:
    found.append("--json has no effect without --dry-run")
  if starts_a_part(args) and SECRET not in environment:
    found.append(f"every host runs this command, so none of them can make a secret for the job: "
                 f"set the same {SECRET} on all of them, or whoever reaches the first host's port "
                 "can join")
  if args.log_dir and not args.tee and not args.redirects:
    found.append("--log-dir has no effect without --tee or --redirects")
  if by_srun and args.tee and args.log_dir:
    found.append("--log-dir has no effect with --tee inside a Slurm job")
  return found


def uses_srun(args: argparse.Namespace, environment: Mapping[str, str]) -> bool:
  """Inside a Slurm job, unless torchrun's words say that this command runs once per host."""
  own = any(getattr(args, name) is not None for name in (*MEETING, "nproc_per_node"))
  return not args.hosts and not args.elastic and not own and "SLURM_JOB_ID" in environment and bool(
    shutil.which("srun"))


def starts_a_part(args: argparse.Namespace) -> bool:
  """Other launchers start the ranks of other hosts."""
  if args.elastic:
    return not elastic.alone(args)
  return args.nnodes is not None and args.nnodes not in ("1", "1:1")


def job_secret(args: argparse.Namespace, environment: Mapping[str, str]) -> str | None:
  """The user's, or a new one for each job; None if the launchers of other hosts would make
  others."""
  given = environment.get(SECRET)
  return given or (None if starts_a_part(args) else secrets.token_hex(SECRET_BYTES))


def with_secret(todo: list[Command], secret: str | None) -> list[Command]:
  """Command lines are visible to every user of a host, so the secret travels in the environment
  of the ranks here, and over standard input to other hosts (stretto._remote)."""
  if secret is None:
    return todo
  return [command._replace(environment=command.environment | {SECRET: secret})
          if command.told is None else
          command._replace(told=json.dumps(told | {ENVIRONMENT: {SECRET: secret}}) + "\n")
          for command in todo for told in [json.loads(command.told or "{}")]]


def commands(args: argparse.Namespace, folder: str,
             environment: Mapping[str, str]) -> list[Command]:
  """What to start here."""
  check(args)
  if args.elastic:
    if not has_torch():
      raise MissingError("--elastic needs torch")
    return elastic.commands(args, own_rank(args), settings(args, elastic.limits(args)[1], folder),
                            elastic.new_node())
  if args.hosts:
    return over_ssh(args, folder)
  if uses_srun(args, environment):
    return [through_srun(args, folder, environment)]
  if not takes_torchrun(args):
    return own_ranks(args, folder)
  ranks = args.nproc_per_node or str(args.ranks or 1)
  here = int(ranks) if ranks.isdigit() else len(os.sched_getaffinity(0))
  alone = all(getattr(args, name) is None for name in MEETING)
  # Ranks that meet through the C interface; torch's have a store of their own.
  address = {"STRETTO_ADDRESS": f"{folder}/meet"} if alone else {}
  # torchrun's words end where a word without a dash comes: `-m` would be taken for its own.
  return [Command([*torchrun(), *(["--standalone"] if alone else []),
                   f"--nproc-per-node={ranks}", *passed_on(args), *rank_command(args)],
                  settings(args, here, folder) | address)]


def own_ranks(args: argparse.Namespace, folder: str) -> list[Command]:
  """The ranks of this host without torchrun."""
  for name in ("rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf"):
    if getattr(args, name) is not None:
      raise MissingError(f"--{name.replace('_', '-')} needs torchrun, which comes with torch; "
                         "name the first host with --master-addr")
  words = args.nproc_per_node or str(args.ranks or 1)
  if words in ("auto", "cpu"):
    words = str(_stretto.core_count())
  if not words.isdigit() or int(words) < 1:
    raise ValueError(f"--nproc-per-node: expected a number of ranks, auto or cpu, got {words}")
  hosts = args.nnodes or "1"
  if not hosts.isdigit() or int(hosts) < 1:
    raise ValueError(f"--nnodes: expected a number of hosts without torch, got {hosts}")
  here, nodes, node = int(words), int(hosts), args.node_rank or 0
  if not 0 <= node < nodes:
    raise ValueError(f"--node-rank: expected 0 to {nodes - 1}, got {node}")
  address = f"{folder}/meet"
  if nodes > 1:
    if not args.master_addr:
      raise ValueError("--nnodes: name the first host with --master-addr")
    if args.max_restarts:
      raise ValueError("--max-restarts: needs torchrun where there are several hosts")
    address = f"{args.master_addr}:{(args.master_port or MASTER_PORT) + 1}"
  return [Command(own_rank(args), settings(args, here, folder) | {"STRETTO_ADDRESS": address}
                  | places(node * here + r, nodes * here, r, here)) for r in range(here)]


def is_program(args: argparse.Namespace) -> bool:
  if args.module or args.no_python:
    return args.no_python
  return (not args.script.endswith(".py") and os.path.isfile(args.script)
          and os.access(args.script, os.X_OK))


def takes_torchrun(args: argparse.Namespace) -> bool:
  """A script that uses another framework does without it."""
  return not is_program(args) and has_torch()


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
    if not takes_torchrun(args):
      total, before = sum(n for _, n in hosts), sum(n for _, n in hosts[:index])
      todo += [(host, own_rank(args), chosen | places(before + r, total, r, ranks))
               for r in range(ranks)]
      continue
    todo.append((host, [*torchrun(), f"--nnodes={len(hosts)}", f"--node-rank={index}",
                        f"--nproc-per-node={ranks}", f"--master-addr={hosts[0][0]}",
                        f"--master-port={args.port}", *passed_on(args), *rank_command(args)],
                 chosen))
  result = []
  for host, words, chosen in todo:
    if host in ("localhost", socket.gethostname()):
      result.append(Command(words, chosen))
      continue
    carried = {k: v for k, v in os.environ.items()
               if (k.startswith("STRETTO_") and k != SECRET) or k == "PYTHONPATH"} | chosen
    line = f"cd {shlex.quote(os.getcwd())} && exec env " + " ".join(
        shlex.quote(f"{k}={v}") for k, v in carried.items()) + " " + shlex.join(
        [sys.executable, "-m", "stretto._remote", *words])
    # No terminal: it would echo what is told over standard input.
    result.append(Command(["ssh", "-T", "-o", "BatchMode=yes", host, line], {},
                          json.dumps({FOLDER: folder}) + "\n"))
  return result


def through_srun(args: argparse.Namespace, folder: str, environment: Mapping[str, str]) -> Command:
  """srun starts the ranks; stretto._rank turns Slurm's variables into torch's."""
  nodes = subprocess.run(["scontrol", "show", "hostnames", environment["SLURM_JOB_NODELIST"]],
                         capture_output=True, text=True, check=True).stdout.split()
  ranks = args.ranks or int(environment.get("SLURM_NTASKS", len(nodes)))
  chosen = settings(args, max(-(-ranks // len(nodes)), 1), folder)
  chosen |= {"MASTER_ADDR": nodes[0], "MASTER_PORT": str(args.port),
             "STRETTO_ADDRESS": f"{nodes[0]}:{args.port + 1}"}
  shown = ["--label"] if args.tee else []
  if args.redirects:
    folder_of_logs = args.log_dir or "."
    shown = [f"--output={folder_of_logs}/rank-%t.stdout.log",
             f"--error={folder_of_logs}/rank-%t.stderr.log"]
  # --export: whatever the job's own setting is, the ranks get our environment.
  return Command(["srun", f"--ntasks={ranks}", "--kill-on-bad-exit=1", "--export=ALL", *shown,
                  sys.executable, *rank_command(args)], chosen)


def accounts(folder: Path) -> list[dict]:
  """What the ranks have left in the folder: of each rank the last."""
  found: dict[int, dict] = {}
  for file in sorted(folder.glob("rank-*.json")):
    account = json.loads(file.read_text())
    if account["rank"] not in found or account["ended_s"] > found[account["rank"]]["ended_s"]:
      found[account["rank"]] = account
  return [found[rank] for rank in sorted(found)]


def collect(args: argparse.Namespace, ranks: list[dict], validated: list[dict]) -> None:
  """Turns what the ranks have left into the files asked for."""
  from stretto._comm_report import listed, missing, page
  absent = missing(ranks)
  if (absent or not ranks) and not args.quiet:
    which = f"rank{'s' if len(absent) > 1 else ''} {listed(absent)}" if ranks else "any rank"
    print(f"stretto run: warning: there is no account of {which} in the report or trace",
          file=sys.stderr)
  if args.trace:
    events = [event for rank in ranks for event in rank["trace"]]
    _stretto.write_file(str(args.trace), json.dumps({"traceEvents": events}))
  if args.report:
    _stretto.write_file(str(args.report), page(" ".join([args.script, *args.arguments]), ranks,
                                              validated))


def run_folder(args: argparse.Namespace) -> tempfile.TemporaryDirectory:
  """Where ranks leave flight records, and what --report and --trace show. The nodes of a Slurm job
  often share the current folder, and seldom /tmp."""
  here = os.getcwd()
  shared = uses_srun(args, os.environ) and os.access(here, os.W_OK)
  return tempfile.TemporaryDirectory(prefix=".stretto-run-" if shared else "stretto-run-",
                                     dir=here if shared else None)


def fetch(todo: list[Command], folder: Path) -> None:
  """Brings what the ranks on other hosts have left, after `stretto run -H`."""
  asked = []
  for connect in {command.words[-2]: command.words[:-1] for command in todo
                  if command.told is not None}.values():
    line = shlex.join(["env", f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}", sys.executable,
                       "-m", "stretto._remote", FETCH, str(folder)])
    asked.append(subprocess.Popen([*connect, line], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
  for host, child in enumerate(asked):
    try:
      text, _ = child.communicate(timeout=FETCH_S)
      for name, content in json.loads(text or b"{}").items():
        where = folder / RECORDS if name.startswith(RECORDS) else folder
        where.mkdir(exist_ok=True)
        (where / f"rank-{int(content['rank']):05d}-host-{host}.json").write_text(
            json.dumps(content))
    except (subprocess.TimeoutExpired, ValueError):  # the page says which ranks it lacks
      child.kill()


def keep_records(args: argparse.Namespace, folder: Path, code: int) -> None:
  """Flight records outlive the folder of the run, unless the user has ended the job."""
  if not flight.any_in(str(folder / RECORDS)) or code in (128 + s for s in processes.ENDING):
    return
  kept = tempfile.mkdtemp(prefix="stretto-dump-")
  for file in (folder / RECORDS).glob("rank-*.json"):
    shutil.move(str(file), kept)
  if not args.quiet:
    print(f"stretto run: the last operations of the ranks: stretto run --dump {kept}",
          file=sys.stderr)


def show(todo: list[Command], as_json: bool) -> None:
  if as_json:
    print(json.dumps({"commands": [{"words": command.words, "environment": command.environment}
                                   for command in todo]}, indent=1))
    return
  for command in todo:
    print(" ".join([*(f"{k}={v}" for k, v in command.environment.items()),
                    shlex.join(command.words)]))


def bound_here(args: argparse.Namespace) -> int:
  """How many ranks are bound to cores of this host; 0 where others start them."""
  if args.elastic:
    return elastic.limits(args)[1]
  ranks = args.nproc_per_node or str(args.ranks or 1)
  return int(ranks) if ranks.isdigit() and not args.hosts and not uses_srun(args, os.environ) else 0


def start(args: argparse.Namespace, todo: list[Command],
          validation: validate.Validation | None = None) -> int:
  if not args.hosts and not (args.module or args.no_python) and not os.path.exists(args.script):
    raise ValueError(f"{args.script}: there is no such file")
  if args.log_dir:
    os.makedirs(args.log_dir, exist_ok=True)
  if args.elastic:
    ranks_here = elastic.limits(args)[1]
    return elastic.run(args, todo, lambda attempt: outputs(args, ranks_here, attempt), validation)
  # torchrun and srun restart ranks and write their files themselves.
  own = not takes_torchrun(args) and not uses_srun(args, os.environ)
  attempts = 1 + (args.max_restarts or 0) if own else 1
  for attempt in range(attempts):
    where = outputs(args, len(todo), attempt) if own else None
    # An epoch of its own: the folder where ranks meet has the addresses of those that are dead.
    epoch = {"STRETTO_EPOCH": str(int(os.environ.get("STRETTO_EPOCH", "0")) + attempt)}
    code = processes.run_all(
        [c._replace(environment=c.environment | epoch) for c in todo] if attempt else todo, where,
        tick=validation.tick if validation else None,
        spare=validation.pids if validation else tuple)
    if code == 0 or code in (128 + s for s in processes.ENDING):
      break
    if attempt + 1 < attempts and not args.quiet:
      print(f"stretto run: a rank failed with code {code}; starting all ranks again "
            f"({attempt + 1} of {attempts - 1})", file=sys.stderr)
  return code


def main(words: list[str] | None = None) -> int:
  if words is None and sys.argv[1:] == ["--describe"]:  # for the C++ side of the command
    print(json.dumps(describe()))
    return 0
  if flight.asked_for(sys.argv[1:] if words is None else words):
    return flight.show_as_asked(sys.argv[1:] if words is None else words)
  args = parser().parse_args(words)
  if args.dump:
    parser().error("--dump runs nothing: give it alone, with files or folders")
  files = [str(path) for path in (args.trace, args.report) if path]
  if len(files) == 2 and _stretto.same_file(*files):
    parser().error("--trace and --report name the same file")
  with run_folder(args) as folder:
    try:
      for path in files:  # refused now rather than after the training
        _stretto.check_writable(path)
      drop_interpreter(args)
      todo = commands(args, folder, os.environ)
      for text in [] if args.quiet else warnings(args, os.environ):
        print(f"stretto run: warning: {text}", file=sys.stderr)
      if args.dry_run:
        show(todo, args.json)
        return 0
      if args.verbose:
        for command in todo:
          print(f"stretto run: {shlex.join(command.words)}", file=sys.stderr)
      validation = validate.of(args, folder, bound_here(args))
      code = start(args, with_secret(todo, job_secret(args, os.environ)), validation)
      if validation is not None:
        code = validation.finish(code)
      if args.trace or args.report or code != 0:
        fetch(todo, Path(folder))
      keep_records(args, Path(folder), code)
    except ValueError as error:
      print(f"stretto run: {error}", file=sys.stderr)
      return 2
    except FormatError as error:
      print(f"stretto run: {error}", file=sys.stderr)
      return 1
    except (MissingError, CommError, OSError) as error:
      if isinstance(error, BrokenPipeError):
        raise
      print(f"stretto run: {error}", file=sys.stderr)
      return 3
    if args.trace or args.report:
      collect(args, accounts(Path(folder)), validation.rows if validation else [])
    return code


if __name__ == "__main__":
  sys.exit(run_program(main))
