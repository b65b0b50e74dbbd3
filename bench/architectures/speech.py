"""Networks that listen."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 144


class RelativeAttention(nn.Module):
  """Attention with relative positions (Dai et al. 2019): scores are shifted row by row."""

  def __init__(self, heads: int = 4):
    super().__init__()
    self.heads, self.size = heads, WIDTH // heads
    self.packed = nn.Linear(WIDTH, 3 * WIDTH)
    self.position = nn.Linear(WIDTH, WIDTH, bias=False)
    self.u = nn.Parameter(torch.randn(heads, 1, self.size) * 0.1)
    self.v = nn.Parameter(torch.randn(heads, 1, self.size) * 0.1)
    self.out = nn.Linear(WIDTH, WIDTH)

  def forward(self, x, places):
    batch, length, _ = x.shape
    query, key, value = (y.view(batch, length, self.heads, self.size).transpose(1, 2)
                         for y in self.packed(x).chunk(3, -1))
    places = self.position(places).view(-1, self.heads, self.size).transpose(0, 1)
    near = (query + self.u) @ key.transpose(-1, -2)
    far = (query + self.v) @ places.transpose(-1, -2)
    far = F.pad(far, (1, 0)).view(batch, self.heads, 2 * length, length)[:, :, 1:]
    far = far.reshape(batch, self.heads, length, 2 * length - 1)[..., :length]
    weights = ((near + far) / self.size**0.5).softmax(-1)
    return self.out((weights @ value).transpose(1, 2).flatten(2))


class Convolution(nn.Module):
  def __init__(self):
    super().__init__()
    self.norm = nn.LayerNorm(WIDTH)
    self.wide = nn.Conv1d(WIDTH, 2 * WIDTH, 1)
    self.depthwise = nn.Conv1d(WIDTH, WIDTH, 15, padding=7, groups=WIDTH)
    self.batch_norm = nn.BatchNorm1d(WIDTH)
    self.last = nn.Conv1d(WIDTH, WIDTH, 1)

  def forward(self, x):
    y = F.glu(self.wide(self.norm(x).transpose(1, 2)), 1)
    y = F.silu(self.batch_norm(self.depthwise(y)))
    return self.last(y).transpose(1, 2)


def feed_forward() -> nn.Sequential:
  return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(),
                       nn.Linear(4 * WIDTH, WIDTH))


class Block(nn.Module):
  def __init__(self):
    super().__init__()
    self.first, self.second = feed_forward(), feed_forward()
    self.norm, self.attention = nn.LayerNorm(WIDTH), RelativeAttention()
    self.convolution, self.last = Convolution(), nn.LayerNorm(WIDTH)

  def forward(self, x, places):
    x = x + 0.5 * self.first(x)
    x = x + self.attention(self.norm(x), places)
    x = x + self.convolution(x)
    return self.last(x + 0.5 * self.second(x))


class Conformer(nn.Module):
  """Gulati et al. 2020, with a head for CTC."""

  def __init__(self):
    super().__init__()
    self.reduce = nn.Sequential(nn.Conv2d(1, WIDTH, 3, 2), nn.ReLU(),
                                nn.Conv2d(WIDTH, WIDTH, 3, 2), nn.ReLU())
    self.enter = nn.Linear(WIDTH * 19, WIDTH)
    self.blocks = nn.ModuleList(Block() for _ in range(2))
    self.head = nn.Linear(WIDTH, 128)

  def forward(self, x):
    y = self.reduce(x[:, None])
    y = self.enter(y.transpose(1, 2).flatten(2))
    length = y.shape[1]
    steps = torch.exp(-torch.arange(0, WIDTH, 2) * 9.2103 / WIDTH)
    angles = torch.arange(length - 1, -length, -1)[:, None] * steps
    places = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
    for block in self.blocks:
      y = block(y, places)
    return self.head(y).log_softmax(-1)


class DeepSpeech(nn.Module):
  """Amodei et al. 2015."""

  def __init__(self):
    super().__init__()
    self.features = nn.Sequential(
      nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
      nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20))
    self.gru = nn.GRU(32 * 20, 128, 2, bidirectional=True)
    self.head = nn.Linear(256, 29)

  def forward(self, x):
    y = self.features(x).flatten(1, 2).permute(2, 0, 1)
    return self.head(self.gru(y)[0]).log_softmax(-1)


class WaveNet(nn.Module):
  """van den Oord et al. 2016."""

  def __init__(self, width: int = 32):
    super().__init__()
    self.enter = nn.Conv1d(64, width, 1)
    self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(8))
    self.skips = nn.ModuleList(nn.Conv1d(width, 64, 1) for _ in range(8))
    self.outs = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(8))
    self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(64, 64, 1), nn.ReLU(), nn.Conv1d(64, 256, 1))

  def forward(self, x):
    x, total = self.enter(x), 0
    for i, (gate, skip, out) in enumerate(zip(self.gates, self.skips, self.outs)):
      a, b = gate(F.pad(x, (2**i, 0))).chunk(2, 1)
      y = a.tanh() * b.sigmoid()
      total = total + skip(y)
      x = x + out(y)
    return self.last(total)


class Spectrogram(nn.Module):
  def __init__(self):
    super().__init__()
    self.register_buffer("window", torch.hann_window(256))
    self.register_buffer("bank", torch.rand(40, 129))
    self.convolution = nn.Conv1d(40, 64, 3)

  def forward(self, x):
    waves = torch.stft(x, 256, 128, window=self.window, return_complex=True)
    power = waves.real**2 + waves.imag**2
    return self.convolution((self.bank @ power + 1e-6).log())
