"""Writes outlines.txt (the pixels that pycocotools finds in polygons) and boxes.txt (what
torchvision makes of boxes), which tests of data and media read.

python tests/media/make_target_golden.py, with torchvision, pycocotools and NumPy.
"""

from pathlib import Path

import numpy as np
import torch
from pycocotools import mask
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

HERE = Path(__file__).resolve().parent


def outlines(rng: np.random.Generator) -> list[str]:
  """Width, height, coordinates and the runs of each polygon."""
  lines = []
  for i in range(80):
    width, height = (int(v) for v in rng.integers(1, 40, 2))
    count = int(rng.integers(3, 12))
    points = rng.uniform(-0.2, 1.2, (count, 2)) * (width, height)
    if i % 4 != 0:
      points = points.round(2)
    if i % 4 == 2:
      points = points.round(0)
    if i % 5 == 0:
      points = np.concatenate([points, points[:1]])  # closed by a corner that is there twice
    xy = [float(v) for v in points.reshape(-1)]
    runs = mask.frPyObjects([xy], height, width)[0]["counts"].decode()
    lines.append(f"{width} {height} {','.join(repr(v) for v in xy)} {runs}")
  return lines


def boxes(rng: np.random.Generator) -> list[str]:
  """The picture's size, its box, the crop, the size of the result, whether it is mirrored, the
  operator with its value, and the box then."""
  lines = []
  names = ["none", "rotate", "shear_x", "shear_y", "translate_x", "translate_y"]
  for i in range(120):
    width, height = (int(v) for v in rng.integers(20, 200, 2))
    x = np.sort(rng.uniform(0, width, 2))
    y = np.sort(rng.uniform(0, height, 2))
    box = tv_tensors.BoundingBoxes(torch.tensor([[x[0], y[0], x[1], y[1]]], dtype=torch.float64),
                                   format="XYXY", canvas_size=(height, width))
    w, h = int(rng.integers(5, width + 1)), int(rng.integers(5, height + 1))
    left, top = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
    size = [int(v) for v in rng.integers(10, 100, 2)]
    flip, name = int(rng.integers(2)), names[i % len(names)]
    value = {"none": 0.0, "rotate": 40.0, "shear_x": 0.4, "shear_y": 0.4}.get(name, 9.0)
    value = round(float(rng.uniform(-value, value)), 2 if value < 5 else 0)
    after = F.resize(F.crop(box, top, left, h, w), size)
    if flip:
      after = F.horizontal_flip(after)
    if name == "rotate":
      after = F.rotate(after, value)
    elif name != "none":
      shear = float(np.degrees(np.arctan(value)))
      after = F.affine(after, angle=0.0, scale=1.0,
                       translate=[value if name == "translate_x" else 0,
                                  value if name == "translate_y" else 0],
                       shear=[shear if name == "shear_x" else 0.0,
                              shear if name == "shear_y" else 0.0],
                       center=[0.0, 0.0] if name.startswith("shear") else None)
    numbers = [width, height, *box[0].tolist(), left, top, left + w, top + h, size[1], size[0],
               flip, name, value, *F.clamp_bounding_boxes(after)[0].tolist()]
    lines.append(" ".join(v if isinstance(v, str) else repr(v) for v in numbers))
  return lines


def main() -> None:
  rng = np.random.default_rng(4)
  for name, rows in (("outlines.txt", outlines(rng)), ("boxes.txt", boxes(rng))):
    head = "# Written by make_target_golden.py.\n"
    (HERE / name).write_text(head + "\n".join(rows) + "\n")


if __name__ == "__main__":
  main()
