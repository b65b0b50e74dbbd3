"""From a row of `MODELS` to an ONNX file, with a small JSON file beside it that says what it
holds."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path

from bench.models import Model, build, inputs, weights

DEFAULT_OPSET = 17
DEFAULT_FOLDER = Path("build/models")


def source_digest() -> str:
  """Of this folder's Python files: a changed definition makes every cached file stale."""
  digest = hashlib.sha256()
  for path in sorted(Path(__file__).parent.glob("*.py")):
    digest.update(path.read_bytes())
  return digest.hexdigest()[:16]


def path_of(model: Model, folder: Path, opset: int = DEFAULT_OPSET) -> Path:
  suffix = "" if opset == DEFAULT_OPSET else f".opset{opset}"
  return Path(folder) / f"{model.name}{suffix}.onnx"


def describe(model: Model, opset: int, seed: int) -> dict:
  import torch

  return {"model": model.name, "seed": seed, "opset": opset, "torch": torch.__version__,
          "source": source_digest()}


def export(model: Model, folder: Path, opset: int = DEFAULT_OPSET, seed: int = 0) -> Path:
  """Path of the ONNX file in `folder`, written only when it is not there or is stale."""
  path = path_of(model, folder, opset)
  card, wanted = path.with_suffix(".json"), describe(model, opset, seed)
  if path.exists() and card.exists():
    found = json.loads(card.read_text())
    if all(found.get(key) == value for key, value in wanted.items()):
      return path
  path.parent.mkdir(parents=True, exist_ok=True)
  module = build(model, seed)
  partial = path.with_suffix(".onnx.partial")
  write_onnx(model, module, partial, opset, seed)
  os.replace(partial, path)
  card.write_text(json.dumps({**wanted, "checksum": weights.checksum(module)}, indent=2) + "\n")
  return path


def write_onnx(model: Model, module, path: Path, opset: int, seed: int) -> None:
  import torch

  # In evaluation mode the exporter folds BatchNorm into convolutions by itself; PRESERVE on a
  # module that is in evaluation mode writes inference BatchNormalization nodes instead.
  mode = (torch.onnx.TrainingMode.PRESERVE if model.batch_norm == "kept" else
          torch.onnx.TrainingMode.EVAL)
  arguments = tuple(torch.from_numpy(x) for x in inputs.make_all(model, seed).values())
  with warnings.catch_warnings(), torch.no_grad():
    warnings.simplefilter("ignore")
    torch.onnx.export(
        module, arguments, str(path), dynamo=False, opset_version=opset, training=mode,
        do_constant_folding=model.batch_norm != "kept",
        input_names=[i.name for i in model.inputs], output_names=list(model.outputs))
