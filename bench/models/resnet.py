"""ResNet (He et al. 2015, arXiv 1512.03385) in the v1.5 form, stride in the 3x3, and ResNeXt
(Xie et al. 2016, arXiv 1611.05431)."""

from __future__ import annotations

import torch
from torch import nn

from bench.models.weights import BRANCH_GAIN


def conv_bn(channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1,
            gain: float | None = None) -> nn.Sequential:
  bn = nn.BatchNorm2d(channels_out)
  bn.init_gain = gain
  return nn.Sequential(
      nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, groups=groups, bias=False),
      bn)


class Basic(nn.Module):
  expansion = 1

  def __init__(self, channels_in: int, width: int, stride: int, **_):
    super().__init__()
    self.first = conv_bn(channels_in, width, 3, stride)
    self.second = conv_bn(width, width, 3, gain=BRANCH_GAIN)
    self.shortcut = shortcut(channels_in, width, stride)

  def forward(self, x):
    y = torch.relu(self.first(x))
    return torch.relu(self.second(y) + self.shortcut(x))


class Bottleneck(nn.Module):
  expansion = 4

  def __init__(self, channels_in: int, width: int, stride: int, groups: int = 1,
               group_width: int = 64):
    super().__init__()
    inner = width * group_width // 64 * groups
    self.reduce = conv_bn(channels_in, inner, 1)
    self.spatial = conv_bn(inner, inner, 3, stride, groups)
    self.expand = conv_bn(inner, width * 4, 1, gain=BRANCH_GAIN)
    self.shortcut = shortcut(channels_in, width * 4, stride)

  def forward(self, x):
    y = torch.relu(self.reduce(x))
    y = torch.relu(self.spatial(y))
    return torch.relu(self.expand(y) + self.shortcut(x))


def shortcut(channels_in: int, channels_out: int, stride: int) -> nn.Module:
  if stride == 1 and channels_in == channels_out:
    return nn.Identity()
  return conv_bn(channels_in, channels_out, 1, stride)


class Trunk(nn.Module):
  """Stem and four stages: [N, 3, H, W] -> [N, 512 * expansion, H / 32, W / 32]."""

  def __init__(self, block, depths: tuple[int, ...], **options):
    super().__init__()
    self.stem = conv_bn(3, 64, 7, 2)
    self.pool = nn.MaxPool2d(3, 2, 1)
    blocks, channels = [], 64
    for stage, depth in enumerate(depths):
      for i in range(depth):
        stride = 2 if stage > 0 and i == 0 else 1
        blocks.append(block(channels, 64 << stage, stride, **options))
        channels = (64 << stage) * block.expansion
    self.blocks = nn.Sequential(*blocks)
    self.channels = channels

  def forward(self, x):
    return self.blocks(self.pool(torch.relu(self.stem(x))))


class Classifier(nn.Module):
  def __init__(self, trunk: nn.Module, classes: int = 1000):
    super().__init__()
    self.trunk = trunk
    self.pool = nn.AdaptiveAvgPool2d(1)
    self.head = nn.Linear(trunk.channels, classes)

  def forward(self, image):
    return self.head(torch.flatten(self.pool(self.trunk(image)), 1))


def resnet50() -> nn.Module:
  return Classifier(Trunk(Bottleneck, (3, 4, 6, 3)))


def resnext50_32x4d() -> nn.Module:
  return Classifier(Trunk(Bottleneck, (3, 4, 6, 3), groups=32, group_width=4))
