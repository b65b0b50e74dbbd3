"""Networks that take noise away."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


def time_waves(time, width: int):
  """Sines and cosines of a number per picture."""
  steps = torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2))
  angles = 1000 * time[:, None] * steps
  return torch.cat([angles.cos(), angles.sin()], -1)


class Residual(nn.Module):
  def __init__(self, inputs: int, outputs: int):
    super().__init__()
    self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
    self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
    self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
    self.time = nn.Linear(128, 2 * outputs)
    self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

  def forward(self, x, time):
    y = self.first(F.silu(self.norm1(x)))
    scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
    y = self.norm2(y) * (1 + scale) + shift
    return self.skip(x) + self.second(F.silu(y))


class CrossAttention(nn.Module):
  def __init__(self, width: int, context: int):
    super().__init__()
    self.norm = nn.GroupNorm(8, width)
    self.own_norm, self.cross_norm = nn.LayerNorm(width), nn.LayerNorm(width)
    self.own = nn.MultiheadAttention(width, 4, batch_first=True)
    self.cross = nn.MultiheadAttention(width, 4, kdim=context, vdim=context, batch_first=True)
    self.wide, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

  def forward(self, x, context):
    batch, width, height, length = x.shape
    y = self.norm(x).flatten(2).transpose(1, 2)
    own = self.own_norm(y)
    y = y + self.own(own, own, own, need_weights=False)[0]
    y = y + self.cross(self.cross_norm(y), context, context, need_weights=False)[0]
    value, gate = self.wide(y).chunk(2, -1)
    y = y + self.narrow(value * F.gelu(gate))
    return x + y.transpose(1, 2).reshape(batch, width, height, length)


class DiffusionUNet(nn.Module):
  """Rombach et al. 2022, small: two levels, attention to a text at each."""

  def __init__(self, width: int = 64, context: int = 64):
    super().__init__()
    self.time = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128))
    self.enter = nn.Conv2d(4, width, 3, padding=1)
    self.down1, self.see1 = Residual(width, width), CrossAttention(width, context)
    self.shrink = nn.Conv2d(width, width, 3, 2, 1)
    self.down2, self.see2 = Residual(width, 2 * width), CrossAttention(2 * width, context)
    self.middle = Residual(2 * width, 2 * width)
    self.grow = nn.Conv2d(2 * width, 2 * width, 3, padding=1)
    self.up, self.see3 = Residual(3 * width, width), CrossAttention(width, context)
    self.last = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))

  def forward(self, x, time, context):
    time = self.time(time_waves(time, 64))
    x = self.see1(self.down1(self.enter(x), time), context)
    y = self.see2(self.down2(self.shrink(x), time), context)
    y = self.grow(F.interpolate(self.middle(y, time), scale_factor=2.0))
    return self.last(self.see3(self.up(torch.cat([y, x], 1), time), context))


class AdaptiveBlock(nn.Module):
  def __init__(self, width: int):
    super().__init__()
    self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
    self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
    self.packed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"),
                             nn.Linear(4 * width, width))
    self.adapt = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

  def forward(self, x, condition):
    shift1, scale1, gate1, shift2, scale2, gate2 = self.adapt(condition)[:, None].chunk(6, -1)
    y = self.norm1(x) * (1 + scale1) + shift1
    heads = self.packed(y).unflatten(-1, (3, 3, 64)).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
    x = x + gate1 * self.out(y)
    return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class DiffusionTransformer(nn.Module):
  """Peebles and Xie 2023, small."""

  def __init__(self, width: int = 192):
    super().__init__()
    self.enter = nn.Conv2d(4, width, 2, 2)
    self.places = nn.Parameter(torch.randn(1, 64, width) * 0.02)
    self.time = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, width))
    self.blocks = nn.ModuleList(AdaptiveBlock(width) for _ in range(3))
    self.last = nn.Linear(width, 16)

  def forward(self, x, time):
    batch = x.shape[0]
    y = self.enter(x).flatten(2).transpose(1, 2) + self.places
    condition = self.time(time_waves(time, 64))
    for block in self.blocks:
      y = block(y, condition)
    y = self.last(y).view(batch, 8, 8, 2, 2, 4)
    return torch.einsum("nhwpqc->nchpwq", y).reshape(batch, 4, 16, 16)
