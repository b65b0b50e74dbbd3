"""Graphs, points, and fields in space."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class GraphAttention(nn.Module):
  """Velickovic et al. 2018, with a dense matrix of neighbours."""

  def __init__(self):
    super().__init__()
    self.project = nn.Linear(16, 4 * 8, bias=False)
    self.source, self.target = nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.randn(4, 8))
    self.head = nn.Linear(32, 7)

  def forward(self, x, neighbours):
    y = self.project(x).unflatten(-1, (4, 8))
    scores = (y * self.source).sum(-1)[:, :, None] + (y * self.target).sum(-1)[:, None]
    scores = F.leaky_relu(scores, 0.2).masked_fill(neighbours[..., None] < 0.7, float("-inf"))
    scores = torch.where(torch.eye(x.shape[1], dtype=torch.bool)[..., None], 0.0, scores)
    y = torch.einsum("bijh,bjhc->bihc", scores.softmax(2), y)
    return self.head(F.elu(y.flatten(2))).log_softmax(-1)


class MessagePassing(nn.Module):
  """Gilmer et al. 2017, on a graph that is fixed."""

  def __init__(self):
    super().__init__()
    generator = torch.Generator().manual_seed(1)
    self.register_buffer("edges", torch.randint(0, 32, (2, 96), generator=generator))
    self.message = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))
    self.update = nn.GRUCell(16, 16)
    self.head = nn.Linear(16, 1)

  def forward(self, x):
    source, target = self.edges
    for _ in range(3):
      pairs = torch.cat([x[:, source], x[:, target]], -1)
      messages = self.message(pairs)
      total = torch.zeros_like(x).index_add(1, target, messages)
      x = self.update(total.flatten(0, 1), x.flatten(0, 1)).view_as(x)
    return self.head(x.amax(1))


class PointNet(nn.Module):
  """Qi et al. 2017."""

  def __init__(self):
    super().__init__()
    self.turn = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(),
                              nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(32, 9))
    self.body = nn.Sequential(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(),
                              nn.Conv1d(64, 256, 1), nn.BatchNorm1d(256))
    self.head = nn.Linear(256, 40)

  def forward(self, x):
    matrix = self.turn(x).view(-1, 3, 3) + torch.eye(3)
    return self.head(self.body(torch.bmm(matrix, x)).max(2)[0])


class Nerf(nn.Module):
  """Mildenhall et al. 2020: colours along a ray, from nothing but their places."""

  def __init__(self):
    super().__init__()
    self.register_buffer("octaves", 2.0 ** torch.arange(6) * 3.14159)
    self.body = nn.Sequential(nn.Linear(36, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    self.density = nn.Linear(128, 1)
    self.colour = nn.Sequential(nn.Linear(128 + 36, 64), nn.ReLU(), nn.Linear(64, 3), nn.Sigmoid())

  def waves(self, x):
    angles = x[..., None] * self.octaves
    return torch.cat([angles.sin(), angles.cos()], -1).flatten(-2)

  def forward(self, places, directions):
    y = self.body(self.waves(places))
    opaque = 1 - torch.exp(-F.softplus(self.density(y)) * 0.1)
    colour = self.colour(torch.cat([y, self.waves(F.normalize(directions, dim=-1))], -1))
    clear = torch.cumprod(torch.cat([torch.ones_like(opaque[:, :1]), 1 - opaque[:, :-1]], 1), 1)
    return (clear * opaque * colour).sum(1)


class FourierOperator(nn.Module):
  """Li et al. 2021: products with weights in the frequencies of a field."""

  WIDTH, MODES = 16, 8

  def __init__(self):
    super().__init__()
    size = (2, self.WIDTH, self.WIDTH, self.MODES, self.MODES)
    self.enter = nn.Conv2d(1, self.WIDTH, 1)
    self.weight = nn.ParameterList(nn.Parameter(torch.randn(*size) / 16) for _ in range(2))
    self.local = nn.ModuleList(nn.Conv2d(self.WIDTH, self.WIDTH, 1) for _ in range(2))
    self.last = nn.Conv2d(self.WIDTH, 1, 1)

  def forward(self, x):
    x = self.enter(x)
    for weight, local in zip(self.weight, self.local):
      waves = torch.fft.rfft2(x, norm="ortho")[..., :self.MODES, :self.MODES]
      real = torch.einsum("bixy,ioxy->boxy", waves.real, weight[0])
      real = real - torch.einsum("bixy,ioxy->boxy", waves.imag, weight[1])
      imaginary = torch.einsum("bixy,ioxy->boxy", waves.real, weight[1])
      imaginary = imaginary + torch.einsum("bixy,ioxy->boxy", waves.imag, weight[0])
      spread = torch.fft.irfft2(torch.complex(real, imaginary), s=x.shape[-2:], norm="ortho")
      x = F.gelu(spread + local(x))
    return self.last(x)
