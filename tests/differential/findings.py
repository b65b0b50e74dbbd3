"""Models that show a defect, as folders: in the form of ONNX's own test cases, so that other tools
read them too, with the settings beside them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from differential import check
from differential import element_types as types
from differential.draft import Draft, build_model
from differential.element_types import Array
from differential.shrink import Failure


def write(folder: Path, draft: Draft, failure: Failure, source: str) -> None:
  """Writes model.onnx, its inputs, what the peers computed, and case.json.

  Args:
    folder: where; it is made.
    draft: what the model is a part of.
    failure: the model.
    source: the command that draws the whole model again.
  """
  data = folder / "test_data_set_0"
  data.mkdir(parents=True, exist_ok=True)
  model, feeds = build_model(draft, failure.steps, failure.outputs, failure.inputs)
  (folder / "model.onnx").write_bytes(model.SerializeToString())
  for i, (name, array) in enumerate(feeds.items()):
    _write_tensor(data / f"input_{i}.pb", array, name)
  allowed = []
  for i, value in enumerate(failure.outputs):
    _write_tensor(data / f"output_{i}.pb", value.array, value.name)
    allowed.append(check.base_tolerance(value, failure.steps, failure.settings)
                   * types.scale(value.array))
  peers = {step.op: step.runner.peer for step in failure.steps}
  content = {"what": failure.outcome.kind, "text": failure.outcome.text, "drawn by": source,
             "run again": f"./dev fuzz-models --replay {folder}", "peers": peers,
             "settings": asdict(failure.settings), "allowed errors": allowed}
  (folder / "case.json").write_text(json.dumps(content, indent=1) + "\n")


def _write_tensor(path: Path, array: Array, name: str) -> None:
  path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def _read_tensors(folder: Path, kind: str) -> dict[str, Array]:
  tensors: dict[str, Array] = {}
  count = len(list(folder.glob(f"{kind}_*.pb")))
  for i in range(count):
    tensor = onnx.TensorProto.FromString((folder / f"{kind}_{i}.pb").read_bytes())
    tensors[tensor.name] = np.asarray(numpy_helper.to_array(tensor))
  return tensors


def replay(folder: Path) -> str:
  """Runs a model that was written.

  Returns:
    What is wrong with it now; empty if nothing is.
  """
  case = json.loads((folder / "case.json").read_text())
  settings = check.Settings(**{**case["settings"],
                               "disable": tuple(case["settings"]["disable"])})
  data = folder / "test_data_set_0"
  content = (folder / "model.onnx").read_bytes()
  wanted = _read_tensors(data, "output")
  try:
    outputs = check.run_stretto(content, _read_tensors(data, "input"), settings)
  except Exception as error:
    return f"{type(error).__name__}: {error}"
  wrong = []
  for (name, want), got, allowed in zip(wanted.items(), outputs, case["allowed errors"]):
    if got.shape != want.shape:
      wrong.append(f"{name}: shape {got.shape}, expected {want.shape}")
      continue
    places = check.far_places(got, want, allowed)
    if places.any():
      wrong.append(f"{name}: {places.sum()} of {places.size} numbers differ by more than "
                   f"{allowed:.3g}\n{got}\nexpected\n{want}")
  return "\n".join(wrong)
