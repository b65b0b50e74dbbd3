"""Decoding token by token: milliseconds per token, and the share of what memory allows.

A step at batch 1 reads every weight once, so bytes of weights / rate of memory is a bound. The rate
is the fastest read that was seen: by NumPy here, in turns with the engines, or by `stretto doctor`.

    python -m bench.decode gpt2.onnx --prompt 128 --tokens 32 --threads 2 --peers onnxruntime
    python -m bench.decode gpt2.onnx --peers onnxruntime,torch --module gpt2.pt

The model is a decoder with its past as inputs (past_key_values.0.key) and outputs
(present.0.key), as Optimum and torch.onnx.export write it; --module is the Hugging Face module
that it was made from, as torch.save writes it. Engines take turns in bursts, and the medians of all
steps are printed, with the fifth percentile beside them.
"""

from __future__ import annotations

import argparse
import threading
import time

import numpy as np
import onnx

import stretto
from stretto import _stretto


def read_rate(threads: int, megabytes: int = 256, runs: int = 3) -> float:
  """Bytes per second that `threads` threads of NumPy read from memory now, at best."""
  part = np.ones(megabytes * 2**20 // 8 // threads, np.uint64)
  parts = [part.copy() for _ in range(threads)]
  best = 0.0
  for _ in range(runs):
    workers = [threading.Thread(target=np.bitwise_or.reduce, args=(p,)) for p in parts]
    start = time.perf_counter()
    for worker in workers:
      worker.start()
    for worker in workers:
      worker.join()
    best = max(best, sum(p.nbytes for p in parts) / (time.perf_counter() - start))
  return best


def step_bytes(path: str) -> int:
  """Bytes of the float weights that a step reads whole: tables of embeddings are read by rows."""
  graph = onnx.load(path).graph
  read = {name for node in graph.node for i, name in enumerate(node.input)
          if not (node.op_type == "Gather" and i == 0)}
  return sum(int(np.prod(t.dims)) * 4 for t in graph.initializer
             if t.name in read and t.data_type == onnx.TensorProto.FLOAT)


class Stretto:
  name = "stretto"

  def __init__(self, path: str, threads: int, places: int, module: str) -> None:
    self.model = stretto.optimize(path, threads=threads, tuning="off", verify=False,
                                  progress=False)
    self.places = places

  def prompt(self, ids: np.ndarray) -> np.ndarray:
    self.context = self.model.context(max_length=self.places)
    return self.model(ids, context=self.context)

  def step(self, token: np.ndarray) -> np.ndarray:
    return self.model(token, context=self.context)


class OnnxRuntime:
  """With its outputs bound, so that the past of a step is the memory that the last one wrote."""

  name = "onnxruntime"

  def __init__(self, path: str, threads: int, places: int, module: str) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    self.runtime = onnxruntime
    self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    self.past = [i for i in self.session.get_inputs() if i.name.startswith("past")]
    self.outputs = [o.name for o in self.session.get_outputs()]

  def prompt(self, ids: np.ndarray) -> np.ndarray:
    self.length = 0
    self.values = [self.runtime.OrtValue.ortvalue_from_numpy(
      np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32)) for i in self.past]
    return self._run(ids)

  def step(self, token: np.ndarray) -> np.ndarray:
    return self._run(token)

  def _run(self, ids: np.ndarray) -> np.ndarray:
    count = ids.shape[1]
    binding = self.session.io_binding()
    binding.bind_cpu_input("input_ids", ids)
    binding.bind_cpu_input("attention_mask", np.ones((1, self.length + count), np.int64))
    binding.bind_cpu_input("position_ids", np.arange(self.length, self.length + count)[None])
    for spec, value in zip(self.past, self.values):
      binding.bind_ortvalue_input(spec.name, value)
    for name in self.outputs:
      binding.bind_output(name)
    self.session.run_with_iobinding(binding)
    logits, *self.values = binding.get_outputs()
    self.length += count
    return logits.numpy()


class Torch:
  """The module as PyTorch runs it, with the cache that the module makes."""

  name = "torch"

  def __init__(self, path: str, threads: int, places: int, module: str) -> None:
    import torch

    torch.set_num_threads(threads)
    self.torch = torch
    self.module = torch.load(module, weights_only=False).eval()

  def prompt(self, ids: np.ndarray) -> np.ndarray:
    self.past = None
    return self.step(ids)

  def step(self, token: np.ndarray) -> np.ndarray:
    with self.torch.inference_mode():
      result = self.module(self.torch.from_numpy(token), past_key_values=self.past, use_cache=True)
    self.past = result.past_key_values
    return result.logits.numpy()


ENGINES = [Stretto, OnnxRuntime, Torch]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("model")
  parser.add_argument("--prompt", type=int, default=128)
  parser.add_argument("--tokens", type=int, default=32)
  parser.add_argument("--threads", type=int, default=2)
  parser.add_argument("--bursts", type=int, default=3)
  parser.add_argument("--module", default="", help="for the peer torch")
  parser.add_argument("--peers", default="onnxruntime", help="names with commas, or none")
  options = parser.parse_args()
  peers = ["stretto", *options.peers.split(",")]
  places = options.prompt + options.tokens + 1
  engines = [make(options.model, options.threads, places, options.module) for make in ENGINES
             if make.name in peers]
  ids = np.random.default_rng(0).integers(0, 400, (1, options.prompt))
  tokens = {}
  for engine in engines:  # warm up, and check that they agree
    made = [int(engine.prompt(ids)[0, -1].argmax())]
    for _ in range(8):
      made.append(int(engine.step(np.array([[made[-1]]]))[0, -1].argmax()))
    tokens[engine.name] = made
  if len({tuple(made) for made in tokens.values()}) > 1:
    raise SystemExit(f"the engines' tokens differ: {tokens}")

  reads = []
  seconds = {engine.name: [] for engine in engines}
  prompts = {engine.name: [] for engine in engines}
  for _ in range(options.bursts):
    for engine in engines:
      reads.append(read_rate(options.threads))
      start = time.perf_counter()
      token = np.array([[int(engine.prompt(ids)[0, -1].argmax())]])
      prompts[engine.name].append(time.perf_counter() - start)
      for _ in range(options.tokens):
        start = time.perf_counter()
        token = np.array([[int(engine.step(token)[0, -1].argmax())]])
        seconds[engine.name].append(time.perf_counter() - start)
  rate = max(_stretto.memory_rate()[options.threads > 1], *reads, 0)
  bound = step_bytes(options.model) / rate
  print(f"{step_bytes(options.model) / 1e6:.0f} MB per step; with {options.threads} threads memory "
        f"reads {rate / 1e9:.1f} GB/s at best, so {bound * 1e3:.2f} ms per token; in turns with "
        f"the engines NumPy read {np.median(reads) / 1e9:.1f} GB/s")
  for name, values in seconds.items():
    median, fast = np.median(values), np.percentile(values, 5)
    print(f"{name:12} {median * 1e3:7.2f} ms/token (fast {fast * 1e3:.2f}), "
          f"{bound / median:4.0%} of the bound (fast {bound / fast:.0%}); "
          f"prompt of {options.prompt} {np.median(prompts[name]) * 1e3:.1f} ms")


if __name__ == "__main__":
  main()
