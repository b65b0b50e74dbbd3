"""EfficientNet-B0 (Tan and Le 2019, arXiv 1905.11946): MBConv with squeeze and excitation, SiLU."""

from __future__ import annotations

from torch import nn

from bench.models.resnet import Classifier, conv_bn
from bench.models.weights import BRANCH_GAIN

# expansion, channels, repeats, stride of the first, kernel
STAGES = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
           (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))


class SqueezeExcite(nn.Module):
  def __init__(self, channels: int, hidden: int):
    super().__init__()
    self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, hidden, 1), nn.SiLU(),
                              nn.Conv2d(hidden, channels, 1), nn.Sigmoid())

  def forward(self, x):
    return x * self.gate(x)


class MbConv(nn.Module):
  def __init__(self, channels_in: int, channels_out: int, expansion: int, stride: int,
               kernel: int):
    super().__init__()
    self.residual = stride == 1 and channels_in == channels_out
    inner = channels_in * expansion
    expand = [] if expansion == 1 else [conv_bn(channels_in, inner, 1), nn.SiLU()]
    self.body = nn.Sequential(
        *expand, conv_bn(inner, inner, kernel, stride, groups=inner), nn.SiLU(),
        SqueezeExcite(inner, channels_in // 4),
        conv_bn(inner, channels_out, 1, gain=BRANCH_GAIN if self.residual else None))

  def forward(self, x):
    return x + self.body(x) if self.residual else self.body(x)


class Trunk(nn.Module):
  channels = 1280

  def __init__(self):
    super().__init__()
    layers, channels = [conv_bn(3, 32, 3, 2), nn.SiLU()], 32
    for expansion, width, repeats, stride, kernel in STAGES:
      for i in range(repeats):
        layers.append(MbConv(channels, width, expansion, stride if i == 0 else 1, kernel))
        channels = width
    self.layers = nn.Sequential(*layers, conv_bn(channels, self.channels, 1), nn.SiLU())

  def forward(self, x):
    return self.layers(x)


def efficientnet_b0() -> nn.Module:
  return Classifier(Trunk())
