"""Runs cases: every peer's ranks are up at once on the same hosts and take turns, so that a slow
spell of the machine hits all alike; but for those that are never idle, which follow alone."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.comm import peers
from bench.comm.cases import Case
from bench.comm.network import Hosts, unavailable
from bench.comm.processes import RankLost, Ranks, Skipped

TURN_TIMEOUT_S = 120.0
# A rail is pulled this long after the operation began: 64 MB on 1200 Mbit/s take half a second.
CUT_AFTER_S = 0.15


def run(cases: list[Case], only: list[str] | None, rounds: int | None, loopback: bool,
        say: Callable[[str], None]) -> Iterator[list[dict]]:
  """One list of results per case. Cases on the same hosts, in a row, share their processes."""
  key = lambda case: (case.network, case.placement, case.work.kind == "cut")
  for number, ((network, placement, cuts), grouped) in enumerate(itertools.groupby(cases, key)):
    group = list(grouped)
    reason = "" if loopback else unavailable(network)
    if reason:
      for case in group:
        yield [result(case, name, status="skipped", reason=reason) for name in names(case, only)]
      continue
    with contextlib.ExitStack() as stack:
      folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stretto-comm-")))
      try:
        hosts = stack.enter_context(Hosts(None if loopback else network, f"n{number}"))
      except RuntimeError as why:
        for case in group:
          yield [result(case, name, status="failed", reason=str(why)) for name in names(case, only)]
        continue
      results: dict[str, list[dict]] = {case.name: [] for case in group}
      wanted = dict.fromkeys(base(n) for case in group for n in names(case, only))
      # A cut rail breaks the connections of all peers, and only one of them is measured.
      companies = [[name] for name in wanted] if cuts else together(wanted)
      for company in companies:
        with contextlib.ExitStack() as ranks:
          running, absent = start(ranks, company, hosts, placement, folder, say)
          for case in group:
            present = [name for name in names(case, only) if base(name) in company]
            results[case.name] += one(case, present, rounds or case.rounds, running, absent, hosts,
                                      say)
            if company is companies[-1]:
              yield results[case.name]


def together(wanted: Iterable[str]) -> list[list[str]]:
  """Who takes turns with whom. Never empty: a case that nobody is in has a result all the same."""
  alone = [[name] for name in wanted if peers.find(name).on_request]
  others = [name for name in wanted if not peers.find(name).on_request]
  return [others, *alone] if others or not alone else alone


def names(case: Case, only: list[str] | None) -> list[str]:
  if only is None:
    return list(case.peers)
  reduces = case.work.kind in ("each", "burst", "apart")
  more = [p.name for p in peers.PEERS if p.on_request and reduces]
  # Another build of a peer does what that peer does.
  builds = [name.replace(p.like, p.name, 1) for p in peers.PEERS if p.like for name in case.peers
            if base(name) == p.like]
  return [name for name in [*case.peers, *builds, *more] if base(name) in only]


def base(name: str) -> str:
  return name.partition("/")[0]


def start(stack, wanted: list[str], hosts: Hosts, placement, folder: Path, say) -> tuple:
  running, absent = {}, {}
  for index, name in enumerate(wanted):
    say(f"starting {len(placement)} ranks of {name}")
    port = 29500 + index if hosts.network else free_port()
    try:
      running[name] = stack.enter_context(Ranks(peers.find(name), hosts, placement, port, folder))
    except Skipped as why:
      absent[name] = ("skipped", str(why))
    except RankLost as why:
      absent[name] = ("failed", str(why))
  return running, absent


def free_port() -> int:
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    return probe.getsockname()[1]


def one(case: Case, order: list[str], rounds: int, running: dict, absent: dict, hosts: Hosts,
        say) -> list[dict]:
  turns: dict[str, list[list[dict]]] = {name: [] for name in order}
  verdicts: dict[str, tuple[str, str]] = {n: absent[base(n)] for n in order if base(n) in absent}
  shuffle = random.Random(0)
  for done in range(-case.warm_up, rounds):
    say(f"{case.name}: " + (f"round {done + 1} of {rounds}" if done >= 0 else
                            f"warm-up {case.warm_up + done + 1} of {case.warm_up}"))
    shuffle.shuffle(order)
    for name in order:
      if name in verdicts or (done < 0 and case.work.kind == "cut"):
        continue
      try:
        replies = turn(case, running[base(name)], name.partition("/")[2], hosts)
      except RankLost as why:
        verdicts[name] = absent[base(name)] = ("failed", str(why))
        running.pop(base(name)).close()
        continue
      if not all(reply["correct"] for reply in replies):
        verdicts[name] = ("wrong", "the sums are not what they must be")
      elif done >= 0:
        turns[name].append(replies)
  results = []
  for name in turns:
    version = running[base(name)].version if base(name) in running else ""
    if name in verdicts:
      status, reason = verdicts[name]
      results.append(result(case, name, status=status, reason=reason, version=version))
    else:
      results.append(result(case, name, status="ok", version=version,
                            **summary(case, turns[name])))
  return results


def turn(case: Case, ranks: Ranks, wire: str, hosts: Hosts) -> list[dict]:
  work = case.work
  if work.kind != "cut":
    return ranks.ask(TURN_TIMEOUT_S, kind=work.kind, bytes=work.size_bytes,
                     operations=work.operations, model=work.model, wire=wire)
  if not hosts.network:
    raise RankLost("a rail is cut only between hosts of namespaces")

  def cut() -> None:
    time.sleep(CUT_AFTER_S)
    hosts.cut(work.cut_rail)

  try:
    return ranks.ask(TURN_TIMEOUT_S, during=cut, kind="each", bytes=work.size_bytes,
                     operations=work.operations, model="", wire="")
  finally:
    hosts.mend(work.cut_rail)


def summary(case: Case, turns: list[list[dict]]) -> dict:
  """Per operation: the slowest rank's time, the processor time of all ranks, the bytes through the
  busiest card of a host, all rails together."""
  count = case.work.operations
  seconds = [max(r["seconds"] for r in replies) / count for replies in turns]
  cpu = [sum(r["cpu_s"] for r in replies) / count for replies in turns]
  moved = [max(sent_or_received(r["moved"]) for r in replies) / count for replies in turns]
  ordered = sorted(seconds)
  middle = median(seconds)
  more = {"loss": turns[-1][0]["loss"]} if "loss" in turns[-1][0] else {}
  if case.work.kind != "steps":
    more |= {"bound_bytes": case.bound_bytes(), "bus_mbit": case.bus_mbit(middle)}
  return {"median_s": middle, "min_s": ordered[0], "max_s": ordered[-1],
          "spread": (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / middle,
          "cpu_s": median(cpu), "wire_bytes": median(moved), "seconds": seconds, **more}


def sent_or_received(moved: dict[str, list[int]]) -> int:
  cards = [counts for name, counts in moved.items() if name.startswith("eth")]
  return max(sum(c[0] for c in cards), sum(c[1] for c in cards)) if cards else 0


def quantile(ordered: list[float], q: float) -> float:
  return ordered[round(q * (len(ordered) - 1))]


def median(values: list[float]) -> float:
  ordered = sorted(values)
  middle = len(ordered) // 2
  return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def result(case: Case, name: str, **fields) -> dict:
  return {"case": case.name, "ranks": len(case.placement), "peer": name, "kind": case.work.kind,
          "bytes": case.work.size_bytes, **fields}
