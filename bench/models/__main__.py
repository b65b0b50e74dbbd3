"""python -m bench.models --list | python -m bench.models NAME... [-o FOLDER] [--opset N] [--npz]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.models import HELD_OUT, MODELS, RECURRENT, select


def listing() -> str:
  lines = [f"{'name':<20}{'parameters':>13}{'GMAC':>7}  {'weights':<10}{'BatchNorm':<11}inputs"]
  for m in (*MODELS, *HELD_OUT, *RECURRENT):
    shapes = ", ".join(f"{i.name} {i.dtype}{list(i.shape)}" for i in m.inputs)
    lines.append(f"{m.name:<20}{m.parameters:>13,}{m.gmac:>7.2f}  {m.checksum:<10}"
                 f"{m.batch_norm:<11}{shapes} -> {', '.join(m.outputs)}")
  return "\n".join(lines)


def write_npz(path: Path, model, seed: int) -> Path:
  """Inputs and ONNX Runtime's outputs beside the model, under the keys in:NAME and out:NAME."""
  import numpy as np
  import onnxruntime

  from bench.models import inputs

  feeds = inputs.make_all(model, seed)
  session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
  results = session.run(list(model.outputs), feeds)
  arrays = {f"in:{name}": value for name, value in feeds.items()}
  arrays |= {f"out:{name}": value for name, value in zip(model.outputs, results)}
  target = path.with_suffix(".npz")
  np.savez(target, **arrays)
  return target


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m bench.models", description=__doc__)
  parser.add_argument("names", nargs="*", help="models to export, 'all', 'held-out' or 'recurrent'")
  parser.add_argument("--list", action="store_true", help="show the models and stop")
  parser.add_argument("-o", "--output", type=Path, default=None, help="folder (build/models)")
  parser.add_argument("--opset", type=int, default=17)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--npz", action="store_true",
                      help="also save the inputs and ONNX Runtime's outputs")
  args = parser.parse_args()
  if args.list:
    print(listing())
    return 0
  if not args.names:
    parser.error("name a model, 'all', 'held-out' or 'recurrent', or ask for --list")
  try:
    models = select(args.names)
  except ValueError as error:
    parser.error(str(error))
  from bench.models.export import DEFAULT_FOLDER, export

  for model in models:
    try:
      path = export(model, args.output or DEFAULT_FOLDER, args.opset, args.seed)
    except ImportError as error:
      print(error, file=sys.stderr)
      return 1
    print(path)
    if args.npz:
      print(write_npz(path, model, args.seed))
  return 0


if __name__ == "__main__":
  sys.exit(main())
