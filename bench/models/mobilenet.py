"""MobileNet-v2 (Sandler et al. 2018, arXiv 1801.04381), width 1.0: inverted residuals, ReLU6,
linear bottlenecks."""

from __future__ import annotations

from torch import nn

from bench.models.resnet import Classifier, conv_bn
from bench.models.weights import BRANCH_GAIN

# expansion, channels, repeats, stride of the first
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
           (6, 160, 3, 2), (6, 320, 1, 1))


class InvertedResidual(nn.Module):
  def __init__(self, channels_in: int, channels_out: int, expansion: int, stride: int):
    super().__init__()
    self.residual = stride == 1 and channels_in == channels_out
    inner = channels_in * expansion
    expand = [] if expansion == 1 else [conv_bn(channels_in, inner, 1), nn.ReLU6()]
    self.body = nn.Sequential(
        *expand, conv_bn(inner, inner, 3, stride, groups=inner), nn.ReLU6(),
        conv_bn(inner, channels_out, 1, gain=BRANCH_GAIN if self.residual else None))

  def forward(self, x):
    return x + self.body(x) if self.residual else self.body(x)


class Trunk(nn.Module):
  channels = 1280

  def __init__(self):
    super().__init__()
    layers, channels = [conv_bn(3, 32, 3, 2), nn.ReLU6()], 32
    for expansion, width, repeats, stride in STAGES:
      for i in range(repeats):
        layers.append(InvertedResidual(channels, width, expansion, stride if i == 0 else 1))
        channels = width
    self.layers = nn.Sequential(*layers, conv_bn(channels, self.channels, 1), nn.ReLU6())

  def forward(self, x):
    return self.layers(x)


def mobilenet_v2() -> nn.Module:
  return Classifier(Trunk())
