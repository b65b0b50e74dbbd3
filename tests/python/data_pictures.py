"""Small pictures for the tests of stretto.data, and what the loader should make of them."""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
from PIL import Image

MEAN = np.array((0.485, 0.456, 0.406), np.float32).reshape(3, 1, 1)
STD = np.array((0.229, 0.224, 0.225), np.float32).reshape(3, 1, 1)


def wait_until(condition, seconds=120):
  end = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < end, "waited for too long"
    time.sleep(0.02)


def photographs():
  """The two photographs that scikit-learn ships."""
  from sklearn.datasets import load_sample_images

  return [Image.fromarray(pixels) for pixels in load_sample_images().images]


def write_folder(folder: Path, count: int, seed: int = 3, classes: int = 3,
                 quality: int = 90) -> list[Path]:
  """`count` parts of photographs as JPEG files of different sizes, in a folder per class."""
  rng, sources, files = np.random.default_rng(seed), photographs(), []
  for i in range(count):
    source = sources[i % len(sources)]
    width, height = int(rng.integers(90, 200)), int(rng.integers(90, 200))
    x, y = (int(rng.integers(0, side - part)) for side, part in
            zip(source.size, (width, height)))
    file = folder / f"class{i % classes}" / f"{i:05}.jpg"
    file.parent.mkdir(parents=True, exist_ok=True)
    source.crop((x, y, x + width, y + height)).save(file, quality=quality)
    files.append(file)
  return sorted(files)


def philox(counter, key):
  """Philox 4x32-10 of Salmon et al., written a second time from the paper."""
  c, k = [int(v) for v in counter], [int(v) for v in key]
  for _ in range(10):
    a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
    c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
    k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
  return c


class Draws:
  """The random numbers of one sample in one epoch; `who` is 0 for its crop and 1 for its flip."""

  def __init__(self, seed: int, epoch: int, sample: int, who: int) -> None:
    self.counter = [who << 24, epoch, sample & 0xFFFFFFFF, sample >> 32]
    self.key = [seed & 0xFFFFFFFF, seed >> 32]
    self.left: list[int] = []

  def bits(self) -> int:
    if not self.left:
      self.left = philox(self.counter, self.key)
      self.counter[0] += 1
    return self.left.pop(0)

  def unit(self) -> float:
    high, low = self.bits() >> 5, self.bits() >> 6
    return (high * 2**26 + low) / 2**53

  def uniform(self, low: float, high: float) -> float:
    return low + (high - low) * self.unit()

  def below(self, count: int) -> int:
    return self.bits() * count >> 32


def drawn_box(seed: int, epoch: int, sample: int, size, crop=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
  """The box of torchvision's RandomResizedCrop with these numbers, and whether it is mirrored."""
  width, height = size
  draw = Draws(seed, epoch, sample, 0)
  box = None
  for _ in range(10):
    area = width * height * draw.uniform(*crop)
    shape = math.exp(draw.uniform(math.log(ratio[0]), math.log(ratio[1])))
    w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
    if 0 < w <= width and 0 < h <= height:
      y, x = draw.below(height - h + 1), draw.below(width - w + 1)
      box = (x, y, x + w, y + h)
      break
  if box is None:
    w = min(width, round(height * ratio[1])) if width / height > ratio[1] else width
    h = min(height, round(width / ratio[0])) if width / height < ratio[0] else height
    x, y = (width - w) // 2, (height - h) // 2
    box = (x, y, x + w, y + h)
  return box, Draws(seed, epoch, sample, 1).unit() < 0.5


def training_view(file: Path, seed: int, epoch: int, sample: int, size: int,
                  crop=(0.08, 1.0)) -> np.ndarray:
  """What Pillow shows of a file: uint8, 3, H, W."""
  image = Image.open(file).convert("RGB")
  box, flipped = drawn_box(seed, epoch, sample, image.size, crop)
  image = image.crop(box).resize((size, size), Image.Resampling.BILINEAR)
  if flipped:
    image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
  return np.asarray(image).transpose(2, 0, 1)


def validation_view(file: Path, size: int) -> np.ndarray:
  """What torchvision's Resize(size * 256 / 224) and CenterCrop(size) show."""
  image = Image.open(file).convert("RGB")
  short = size * 256 // 224
  width, height = image.size
  if width <= height:
    whole = (short, int(short * height / width))
  else:
    whole = (int(short * width / height), short)
  image = image.resize(whole, Image.Resampling.BILINEAR)
  x, y = round((whole[0] - size) / 2), round((whole[1] - size) / 2)
  return np.asarray(image.crop((x, y, x + size, y + size))).transpose(2, 0, 1)


def normalised(pixels: np.ndarray) -> np.ndarray:
  return (pixels.astype(np.float32) / 255 - MEAN) / STD
