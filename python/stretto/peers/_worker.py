"""One engine, one model, one process: the far end of cli/peers.cc and of bench/engine_process.py.

Each line read is a JSON object with "do"; each is answered with one JSON object.

  load    engine, model, inputs (npz), outputs (names), threads, results (npz to write: arrays "0",
          "1", ... per output); optional: cpus, tuning, save, definition (see Task; as
          {"module", "function", "arguments"})
          -> version, setting, load_s, base_bytes, peak_bytes, and uncapped where the driver knows;
          or skipped: why this engine cannot take it
  burst   warm_up (runs), warm_up_ms, then runs or seconds
          -> ms, cpu_ms (per run), preempted, peak_bytes

An engine's exception is {"failed": why}. Between requests the process blocks in a read and burns
nothing.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import resource
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from stretto import peers
from stretto.peers import _machine as machine


def reply_stream() -> Callable[[dict], None]:
  """Writes JSON lines to the standard output we were given; what engines print goes to standard
  error from now on."""
  stream = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)

  def say(message: dict) -> None:
    stream.write(json.dumps(message) + "\n")
    stream.flush()

  return say


def serve(requests: Iterable[str], say: Callable[[dict], None]) -> None:
  run = None
  for line in requests:
    request = json.loads(line)
    try:
      if request["do"] == "load":
        run, reply = load(request)
      else:
        reply = burst(run, **{k: v for k, v in request.items() if k != "do"})
    except Exception as error:  # an engine may raise anything; that is its result
      traceback.print_exc()
      text = str(error).strip().splitlines()
      reply = {"failed": f"{type(error).__name__}: {text[0][:300] if text else ''}"}
    say(reply)


def load(request: dict) -> tuple[peers.Run | None, dict]:
  """Loads the engine; returns its run function and what the asker wants to know."""
  threads = request["threads"]
  # Before any library counts cores or starts threads.
  machine.stay_on(request.get("cpus") or machine.physical_cores()[:threads])
  try:
    engine = peers.find(request["engine"])
  except ValueError as error:
    return None, {"skipped": str(error)}
  version, driver = engine.version(), engine.driver()
  if version is None:
    return None, {"skipped": f"not installed (pip install {' '.join(driver.PACKAGES)})"}
  with np.load(request["inputs"]) as archive:
    inputs = {name: archive[name] for name in archive.files}
  task = peers.Task(model=Path(request["model"]), inputs=inputs, outputs=request["outputs"],
                    threads=threads, setting=engine.setting, tuning=request.get("tuning", "quick"),
                    save=Path(request["save"]) if request.get("save") else None,
                    definition=definition(request.get("definition")))
  if reason := driver.refuses(task):
    return None, {"skipped": reason, "version": version}
  base = machine.status_bytes("VmRSS")
  start = time.perf_counter()
  run = driver.load(task)
  load_s = time.perf_counter() - start
  results = [np.array(value) for value in run()]
  np.savez(request["results"], **{str(i): value for i, value in enumerate(results)})
  reply = {"version": version, "setting": engine.about, "load_s": load_s, "base_bytes": base,
           "peak_bytes": machine.status_bytes("VmHWM")}
  if hasattr(run, "uncapped"):
    reply["uncapped"] = run.uncapped
  return run, reply


def definition(request: dict | None) -> Callable[[], object] | None:
  if request is None:
    return None
  function = getattr(importlib.import_module(request["module"]), request["function"])
  return functools.partial(function, *request["arguments"])


def burst(run: peers.Run, warm_up: int, warm_up_ms: float, runs: int = 1,
          seconds: float = 0) -> dict:
  """Times at least `runs` calls and `seconds`, after at least `warm_up` calls and `warm_up_ms`:
  caches, clocks and sleeping threads have to come back after another engine had the cores."""
  gc.collect()
  gc.disable()
  clock = time.perf_counter_ns
  start, done = clock(), 0
  while done < warm_up or (clock() - start) / 1e6 < warm_up_ms:
    run()
    done += 1
  preempted = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
  times, cpu_times = [], []
  stop = clock() + seconds * 1e9
  while len(times) < runs or clock() < stop:
    cpu_start, start = time.process_time_ns(), clock()
    run()
    times.append((clock() - start) / 1e6)
    cpu_times.append((time.process_time_ns() - cpu_start) / 1e6)
  preempted = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - preempted
  gc.enable()
  return {"ms": times, "cpu_ms": cpu_times, "preempted": preempted,
          "peak_bytes": machine.status_bytes("VmHWM")}
