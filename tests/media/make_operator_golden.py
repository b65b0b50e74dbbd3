"""Writes operators.txt: what torchvision's functions make of pictures, through Pillow.

python tests/media/make_operator_golden.py, with torchvision, Pillow and NumPy.
media/operators/operators_corpus_test.cc reads it.
"""

from pathlib import Path

import numpy as np
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import RandAugment, TrivialAugmentWide, _apply_op

HERE = Path(__file__).resolve().parent
SIZES = [(13, 10), (61, 47)]
NAMES = {
  "shear_x": "ShearX", "shear_y": "ShearY", "translate_x": "TranslateX",
  "translate_y": "TranslateY", "rotate": "Rotate", "brightness": "Brightness", "color": "Color",
  "contrast": "Contrast", "sharpness": "Sharpness", "posterize": "Posterize",
  "solarize": "Solarize", "auto_contrast": "AutoContrast", "equalize": "Equalize",
  "invert": "Invert",
}
# Name and value; of brightness, color, contrast and sharpness the value is the factor.
CASES = [
  ("shear_x", 0.3), ("shear_x", -0.99), ("shear_y", 0.2), ("shear_y", -0.15),
  ("translate_x", 4), ("translate_x", -3), ("translate_y", 2), ("translate_y", -7),
  ("rotate", 17.5), ("rotate", -30), ("rotate", 90), ("rotate", 135),
  ("brightness", 0.35), ("brightness", 1.9), ("color", 0.1), ("color", 1.6), ("contrast", 0.27),
  ("contrast", 1.9), ("sharpness", 0.1), ("sharpness", 1.9), ("posterize", 2), ("posterize", 5),
  ("posterize", 8), ("solarize", 178.5), ("solarize", 0), ("auto_contrast", 0), ("equalize", 0),
  ("invert", 0),
]
BLURS = [(3, 0.7), (9, 1.9), (5, 0.1)]


def picture(width: int, height: int) -> Image.Image:
  """Gradients with a pattern on them, of whole numbers: the test computes the same."""
  y, x, c = np.mgrid[0:height, 0:width, 0:3]
  value = 20 + 3 * x * (c + 1) + 2 * y * (3 - c) + (x * x * 31 + y * 17 * (c + 1)) % 41
  return Image.fromarray((value % 236).astype(np.uint8))


def fnv1a(data: bytes) -> int:
  value = 0xCBF29CE484222325
  for byte in data:
    value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
  return value


def line(name: str, first: float, second: float, result: Image.Image) -> str:
  data = result.tobytes()
  small = result.size == SIZES[0]
  return (f"{name} {first} {second} {result.width} {result.height} {fnv1a(data):016x} "
          f"{data.hex() if small else '-'}")


def spaces(width: int, height: int) -> list[str]:
  """The magnitudes of both automatic operators, of every bin."""
  lines = []
  for name, space in (
    ("rand_augment", RandAugment()._augmentation_space(31, (height, width))),
    ("trivial_augment_wide", TrivialAugmentWide()._augmentation_space(31)),
  ):
    for op, (magnitudes, signed) in space.items():
      if op == "Identity":
        continue
      ours = next(k for k, v in NAMES.items() if v == op)
      values = magnitudes.tolist() if magnitudes.ndim else [magnitudes.item()] * 31
      if ours.startswith("translate"):
        values = [int(v) for v in values]
      lines.append(f"space {name} {ours} {int(signed)} " + " ".join(f"{v:.7g}" for v in values))
  return lines


def main() -> None:
  lines = ["# Operator, two values, width, height, hash (FNV-1a) of all bytes, bytes if small.",
           "# space: automatic operator, operator, whether of either sign, bins, at 224x200."]
  for width, height in SIZES:
    source = picture(width, height)
    for name, value in CASES:
      factor = name in ("brightness", "color", "contrast", "sharpness")
      for mode in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        moves = name.startswith(("shear", "translate", "rotate"))
        if mode == InterpolationMode.BILINEAR and not moves:
          continue
        result = _apply_op(source, NAMES[name], value - factor, mode, None)
        lines.append(line(name, value, int(mode == InterpolationMode.BILINEAR), result))
    lines.append(line("grayscale", 0, 0, F.to_grayscale(source, 3)))
    if (width, height) == SIZES[0]:
      for size, sigma in BLURS:
        lines.append(line("gaussian_blur", size, sigma, F.gaussian_blur(source, size, sigma)))
  lines += spaces(224, 200)
  (HERE / "operators.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
  main()
