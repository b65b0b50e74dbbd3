"""Inference engines to compare, each at its best public fp32 setting: Stretto and its peers.

`stretto bench`, the report and bench/ all run engines through this package, so they drive them in
the same way. `ENGINES` is the one list. The module `_NAME` in this folder drives the engine NAME
and offers

  PACKAGES                        what must be installed, as pip names it; the engine itself first
  refuses(task) -> str | None     why this engine cannot take this task, or None
  cap(isa) -> Cap                 how the engine is asked to stay below an instruction set
  load(task) -> callable          ready to run; a call computes once and returns one numpy array per
                                  output, in model order, valid until the next call. It may carry an
                                  attribute `uncapped`, which replaces cap().caveat where only the
                                  loaded model shows what the cap reached

load() includes conversion and compilation: what a user waits for who has an ONNX file. It raises
what it likes. Drivers import their engine only there, so that importing a driver costs nothing.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from stretto._errors import InvalidArgumentError
from stretto._stretto import version as __version__

Run = Callable[[], list[np.ndarray]]


@dataclass(frozen=True)
class Task:
  model: Path  # an ONNX file; Stretto also takes its own artefact
  inputs: dict[str, np.ndarray]  # in model order
  outputs: list[str]
  threads: int
  setting: str = "best"  # "best": fastest public fp32 setting; "default": what a newcomer gets
  tuning: str = "quick"  # Stretto only
  save: Path | None = None  # Stretto only: where to write the artefact
  # PyTorch only: makes the module that the ONNX file came from, where there is one.
  definition: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Cap:
  environment: dict[str, str] = field(default_factory=dict)
  caveat: str | None = None  # what stays above the cap, None: nothing


@dataclass(frozen=True)
class Engine:
  name: str  # on the command line and in tables
  module: str  # of this package, without its underscore
  setting: str
  about: str  # the setting in words

  def driver(self) -> ModuleType:
    return importlib.import_module(f"stretto.peers._{self.module}")

  def version(self) -> str | None:
    """None unless everything the engine needs is installed."""
    if self.name == "stretto":
      return __version__
    try:
      return [importlib.metadata.version(p) for p in self.driver().PACKAGES][0]
    except importlib.metadata.PackageNotFoundError:
      return None


ENGINES = (
  Engine("stretto", "stretto", "best", "lossless"),
  Engine("onnxruntime", "onnxruntime", "best", "CPU, all optimisations, I/O binding"),
  Engine("openvino", "openvino", "best", "CPU, LATENCY, f32, 1 stream"),
  Engine("openvino-default", "openvino", "default", "CPU, thread count only; may use bf16"),
  Engine("torch", "torch", "best", "torch.compile, inductor, frozen weights"),
  Engine("torch-default", "torch", "default", "torch.compile as it comes"),
  Engine("ncnn", "ncnn", "best", "pnnx fp16=0, fp32 storage, Winograd and SGEMM on"),
  Engine("ncnn-default", "ncnn", "default", "pnnx and options as they come; fp16 weights"),
  Engine("mnn", "mnn", "best", "converted, CPU, precision high"),
  Engine("mnn-default", "mnn", "default", "converted, CPU, precision normal"),
)


def find(name: str) -> Engine:
  """The row called `name`; InvalidArgumentError with the list of names when there is none."""
  for engine in ENGINES:
    if engine.name == name:
      return engine
  known = ", ".join(e.name for e in ENGINES if e.name != "stretto")
  raise InvalidArgumentError(f"{name}: no such peer; there are {known}")


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


def installed() -> list[Engine]:
  """The peers that are installed, each at its best setting."""
  return [engine for engine in select("best") if engine.version()]


def names(peers: str | Iterable[str]) -> list[str]:
  """Names of what select() takes, of "installed" peers, or of a list of names, each once."""
  if isinstance(peers, str):
    chosen = installed() if peers == "installed" else select(peers)
  else:
    chosen = [e for e in map(find, peers) if e.name != "stretto"]
  return list(dict.fromkeys(engine.name for engine in chosen))
