"""From a row to a module with random weights, and to tensors for it."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import torch
from torch import library, nn

from bench.architectures.row import Architecture, Input

LOADED: list[library.Library] = []  # they end when they are deleted
LIBRARIES = ("torchvision", "timm", "transformers", "diffusers")


class Call(nn.Module):
  """A module that takes tensors by position and returns a tuple of tensors."""

  def __init__(self, inner: nn.Module, row: Architecture):
    super().__init__()
    self.inner = inner
    self.names, self.fields = row.keywords, row.outputs
    self.call = CALLS.get(row.make) or CALLS.get(row.name)

  def forward(self, *inputs):
    if self.call is not None:
      return self.call(self.inner, *inputs)
    y = self.inner(**dict(zip(self.names, inputs))) if self.names else self.inner(*inputs)
    if self.fields:
      y = tuple(getattr(y, field) for field in self.fields)
    return y[0] if isinstance(y, tuple) and len(y) == 1 else y


def _heads(model: nn.Module, x):
  """A detector up to the numbers that its boxes are made of."""
  features = list(model.backbone(x).values())
  return tuple(model.head(features).values())


def _proposals(model: nn.Module, x):
  scores, boxes = model.rpn.head(list(model.backbone(x).values()))
  return (*scores, *boxes)


def _whole(model: nn.Module, x):
  found = model(list(x.unbind(0)))
  return tuple(value for picture in found for value in picture.values())


# Modules that are not simply called, by what makes them or by name.
CALLS = {
  "heads": _heads,
  "proposals": _proposals,
  "whole": _whole,
  "encodec_encoder": lambda model, x: model.encoder(x),
  "autoencoder_kl": lambda model, x: model.decode(x).sample,
  "raft_small": lambda model, *x: model(*x, num_flow_updates=2)[-1],
  "fcn_resnet50": lambda model, x: model(x)["out"],
  "deeplabv3_mobilenet_v3_large": lambda model, x: model(x)["out"],
  "lraspp_mobilenet_v3_large": lambda model, x: model(x)["out"],
}


def missing(row: Architecture) -> str | None:
  """Which library a row lacks, if it does."""
  if row.source not in LIBRARIES:
    return None
  try:
    load_torchvision()
    importlib.import_module(row.source)
  except ImportError as error:
    return f"{row.source} is not installed ({error})"
  return None


def load_torchvision() -> None:
  """Also where its library of operators does not load, as that of its CUDA build beside a PyTorch
  without CUDA: networks need none of them; what calls one raises an error then."""
  for _ in range(4):
    try:
      importlib.import_module("torchvision")
      return
    except ImportError:
      return  # another row may not need it
    except RuntimeError as error:
      found = re.search(r"operator torchvision::(\w*nms) does not exist", str(error))
      if found is None:
        raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
      del sys.modules[name]
    fragment = library.Library("torchvision", "FRAGMENT")
    fragment.define(f"{found[1]}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    LOADED.append(fragment)


def module(row: Architecture, seed: int = 0) -> nn.Module:
  """In evaluation mode; the same weights for the same seed."""
  torch.manual_seed(seed)
  inner = _inner(row).eval().float()
  shake(inner)
  return Call(inner, row).eval()


def _inner(row: Architecture) -> nn.Module:
  if row.source == "torchvision":
    options = {"weights": None, **row.options}
    name = options.pop("name", row.name)
    if row.family in ("segmentation", "detector"):
      options["weights_backbone"] = None
    if name in ("inception_v3", "googlenet"):
      options |= {"aux_logits": False, "init_weights": False}
    return importlib.import_module("torchvision.models").get_model(name, **options)
  if row.source == "timm":
    import timm

    return timm.create_model(row.name, **row.options)
  if row.source == "transformers":
    import transformers

    kind = getattr(transformers, row.make)
    options = dict(row.options)
    experts = options.pop("experts", None)
    config = kind.config_class(**options)
    config.use_cache = False
    if experts is not None:
      config._experts_implementation = experts
    return kind(config)
  if row.source == "diffusers":
    import diffusers

    return getattr(diffusers, row.make)(**row.options)
  return getattr(importlib.import_module(f"bench.architectures.{row.source}"), row.make)()


def shake(inner: nn.Module) -> None:
  """Moves weights away from values that hide mistakes, such as scales of zero in fresh networks,
  and statistics of BatchNorm that change nothing."""
  with torch.no_grad():
    for parameter in inner.parameters():
      if parameter.numel() == 0 or not parameter.is_floating_point():
        continue
      largest = float(parameter.abs().max())
      if parameter.ndim >= 2 and largest == 0:
        parameter.normal_(std=0.02)
      elif largest < 1e-3:  # biases of zero, and scales of layers that start switched off
        parameter.uniform_(0.05, 0.2)
      elif parameter.ndim == 1 and bool((parameter == 1).all()):
        parameter.uniform_(0.8, 1.2)
    for part in inner.modules():
      if getattr(part, "running_var", None) is not None:
        part.running_mean.normal_(std=0.1)
        part.running_var.uniform_(0.8, 1.2)


def tensor(spec: Input, batch: int, generator: torch.Generator) -> torch.Tensor:
  shape = list(spec.shape)
  shape.insert(spec.batch_axis, batch)
  if spec.kind == "ids":
    return torch.randint(3, spec.below, shape, generator=generator)
  if spec.kind == "ones":
    return torch.ones(shape, dtype=torch.int64)
  if spec.kind == "unit":
    return torch.rand(shape, generator=generator)
  return torch.randn(shape, generator=generator)


def tensors(row: Architecture, batch: int, seed: int = 0) -> tuple[Any, ...]:
  generator = torch.Generator().manual_seed(seed + 1)
  return tuple(tensor(spec, batch, generator) for spec in row.inputs)
