"""Networks for images that no library here offers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def convolution(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Sequential:
  return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
                       nn.BatchNorm2d(outputs), nn.SiLU())


class UNet(nn.Module):
  """Ronneberger et al. 2015, with padding and BatchNorm."""

  def __init__(self, widths=(16, 32, 64, 128)):
    super().__init__()
    self.down = nn.ModuleList(
      nn.Sequential(convolution(a, b), convolution(b, b))
      for a, b in zip((3, *widths), widths))
    pairs = list(zip(widths[::-1], widths[-2::-1]))
    self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
    self.merge = nn.ModuleList(nn.Sequential(convolution(a, b), convolution(b, b))
                               for a, b in pairs)
    self.last = nn.Conv2d(widths[0], 2, 1)

  def forward(self, x):
    kept = []
    for i, block in enumerate(self.down):
      x = block(x if i == 0 else F.max_pool2d(x, 2))
      kept.append(x)
    kept.pop()
    for up, merge in zip(self.up, self.merge):
      x = merge(torch.cat([kept.pop(), up(x)], 1))
    return self.last(x)


class Stage(nn.Module):
  """A cross-stage partial block: half of the channels go round the bottlenecks."""

  def __init__(self, channels: int, count: int):
    super().__init__()
    self.first = convolution(channels, channels, 1)
    self.blocks = nn.ModuleList(
      nn.Sequential(convolution(channels // 2, channels // 2),
                    convolution(channels // 2, channels // 2)) for _ in range(count))
    self.last = convolution(channels // 2 * (count + 2), channels, 1)

  def forward(self, x):
    parts = list(self.first(x).chunk(2, 1))
    for block in self.blocks:
      parts.append(parts[-1] + block(parts[-1]))
    return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
  """A one-stage detector in the style of YOLO v8: three maps, boxes as distributions."""

  CLASSES, BINS = 20, 16

  def __init__(self):
    super().__init__()
    widths = (16, 32, 64, 128, 256)
    self.stem = convolution(3, widths[0], 3, 2)
    self.stages = nn.ModuleList(
      nn.Sequential(convolution(a, b, 3, 2), Stage(b, 1)) for a, b in zip(widths, widths[1:]))
    self.pool = nn.MaxPool2d(5, 1, 2)
    self.spread = convolution(4 * 256, 256, 1)
    self.up = nn.ModuleList([convolution(256 + 128, 128, 1), convolution(128 + 64, 64, 1)])
    outputs = 4 * self.BINS + self.CLASSES
    self.heads = nn.ModuleList(nn.Sequential(convolution(c, c), nn.Conv2d(c, outputs, 1))
                               for c in (64, 128, 256))
    self.register_buffer("bins", torch.arange(self.BINS).float())
    for stride in (8, 16, 32):
      side = torch.arange(256 // stride) + 0.5
      rows, columns = torch.meshgrid(side, side, indexing="ij")
      centres = torch.stack([columns, rows]).flatten(1) * stride
      self.register_buffer(f"centres{stride}", centres)

  def maps(self, x):
    x, kept = self.stem(x), []
    for stage in self.stages:
      x = stage(x)
      kept.append(x)
    pooled = [x]
    for _ in range(3):
      pooled.append(self.pool(pooled[-1]))
    large = self.spread(torch.cat(pooled, 1))
    middle = self.up[0](torch.cat([F.interpolate(large, scale_factor=2), kept[2]], 1))
    small = self.up[1](torch.cat([F.interpolate(middle, scale_factor=2), kept[1]], 1))
    return [head(y) for head, y in zip(self.heads, (small, middle, large))]

  def forward(self, x):
    """Boxes as corners [batch, places, 4], and scores [batch, places, classes]."""
    boxes, scores = [], []
    for stride, y in zip((8, 16, 32), self.maps(x)):
      y = y.flatten(2)
      sides, classes = y.split([4 * self.BINS, self.CLASSES], 1)
      sides = sides.unflatten(1, (4, self.BINS)).softmax(2)
      sides = torch.einsum("bscp,c->bsp", sides, self.bins) * stride
      centres = getattr(self, f"centres{stride}")
      boxes.append(torch.cat([centres - sides[:, :2], centres + sides[:, 2:]], 1))
      scores.append(classes.sigmoid())
    return torch.cat(boxes, 2).transpose(1, 2), torch.cat(scores, 2).transpose(1, 2)


class YoloTop(Yolo):
  """Its 50 best boxes."""

  def forward(self, x):
    boxes, scores = super().forward(x)
    best, _ = scores.max(-1)
    best, places = best.topk(50, 1)
    return boxes.gather(1, places[..., None].expand(-1, -1, 4)), best


class YoloNms(Yolo):
  """The boxes of the first image that non-maximum suppression leaves."""

  def forward(self, x):
    import torchvision

    boxes, scores = super().forward(x)
    best = scores[0].amax(-1)
    kept = torchvision.ops.nms(boxes[0], best, 0.5)[:20]
    return boxes[0][kept], best[kept]


class Deformable(nn.Module):
  """Dai et al. 2017: a convolution finds where the next one reads."""

  def __init__(self):
    super().__init__()
    self.offsets = nn.Conv2d(16, 18, 3, padding=1)
    self.weight = nn.Parameter(torch.randn(32, 16, 3, 3) / 12)
    self.last = nn.Conv2d(32, 8, 1)

  def forward(self, x):
    import torchvision

    y = torchvision.ops.deform_conv2d(x, self.offsets(x), self.weight, padding=1)
    return self.last(y.relu())
