"""What ./dev demo runs: ResNet-50 on a photo, optimised, compared, reported.

  python examples/python/demo.py [folder]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import resnet50


def photo() -> Path:
  """A portrait (public domain, matplotlib's sample data)."""
  import matplotlib

  return Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")


def command(*words: str) -> None:
  print("\n$ stretto " + " ".join(words), flush=True)
  subprocess.run([sys.executable, "-m", "stretto", *words], check=True)


def main() -> int:
  folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo")
  folder.mkdir(parents=True, exist_ok=True)
  model, artefact = folder / "resnet50.onnx", folder / "resnet50.stretto"
  report, picture = folder / "report.html", folder / "photo.jpg"
  shutil.copyfile(photo(), picture)
  if not model.exists():
    resnet50.write(model)
  peers = "onnxruntime,openvino"
  command("optimize", str(model), "-o", str(artefact), "--preprocess", "imagenet(224)", "--input",
          f"image={picture}", "--report", str(report), "--peers", peers)
  command("infer", str(artefact), "--input", str(picture), "-o", str(folder / "logits.npz"))
  print("\nThe weights are random: times are those of trained ones, the classes mean nothing."
        f"\n\nThe report: {report.resolve()}")
  path = os.environ.get("PYTHONPATH")  # set where the package is built, but not installed
  print("Next, the same comparison for several thread counts:\n"
        + (f"  PYTHONPATH={path} " if path else "  ")
        + f"{sys.executable} -m stretto bench {model} --threads 1,2 --peers {peers}")
  return 0


if __name__ == "__main__":
  sys.exit(main())
