"""The models the benchmarks run: real architectures and shapes, seeded random weights, no
downloads.

`MODELS` is the one list. A row says what goes in, what comes out and where the definition lives;
the definitions import torch, this file does not, so that listing works without it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Input:
  name: str
  shape: tuple[int, ...]
  dtype: str  # numpy name
  kind: str  # how bench.models.inputs makes it up: image, token_ids, attention_mask, token_types


@dataclass(frozen=True)
class Model:
  name: str
  module: str  # file in this folder that defines the function called `name`
  inputs: tuple[Input, ...]
  outputs: tuple[str, ...]
  parameters: int  # count; the test checks it against the published one where there is one
  gmac: float  # multiply-accumulates of one run, in 1e9, convolutions and matrix products only
  batch_norm: str  # "kept" as nodes in the ONNX graph, "folded" by the exporter, "none"
  checksum: str  # of the seeded weights; see weights.checksum


def image(size: int) -> tuple[Input, ...]:
  return (Input("image", (1, 3, size, size), "float32", "image"),)


def tokens(length: int) -> tuple[Input, ...]:
  return (
      Input("input_ids", (1, length), "int64", "token_ids"),
      Input("attention_mask", (1, length), "int64", "attention_mask"),
      Input("token_type_ids", (1, length), "int64", "token_types"),
  )


MODELS = [
    Model("resnet50", "resnet", image(224), ("logits",), 25_557_032, 4.09, "kept", "cd097ed6"),
    Model("resnext50_32x4d", "resnet", image(224), ("logits",), 25_028_904, 4.23, "kept",
          "7f44490b"),
    Model("resnest50", "resnest", image(224), ("logits",), 27_483_240, 5.37, "folded", "b25b0d96"),
    Model("centernet_resnet18", "centernet", image(512), ("hm", "wh", "reg"), 15_820_372, 22.72,
          "folded", "13c55ad4"),
    Model("unet", "unet", image(256), ("mask",), 7_763_074, 12.07, "kept", "b80e5f08"),
    Model("mobilenet_v2", "mobilenet", image(224), ("logits",), 3_504_872, 0.30, "kept",
          "6e1ab54b"),
    Model("efficientnet_b0", "efficientnet", image(224), ("logits",), 5_288_548, 0.39, "folded",
          "8b152b02"),
    Model("vit_b_16", "vit", image(224), ("logits",), 86_567_656, 17.56, "none", "4fc6d7e1"),
    Model("bert_base", "bert", tokens(128), ("last_hidden_state", "pooler_output"), 109_482_240,
          11.17, "none", "8a5d9f3b"),
]


def find(name: str) -> Model:
  """The row called `name`; ValueError with the list of names when there is none."""
  for model in MODELS:
    if model.name == name:
      return model
  raise ValueError(f"models: no model {name!r}, there are: {', '.join(m.name for m in MODELS)}")


def build(model: Model, seed: int = 0):
  """The torch module in eval mode, float32, weights a function of (name, seed) alone."""
  from bench.models import inputs, weights

  definition = getattr(importlib.import_module(f"bench.models.{model.module}"), model.name)
  module = definition().eval()
  weights.fill(module, model.name, seed)
  if model.batch_norm != "none":
    weights.calibrate(module, inputs.calibration_images(seed), model.name, seed)
  return module


def define(name: str, seed: int = 0):
  """build() by name, for drivers of engines that take the definition itself."""
  return build(find(name), seed)
