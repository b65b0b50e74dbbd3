"""Breaks jobs and checks sums for longer than a test should.

  python -m bench.comm.soak --trials 100 --operations 10000 --json build/soak.json
  python -m bench.comm.soak --trials 0 --operations 1000000 --group-cycles 10000

Trials: jobs of 2 to 5 processes lose a rank (SIGKILL), have one stopped (SIGSTOP), or a link that
falls silent (a relay that is stopped; as root a host whose cable is pulled), while idle or amid
large operations, over shared memory or TCP. Every other rank has to raise the same error with the
rank in it within the time that is promised, and a new job of the others has to work.
Operations: all kinds, types, sizes from 0, groups, in place or not, several at once, each compared
with NumPy.
Group cycles: groups of torch.distributed are made, used and destroyed.
After operations and group cycles no rank may have more descriptors and threads than after the
warm-up, and its memory may not have grown. Exit code 1 when anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.comm.network import Hosts, Network, unavailable

HANG_S = 300.0
BROKEN_S = 5.0  # promised for what breaks instead of falling silent
# A leak of 100 bytes in each operation would exceed it in a few minutes. Python and the allocator
# take some megabytes late.
MOST_GROWTH_KIB = 16 << 10
STREAMS = 8  # of a link, at most
CHECKS = Path(__file__).parents[2] / "tests/python/lifetime_checks.py"
FAULTS = ("kill", "stop", "silent", "unplug")


class Wrong(Exception):
  """A promise was not kept."""


class Rank:
  """A process of bench.comm.soak_rank and what it says."""

  def __init__(self, words: list[str], environment: dict[str, str], prefix: list[str]):
    # Without a buffer, because select() does not know of lines in it.
    self.process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "bench.comm.soak_rank", *words], bufsize=0,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **environment})

  def hear(self, until: float) -> dict:
    with selectors.DefaultSelector() as selector:
      selector.register(self.process.stdout, selectors.EVENT_READ)
      while True:
        began = time.monotonic()
        if selector.select(min(max(until - began, 0), 1.0)):
          break
        # Somebody may stop the whole bench for a while, which does not count.
        until += max(time.monotonic() - began - 2.0, 0)
        if time.monotonic() >= until:
          raise Wrong("hangs")
    line = self.process.stdout.readline()
    if not line:
      raise Wrong(f"ended without a word, code {self.process.wait()}")
    return json.loads(line)

  def expect(self, what: str, until: float) -> dict:
    said = self.hear(until)
    while said["what"] == "progress":  # it says so every few seconds, and does not hang
      print(f"  {said['operations']} operations, {said['memory_kib'] >> 10} MiB", flush=True)
      said = self.hear(time.monotonic() + HANG_S)
    if said["what"] != what:
      raise Wrong(f"expected '{what}', got {said}")
    return said

  def nudge(self) -> None:
    self.process.stdin.write(b"\n")

  def end(self) -> None:
    self.process.kill()
    self.process.wait()
    self.process.stdin.close()
    self.process.stdout.close()


class Relay:
  """A process that carries connections to every rank's port; see soak_relay."""

  def __init__(self, folder: str, size: int):
    self.process = subprocess.Popen([sys.executable, "-m", "bench.comm.soak_relay", folder,
                                     str(size)])
    stop = time.monotonic() + HANG_S
    while not Path(folder, "relay.json").exists():
      if time.monotonic() > stop:
        raise Wrong("the relay does not start")
      time.sleep(0.01)

  def end(self) -> None:
    self.process.kill()
    self.process.wait()


