"""CenterNet (Zhou et al. 2019, arXiv 1904.07850) on ResNet-18: three 4x4 stride-2 transposed
convolutions bring the map to a quarter of the image, three heads read it. Outputs are raw: 80 class
maps before the sigmoid, box sizes, centre offsets."""

from __future__ import annotations

from torch import nn

from bench.models.resnet import Basic, Trunk

HEADS = {"hm": 80, "wh": 2, "reg": 2}


class CenterNet(nn.Module):
  def __init__(self):
    super().__init__()
    self.trunk = Trunk(Basic, (2, 2, 2, 2))
    layers, channels = [], self.trunk.channels
    for _ in range(3):
      layers += [nn.ConvTranspose2d(channels, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256),
                 nn.ReLU()]
      channels = 256
    self.up = nn.Sequential(*layers)
    self.heads = nn.ModuleDict({
        name: nn.Sequential(nn.Conv2d(256, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, maps, 1))
        for name, maps in HEADS.items()})

  def forward(self, image):
    features = self.up(self.trunk(image))
    return tuple(self.heads[name](features) for name in HEADS)


def centernet_resnet18() -> nn.Module:
  return CenterNet()
