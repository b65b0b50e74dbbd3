"""ViT-B/16 (Dosovitskiy et al. 2020, arXiv 2010.11929) at 224: 196 patches and a class token."""

from __future__ import annotations

import torch
from torch import nn

PATCH, SIDE, WIDTH, DEPTH, HEADS, MLP = 16, 14, 768, 12, 12, 3072


class Attention(nn.Module):
  def __init__(self):
    super().__init__()
    self.project_in = nn.Linear(WIDTH, 3 * WIDTH)
    self.project_out = nn.Linear(WIDTH, WIDTH)
    self.project_out.init_gain = 0.5

  def forward(self, x):
    batch, length = x.shape[0], x.shape[1]
    qkv = self.project_in(x).reshape(batch, length, 3, HEADS, WIDTH // HEADS)
    q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    scores = (q * (WIDTH // HEADS)**-0.5) @ k.transpose(-2, -1)
    mixed = torch.softmax(scores, dim=-1) @ v
    return self.project_out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
  def __init__(self):
    super().__init__()
    self.norm_attention = nn.LayerNorm(WIDTH, eps=1e-6)
    self.attention = Attention()
    self.norm_mlp = nn.LayerNorm(WIDTH, eps=1e-6)
    self.mlp = nn.Sequential(nn.Linear(WIDTH, MLP), nn.GELU(), nn.Linear(MLP, WIDTH))
    self.mlp[2].init_gain = 0.5

  def forward(self, x):
    x = x + self.attention(self.norm_attention(x))
    return x + self.mlp(self.norm_mlp(x))


class Embedding(nn.Module):
  init_gain = 0.3  # of the class token and the positions, beside patches of about unit size

  def __init__(self):
    super().__init__()
    self.patch = nn.Conv2d(3, WIDTH, PATCH, PATCH)
    self.patch.init_gain = 1.0
    self.token = nn.Parameter(torch.empty(1, 1, WIDTH))
    self.position = nn.Parameter(torch.empty(1, SIDE * SIDE + 1, WIDTH))

  def forward(self, image):
    patches = self.patch(image).flatten(2).transpose(1, 2)
    token = self.token.expand(image.shape[0], -1, -1)
    return torch.cat([token, patches], dim=1) + self.position


class Vit(nn.Module):
  def __init__(self):
    super().__init__()
    self.embedding = Embedding()
    self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
    self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
    self.head = nn.Linear(WIDTH, 1000)

  def forward(self, image):
    return self.head(self.norm(self.blocks(self.embedding(image)))[:, 0])


def vit_b_16() -> nn.Module:
  return Vit()
