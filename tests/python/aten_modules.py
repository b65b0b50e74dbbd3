"""Small modules in the styles that people write: for the tests of PyTorch modules."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class ResidualBlock(nn.Module):
  def __init__(self, channels=8, stride=2):
    super().__init__()
    self.conv1 = nn.Conv2d(channels, 16, 3, stride, 1, bias=False)
    self.bn1 = nn.BatchNorm2d(16)
    self.conv2 = nn.Conv2d(16, 16, 3, 1, 1, bias=False)
    self.bn2 = nn.BatchNorm2d(16)
    self.relu = nn.ReLU(inplace=True)
    self.down = nn.Sequential(nn.Conv2d(channels, 16, 1, stride, bias=False), nn.BatchNorm2d(16))

  def forward(self, x):
    y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
    y += self.down(x)
    return self.relu(y)


class SqueezeExcite(nn.Module):
  def __init__(self, channels):
    super().__init__()
    self.reduce = nn.Conv2d(channels, channels // 4, 1)
    self.expand = nn.Conv2d(channels // 4, channels, 1)

  def forward(self, x):
    scale = F.silu(self.reduce(x.mean((2, 3), keepdim=True)))
    return x * self.expand(scale).sigmoid()


class InvertedResidual(nn.Module):
  def __init__(self, channels=8):
    super().__init__()
    wide = 4 * channels
    self.body = nn.Sequential(
      nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(),
      nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False), nn.BatchNorm2d(wide),
      nn.ReLU6(), SqueezeExcite(wide), nn.Conv2d(wide, channels, 1, bias=False),
      nn.BatchNorm2d(channels))

  def forward(self, x):
    return x + self.body(x)


class UNet(nn.Module):
  def __init__(self, mode="bilinear"):
    super().__init__()
    self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
    self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.InstanceNorm2d(16),
                                nn.LeakyReLU())
    self.up = nn.ConvTranspose2d(16, 8, 2, 2)
    self.last = nn.Conv2d(24, 2, 1)
    self.mode = mode

  def forward(self, x):
    skip = self.first(x)
    low = self.second(F.max_pool2d(skip, 2))
    soft = F.interpolate(low[:, :8], scale_factor=2, mode=self.mode)
    return self.last(torch.cat([skip, self.up(low), soft], 1))


class ConvNeXtBlock(nn.Module):
  def __init__(self, channels=12):
    super().__init__()
    self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
    self.norm = nn.LayerNorm(channels, eps=1e-6)
    self.up = nn.Linear(channels, 4 * channels)
    self.down = nn.Linear(4 * channels, channels)
    self.gamma = nn.Parameter(torch.full((channels,), 0.1))

  def forward(self, x):
    y = self.depthwise(x).permute(0, 2, 3, 1)
    y = self.gamma * self.down(F.gelu(self.up(self.norm(y))))
    return x + y.permute(0, 3, 1, 2)


class WindowAttention(nn.Module):
  """Shifted windows with a learned bias for every relative position."""

  def __init__(self, channels=16, heads=2, window=4, shift=2, size=8):
    super().__init__()
    self.heads, self.window, self.shift = heads, window, shift
    self.norm = nn.LayerNorm(channels)
    self.qkv = nn.Linear(channels, 3 * channels)
    self.out = nn.Linear(channels, channels)
    self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.1)
    at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
    apart = at.flatten(1)[:, :, None] - at.flatten(1)[:, None] + window - 1
    self.register_buffer("places", apart[0] * (2 * window - 1) + apart[1])
    regions = torch.zeros(size, size)
    for i, rows in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
      for j, columns in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
        regions[rows, columns] = 3 * i + j
    regions = self.windows(regions[None, :, :, None]).squeeze(-1)
    self.register_buffer("mask", (regions[:, None] - regions[:, :, None] != 0) * -100.0)

  def windows(self, x):
    n, height, width, channels = x.shape
    w = self.window
    x = x.view(n, height // w, w, width // w, w, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, channels)

  def forward(self, x):
    n, height, width, channels = x.shape
    y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
    y = self.windows(y)
    rows = y.shape[1]
    q, k, v = self.qkv(y).reshape(-1, rows, 3, self.heads, channels // self.heads).permute(
      2, 0, 3, 1, 4)
    scores = (q * (channels // self.heads) ** -0.5) @ k.transpose(-2, -1)
    bias = self.table[self.places.view(-1)].view(rows, rows, -1).permute(2, 0, 1)
    scores = scores + bias.unsqueeze(0)
    scores = scores.view(n, -1, self.heads, rows, rows) + self.mask[None, :, None]
    y = scores.view(-1, self.heads, rows, rows).softmax(-1) @ v
    y = self.out(y.transpose(1, 2).reshape(-1, rows, channels))
    w = self.window
    y = y.view(n, height // w, width // w, w, w, channels).permute(0, 1, 3, 2, 4, 5)
    return x + torch.roll(y.reshape(x.shape), (self.shift, self.shift), (1, 2))


class RotaryAttention(nn.Module):
  """A decoder's block: RMSNorm, rotated queries and keys, grouped heads, a gated product."""

  def __init__(self, channels=32, heads=4, groups=2, length=6):
    super().__init__()
    self.heads, self.groups, self.size = heads, groups, channels // heads
    self.norm1, self.norm2 = nn.RMSNorm(channels), nn.RMSNorm(channels)
    self.q = nn.Linear(channels, channels, bias=False)
    self.kv = nn.Linear(channels, 2 * groups * self.size, bias=False)
    self.out = nn.Linear(channels, channels, bias=False)
    self.gate = nn.Linear(channels, 2 * channels, bias=False)
    self.down = nn.Linear(channels, channels, bias=False)
    angles = torch.outer(torch.arange(length), 1e4 ** -(torch.arange(0, self.size, 2) / self.size))
    self.register_buffer("cos", torch.cat([angles, angles], -1).cos(), persistent=False)
    self.register_buffer("sin", torch.cat([angles, angles], -1).sin(), persistent=False)

  def rotate(self, x):
    first, second = x.chunk(2, -1)
    return x * self.cos + torch.cat([-second, first], -1) * self.sin

  def forward(self, x):
    n, length, channels = x.shape
    y = self.norm1(x)
    q = self.q(y).view(n, length, self.heads, self.size).transpose(1, 2)
    k, v = self.kv(y).view(n, length, 2, self.groups, self.size).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True,
                                       enable_gqa=True)
    x = x + self.out(y.transpose(1, 2).reshape(n, length, channels))
    gate, up = self.gate(self.norm2(x)).chunk(2, -1)
    return x + self.down(F.silu(gate) * up)


