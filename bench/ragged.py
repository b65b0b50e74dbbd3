"""Padded batches of sentences of several lengths: Stretto with `lengths` beside its peers.

    python -m bench.ragged --threads 1 --json ragged.json
    python -m bench.ragged --engines stretto,onnxruntime --batches 6 --around "chrt -f 1"

Every engine gets the same padded input and the same mask, in a process of its own. A turn is one
run of one engine on one batch; the engines take turns on each batch in an order that is drawn, and
Stretto has one untimed run of each batch before. What real tokens get is compared with ONNX
Runtime, or PyTorch where it is not among the engines. Reported are medians over the batches, and
the ratio of each engine's time to Stretto's on the same batch.

--around COMMAND runs while a round of turns is timed: a command that keeps other work away and runs
its arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import machine

MODEL = "bert_base"
NAMES = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("last_hidden_state", "pooler_output")
TOLERANCE = 1e-3  # of the largest value, as in bench.compare

Run = Callable[[], list[np.ndarray]]


def export(folder: Path, batch: int, length: int) -> Path:
  import torch

  from bench import models

  path = folder / f"{MODEL}_{batch}x{length}.onnx"
  arguments = tuple(torch.from_numpy(x) for x in make_batch([length] * batch, length, 0).values())
  with torch.no_grad():
    torch.onnx.export(models.define(MODEL), arguments, str(path), dynamo=False, opset_version=17,
                      input_names=list(NAMES), output_names=list(OUTPUTS))
  return path


def make_batch(lengths: list[int], length: int, seed: int) -> dict[str, np.ndarray]:
  rng = np.random.default_rng(seed)
  mask = (np.arange(length)[None, :] < np.array(lengths)[:, None]).astype(np.int64)
  ids = rng.integers(1, 30000, (len(lengths), length)) * mask
  return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}


def by_stretto(lengths: bool) -> Callable[..., Run]:
  def load(path: Path, feeds: dict[str, np.ndarray], threads: int, tuning: str) -> Run:
    from stretto._model import Model

    from stretto import _stretto

    options = _stretto.Options()
    options.threads, options.tuning = threads, tuning
    options.verify = options.profile = False  # results are checked here, and times taken here
    options.lengths = "attention_mask" if lengths else ""
    model = Model(_stretto.optimize(str(path), None, str(path), options, {}, None))
    return lambda: list(model(*feeds.values()))

  return load


def by_driver(name: str) -> Callable[..., Run]:
  """What `stretto bench` runs."""
  def load(path: Path, feeds: dict[str, np.ndarray], threads: int, tuning: str) -> Run:
    from bench import models
    from stretto import peers

    engine = peers.find(name)
    return engine.driver().load(peers.Task(path, feeds, list(OUTPUTS), threads, engine.setting,
                                           definition=lambda: models.define(MODEL)))

  return load


def onnxruntime_default(path: Path, feeds: dict[str, np.ndarray], threads: int,
                        tuning: str) -> Run:
  import onnxruntime

  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = threads
  session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
  return lambda: session.run(None, feeds)


def torch_eager(path: Path, feeds: dict[str, np.ndarray], threads: int, tuning: str) -> Run:
  import torch

  from bench import models

  torch.set_num_threads(threads)
  module = models.define(MODEL)
  arguments = [torch.from_numpy(x) for x in feeds.values()]

  def run() -> list[np.ndarray]:
    with torch.inference_mode():
      return [y.numpy() for y in module(*arguments)]

  return run


ENGINES: dict[str, Callable[..., Run]] = {
  "stretto": by_stretto(True),
  "stretto-padded": by_stretto(False),
  "onnxruntime": by_driver("onnxruntime"),
  "onnxruntime-default": onnxruntime_default,
  "openvino": by_driver("openvino"),
  "openvino-default": by_driver("openvino-default"),
  "torch-eager": torch_eager,
  "torch": by_driver("torch"),
  "torch-default": by_driver("torch-default"),
}


def serve(connection: Any, name: str, path: Path, batch: int, length: int, threads: int,
          tuning: str) -> None:
  """An engine's process. Runs write to the arrays that the engine was loaded with."""
  try:
    feeds = make_batch([length] * batch, length, 0)
    run = ENGINES[name](path, feeds, threads, tuning)
    run()
  except Exception as error:  # whatever an engine raises is its result
    connection.send(f"{type(error).__name__}: {error}")
    return
  connection.send(None)
  while (asked := connection.recv()) is not None:
    given, wants_outputs = asked
    for key, value in given.items():
      np.copyto(feeds[key], value)
    start = time.perf_counter()
    outputs = run()
    seconds = time.perf_counter() - start
    connection.send((seconds, [np.array(y) for y in outputs] if wants_outputs else None))


class Process:
  def __init__(self, name: str, *args: Any) -> None:
    context = multiprocessing.get_context("spawn")
    self.name = name
    self.connection, other = context.Pipe()
    self.process = context.Process(target=serve, args=(other, name, *args), daemon=True)
    self.process.start()
    other.close()
    try:
      self.failure = self.connection.recv()
    except EOFError:
      self.failure = "its process ended"

  def run(self, feeds: dict[str, np.ndarray], outputs: bool = False) -> Any:
    self.connection.send((feeds, outputs))
    return self.connection.recv()

  def close(self) -> None:
    with contextlib.suppress(OSError):
      self.connection.send(None)
    self.process.join(10)


