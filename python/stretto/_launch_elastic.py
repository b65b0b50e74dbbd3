"""`stretto run --elastic MIN:MAX`: ranks that may be lost and replaced while the others go on. This
process serves the store where ranks agree on who they are (stretto.horovod._epochs), so the loss of
no rank, rank 0 included, takes the store with it. On other hosts the same command with --node-rank
adds ranks."""

from __future__ import annotations

import argparse
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from stretto import _processes as processes
from stretto._launch_options import MASTER_PORT
from stretto._processes import Command
from stretto._rank_output import RankOutput
from stretto._validate import Validation

STORE = "STRETTO_ELASTIC_STORE"
PATIENCE_S = 5.0


def limits(args: argparse.Namespace) -> tuple[int, int]:
  least, colon, most = args.elastic.partition(":")
  if not (colon and least.isdigit() and most.isdigit() and 1 <= int(least) <= int(most)):
    raise ValueError(f"--elastic: expected MIN:MAX with numbers of ranks from 1 on, got "
                     f"{args.elastic}")
  return int(least), int(most)


def serves(args: argparse.Namespace) -> bool:
  return not args.node_rank


def alone(args: argparse.Namespace) -> bool:
  """No other host can add ranks."""
  return args.master_addr is None


def first_ranks(args: argparse.Namespace) -> int:
  return args.ranks or (limits(args)[1] if serves(args) else 1)


def check(args: argparse.Namespace) -> None:
  """ValueError for what can be known to be wrong before anything starts."""
  least, most = limits(args)
  if args.hosts:
    raise ValueError("--elastic starts ranks on this host, not with -H: run it on each host, with "
                     "--master-addr and --node-rank")
  for name in ("nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf"):
    if getattr(args, name) is not None:
      raise ValueError(f"--elastic and --{name.replace('_', '-')}: give one of them")
  if not serves(args) and args.master_addr is None:
    raise ValueError("--node-rank: name the host of node 0 with --master-addr")
  if first_ranks(args) > most or (alone(args) and first_ranks(args) < least):
    raise ValueError(f"-n: expected {least} to {most} ranks, as --elastic says, got {args.ranks}")


def commands(args: argparse.Namespace, words: list[str], settings: dict[str, str],
             node: str) -> list[Command]:
  """The ranks that start first."""
  shared = settings | {"STRETTO_ELASTIC": args.elastic,
                       "STRETTO_ELASTIC_START": str(first_ranks(args))}
  return [Command(words, shared | place(args, slot, f"{node}.{slot}"))
          for slot in range(first_ranks(args))]


def place(args: argparse.Namespace, slot: int, worker: str) -> dict[str, str]:
  return {"STRETTO_ELASTIC_WORKER": worker, "LOCAL_RANK": str(slot),
          "LOCAL_WORLD_SIZE": str(limits(args)[1])}


@dataclass
class Ranks:
  """Watches the ranks of this host."""
  args: argparse.Namespace
  store: object
  gone: object  # a log of stretto.horovod._epochs
  todo: list[Command]
  outputs: Callable[[int], list[RankOutput] | None]  # by the number of replacements
  replaced: int = 0
  tick: Callable[[], None] | None = None
  failed: int = 0  # the exit code of the first rank that failed
  failed_late: int = 0  # of one that failed after another had finished

  def watch(self, children: list[subprocess.Popen], written: list[RankOutput],
            start: Callable) -> int:
    noted: set[int] = set()
    while True:
      processes.check_read(written)
      if self.tick is not None:
        self.tick()
      for number, child in enumerate(children):
        if number not in noted and child.poll() is not None:
          noted.add(number)
          self.ended(number, child.returncode, len(children) - len(noted), start)
      living = len(children) - len(noted)
      if living == 0:
        return self.failed_late if self.over() else self.failed
      if alone(self.args) and living < limits(self.args)[0] and not self.over():
        self.say(f"{living} ranks are left, and {limits(self.args)[0]} are needed")
        return self.failed
      time.sleep(processes.POLL_S)

  def ended(self, number: int, code: int, living: int, start: Callable) -> None:
    self.gone.append(self.todo[number].environment["STRETTO_ELASTIC_WORKER"])
    if code == 0:
      self.store.set("over", "1")
      return
    code = code if code > 0 else 128 - code
    if self.over():
      self.failed_late = self.failed_late or code
      return
    self.failed = self.failed or code
    again = self.replaced < (self.args.max_restarts or 0)
    self.say(f"a rank ended with code {code}; {living} are left here"
             + (", and another one starts" if again else ""))
    if again:
      self.replaced += 1
      lost = self.todo[number]
      node, _, _ = lost.environment["STRETTO_ELASTIC_WORKER"].rpartition(".")
      slot = int(lost.environment["LOCAL_RANK"])
      self.todo.append(lost._replace(environment=lost.environment | place(
          self.args, slot, f"{node}.{len(self.todo)}")))
      found = self.outputs(self.replaced)
      start(self.todo[-1], found[slot] if found else None)

  def over(self) -> bool:
    return self.store.check(["over"])

  def wait_for_others(self) -> None:
    """Before the store goes: other launchers may still note how their ranks ended."""
    stop = time.monotonic() + PATIENCE_S
    while self.store.add("launchers", 0) > 0 and time.monotonic() < stop:
      time.sleep(processes.POLL_S)

  def say(self, text: str) -> None:
    if not self.args.quiet:
      print(f"stretto run: {text}", file=sys.stderr, flush=True)


def open_store(args: argparse.Namespace) -> tuple[object, str]:
  """The store, and its address. For this host alone it listens on the loopback interface."""
  from stretto.horovod import _epochs as epochs
  if not serves(args):
    address = f"{args.master_addr}:{args.master_port or MASTER_PORT}"
    return epochs.connect(address), address
  host = "127.0.0.1" if alone(args) else args.master_addr
  family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
  listener = socket.socket(family, socket.SOCK_STREAM)
  listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
  listener.bind((host, (args.master_port or 0) if alone(args) else
                 (args.master_port or MASTER_PORT)))
  listener.listen(1024)
  address = f"{host}:{listener.getsockname()[1]}"
  return epochs.connect(address, serves=True, listener=listener.detach()), address


def new_node() -> str:
  return secrets.token_hex(8)


def run(args: argparse.Namespace, todo: list[Command],
        outputs: Callable[[int], list[RankOutput] | None],
        validation: Validation | None = None) -> int:
  """`outputs(attempt)` says where the ranks write."""
  from stretto.horovod import _epochs as epochs
  store, address = open_store(args)
  todo = [command._replace(environment=command.environment | {STORE: address}) for command in todo]
  if not alone(args) and not args.quiet:
    print(f"stretto run: the ranks meet at {address}", file=sys.stderr, flush=True)
  store = epochs.Guarded(store, address)
  ranks = Ranks(args, store, epochs.Log(store, "gone"), todo, outputs,
                tick=validation.tick if validation else None)
  if not serves(args):
    store.add("launchers", 1)
  try:
    return processes.run_all(todo, outputs(0), ranks.watch,
                             spare=validation.pids if validation else tuple)
  finally:
    if serves(args):
      ranks.wait_for_others()
    else:
      store.add("launchers", -1)