def trial(number: int, seed: int, silent_limit_s: float, faults: tuple[str, ...]) -> dict:
  """One broken job; returns what it was and how long the others took."""
  r = random.Random(f"{seed}/{number}")
  fault, size, idle = faults[number % len(faults)], r.randint(2, 5), r.random() < 0.3
  transports = "tcp" if fault in ("silent", "unplug") else r.choice(("shm", "tcp"))
  victim = r.randrange(size)
  row = {"trial": number, "fault": fault, "size": size, "victim": victim, "idle": idle,
         "transports": transports}
  environment = {"STRETTO_TRANSPORTS": transports, "STRETTO_SILENT_LIMIT": str(silent_limit_s),
                 "STRETTO_CONNECT_TIMEOUT": "60", "STRETTO_STREAMS": str(r.choice((1, 2, 4)))}
  limit_s = BROKEN_S if fault == "kill" else silent_limit_s
  elements = r.choice((1 << 12, 1 << 18, 1 << 22))
  ranks: list[Rank] = []
  relay = None
  with tempfile.TemporaryDirectory(prefix="stretto-soak-") as folder, \
      Hosts(Network(size, (0,)) if fault == "unplug" else None, f"s{number}") as hosts:
    try:
      if fault == "silent":
        relay = Relay(folder, size)
      for rank in range(size):
        words = ["fault", folder, str(rank), str(size), str(victim),
                 "idle" if idle else "busy", str(elements)]
        ranks.append(Rank(words, environment, hosts.command(rank)))
      until = time.monotonic() + HANG_S
      for rank in ranks:
        rank.expect("ready", until)
      time.sleep(r.random() * 0.5)
      at = time.monotonic()
      if fault == "unplug":
        hosts.unplug(victim)
      elif fault == "silent":
        relay.process.send_signal(signal.SIGSTOP)
      else:
        ranks[victim].process.send_signal(signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
      if idle:  # who asks after the limit has to be told at once
        time.sleep(1.0 if fault == "kill" else silent_limit_s)
        for rank in ranks:
          if rank is not ranks[victim] or fault != "kill":
            rank.nudge()
      others = [rank for i, rank in enumerate(ranks) if i != victim]
      errors = [rank.expect("error", time.monotonic() + HANG_S) for rank in others]
      row["text"] = errors[0]["text"]
      row["seconds"] = max(e["at"] for e in errors) - at
      texts = {(e["text"], e["rank"], e["link"]) for e in errors}
      if len(texts) > 1:
        raise Wrong(f"different errors: {texts}")
      if errors[0]["rank"] != victim or not errors[0]["text"].startswith(f"rank {victim} "):
        raise Wrong(f"another rank is named: {errors[0]}")
      if not errors[0]["link"]:
        raise Wrong("no link is named")
      if row["seconds"] > limit_s + (0.5 if idle else 0):
        raise Wrong(f"{row['seconds']:.2f} s")
      for rank in others:
        if not rank.expect("again", time.monotonic() + HANG_S)["right"]:
          raise Wrong("a wrong sum after forming again")
      if fault != "kill":
        ranks[victim].process.send_signal(signal.SIGCONT)
        ranks[victim].expect("error", time.monotonic() + HANG_S)
    except Wrong as wrong:
      row["wrong"] = str(wrong)
    finally:
      for rank in ranks:
        rank.end()
      if relay:
        relay.end()
  return row


def collectives(size: int, seed: int, count: int, environment: dict[str, str],
                hosts_of: int) -> dict:
  row = {"size": size, "seed": seed, "operations": count, **environment}
  ranks: list[Rank] = []
  with tempfile.TemporaryDirectory(prefix="stretto-soak-") as folder:
    try:
      for rank in range(size):
        host = {"STRETTO_HOST": f"h{rank % hosts_of}"} if hosts_of else {}
        ranks.append(Rank(["collectives", folder, str(rank), str(size), str(seed), str(count)],
                          {"STRETTO_SILENT_LIMIT": "60", **environment, **host}, []))
      began = time.monotonic()
      done = [rank.expect("done", time.monotonic() + HANG_S) for rank in ranks]
      row["seconds"] = round(time.monotonic() - began, 1)
      row["held"] = [compared(said["before"], said["after"], STREAMS * (size - 1))
                     for said in done][0]
    except Wrong as wrong:
      row["wrong"] = str(wrong)
    finally:
      for rank in ranks:
        rank.end()
  return row


def compared(before: dict, after: dict, streams: int = 0) -> str:
  """What a process held, in words. Raises Wrong when it became more; `streams` is how many
  connections the engine may have opened in the meantime."""
  words = ", ".join(f"{name} {before[name]} to {after[name]}" for name in before)
  if (after["descriptors"] > before["descriptors"] + streams or after["threads"] > before["threads"]
      or after["memory_kib"] - before["memory_kib"] > MOST_GROWTH_KIB):
    raise Wrong(words)
  return words


def group_cycles(count: int) -> dict:
  """A check of the tests, with more cycles. It fails when anything is left of a group."""
  row: dict = {"group_cycles": count}
  with tempfile.TemporaryDirectory(prefix="stretto-soak-") as folder:
    ranks = [subprocess.Popen([sys.executable, str(CHECKS), folder, str(rank), "2",
                               "check_groups_come_and_go"], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "GROUP_CYCLES": str(count)}) for rank in range(2)]
    try:
      for rank in ranks:
        said = rank.communicate(timeout=HANG_S + count)[0]
        if rank.returncode:
          raise Wrong(said)
        held = json.loads(said.splitlines()[-1])
        row |= {"seconds": held["seconds"], "held": compared(held["before"], held["after"]),
                "bytes_per_group": held["bytes_per_group"]}
    except subprocess.TimeoutExpired:
      row["wrong"] = "hangs"
    except Wrong as wrong:
      row["wrong"] = str(wrong)
    finally:
      for rank in ranks:
        rank.kill()
        rank.wait()
  return row


