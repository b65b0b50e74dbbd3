"""One engine, one model, one process: the far end of `bench.engine_process`.

Reads one JSON object per line from standard input and answers each with one on the original
standard output; whatever an engine prints goes to standard error. Between requests it blocks in a
read and burns nothing.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from pathlib import Path


def load(request: dict):
  """Loads the engine; returns its run function and what the parent wants to know."""
  os.sched_setaffinity(0, request["cpus"])  # before any library counts cores or starts threads
  import numpy as np

  from bench import machine, peers

  engine = peers.find(request["engine"])
  driver = engine.driver()
  version = driver.version()
  with np.load(request["inputs"]) as archive:
    inputs = {name: archive[name] for name in archive.files}
  task = peers.Task(onnx=Path(request["onnx"]), inputs=inputs, outputs=request["outputs"],
                    threads=request["threads"], setting=engine.setting, tune=request["tune"],
                    model=request["model"], seed=request["seed"])
  reason = driver.available(task)
  if reason:
    return None, {"skipped": reason, "version": version}
  before = machine.status_mib(os.getpid(), "VmRSS")
  start = time.perf_counter()
  run = driver.load(task)
  load_s = time.perf_counter() - start
  outputs = [np.array(value) for value in run()]
  np.savez(request["results"], **dict(zip(request["outputs"], outputs)))
  reply = {"version": version, "load_s": load_s, "base_mib": before,
           "peak_mib": machine.status_mib(os.getpid(), "VmHWM"),
           "resident_mib": machine.status_mib(os.getpid(), "VmRSS")}
  if hasattr(run, "uncapped"):
    reply["uncapped"] = run.uncapped
  return run, reply


def burst(run, warm_up: int, warm_up_ms: float, runs: int) -> dict:
  """Times `runs` calls after at least `warm_up` calls and `warm_up_ms`: caches, clocks and sleeping
  threads have to come back after another engine had the cores."""
  gc.collect()
  gc.disable()
  clock = time.perf_counter_ns
  start, done = clock(), 0
  while done < warm_up or (clock() - start) / 1e6 < warm_up_ms:
    run()
    done += 1
  preempted = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
  times, cpu_times = [], []
  for _ in range(runs):
    cpu_start, start = time.process_time_ns(), clock()
    run()
    times.append((clock() - start) / 1e6)
    cpu_times.append((time.process_time_ns() - cpu_start) / 1e6)
  preempted = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - preempted
  gc.enable()
  return {"ms": times, "cpu_ms": cpu_times, "preempted": preempted}


def main() -> None:
  replies = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  run = None
  for line in sys.stdin:
    request = json.loads(line)
    try:
      if request["do"] == "load":
        run, reply = load(request)
      else:
        reply = burst(run, request["warm_up"], request["warm_up_ms"], request["runs"])
    except ImportError as error:
      reply = {"skipped": f"not installed: {error}"}
    except Exception as error:  # an engine may raise anything; that is its result
      text = str(error).strip().splitlines()
      reply = {"failed": f"{type(error).__name__}: {text[0][:300] if text else ''}"}
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


if __name__ == "__main__":
  main()
