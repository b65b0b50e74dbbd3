"""Networks that draw."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Generator(nn.Module):
  """Radford et al. 2016."""

  def __init__(self):
    super().__init__()
    widths, layers = (64, 128, 64, 32), []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
      layers += [nn.ConvTranspose2d(a, b, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False),
                 nn.BatchNorm2d(b), nn.ReLU(True)]
    self.body = nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())

  def forward(self, z):
    return self.body(z[:, :, None, None])


class Modulated(nn.Module):
  """Karras et al. 2020: the weights of a convolution depend on the style of the picture."""

  def __init__(self, inputs: int, outputs: int, style: int):
    super().__init__()
    self.weight = nn.Parameter(torch.randn(1, outputs, inputs, 3, 3))
    self.style = nn.Linear(style, inputs)
    self.bias = nn.Parameter(torch.zeros(1, outputs, 1, 1))

  def forward(self, x, style):
    batch, inputs, height, width = x.shape
    weight = self.weight * (1 + self.style(style))[:, None, :, None, None]
    weight = weight * torch.rsqrt(weight.pow(2).sum((2, 3, 4), keepdim=True) + 1e-8)
    y = F.conv2d(x.reshape(1, batch * inputs, height, width), weight.flatten(0, 1), padding=1,
                 groups=batch)
    return F.leaky_relu(y.view(batch, -1, height, width) + self.bias, 0.2)


class StyleGenerator(nn.Module):
  def __init__(self):
    super().__init__()
    self.map = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64))
    self.start = nn.Parameter(torch.randn(1, 64, 4, 4))
    self.layers = nn.ModuleList(Modulated(a, b, 64) for a, b in ((64, 64), (64, 32), (32, 32)))
    self.colour = nn.Conv2d(32, 3, 1)

  def forward(self, z):
    style = self.map(F.normalize(z, dim=-1))
    x = self.start.expand(z.shape[0], -1, -1, -1)
    for layer in self.layers:
      x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
      x = layer(x, style)
    return self.colour(x)


class SuperResolution(nn.Module):
  """Shi et al. 2016."""

  def __init__(self):
    super().__init__()
    self.body = nn.Sequential(nn.Conv2d(3, 64, 5, padding=2), nn.Tanh(),
                              nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
                              nn.Conv2d(32, 27, 3, padding=1), nn.PixelShuffle(3))

  def forward(self, x):
    return self.body(x) + F.interpolate(x, scale_factor=3, mode="bicubic", align_corners=False)


class SpatialTransformer(nn.Module):
  """Jaderberg et al. 2015."""

  def __init__(self):
    super().__init__()
    self.look = nn.Sequential(nn.Conv2d(1, 8, 7), nn.MaxPool2d(2, 2), nn.ReLU(),
                              nn.Conv2d(8, 10, 5), nn.MaxPool2d(2, 2), nn.ReLU(), nn.Flatten(),
                              nn.Linear(90, 32), nn.ReLU(), nn.Linear(32, 6))
    self.body = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2),
                              nn.Flatten(), nn.Linear(64, 10))

  def forward(self, x):
    matrix = self.look(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
    grid = F.affine_grid(matrix, list(x.shape), align_corners=False)
    return self.body(F.grid_sample(x, grid, align_corners=False))
