"""ResNeSt-50d (Zhang et al. 2020, arXiv 2004.08955): radix 2, cardinality 1, deep stem, average
pooling where ResNet strides, both in the block (after the split attention) and in the shortcut."""

from __future__ import annotations

import torch
from torch import nn

from bench.models.resnet import Classifier, conv_bn
from bench.models.weights import BRANCH_GAIN

RADIX = 2
REDUCTION = 4


class SplitAttention(nn.Module):
  def __init__(self, channels: int):
    super().__init__()
    hidden = max(channels * RADIX // REDUCTION, 32)
    self.spatial = conv_bn(channels, channels * RADIX, 3, groups=RADIX)
    self.squeeze = nn.Conv2d(channels, hidden, 1)
    self.norm = nn.BatchNorm2d(hidden)
    self.excite = nn.Conv2d(hidden, channels * RADIX, 1)

  def forward(self, x):
    batch, channels = x.shape[0], x.shape[1]
    splits = torch.split(torch.relu(self.spatial(x)), channels, dim=1)
    pooled = (splits[0] + splits[1]).mean((2, 3), keepdim=True)
    attention = self.excite(torch.relu(self.norm(self.squeeze(pooled))))
    attention = torch.softmax(attention.reshape(batch, RADIX, channels), dim=1)
    weights = torch.split(attention.reshape(batch, RADIX * channels, 1, 1), channels, dim=1)
    return splits[0] * weights[0] + splits[1] * weights[1]


class Block(nn.Module):
  def __init__(self, channels_in: int, width: int, stride: int, pooled: bool):
    super().__init__()
    self.reduce = conv_bn(channels_in, width, 1)
    self.attention = SplitAttention(width)
    self.pool = nn.AvgPool2d(3, stride, 1) if pooled else nn.Identity()
    self.expand = conv_bn(width, width * 4, 1, gain=BRANCH_GAIN)
    self.shortcut = nn.Identity()
    if channels_in != width * 4:
      self.shortcut = conv_bn(channels_in, width * 4, 1)
      if stride > 1:
        average = nn.AvgPool2d(stride, stride, ceil_mode=True, count_include_pad=False)
        self.shortcut = nn.Sequential(average, *self.shortcut)

  def forward(self, x):
    y = self.attention(torch.relu(self.reduce(x)))
    return torch.relu(self.expand(self.pool(y)) + self.shortcut(x))


class Trunk(nn.Module):
  def __init__(self, depths: tuple[int, ...]):
    super().__init__()
    self.stem = nn.Sequential(
        conv_bn(3, 32, 3, 2), nn.ReLU(), conv_bn(32, 32, 3), nn.ReLU(), conv_bn(32, 64, 3),
        nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    blocks, channels = [], 64
    for stage, depth in enumerate(depths):
      for i in range(depth):
        first = stage > 0 and i == 0
        blocks.append(Block(channels, 64 << stage, 2 if first else 1, pooled=first))
        channels = (64 << stage) * 4
    self.blocks = nn.Sequential(*blocks)
    self.channels = channels

  def forward(self, x):
    return self.blocks(self.stem(x))


def resnest50() -> nn.Module:
  return Classifier(Trunk((3, 4, 6, 3)))
