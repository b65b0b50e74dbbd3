"""U-Net (Ronneberger et al. 2015, arXiv 1505.04597) with padded convolutions and BatchNorm: base 32
channels, four levels down and up, two classes."""

from __future__ import annotations

import torch
from torch import nn

BASE = 32
LEVELS = 4
CLASSES = 2


def double_conv(channels_in: int, channels_out: int) -> nn.Sequential:
  layers = []
  for channels in (channels_in, channels_out):
    layers += [nn.Conv2d(channels, channels_out, 3, padding=1, bias=False),
               nn.BatchNorm2d(channels_out), nn.ReLU()]
  return nn.Sequential(*layers)


class UNet(nn.Module):
  def __init__(self):
    super().__init__()
    widths = [BASE << level for level in range(LEVELS + 1)]
    self.down = nn.ModuleList(double_conv(a, b) for a, b in zip([3] + widths, widths))
    self.pool = nn.MaxPool2d(2)
    self.up = nn.ModuleList(
        nn.ConvTranspose2d(2 * width, width, 2, 2) for width in widths[-2::-1])
    self.merge = nn.ModuleList(double_conv(2 * width, width) for width in widths[-2::-1])
    self.head = nn.Conv2d(BASE, CLASSES, 1)

  def forward(self, image):
    skips, x = [], self.down[0](image)
    for level in self.down[1:]:
      skips.append(x)
      x = level(self.pool(x))
    for up, merge in zip(self.up, self.merge):
      x = merge(torch.cat([skips.pop(), up(x)], dim=1))
    return self.head(x)


def unet() -> nn.Module:
  return UNet()
