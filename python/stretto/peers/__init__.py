"""Other inference engines, each at its best public setting for one fp32 inference at a time.

One module per engine; PEERS is the list. A module has
  PACKAGES                        what must be installed, as pip names it
  load(model, inputs, threads)    a Runner ready to run; raises what it likes
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np


class Runner(Protocol):
  """A model loaded by one engine, with its inputs in place."""

  setting: str  # in words

  def run(self) -> None:
    """One inference, results ready when it returns."""

  def outputs(self) -> list[np.ndarray]:
    """Of the last run, in the model's order."""


@dataclass(frozen=True)
class Peer:
  name: str
  module: str

  def import_module(self) -> ModuleType:
    return importlib.import_module(self.module)

  def version(self) -> str | None:
    """Of the engine's own package; None unless everything it needs is installed."""
    try:
      return [importlib.metadata.version(p) for p in self.import_module().PACKAGES][0]
    except importlib.metadata.PackageNotFoundError:
      return None

  def load(self, model: Path, inputs: Mapping[str, np.ndarray], threads: int) -> Runner:
    return self.import_module().load(Path(model), dict(inputs), threads)


PEERS = (
  Peer("onnxruntime", "stretto.peers.onnxruntime"),
  Peer("openvino", "stretto.peers.openvino"),
  Peer("torch", "stretto.peers.torch"),
  Peer("ncnn", "stretto.peers.ncnn"),
  Peer("mnn", "stretto.peers.mnn"),
)


def find(name: str) -> Peer:
  for peer in PEERS:
    if peer.name == name:
      return peer
  raise ValueError(f"{name}: no such engine; there are {', '.join(p.name for p in PEERS)}")
