"""Writes the pictures of tests/fuzz/media, and pillow.txt: what Pillow makes of them.

python tests/media/make_golden.py, with Pillow and NumPy. media/pillow_corpus_test.cc reads both.
"""

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).resolve().parent
PICTURES = HERE.parent / "fuzz/media"
NAMES = []
FILTERS = {"triangle": Image.BILINEAR, "cubic": Image.BICUBIC, "box": Image.BOX}
# Filter, whether the box is cropped first, the box as shares of the picture, size.
VIEWS = [
  ("triangle", True, (0.15, 0.1, 0.9, 0.85), (9, 7)),
  ("triangle", False, (0.05, 0.2, 0.7, 0.95), (11, 8)),
  ("cubic", False, (0.3, 0.3, 0.5, 0.6), (10, 6)),
  ("box", True, (0.0, 0.0, 1.0, 1.0), (7, 5)),
]


def scene(width: int, height: int, channels: int, seed: int) -> np.ndarray:
  """Gradients, a disc and a bar with sharp edges, and a little noise."""
  rng = np.random.default_rng(seed)
  y, x = np.mgrid[0:height, 0:width].astype(float)
  out = np.empty((height, width, channels))
  for c in range(channels):
    out[..., c] = 30 + 150 * (x if c % 2 else width - x) / width + 40 * np.sin(y / (5 + c))
  disc = (x - width * 0.4) ** 2 + (y - height * 0.5) ** 2 < (0.3 * height) ** 2
  out[disc] += [60, -70, 90, 20][:channels]
  out[(x > width * 0.7) & (x < width * 0.8)] = [230, 40, 30, 128][:channels]
  return np.clip(out + rng.normal(0, 3, out.shape), 0, 255)


def at(name: str) -> Path:
  NAMES.append(name)
  return PICTURES / name


def write_pictures() -> None:
  rgb = Image.fromarray(scene(61, 47, 3, 1).astype(np.uint8))
  exif = Image.Exif()
  exif[0x0112] = 6
  for name, options in {
    "ycc420": {"subsampling": 2}, "ycc422": {"subsampling": 1}, "ycc444": {"subsampling": 0},
    "progressive": {"subsampling": 2, "progressive": True},
    "restart": {"subsampling": 2, "restart_marker_blocks": 2},
    "turned": {"subsampling": 2, "exif": exif.tobytes()},
  }.items():
    rgb.save(at(f"{name}.jpg"), quality=90, optimize=True, **options)
  rgb.convert("L").save(at("grey.jpg"), quality=90)
  Image.fromarray(scene(40, 30, 4, 2).astype(np.uint8), "CMYK").save(at("cmyk.jpg"), quality=90)
  small = scene(33, 25, 4, 3).astype(np.uint8)
  Image.fromarray(small).save(at("alpha.png"))
  Image.fromarray(small[..., :3]).save(at("rgb.png"))
  palette = Image.fromarray(small[..., :3]).quantize(16)
  palette.save(at("palette.png"), transparency=3)
  Image.fromarray(small[..., :2], "LA").save(at("grey_alpha.png"))
  Image.fromarray(scene(33, 25, 1, 4)[..., 0].astype(np.uint16) * 2).save(at("grey16.png"))
  Image.fromarray(small[..., 0] > 128).save(at("bits.png"))
  Image.fromarray(small).save(at("alpha.webp"), lossless=True, exact=True)
  rgb.save(at("lossy.webp"), quality=80, exif=exif.tobytes())


def fnv1a(data: bytes) -> int:
  value = 0xCBF29CE484222325
  for byte in data:
    value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
  return value


def main() -> None:
  write_pictures()
  lines = ["# File; width and height as seen; hash (FNV-1a) of all bytes in RGB as stored.",
           "# Then: filter, crop or box, box, size, bytes in RGB."]
  for name in NAMES:
    stored = Image.open(PICTURES / name)
    seen = ImageOps.exif_transpose(stored).convert("RGB")
    lines.append(f"{name} {seen.width} {seen.height} {fnv1a(stored.convert('RGB').tobytes())}")
    for kind, crop, shares, size in VIEWS:
      box = [share * side for share, side in zip(shares, seen.size * 2, strict=True)]
      if crop:
        box = [round(edge) for edge in box]
        view = seen.crop(box).resize(size, FILTERS[kind])
      else:
        view = seen.resize(size, FILTERS[kind], box=box)
      lines.append(f"{kind} {'crop' if crop else 'box'} {' '.join(map(repr, box))} {size[0]} "
                   f"{size[1]} {view.tobytes().hex()}")
  (HERE / "pillow.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
  main()