class Embedder(nn.Module):
  """Token and position tables whose first also makes the logits."""

  def __init__(self):
    super().__init__()
    self.tokens, self.positions = nn.Embedding(20, 16), nn.Embedding(8, 16)
    self.norm = nn.LayerNorm(16)
    self.head = nn.Linear(16, 20, bias=False)
    self.head.weight = self.tokens.weight

  def forward(self, ids):
    at = torch.arange(ids.shape[1]).unsqueeze(0)
    return self.head(self.norm(self.tokens(ids) + self.positions(at)))


class SelfAttention(nn.Module):
  def __init__(self):
    super().__init__()
    self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

  def forward(self, x, mask=None):
    return self.attention(x, x, x, attn_mask=mask)


class Containers(nn.Module):
  """Containers in, containers out."""

  def __init__(self):
    super().__init__()
    self.linear = nn.Linear(4, 3)

  def forward(self, batch, pair, *, scale=1.0, mask=None):
    y = self.linear(batch["x"]) * scale
    if mask is not None:
      y = torch.where(mask, y, 0.0)
    return {"logits": y, "parts": [pair[0] + 1, (pair[1],)], "count": 3, "nothing": None}


def encoder(**options):
  return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, **options)


def image(channels=3, size=8):
  return torch.randn(2, channels, size, size)


# Name, module and its arguments.
MODULES = {
  "residual block": (ResidualBlock, (lambda: image(8),)),
  "inverted residual": (InvertedResidual, (lambda: image(8),)),
  "U-Net": (UNet, (image,)),
  "U-Net nearest": (lambda: UNet("nearest"), (image,)),
  "ConvNeXt": (ConvNeXtBlock, (lambda: image(12),)),
  "Swin": (WindowAttention, (lambda: torch.randn(2, 8, 8, 16),)),
  "decoder": (RotaryAttention, (lambda: torch.randn(2, 6, 32),)),
  "embeddings": (Embedder, (lambda: torch.randint(0, 20, (2, 8)),)),
  "attention": (SelfAttention, (lambda: torch.randn(2, 5, 16),)),
  "attention with a mask": (SelfAttention, (lambda: torch.randn(2, 5, 16),
                                            lambda: torch.zeros(5, 5).fill_diagonal_(-1.0))),
  "encoder": (encoder, (lambda: torch.randn(2, 5, 16),)),
  "encoder, norm first": (lambda: encoder(norm_first=True, activation="gelu"),
                          (lambda: torch.randn(2, 5, 16),)),
  "encoder with a mask": (encoder, (lambda: torch.randn(2, 5, 16),
                                    lambda: torch.ones(5, 5, dtype=torch.bool).triu(1))),
}
