"""Photographs of 500x375 pixels from scikit-image and scikit-learn, as JPEG files.

    python -m bench.photographs build/photographs --quality 90 --copies 20

Each is a part of a photograph, made smaller where it is large enough, because pixels straight from
a camera are smoother than those of published pictures. The parts of one photograph are a class, in
a folder of its own. Needs scikit-image with pooch (which fetches some of its pictures once) and
scikit-learn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

SIZE = (500, 375)
COUNT = 30
# In colour, without drawings and microscope pictures.
PHOTOGRAPHS = ("astronaut", "chelsea", "coffee", "rocket", "hubble_deep_field",
               "stereo_motorcycle")


def sources() -> dict[str, np.ndarray]:
  """Name -> pixels, H, W, 3. Those that cannot be had are left out."""
  found = {}
  try:
    from skimage import data
  except ImportError:
    data = None
  for name in PHOTOGRAPHS if data else ():
    try:
      pixels = getattr(data, name)()
    except Exception as error:  # no network for those that are fetched
      print(f"{name}: left out: {error}")
      continue
    found[name] = np.asarray(pixels[0] if isinstance(pixels, tuple) else pixels)[..., :3]
  try:
    from sklearn.datasets import load_sample_images

    samples = load_sample_images()
    for name, pixels in zip(samples.filenames, samples.images):
      found[Path(name).stem] = np.asarray(pixels)
  except ImportError:
    pass
  if not found:
    raise SystemExit("no photographs: pip install scikit-image pooch scikit-learn pillow")
  return found


def parts(pixels: np.ndarray, count: int, seed: int, size: tuple[int, int] = SIZE):
  """`count` parts of one photograph, as Pillow's images of `size`."""
  from PIL import Image

  rng = np.random.default_rng(seed)
  image = Image.fromarray(pixels)
  for _ in range(count):
    # From the least part that is as large as the result, or larger ones made smaller.
    least = max(size[0] / image.width, size[1] / image.height)
    scale = max(least, rng.uniform(0.5, 1.0)) if least < 1 else least
    width, height = min(image.width, size[0] / scale), min(image.height, size[1] / scale)
    x, y = rng.uniform(0, image.width - width), rng.uniform(0, image.height - height)
    yield image.resize(size, Image.Resampling.BICUBIC, (x, y, x + width, y + height))


def write(folder: Path, quality: int = 90, subsampling: str = "4:2:0", copies: int = 1,
          count: int = COUNT) -> int:
  """`count` photographs, each `copies` times; returns how many files there are."""
  pictures = sources()
  written = 0
  for i, (name, pixels) in enumerate(sorted(pictures.items())):
    share = count // len(pictures) + (i < count % len(pictures))
    (folder / name).mkdir(parents=True, exist_ok=True)
    for k, image in enumerate(parts(pixels, share, seed=i)):
      for copy in range(copies):
        image.save(folder / name / f"{k:03}-{copy:03}.jpg", quality=quality,
                   subsampling=subsampling)
        written += 1
  return written


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("folder", type=Path)
  parser.add_argument("--quality", type=int, default=90)
  parser.add_argument("--subsampling", default="4:2:0", choices=("4:2:0", "4:4:4"))
  parser.add_argument("--copies", type=int, default=1)
  parser.add_argument("--count", type=int, default=COUNT, help="of different photographs")
  options = parser.parse_args()
  print(write(options.folder, options.quality, options.subsampling, options.copies, options.count),
        "files in", options.folder)


if __name__ == "__main__":
  main()
