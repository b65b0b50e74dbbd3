"""Several threads that run one model at once, beside one thread that does all the runs in turn.

    python -m bench.callers mobilenet_v2 resnet50 --threads 1,2 --json callers.json
    python -m bench.callers model.onnx --callers 8 --sessions 4 --peers none

Two cases per model and thread count: `--callers` threads on one session, and `--sessions` sessions
with a thread each. A round is one turn of each kind for `--seconds`, in an order that changes;
reported are the medians of runs per second, and at once / in turn of the same round. Every output
is compared with that of a run alone: Stretto's must be the same bits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import stretto
from bench import machine, models
from bench.models import export

Run = Callable[[], list[np.ndarray]]
TOLERANCE = 1e-5  # of the largest value, for engines that sum in another order when threads differ


class Model:
  """A file, for sessions of so many threads, and its inputs."""

  def __init__(self, path: Path, threads: int, folder: Path) -> None:
    self.path, self.threads = path, threads
    self.artefact = folder / f"{path.stem}.{threads}.stretto"
    first = stretto.optimize(str(path), threads=threads, tuning="off", verify=False)
    first.save(self.artefact)
    self.inputs = made_up(first.inputs)


def stretto_sessions(model: Model, count: int) -> list[Run]:
  sessions = [stretto.load(model.artefact) for _ in range(count)]
  return [lambda session=session: list(session.run(model.inputs).values()) for session in sessions]


def onnxruntime_sessions(model: Model, count: int, spins: bool = True) -> list[Run]:
  import onnxruntime

  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = model.threads
  if not spins:
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
  sessions = [onnxruntime.InferenceSession(str(model.path), options,
                                           providers=["CPUExecutionProvider"])
              for _ in range(count)]
  return [lambda session=session: session.run(None, model.inputs) for session in sessions]


ENGINES = {
  "stretto": stretto_sessions,
  "onnxruntime": onnxruntime_sessions,
  # Its threads sleep at once when a run has ended, which leaves their cores to other sessions.
  "onnxruntime-asleep": lambda model, count: onnxruntime_sessions(model, count, spins=False),
}


def made_up(specs: list) -> dict[str, np.ndarray]:
  rng = np.random.default_rng(0)
  return {spec.name: rng.standard_normal(spec.shape).astype(spec.dtype) if spec.dtype == "float32"
          else rng.integers(0, 2, spec.shape).astype(spec.dtype) for spec in specs}


class Case:
  """Runs of one engine: `sessions` with `callers` threads altogether, or with one."""

  def __init__(self, engine: str, sessions: list[Run], callers: int) -> None:
    self.engine, self.sessions, self.callers = engine, sessions, callers
    self.expected = [run() for run in sessions]
    self.wrong: list[str] = []
    self.in_turn: list[float] = []
    self.at_once: list[float] = []

  def check(self, session: int, outputs: list[np.ndarray]) -> None:
    for want, have in zip(self.expected[session], outputs, strict=True):
      if self.engine == "stretto" and np.array_equal(want, have):
        continue
      if self.engine != "stretto" and np.abs(want - have).max() <= TOLERANCE * np.abs(want).max():
        continue
      self.wrong.append(f"{self.engine}: a run beside others differs from one alone")

  def rate(self, callers: int, seconds: float) -> float:
    """Runs per second of all callers together."""
    begin = time.perf_counter()
    end = begin + seconds
    counts, last = [0] * callers, [begin] * callers

    def call(caller: int) -> None:
      mine = itertools.cycle(range(len(self.sessions))) if callers == 1 else \
          itertools.repeat(caller % len(self.sessions))
      while time.perf_counter() < end:
        session = next(mine)
        outputs = self.sessions[session]()
        counts[caller] += 1
        last[caller] = time.perf_counter()
        if counts[caller] == 1:
          self.check(session, outputs)

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    return sum(counts) / (max(last) - begin)

  def turn(self, at_once: bool, seconds: float) -> None:
    rates = self.at_once if at_once else self.in_turn
    rates.append(self.rate(self.callers if at_once else 1, seconds))


def measure(path: Path, threads: int, args: argparse.Namespace, folder: Path) -> list[dict]:
  found = []
  model = Model(path, threads, folder)
  for sessions, callers in ((1, args.callers), (args.sessions, args.sessions)):
    cases = [Case(name, ENGINES[name](model, sessions), callers)
             for name in ["stretto", *args.peers]]
    for round_ in range(args.rounds):
      turns = [(case, at_once) for case in cases for at_once in (False, True)]
      for case, at_once in turns if round_ % 2 else turns[::-1]:
        case.turn(at_once, args.seconds)
    for case in cases:
      if case.wrong:
        raise SystemExit(f"{path.stem}: {case.wrong[0]}")
      gains = [b / a for a, b in zip(case.in_turn, case.at_once, strict=True)]
      found.append({"model": path.stem, "threads": threads, "engine": case.engine,
                    "sessions": sessions, "callers": callers,
                    "in_turn_per_s": statistics.median(case.in_turn),
                    "at_once_per_s": statistics.median(case.at_once),
                    "gain": statistics.median(gains)})
  return found


def main() -> None:
  parser = argparse.ArgumentParser(prog="python -m bench.callers", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("models", nargs="+", help="names of bench.models, or ONNX files")
  parser.add_argument("--threads", default="1,2", help="of a session (1,2)")
  parser.add_argument("--callers", type=int, default=8, help="threads on one session (8)")
  parser.add_argument("--sessions", type=int, default=4, help="sessions with a thread each (4)")
  parser.add_argument("--rounds", type=int, default=7)
  parser.add_argument("--seconds", type=float, default=1, help="of a turn (1)")
  parser.add_argument("--peers", default="onnxruntime,onnxruntime-asleep",
                      help="onnxruntime, onnxruntime-asleep (without spinning) or none; both")
  parser.add_argument("--json", type=Path)
  args = parser.parse_args()
  args.peers = [name for name in args.peers.split(",") if name != "none"]
  if unknown := [name for name in args.peers if name not in ENGINES]:
    known = ", ".join(list(ENGINES)[1:])
    parser.error(f"--peers: {unknown[0]!r} is unknown; expected {known} or none")
  print(f"{machine.name(machine.describe())}; runs per second\n")
  print("| model | threads | engine | sessions | callers | in turn | at once | at once / in turn |")
  print("|---|---|---|---|---|---|---|---|")
  found = []
  with tempfile.TemporaryDirectory(prefix="stretto-callers-") as folder:
    for word in args.models:
      path = Path(word) if word.endswith(".onnx") else \
          export.export(models.find(word), Path("build/models"))
      for threads in map(int, args.threads.split(",")):
        for row in measure(path, threads, args, Path(folder)):
          found.append(row)
          print(f"| {row['model']} | {threads} | {row['engine']} | {row['sessions']} | "
                f"{row['callers']} | {row['in_turn_per_s']:.1f} | {row['at_once_per_s']:.1f} | "
                f"{row['gain']:.2f} |", flush=True)
  if args.json:
    args.json.write_text(json.dumps({"machine": machine.describe(), "results": found}, indent=1))


if __name__ == "__main__":
  main()
