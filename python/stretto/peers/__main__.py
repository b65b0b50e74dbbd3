"""Runs other engines for `stretto bench` and for reports, each in a process of its own.

  python -m stretto.peers list
  python -m stretto.peers serve onnxruntime --model m.onnx --inputs in.npz --outputs out.npz \
      --threads 1

Speaks JSON lines on standard output. `serve` loads the model, runs it, writes the outputs as
arrays "0", "1", ... and says {"version": ..., "setting": ...}; then, for each line "time SECONDS"
that it reads, {"ms": [one number per run], "peak_bytes": ...}. A failure is {"error": ...}.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from stretto.peers import PEERS, find

WARM_UP_RUNS = 2


def status_bytes(key: str) -> int:
  """A size from /proc/self/status, 0 where there is none."""
  try:
    for line in Path("/proc/self/status").read_text().splitlines():
      if line.startswith(key + ":"):
        return int(line.split()[1]) * 1024
  except OSError:
    pass
  return 0


class Channel:
  """The standard output we were given; what engines print goes to standard error instead."""

  def __init__(self) -> None:
    self._stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

  def say(self, **message) -> None:
    self._stream.write(json.dumps(message) + "\n")
    self._stream.flush()


def time_runs(runner, seconds: float) -> list[float]:
  times = []
  runner.run()
  stop = time.perf_counter() + seconds
  while not times or time.perf_counter() < stop:
    start = time.perf_counter()
    runner.run()
    times.append((time.perf_counter() - start) * 1e3)
  return times


def serve(args: argparse.Namespace, channel: Channel) -> None:
  peer = find(args.name)
  version = peer.version()
  if version is None:
    packages = " ".join(peer.import_module().PACKAGES)
    channel.say(error=f"not installed (pip install {packages})")
    return
  with np.load(args.inputs) as archive:
    inputs = {name: archive[name] for name in archive.files}
  before = status_bytes("VmRSS")
  runner = peer.load(args.model, inputs, args.threads)
  for _ in range(WARM_UP_RUNS):
    runner.run()
  np.savez(args.outputs, **{str(i): array for i, array in enumerate(runner.outputs())})
  channel.say(version=version, setting=runner.setting)
  for line in sys.stdin:
    verb, _, seconds = line.partition(" ")
    if verb != "time":
      raise ValueError(f"expected 'time SECONDS', got {line!r}")
    channel.say(ms=time_runs(runner, float(seconds)),
                peak_bytes=max(0, status_bytes("VmHWM") - before))


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m stretto.peers", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  verbs = parser.add_subparsers(dest="verb", required=True)
  verbs.add_parser("list")
  server = verbs.add_parser("serve")
  server.add_argument("name")
  server.add_argument("--model", type=Path, required=True)
  server.add_argument("--inputs", type=Path, required=True)
  server.add_argument("--outputs", type=Path, required=True)
  server.add_argument("--threads", type=int, required=True)
  args = parser.parse_args()
  channel = Channel()
  if args.verb == "list":
    versions = [(peer.name, peer.version()) for peer in PEERS]
    channel.say(peers=[{"name": name, "installed": version is not None, "version": version or ""}
                       for name, version in versions])
    return 0
  try:
    serve(args, channel)
  except Exception as error:  # whatever an engine raises is its result, not ours
    first_line = str(error).strip().partition("\n")[0]
    channel.say(error=f"{type(error).__name__}: {first_line}")
    return 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
