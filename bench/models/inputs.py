"""Made-up but realistic inputs: smooth images normalised as for ImageNet, padded token
sequences."""

from __future__ import annotations

import numpy as np

from bench.models.model import Input, Model

MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])
VOCABULARY = 30522
PADDING = 9  # positions at the end of a sequence that hold no token


def smooth_image(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
  """[3, height, width] float64 in [0, 1]: octaves of bilinear noise, amplitude falling as 1/f like
  a photograph's, with the three channels correlated."""
  image = np.zeros((3, height, width))
  cells, amplitude = 3, 1.0
  while cells < max(height, width):
    grid = rng.standard_normal((1, cells + 1, cells + 1))
    grid = grid + 0.4 * rng.standard_normal((3, cells + 1, cells + 1))
    image += amplitude * bilinear(grid, height, width)
    cells, amplitude = cells * 2, amplitude * 0.5
  image -= image.min()
  return image / image.max()


def bilinear(grid: np.ndarray, height: int, width: int) -> np.ndarray:
  def weights(cells: int, size: int) -> np.ndarray:
    at = np.linspace(0, cells, size)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(cells + 1)[None, :]))

  rows, columns = weights(grid.shape[1] - 1, height), weights(grid.shape[2] - 1, width)
  return np.einsum("hi,cij,wj->chw", rows, grid, columns, optimize=True)


def normalised(image: np.ndarray) -> np.ndarray:
  return (image - MEAN[:, None, None]) / STD[:, None, None]


def calibration_images(seed: int, count: int = 4, size: int = 128):
  """[count, 3, size, size] float64 torch tensor, different from every test image."""
  import torch

  rng = np.random.default_rng([seed, 1])
  return torch.from_numpy(np.stack(
      [normalised(smooth_image(rng, size, size)) for _ in range(count)]))


def make(spec: Input, seed: int = 0) -> np.ndarray:
  rng = np.random.default_rng([seed, 2])
  batch, length = spec.shape[0], spec.shape[-1]
  if spec.kind == "image":
    height, width = spec.shape[2:]
    value = np.stack([normalised(smooth_image(rng, height, width)) for _ in range(batch)])
  elif spec.kind == "sequence":  # neighbouring steps are alike
    steps = rng.standard_normal(spec.shape)
    value = np.cumsum(steps, axis=0) / np.sqrt(np.arange(1, len(steps) + 1))[:, None, None]
  elif spec.kind == "token_ids":
    value = rng.integers(1000, VOCABULARY, spec.shape)
    value[:, length - PADDING:] = 0
  elif spec.kind == "attention_mask":
    value = np.ones(spec.shape)
    value[:, length - PADDING:] = 0
  elif spec.kind == "token_types":
    value = np.zeros(spec.shape)
    value[:, length // 2:length - PADDING] = 1
  else:
    raise ValueError(f"inputs: {spec.name} has unknown kind {spec.kind!r}")
  return np.ascontiguousarray(value.astype(spec.dtype))


def make_all(model: Model, seed: int = 0) -> dict[str, np.ndarray]:
  return {spec.name: make(spec, seed) for spec in model.inputs}
