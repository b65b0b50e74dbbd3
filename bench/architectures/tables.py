"""Networks for tables and for series of numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Recommender(nn.Module):
  """Naumov et al. 2019."""

  def __init__(self):
    super().__init__()
    self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
    self.bags = nn.ModuleList(nn.EmbeddingBag(1000, 16, mode="sum") for _ in range(8))
    self.top = nn.Sequential(nn.Linear(16 + 36, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
    rows, columns = torch.tril_indices(9, 9, -1)
    self.register_buffer("rows", rows)
    self.register_buffer("columns", columns)

  def forward(self, numbers, ids):
    x = self.bottom(numbers)
    parts = [x, *(bag(ids[:, i:i + 1]) for i, bag in enumerate(self.bags))]
    vectors = torch.stack(parts, 1)
    products = (vectors @ vectors.mT)[:, self.rows, self.columns]
    return self.top(torch.cat([x, products], 1))


class TabTransformer(nn.Module):
  """Huang et al. 2020."""

  def __init__(self):
    super().__init__()
    self.embed = nn.Embedding(1000, 32)
    self.columns = nn.Parameter(torch.randn(6, 32) * 0.1)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    self.norm = nn.LayerNorm(10)
    self.head = nn.Sequential(nn.Linear(6 * 32 + 10, 64), nn.SELU(), nn.Linear(64, 2))

  def forward(self, numbers, ids):
    y = self.encoder(self.embed(ids) + self.columns).flatten(1)
    return self.head(torch.cat([y, self.norm(numbers)], 1))


class NBeats(nn.Module):
  """Oreshkin et al. 2020."""

  def __init__(self):
    super().__init__()
    self.blocks = nn.ModuleList(
      nn.Sequential(nn.Linear(48, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                    nn.Linear(128, 48 + 12)) for _ in range(4))

  def forward(self, x):
    total = 0
    for block in self.blocks:
      back, ahead = block(x).split([48, 12], 1)
      x, total = x - back, total + ahead
    return total


class Tcn(nn.Module):
  """Bai et al. 2018."""

  def __init__(self):
    super().__init__()
    self.layers = nn.ModuleList(
      weight_norm(nn.Conv1d(16 if i == 0 else 32, 32, 3, dilation=2**i)) for i in range(4))
    self.skip = nn.Conv1d(16, 32, 1)

  def forward(self, x):
    for i, layer in enumerate(self.layers):
      y = F.relu(layer(F.pad(x, (2 * 2**i, 0))))
      x = F.relu(y + (self.skip(x) if i == 0 else x))
    return x[:, :, -1]
