"""One comparison: one model, one thread count, all engines loaded, checked, then timed in turns."""

from __future__ import annotations

import contextlib
import fcntl
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from stretto.peers import Cap, Engine

from bench import summary, truth
from bench.engine_process import EngineProcess

WARM_UP_MS = 20.0
# Overlapping shared holders can keep an exclusive one out for ever: then time anyway, in turns as
# always, and let the count of preemptions say that it was not quiet.
LOCK_WAIT_S = 20.0


@dataclass(frozen=True)
class Plan:
  runs: int  # timed calls per engine
  burst: int  # of them in a row before the next engine has its turn
  warm_up: int  # untimed calls after each turn begins
  load_timeout_s: float
  isa: str | None
  quiet_lock: Path | None  # held while timing, so that builds that share it wait


@dataclass(frozen=True)
class Entry:
  """A row of the comparison."""

  name: str
  engine: Engine
  tuning: str | None = None  # Stretto only
  package: Path | None = None  # the folder of another build of it


@dataclass(frozen=True)
class Subject:
  name: str
  model: str | None  # row of bench.models
  onnx: Path
  inputs: Path  # npz, in model order
  outputs: list[str]
  truth: Path | None
  seed: int


def compare(subject: Subject, entries: list[Entry], threads: int, plan: Plan, folder: Path,
            say: Callable[[str], None],
            beside: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
            ) -> list[dict]:
  """One result per entry, in the order given. `beside` is entered while they are timed. Nothing
  raises for an engine's failure: its result says "skipped", "failed" or "wrong" and why, and it is
  not timed."""
  with contextlib.ExitStack() as stack:
    running, results = {}, []
    for entry in entries:
      say(f"{subject.name}, {threads} thread(s): loading {entry.name}")
      process = stack.enter_context(start(entry, plan, folder))
      result = {"model": subject.name, "threads": threads, "engine": entry.name,
                "setting": entry.engine.about, "tuning": entry.tuning}
      result |= load(process, subject, entry, threads, plan, folder)
      if entry.tuning and result["status"] == "loaded":
        result["serving_mib"] = serving_mib(subject, entry, threads, plan, folder)
      results.append(result)
      if result["status"] == "loaded":
        process.wait_until_idle()
        running[entry.name] = process
      else:
        process.close()
    check(results, subject, folder)
    for result in results:
      if result["status"] == "wrong":
        running.pop(result["engine"]).close()
    with beside():
      time_in_turns(results, running, plan, say)
    return results


def start(entry: Entry, plan: Plan, folder: Path) -> EngineProcess:
  cap = entry.engine.driver().cap(plan.isa) if plan.isa else Cap()
  # What Stretto remembers of earlier runs must not help it: a user starts with what ships.
  environment = {**cap.environment, "STRETTO_CACHE_DIR": str(folder / f"{entry.name}.cache")}
  return EngineProcess(environment, folder / f"{entry.name}.log", entry.package)


def load(process: EngineProcess, subject: Subject, entry: Entry, threads: int, plan: Plan,
         folder: Path, model: Path | None = None) -> dict:
  """`model`: what to load instead of the ONNX file."""
  request = {"do": "load", "engine": entry.engine.name, "model": str(model or subject.onnx),
             "inputs": str(subject.inputs), "outputs": subject.outputs, "threads": threads,
             "results": str(folder / f"{entry.name}.npz")}
  if entry.tuning:
    request |= {"tuning": entry.tuning}
    if model is None:
      request["save"] = str(artefact(entry, folder))
  if subject.model:
    request["definition"] = {"module": "bench.models", "function": "define",
                             "arguments": [subject.model, subject.seed]}
  reply = process.ask(plan.load_timeout_s, **request)
  for status in ("skipped", "failed"):
    if status in reply:
      return {"status": status, "reason": reply[status], "version": reply.get("version"),
              "cap": None}
  peak_mib = reply["peak_bytes"] / 2**20
  return {"status": "loaded", "reason": None, "version": reply["version"],
          "load_s": reply["load_s"], "base_mib": reply["base_bytes"] / 2**20,
          "peak_mib": peak_mib, "serving_mib": peak_mib, "cap": cap_verdict(entry, plan, reply)}


