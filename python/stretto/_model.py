"""Optimise, load and run models."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stretto import _stretto
from stretto._arrays import as_array
from stretto._report import Report


@dataclass(frozen=True)
class TensorSpec:
  """One input or output of a model."""

  name: str
  dtype: str  # NumPy's name
  shape: tuple[int, ...]


class Model:
  """An optimised model. Make one with optimize() or load(); call it to run it.

  Calling is safe from several threads at once; the GIL is released while the model runs.
  """

  def __init__(self, engine: _stretto.Engine, report: Report | None = None):
    self._engine = engine
    self._report = report
    self.name: str = engine.name
    self.inputs = [TensorSpec(n, d, tuple(s)) for n, d, s in engine.inputs]
    self.outputs = [TensorSpec(n, d, tuple(s)) for n, d, s in engine.outputs]
    self.threads: int = engine.threads
    self.weight_bytes: int = engine.weight_bytes
    self.memory_bytes: int = engine.memory_bytes

  def __call__(self, *args: Any, **kwargs: Any) -> np.ndarray | tuple[np.ndarray, ...]:
    """Runs the model on one array per input, in the model's order or by name.

    Arrays are NumPy's or anything that speaks DLPack or __array__; see inputs for their shapes and
    types. Types must agree, except that conversions which lose nothing, and float64 to float32, are
    done silently. A dictionary as the only argument gives names that are no Python identifiers.
    Returns the output as a NumPy array, or a tuple of them in the model's order.
    Raises InvalidArgumentError (a ValueError) naming the input that is missing, unknown or wrong.
    """
    outputs = self._engine.run(self._arrange(args, kwargs))
    return outputs[0] if len(outputs) == 1 else tuple(outputs)

  def save(self, path: str | os.PathLike) -> None:
    """Writes the artefact that load() reads. Raises FormatError (an OSError)."""
    self._engine.save(os.fspath(path))

  @property
  def report(self) -> Report:
    """How the model was made and what was measured."""
    if self._report is None:
      self._report = Report(json.loads(self._engine.report_json()))
    return self._report

  def __repr__(self) -> str:
    def words(specs):
      return ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in specs)

    return f"<stretto.Model {self.name}: {words(self.inputs)} -> {words(self.outputs)}>"

  def _arrange(self, args: tuple, kwargs: dict[str, Any]) -> list[np.ndarray]:
    if len(args) == 1 and isinstance(args[0], Mapping):
      args, kwargs = (), {**args[0], **kwargs}
    names = [spec.name for spec in self.inputs]
    if len(args) > len(names):
      raise _stretto.InvalidArgumentError(f"{self.name}: expected {len(names)} inputs "
                                          f"({', '.join(names)}), got {len(args)}")
    given = dict(zip(names, args))
    for name, value in kwargs.items():
      if name not in names:
        raise _stretto.InvalidArgumentError(
          f"{name}: the model has no such input; it has {', '.join(names)}")
      if name in given:
        raise _stretto.InvalidArgumentError(f"{name}: given twice")
      given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
      raise _stretto.InvalidArgumentError(f"{self.name}: input {', '.join(missing)} is missing")
    return [as_array(given[s.name], s.dtype, f"input {s.name}") for s in self.inputs]


def optimize(
  source: str | os.PathLike | bytes | Any,
  inputs: Mapping[str, Any] | None = None,
  *,
  level: str = "lossless",
  accuracy: str = "default",
  threads: int | None = None,
  shapes: Mapping[str, Iterable[int]] | None = None,
  tune: str | float = "quick",
  report: str | os.PathLike | None = None,
  disable: Iterable[str] = (),
  force: Mapping[str, str] | None = None,
  verify: bool = True,
) -> Model:
  """Makes a faster, verified model for this machine.

  source    path of an .onnx file (or of a .stretto artefact, which is just loaded), an
            onnx.ModelProto, or its bytes.
  inputs    data to check and time with, by input name; made up, and said so in the report, if None.
  level     "lossless": fp32 throughout.
  accuracy  "strict": errors of plain fp32 sums; "default": Winograd F(4,3) too; "fast": anything
            that checks out.
  threads   to run with; every core this process may use if None.
  shapes    dimensions for inputs whose file leaves them open, by input name.
  tune      how long to search for the fastest kernels: "off", "quick", "full" or seconds.
  report    also write a report to this .html or .json file, with other installed engines beside.
  disable   passes or rules not to apply; see list_passes().
  force     kernel to use for an operator family ("conv2d") or a node, whatever was measured.
  verify    compare the result with the double-precision reference.

  Raises InvalidArgumentError (ValueError), UnsupportedError (NotImplementedError) with every
  reason, FormatError (OSError) naming the file, InternalError (RuntimeError) when results are off.
  """
  arrays = {name: as_array(value, name=f"inputs[{name!r}]")
            for name, value in _mapping(inputs).items()}
  options = _stretto.Options()
  options.level = level
  options.accuracy = accuracy
  options.threads = threads or 0
  options.tune = str(tune)
  options.shapes = {name: [int(d) for d in shape] for name, shape in (shapes or {}).items()}
  options.disabled_passes = set(disable)
  options.forced_kernels = dict(force or {})
  options.verify = verify
  if isinstance(source, (str, os.PathLike)):
    path = os.fspath(source)
    if path.endswith(".stretto"):
      return load(path)
    model = Model(_stretto.optimize(path, None, path, options, arrays))
    if report is not None:
      _write_report(model, path, options, arrays, report)
    return model
  content = _onnx_bytes(source)
  model = Model(_stretto.optimize(None, content, "model", options, arrays))
  if report is not None:
    with tempfile.TemporaryDirectory() as folder:
      path = Path(folder, "model.onnx")
      path.write_bytes(content)
      _write_report(model, str(path), options, arrays, report)
  return model


def load(path: str | os.PathLike) -> Model:
  """Reads what Model.save() or `stretto optimize` wrote. Raises FormatError (an OSError)."""
  return Model(_stretto.load(os.fspath(path)))


def list_passes() -> list[tuple[str, str]]:
  """The passes in the order they run: name and what each does."""
  return _stretto.list_passes()


def _mapping(inputs: Mapping[str, Any] | None) -> Mapping[str, Any]:
  if inputs is None:
    return {}
  if not isinstance(inputs, Mapping):
    raise _stretto.InvalidArgumentError(
      f"inputs: expected a dictionary of arrays by input name, got {type(inputs).__name__}")
  return inputs


def _onnx_bytes(source: Any) -> bytes:
  if isinstance(source, (bytes, bytearray, memoryview)):
    return bytes(source)
  if hasattr(source, "SerializeToString"):
    return source.SerializeToString()
  raise _stretto.InvalidArgumentError("source: expected a path, an onnx.ModelProto or bytes, "
                                      f"got {type(source).__name__}")


def _write_report(model: Model, onnx_path: str, options: _stretto.Options,
                  arrays: dict[str, np.ndarray], path: str | os.PathLike) -> None:
  text = _stretto.report_beside(model._engine, onnx_path, options, arrays, [], sys.executable)
  model._report = Report(json.loads(text))
  model._report.save(path)
