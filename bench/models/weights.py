"""Seeded weights that behave like trained ones: signal neither dies nor explodes with depth.

Values come from numpy's PCG64, one stream per parameter name, so that they depend neither on
torch's version nor on the order in which layers are made.
"""

from __future__ import annotations

import hashlib
import math
import zlib

import numpy as np
import torch
from torch import nn

# The last BatchNorm of a residual branch gets a small gain, as training leaves it: with 16 blocks
# and gain g the variance of the trunk grows by (1 + g^2)^16, here 4x.
BRANCH_GAIN = 0.3
# Significand bits kept of calibrated statistics. They are computed in float64; dropping 40 of 52
# bits hides the rounding differences between machines, so that the checksum is the same everywhere.
STATISTIC_BITS = 12


def stream(model: str, parameter: str, seed: int) -> np.random.Generator:
  return np.random.Generator(np.random.PCG64([seed, zlib.crc32(f"{model}/{parameter}".encode())]))


def normal(rng: np.random.Generator, like: torch.Tensor, std: float, mean: float = 0.0):
  values = rng.standard_normal(tuple(like.shape), dtype=np.float32)
  return torch.from_numpy(values * np.float32(std) + np.float32(mean))


@torch.no_grad()
def fill(module: nn.Module, name: str, seed: int) -> None:
  """Sets every parameter of `module`. A layer may ask for a gain by an attribute `init_gain`."""
  for path, layer in module.named_modules():
    gain = getattr(layer, "init_gain", None)
    for key, parameter in layer.named_parameters(recurse=False):
      rng = stream(name, f"{path}.{key}", seed)
      parameter.copy_(initial(layer, key, parameter, gain, rng))


def initial(layer: nn.Module, key: str, parameter: torch.Tensor, gain: float | None,
            rng: np.random.Generator) -> torch.Tensor:
  if isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm)):
    if key == "bias":
      return normal(rng, parameter, 0.1)
    return normal(rng, parameter, 0.1, 1.0).abs() * (1.0 if gain is None else gain)
  if key.startswith("bias"):
    return normal(rng, parameter, 0.05)
  if isinstance(layer, nn.LSTM):
    return normal(rng, parameter, 1.0 / math.sqrt(parameter.shape[1]))
  if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
    gain = (math.sqrt(2.0) if isinstance(layer, nn.Conv2d) else 1.0) if gain is None else gain
    return normal(rng, parameter, gain / math.sqrt(fan_in(layer)))
  return normal(rng, parameter, 0.02 if gain is None else gain)  # embeddings, tokens, positions


def fan_in(layer: nn.Module) -> float:
  """Products summed into one output value."""
  if isinstance(layer, nn.Linear):
    return layer.in_features
  taps = math.prod(layer.kernel_size) * layer.in_channels / layer.groups
  if isinstance(layer, nn.ConvTranspose2d):
    return taps / math.prod(layer.stride)
  return taps


@torch.no_grad()
def calibrate(module: nn.Module, images: torch.Tensor, name: str, seed: int) -> None:
  """Gives every BatchNorm the statistics of `images` (float64), off by up to a fifth, as a trained
  network's running statistics are off for any one image. One pass: each layer sees what the layers
  before it, already calibrated, produce."""
  module.double()
  hooks = []
  for path, layer in module.named_modules():
    if isinstance(layer, nn.BatchNorm2d):
      rng = stream(name, f"{path}.statistics", seed)
      hooks.append(layer.register_forward_pre_hook(
          lambda layer, args, rng=rng: set_statistics(layer, args[0], rng)))
  module(images)
  for hook in hooks:
    hook.remove()
  module.float()


def set_statistics(layer: nn.BatchNorm2d, x: torch.Tensor, rng: np.random.Generator) -> None:
  var = x.var(dim=(0, 2, 3), unbiased=False)
  mean = x.mean(dim=(0, 2, 3))
  # A channel that is constant over these few images would be amplified without bound.
  var = var.clamp_min(0.1 * var.mean().item() + 1e-6)
  mean = mean + 0.2 * var.sqrt() * torch.from_numpy(rng.uniform(-1, 1, len(mean)))
  var = var * torch.from_numpy(rng.uniform(0.8, 1.25, len(var)))
  layer.running_mean.copy_(rounded(mean))
  layer.running_var.copy_(rounded(var))


def rounded(x: torch.Tensor) -> torch.Tensor:
  fraction, exponent = torch.frexp(x)
  return torch.ldexp(torch.round(fraction * 2**STATISTIC_BITS) / 2**STATISTIC_BITS, exponent)


def checksum(module: nn.Module) -> str:
  """First 8 hex digits of the SHA-256 over names and float32 values, in name order."""
  digest = hashlib.sha256()
  for name, value in sorted(module.state_dict().items()):
    if value.is_floating_point():
      digest.update(name.encode())
      digest.update(value.detach().numpy().tobytes())
  return digest.hexdigest()[:8]


def parameter_count(module: nn.Module) -> int:
  return sum(p.numel() for p in module.parameters())
