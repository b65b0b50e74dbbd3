"""Rows of bench.comm.gains that compare Stretto with other engines: cases of bench.comm, with a
promise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from bench.comm import cases, network, rounds
from bench.comm.ratios import gain_over, gain_over_best

# Where the wire is the limit, two engines that reach it differ by less.
NOISE = 0.01


@dataclass(frozen=True)
class Against:
  """`ours` is to be `least` times as fast as the fastest of `theirs`. `shown` has engines whose
  times stand beside them without a promise. All are rows of bench.comm.peers."""
  name: str
  promise: str
  case: cases.Case
  ours: str
  theirs: tuple[str, ...]
  least: float
  shown: tuple[str, ...] = ()
  loopback: bool = False

  @property
  def rounds(self) -> int:
    return self.case.rounds


def horovod() -> list[Against]:
  """Horovod's thread is never idle, so its ranks are up alone, and so are ours of that API."""
  promises = {"200 x 256 B at once on 2 hosts": (2.0, "at least 2 times as fast as Horovod"),
              "200 x 256 B at once on 2 x 2": (2.0, "at least 2 times as fast as Horovod"),
              "16 MB on 2 hosts": (1 - NOISE, "as fast as Horovod, within 1 %"),
              "16 MB on 2 x 2": (1.0, "at least as fast as Horovod")}
  found = {case.name: case for group in cases.GROUPS for case in group.cases}
  return [Against(f"{name} by Horovod's API", promise, found[name], "stretto-horovod", ("horovod",),
                  least, shown=("horovod-tuned",))
          for name, (least, promise) in promises.items()]


def sizes() -> list[Against]:
  """Where no network is the limit, but processors, which copy and add."""
  engines = (("Gloo", "stretto", ("gloo", "gloo-tuned")),
             ("Open MPI", "stretto-core", ("openmpi", "openmpi-tuned")))
  return [Against(f"{case.work.size_bytes // cases.MB} MB on {place} against {engine}",
                  f"at least as fast as {engine}, tuned or not", case, ours, theirs, 1.0,
                  loopback=loopback)
          for place, loopback in (("unshaped hosts", False), ("loopback", True))
          for case in cases.processor() for engine, ours, theirs in engines]


def run(row: Against, number: int, turns: int, say: Callable[[str], None]) -> dict:
  del number
  wanted = [row.ours, *row.theirs, *row.shown]
  reason = "" if row.loopback else network.unavailable(row.case.network)
  if reason:
    return {"status": "skipped", "reason": reason}
  case = dataclasses.replace(row.case, peers=tuple(wanted))
  [results] = rounds.run([case], None, turns, row.loopback, say)
  return outcome(row, {result["peer"]: result for result in results})


def outcome(row: Against, results: dict[str, dict]) -> dict:
  for name in (row.ours, *row.theirs):
    if results[name]["status"] != "ok":
      return {"status": results[name]["status"], "reason": f"{name}: {results[name]['reason']}"}
  there = {name: result for name, result in results.items() if result["status"] == "ok"}
  times = {name: result["seconds"] for name, result in there.items()}
  reached = gain_over_best(times, row.theirs, row.ours) if len(row.theirs) > 1 else \
      gain_over(times, row.theirs[0], row.ours)
  return {"status": "ok", "reached": reached, "kept": reached >= row.least, "seconds": times,
          "median_s": {name: result["median_s"] for name, result in there.items()}, "loss": {},
          "error": {},
          "versions": {name: result["version"] for name, result in there.items()}}