def cap_verdict(entry: Entry, plan: Plan, reply: dict) -> dict | None:
  """Whether the engine stayed below the instruction set asked for; None when none was."""
  if plan.isa is None:
    return None
  why = reply.get("uncapped", entry.engine.driver().cap(plan.isa).caveat)
  return {"isa": plan.isa, "held": why is None, "why": why}


def artefact(entry: Entry, folder: Path) -> Path:
  return folder / f"{entry.name}.stretto"


def serving_mib(subject: Subject, entry: Entry, threads: int, plan: Plan, folder: Path) -> float:
  """Peak memory of a process that loads Stretto's artefact and runs it: other engines optimise
  whenever they load, Stretto does it once, elsewhere."""
  with start(entry, plan, folder) as process:
    reply = load(process, subject, entry, threads, plan, folder, artefact(entry, folder))
  artefact(entry, folder).unlink()
  return reply.get("peak_mib", float("nan"))


def check(results: list[dict], subject: Subject, folder: Path) -> None:
  """Fills in the errors and turns "loaded" into "wrong" where they are too large."""
  answers = {}
  for result in results:
    if result["status"] == "loaded":
      with np.load(folder / f"{result['engine']}.npz") as archive:
        answers[result["engine"]] = {name: archive[str(i)]
                                     for i, name in enumerate(subject.outputs)}
  references = {}
  if subject.truth:
    with np.load(subject.truth) as archive:
      references["error_vs_float64"] = dict(archive)
  if "onnxruntime" in answers:
    references["error_vs_onnxruntime"] = answers["onnxruntime"]
  for result in results:
    if result["status"] != "loaded":
      continue
    for key, expected in references.items():
      result[key] = truth.error(answers[result["engine"]], expected)
    # The first reference decides: float64 where there is one.
    worst = next((result[key] for key in references), 0.0)
    if worst > truth.TOLERANCE:
      result |= {"status": "wrong",
                 "reason": f"error {worst:.1e} of the largest value, over {truth.TOLERANCE:.0e}"}


def time_in_turns(results: list[dict], running: dict[str, EngineProcess], plan: Plan,
                  say: Callable[[str], None]) -> None:
  """Round-robin in an order that changes every round (seeded), so that a slow spell of the machine
  hits every engine and no engine always follows the same one."""
  order, shuffle = list(running), random.Random(0)
  times: dict[str, list[float]] = {name: [] for name in running}
  cpu_times: dict[str, list[float]] = {name: [] for name in running}
  preempted = dict.fromkeys(running, 0)
  failed: dict[str, str] = {}
  for done in range(0, plan.runs, plan.burst):
    say(f"timing, {done} of {plan.runs} runs each")
    shuffle.shuffle(order)
    with quiet(plan.quiet_lock):
      for name in order:
        if name in failed:
          continue
        reply = running[name].ask(
            plan.load_timeout_s, do="burst", warm_up=plan.warm_up, warm_up_ms=WARM_UP_MS,
            runs=min(plan.burst, plan.runs - done))
        if "failed" in reply:
          failed[name] = reply["failed"]
          continue
        times[name] += reply["ms"]
        cpu_times[name] += reply["cpu_ms"]
        preempted[name] += reply["preempted"]
        running[name].wait_until_idle()
  for result in results:
    name = result["engine"]
    if name in failed:
      result |= {"status": "failed", "reason": failed[name]}
    elif name in running:
      result |= {"status": "ok", **summary.summarise(times[name], cpu_times[name]),
                 "preempted": preempted[name],
                 "times_ms": [round(t, 4) for t in times[name]]}


@contextlib.contextmanager
def quiet(lock: Path | None):
  if lock is None:
    yield
    return
  stop = time.monotonic() + LOCK_WAIT_S
  with lock.open("a") as file:
    while time.monotonic() < stop:
      try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
      except BlockingIOError:
        time.sleep(0.05)
    yield