@contextlib.contextmanager
def beside(command: str | None) -> Iterator[None]:
  """While `command` runs, which gets a command of its own that ends with the block."""
  if not command:
    yield
    return
  process = subprocess.Popen([*shlex.split(command), "sh", "-c", "echo ready; cat"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
  assert process.stdin is not None and process.stdout is not None
  if process.stdout.readline() != b"ready\n":
    raise RuntimeError(f"--around: {command} did not run its arguments")
  try:
    yield
  finally:
    process.stdin.close()
    process.wait()


def largest_error(got: list[np.ndarray], expected: list[np.ndarray], mask: np.ndarray) -> float:
  """Of real tokens, and of the pooled output of each sample."""
  real = mask.astype(bool)
  pairs = [(got[0][real], expected[0][real]), (got[1], expected[1])]
  return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def measure(engines: list[Process], batches: list[dict[str, np.ndarray]], args: argparse.Namespace,
            ) -> dict[str, list[float]]:
  order = random.Random(args.seed)
  times: dict[str, list[float]] = {engine.name: [] for engine in engines}
  for number, feeds in enumerate(batches):
    for engine in engines:  # a program for so many tokens may have to be made; others have run
      if engine.name == "stretto":
        engine.run(feeds)
    time.sleep(args.rest)
    with beside(args.around):
      turns = list(engines)
      order.shuffle(turns)
      for engine in turns:
        time.sleep(0.2)  # threads of the engine before this one go to sleep
        times[engine.name].append(min(engine.run(feeds)[0] for _ in range(args.repeats)))
    line = ", ".join(f"{name} {1e3 * t[-1]:.0f}" for name, t in times.items())
    print(f"batch {number + 1}, {int(feeds['attention_mask'].sum())} tokens: {line} ms", flush=True)
  return times


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog="python -m bench.ragged", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--batch", type=int, default=16)
  parser.add_argument("--least", type=int, default=16, help="tokens of the shortest sample")
  parser.add_argument("--most", type=int, default=128, help="of the longest, and the padded length")
  parser.add_argument("--threads", type=int, default=1)
  parser.add_argument("--tuning", default="off", help="Stretto's search: off, quick, full")
  parser.add_argument("--batches", type=int, default=8, help="batches of other lengths")
  parser.add_argument("--repeats", type=int, default=1, help="runs in a turn; the best one counts")
  parser.add_argument("--rest", type=float, default=0, help="seconds before each round of turns")
  parser.add_argument("--engines", default=",".join(ENGINES), help="names with commas")
  parser.add_argument("--around", help="command that runs while a round is timed")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--json", type=Path, help="write everything measured here")
  args = parser.parse_args()
  unknown = [name for name in args.engines.split(",") if name not in ENGINES]
  if unknown:
    parser.error(f"--engines: no {', '.join(unknown)}; there are {', '.join(ENGINES)}")
  return args


def main() -> None:
  args = arguments()
  rng = np.random.default_rng(args.seed)
  lengths = [rng.integers(args.least, args.most + 1, args.batch).tolist()
             for _ in range(args.batches)]
  batches = [make_batch(each, args.most, args.seed + i) for i, each in enumerate(lengths)]
  with tempfile.TemporaryDirectory() as folder:
    path = export(Path(folder), args.batch, args.most)
    engines, failed = [], {}
    for name in args.engines.split(","):
      print(f"loading {name}", flush=True)
      engine = Process(name, path, args.batch, args.most, args.threads, args.tuning)
      if engine.failure:
        failed[name] = engine.failure
        print(f"{name} failed: {engine.failure}", flush=True)
      else:
        engines.append(engine)
    judge = next((e for e in engines if e.name in ("onnxruntime", "torch-eager")), engines[-1])
    feeds = batches[0]
    expected = judge.run(feeds, True)[1]
    errors = {e.name: largest_error(e.run(feeds, True)[1], expected, feeds["attention_mask"])
              for e in engines}
    for engine in [e for e in engines if errors[e.name] > TOLERANCE]:
      failed[engine.name] = f"wrong: {errors[engine.name]:.1e} of the largest value"
      engines.remove(engine)
    times = measure(engines, batches, args)
    for engine in engines:
      engine.close()
  own = times.get("stretto")
  rows = []
  for name, seconds in times.items():
    ratios = [t / s for t, s in zip(seconds, own)] if own else []
    rows.append({"engine": name, "ms": [1e3 * t for t in seconds], "error": errors[name],
                 "median_ms": 1e3 * statistics.median(seconds),
                 "ratio": statistics.median(ratios) if own else None})
  places = args.batch * args.most
  tokens = [sum(each) for each in lengths]
  print(f"\n{MODEL}, batch {args.batch}, lengths {args.least} to {args.most}, {args.threads} "
        f"thread(s), {places * args.batches / sum(tokens):.2f} places per token")
  for row in sorted(rows, key=lambda row: row["median_ms"]):
    ratio = f"{row['ratio']:6.2f}" if row["ratio"] else ""
    print(f"{row['engine']:20} {row['median_ms']:9.1f} ms {ratio}  error {row['error']:.0e}")
  for name, why in failed.items():
    print(f"{name:20} {why}")
  if args.json:
    args.json.write_text(json.dumps(
      {"machine": machine.describe(), "model": MODEL, "batch": args.batch, "length": args.most,
       "least": args.least, "threads": args.threads, "tuning": args.tuning, "tokens": tokens,
       "rows": rows, "failed": failed}, indent=1) + "\n")


if __name__ == "__main__":
  main()
