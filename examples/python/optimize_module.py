"""Optimises a PyTorch module and compares it with PyTorch: answers and time.

  python examples/python/optimize_module.py

Weights are random: speed depends on shapes, and nothing has to be downloaded.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

import stretto


class Block(nn.Module):
  """A residual block with squeeze-and-excitation."""

  def __init__(self, channels: int):
    super().__init__()
    self.body = nn.Sequential(
      nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
      nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
    self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 4, 1),
                              nn.ReLU(), nn.Conv2d(channels // 4, channels, 1), nn.Sigmoid())

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    y = self.body(x)
    return torch.relu(x + y * self.gate(y))


class Classifier(nn.Module):
  def __init__(self) -> None:
    super().__init__()
    self.stem = nn.Conv2d(3, 64, 7, 4, 3)
    self.blocks = nn.Sequential(*(Block(64) for _ in range(4)))
    self.head = nn.Linear(64, 10)

  def forward(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
    features = self.blocks(self.stem(image)).mean((2, 3))
    return {"features": features, "logits": self.head(features)}


def milliseconds(run, image: torch.Tensor) -> float:
  times = []
  for _ in range(30):
    start = time.perf_counter()
    run(image)
    times.append(1000 * (time.perf_counter() - start))
  return statistics.median(times)


def main() -> None:
  torch.manual_seed(0)
  module = Classifier().eval()
  image = torch.randn(1, 3, 224, 224)
  model = stretto.optimize(module, image)
  with torch.no_grad():
    expected, got = module(image), model(image)
    error = (got["logits"] - expected["logits"]).abs().max() / expected["logits"].abs().max()
    print(f"largest difference: {error:.1e} of the largest value")
    print(f"PyTorch {milliseconds(module, image):.2f} ms, "
          f"Stretto {milliseconds(model, image):.2f} ms")
  model.save("classifier.stretto")
  print("wrote classifier.stretto")


if __name__ == "__main__":
  main()
