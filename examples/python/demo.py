"""What ./dev demo runs: ResNet-50 on a photo, optimised, compared, reported.

  python examples/python/demo.py [folder]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import resnet50

MEAN, SPREAD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def photo() -> np.ndarray:
  """A portrait (public domain, matplotlib's sample data) as a normalised 1x3x224x224 tensor."""
  import matplotlib
  from PIL import Image

  file = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
  with Image.open(file) as image:
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    square = image.convert("RGB").crop((left, top, left + side, top + side)).resize((224, 224))
  pixels = (np.asarray(square) / 255 - MEAN) / SPREAD
  return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32)


def command(*words: str) -> None:
  print("\n$ stretto " + " ".join(words), flush=True)
  subprocess.run([sys.executable, "-m", "stretto", *words], check=True)


def main() -> int:
  folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo")
  folder.mkdir(parents=True, exist_ok=True)
  model, x, report = folder / "resnet50.onnx", folder / "photo.npy", folder / "report.html"
  if not model.exists():
    resnet50.write(model)
  np.save(x, photo())
  artefact = folder / "resnet50.stretto"
  peers = "onnxruntime,openvino"
  command("optimize", str(model), "-o", str(artefact), "--input", f"image={x}", "--report",
          str(report), "--peers", peers)
  command("infer", str(artefact), "--input", f"image={x}", "-o", str(folder / "logits.npz"))
  print(f"\nThe report: {report.resolve()}")
  path = os.environ.get("PYTHONPATH")  # set where the package is built, but not installed
  print("Next, the same comparison for several thread counts:\n"
        + (f"  PYTHONPATH={path} " if path else "  ")
        + f"{sys.executable} -m stretto bench {model} --threads 1,2 --peers {peers}")
  return 0


if __name__ == "__main__":
  sys.exit(main())
