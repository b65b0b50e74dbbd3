"""The engines a benchmark runs: Stretto and its peers, each as its own documentation says to.

`ENGINES` is the one list. Every file in this folder drives one engine and offers the same four
functions:

  version() -> str            raises ImportError when the engine is not installed
  available(task) -> str | None   why this engine cannot take this task, or None
  cap(isa) -> Cap             how the engine is asked to stay below an instruction set
  load(task) -> callable      ready to run; a call computes once and returns one numpy array per
                              output, in model order, valid until the next call. It may carry an
                              attribute `uncapped`, which replaces cap().caveat where only the
                              loaded model shows what the cap reached

load() includes conversion and compilation: what a user waits for who has an ONNX file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

Run = Callable[[], list[np.ndarray]]


@dataclass(frozen=True)
class Task:
  onnx: Path
  inputs: dict[str, np.ndarray]  # in model order
  outputs: list[str]
  threads: int
  setting: str = "best"  # "best": fastest public fp32 setting; "default": what a newcomer gets
  tune: str = "quick"  # Stretto only
  model: str | None = None  # row of bench.models this file was exported from, if any
  seed: int = 0


@dataclass(frozen=True)
class Cap:
  environment: dict[str, str] = field(default_factory=dict)
  caveat: str | None = None  # what stays above the cap, None: nothing


@dataclass(frozen=True)
class Engine:
  name: str  # on the command line and in the table
  module: str
  setting: str
  about: str

  def driver(self):
    return importlib.import_module(f"bench.peers.{self.module}")


ENGINES = [
    Engine("stretto", "stretto", "best", "stretto.optimize, lossless"),
    Engine("onnxruntime", "onnxruntime", "best", "all optimisations, CPU, spinning threads"),
    Engine("openvino", "openvino", "best", "CPU, LATENCY, f32, 1 stream"),
    Engine("openvino-default", "openvino", "default", "CPU, thread count only; may use bf16"),
    Engine("torch", "torch", "best", "torch.compile, inductor, frozen weights"),
    Engine("torch-default", "torch", "default", "torch.compile as it comes"),
    Engine("ncnn", "ncnn", "best", "pnnx fp16=0, fp32 storage, Winograd and SGEMM on"),
    Engine("ncnn-default", "ncnn", "default", "pnnx and options as they come; fp16 weights"),
    Engine("mnn", "mnn", "best", "converted, CPU, precision high"),
    Engine("mnn-default", "mnn", "default", "converted, CPU, precision normal"),
]


def find(name: str) -> Engine:
  """The row called `name`; ValueError with the list of names when there is none."""
  for engine in ENGINES:
    if engine.name == name:
      return engine
  raise ValueError(f"peers: no engine {name!r}, there are: {', '.join(e.name for e in ENGINES)}")


def select(words: str) -> list[Engine]:
  """"all", "best" (each peer at its best setting), "none", or names separated by commas; never
  Stretto itself."""
  peers = [e for e in ENGINES if e.name != "stretto"]
  if words == "all":
    return peers
  if words == "best":
    return [e for e in peers if e.setting == "best"]
  if words == "none":
    return []
  return [e for e in map(find, words.split(",")) if e.name != "stretto"]
