"""The models the benchmarks run: real architectures and shapes, seeded random weights, no
downloads.

`MODELS`, `HELD_OUT` and `RECURRENT` are the lists. A row says what goes in, what comes out and
where the definition lives; the definitions import torch, this file does not, so that listing works
without it.
"""

from __future__ import annotations

import importlib

from bench.models.held_out import HELD_OUT, LIBRARIES, from_library
from bench.models.model import Model, image, sequence, tokens

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

# Beside those of the tables of results: what they measure are convolutions and matrix products.
RECURRENT = [
    Model("lstm_2x512", "recurrent", sequence(64, 256), ("logits",), 4_191_208, 0.24, "none",
          "ea6cf114"),
]


def find(name: str) -> Model:
  """The row called `name`; ValueError with the list of names when there is none."""
  for model in (*MODELS, *HELD_OUT, *RECURRENT):
    if model.name == name:
      return model
  known = ", ".join(m.name for m in (*MODELS, *HELD_OUT, *RECURRENT))
  raise ValueError(f"models: no model {name!r}, there are: {known}")


def select(words: list[str]) -> list[Model]:
  """The rows of names, of "all" (MODELS), of "held-out" (HELD_OUT) and of "recurrent"."""
  groups = {"all": MODELS, "held-out": HELD_OUT, "recurrent": RECURRENT}
  return [row for word in words for row in groups.get(word) or [find(word)]]


def definition(model: Model):
  """The torch module as its definition makes it."""
  if model.module in LIBRARIES:
    return from_library(model)
  return getattr(importlib.import_module(f"bench.models.{model.module}"), model.name)()


def build(model: Model, seed: int = 0):
  """The torch module in eval mode, float32, weights a function of (name, seed) alone."""
  from bench.models import inputs, weights

  module = definition(model).eval()
  weights.fill(module, model.name, seed)
  if model.batch_norm != "none":
    weights.calibrate(module, inputs.calibration_images(seed, size=model.calibration),
                      model.name, seed)
  return module


def define(name: str, seed: int = 0):
  """build() by name, for drivers of engines that take the definition itself."""
  return build(find(name), seed)
