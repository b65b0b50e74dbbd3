"""Networks for volumes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def block(inputs: int, outputs: int) -> nn.Sequential:
  return nn.Sequential(nn.Conv3d(inputs, outputs, 3, padding=1), nn.InstanceNorm3d(outputs),
                       nn.LeakyReLU(), nn.Conv3d(outputs, outputs, 3, padding=1),
                       nn.InstanceNorm3d(outputs), nn.LeakyReLU())


class UNet3D(nn.Module):
  """Cicek et al. 2016, with trilinear upsampling."""

  def __init__(self):
    super().__init__()
    self.down = nn.ModuleList([block(1, 8), block(8, 16), block(16, 32)])
    self.up = nn.ModuleList([block(48, 16), block(24, 8)])
    self.last = nn.Conv3d(8, 3, 1)

  def forward(self, x):
    kept = []
    for i, part in enumerate(self.down):
      x = part(x if i == 0 else F.max_pool3d(x, 2))
      kept.append(x)
    kept.pop()
    for part in self.up:
      wide = F.interpolate(x, scale_factor=2, mode="trilinear", align_corners=False)
      x = part(torch.cat([kept.pop(), wide], 1))
    return self.last(x)


class VNet(nn.Module):
  """Milletari et al. 2016."""

  def __init__(self):
    super().__init__()
    self.enter = nn.Conv3d(1, 8, 5, padding=2)
    self.down = nn.Conv3d(8, 16, 2, 2)
    self.middle = nn.Sequential(nn.Conv3d(16, 16, 5, padding=2), nn.BatchNorm3d(16), nn.PReLU(16))
    self.up = nn.ConvTranspose3d(16, 8, 2, 2)
    self.last = nn.Sequential(nn.Conv3d(16, 8, 3, padding=1), nn.BatchNorm3d(8), nn.PReLU(8),
                              nn.AdaptiveAvgPool3d((4, 8, 8)), nn.Conv3d(8, 2, 1))

  def forward(self, x):
    x = self.enter(x) + x.repeat(1, 8, 1, 1, 1)
    y = self.down(x)
    y = self.middle(y) + y
    return self.last(torch.cat([self.up(y), x], 1)).softmax(1)