def main() -> int:
  p = argparse.ArgumentParser(prog="bench.comm.soak", description=__doc__,
                              formatter_class=argparse.RawDescriptionHelpFormatter)
  p.add_argument("--trials", type=int, default=100)
  p.add_argument("--operations", type=int, default=10_000)
  p.add_argument("--group-cycles", type=int, default=0)
  p.add_argument("--seed", type=int, default=1)
  p.add_argument("--silent-limit", type=float, default=10.0)
  p.add_argument("--json", type=Path)
  args = p.parse_args()
  began = time.monotonic()
  missing = unavailable(Network(2, (0,)))
  if missing:
    print(f"no cables are pulled: {missing}")
  faults = FAULTS[:-1] if missing else FAULTS
  rows = []
  layouts = [({"STRETTO_TRANSPORTS": "shm"}, 0), ({"STRETTO_TRANSPORTS": "tcp"}, 0),
             ({"STRETTO_TRANSPORTS": "shm,tcp", "STRETTO_STREAMS": "3"}, 2),
             ({"STRETTO_TRANSPORTS": "tcp", "STRETTO_CHUNK_BYTES": "4096"}, 3)]
  jobs = [(size, *layout) for size in range(2, 6) for layout in layouts]
  for i, (size, environment, hosts_of) in enumerate(jobs):
    count = -(-args.operations // len(jobs))
    if count:
      rows.append(show(collectives(size, args.seed + i, count, environment, hosts_of)))
  if args.group_cycles:
    rows.append(show(group_cycles(args.group_cycles)))
  for number in range(args.trials):
    rows.append(show(trial(number, args.seed, args.silent_limit, faults)))
  wrong = [row for row in rows if "wrong" in row]
  for fault in faults:
    times = [row["seconds"] for row in rows if row.get("fault") == fault and "seconds" in row
             and not row["idle"]]
    if times:
      print(f"{fault}, busy: {len(times)} trials, median {statistics.median(times):.2f} s, "
            f"longest {max(times):.2f} s")
  print(f"{sum(row.get('operations', 0) for row in rows)} operations, {args.group_cycles} group "
        f"cycles, {args.trials} trials, {len(wrong)} wrong, {time.monotonic() - began:.0f} s")
  if args.json:
    args.json.write_text(json.dumps(rows, indent=1))
  return 1 if wrong else 0


def show(row: dict) -> dict:
  print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
  return row


if __name__ == "__main__":
  sys.exit(main())
