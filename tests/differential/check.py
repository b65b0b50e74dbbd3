"""One model through Stretto, compared with what the peers computed node by node."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from stretto._arrays import as_array
from stretto._model import Model

import stretto
from differential import element_types as types
from differential.draft import Draft, Step, Value, build_model, feeds_of
from differential.element_types import Array
from differential.peer import CannotRun
from stretto import UnsupportedError, _stretto

# What the errors of an output may be, in parts of its largest number. Engines sum in their own
# order and approximate functions: both give about ten steps of a float type.
_STEPS_ALLOWED = 24
# Stretto's own bounds by accuracy, for Winograd's and Strassen's algorithms.
_FAST_PRODUCTS = {"default": 1e-4, "fast": 3e-4}
_FAST_OPERATORS = {"Conv", "ConvTranspose", "QLinearConv"}
# How often the whole model is computed again with errors put in, and how much more than what came
# of them is still allowed: few trials miss the worst.
_TRIALS, _MARGIN = 6, 8
# Types that NumPy lacks come as wider ones.
_GIVEN = {"bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e4m3fnuz": "float32",
          "float8_e5m2": "float32", "float8_e5m2fnuz": "float32", "int4": "int8", "uint4": "uint8"}


@dataclass
class Settings:
  """How Stretto runs a model."""
  threads: int = 1
  accuracy: str = "strict"
  disable: tuple[str, ...] = ()
  verify: bool = False
  reload: bool = False  # also save the artefact and run what is loaded


@dataclass
class Outcome:
  """What became of a model.

  Attributes:
    kind: "same", "refused", "undecided" (a number that rounding moves across a step decides), or a
      finding: "differs", "error", "unstable".
    text: what is wrong, or why it was refused.
  """
  kind: str
  text: str = ""
  outputs: list[str] = field(default_factory=list)

  @property
  def is_finding(self) -> bool:
    return self.kind in ("differs", "error", "unstable")


def draw_settings(rng: np.random.Generator) -> Settings:
  """Settings for a model: mostly plain ones."""
  names = [name for name, _ in stretto.list_passes()]
  return Settings(
    threads=int(rng.choice([1, 2, 3, 5], p=[0.4, 0.3, 0.2, 0.1])),
    accuracy=str(rng.choice(["strict", "default", "fast"])),
    disable=(str(rng.choice(names)),) if rng.random() < 0.15 else (),
    verify=bool(rng.random() < 0.15),
    reload=bool(rng.random() < 0.1))


def optimized(content: bytes, feeds: dict[str, Array], settings: Settings) -> Model:
  """As stretto.optimize makes it, without the seconds of timing for the report."""
  options = _stretto.Options()
  options.tuning, options.tuning_cache, options.profile = "off", "none", False
  options.threads, options.accuracy = settings.threads, settings.accuracy
  options.verify, options.disable = settings.verify, set(settings.disable)
  arrays = {name: as_array(array, name=name) for name, array in feeds.items()}
  return Model(_stretto.optimize(None, content, "model", options, arrays, None))


def run_stretto(content: bytes, feeds: dict[str, Array], settings: Settings) -> list[Array]:
  """The outputs of a model.

  Raises:
    AssertionError: two runs differ, or a run changed its inputs.
  """
  model = optimized(content, feeds, settings)
  given = feeds_of(feeds)
  first = list(model.run(given).values())
  again = list(model.run(given).values())
  for i, (a, b) in enumerate(zip(first, again)):
    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), \
        f"output {i}: the second run differs"
  for name, array in feeds.items():
    assert array.tobytes() == given[name].tobytes(), f"a run changed input {name}"
  if settings.reload:
    with tempfile.TemporaryDirectory() as folder:
      path = Path(folder) / "m.stretto"
      model.save(path)
      loaded = list(stretto.load(path, threads=settings.threads).run(given).values())
    for i, (a, b) in enumerate(zip(first, loaded)):
      assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), \
          f"output {i}: the loaded artefact differs"
  return first


def base_tolerance(value: Value, steps: Sequence[Step], settings: Settings) -> float:
  """The error allowed for any model, in parts of the output's largest number."""
  fast = any(s.op in _FAST_OPERATORS for s in steps) and value.coarseness
  allowed = _STEPS_ALLOWED if value.coarseness < 2.0**-20 else 4
  products = _FAST_PRODUCTS.get(settings.accuracy, 0.0) if fast else 0.0
  return max(allowed * value.coarseness, products)


def far_places(got: Array, want: Array, allowed: Array | float) -> Array:
  """Where two arrays differ by more than is allowed."""
  if not types.is_float(want):
    return np.asarray(got != want)
  a, b = got.astype(np.float64), want.astype(np.float64)
  with np.errstate(invalid="ignore"):
    return ~((np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b)) |
             np.isinf(allowed))  # as the root of a zero that rounding makes negative


def disturbed(array: Array, rng: np.random.Generator, coarseness: float = 0.0) -> Array:
  """The array with errors of a few rounding steps: of each number, and of the largest one."""
  if not types.is_float(array) or not array.size:
    return array
  wide = array.astype(np.float64)
  scale = 4 * max(coarseness, types.step(array))
  noise = rng.uniform(-1, 1, (2, *array.shape)) * scale
  wide = wide * (1 + noise[0]) + types.largest(wide) * noise[1] / 4
  return np.asarray(wide).astype(array.dtype)


def spread_of_errors(steps: Sequence[Step], outputs: Sequence[Value]
                     ) -> tuple[list[Array], bool]:
  """How far the outputs move if every float in between is off by a few steps, and whether an
  integer or a bool moved too."""
  rng = np.random.default_rng(0)
  spread = [np.zeros(v.shape) for v in outputs]
  jumped = False
  for _ in range(_TRIALS):
    arrays: dict[str, Array] = {}
    for step in steps:
      feeds = {v.name: arrays.get(v.name, v.array) for v in step.inputs if v.kind != "constant"}
      if any(not v.exact for v in step.outputs):  # what a node rounds inside
        feeds = {name: disturbed(array, rng) for name, array in feeds.items()}
      try:
        results = step.runner.run(feeds)
      except CannotRun:
        return spread, True
      for value, array in zip(step.outputs, results):
        if array.shape != value.shape:
          return spread, True
        if not types.is_float(array):
          jumped = jumped or bool((array != value.array).any())
        elif not value.exact:
          array = disturbed(array, rng, value.coarseness)
        arrays[value.name] = array
    for i, value in enumerate(outputs):
      if value.name in arrays and types.is_float(value.array):
        moved = np.abs(arrays[value.name].astype(np.float64) - value.array.astype(np.float64))
        spread[i] = np.fmax(spread[i], np.where(np.isnan(moved), np.inf, moved))
  return spread, jumped


def compare(steps: Sequence[Step], outputs: Sequence[Value], got: Sequence[Array],
            settings: Settings) -> Outcome:
  """Compares outputs with those of the peers."""
  if len(got) != len(outputs):
    return Outcome("differs", f"{len(got)} outputs instead of {len(outputs)}")
  far, names, moved = "", [], None
  for i, (value, array) in enumerate(zip(outputs, got)):
    wanted_type = _GIVEN.get(value.dtype, value.dtype)
    if array.shape != value.shape or array.dtype.name != wanted_type:
      names.append(value.name)
      far = far or f"{value.name}: {array.dtype}{list(array.shape)}, expected " \
                   f"{wanted_type}{list(value.shape)}"
      continue
    allowed: Array | float = base_tolerance(value, steps, settings) * types.scale(value.array)
    places = far_places(array, value.array, allowed)
    if places.any():
      moved = moved or spread_of_errors(steps, outputs)
      spread, jumped = moved
      if jumped:
        return Outcome("undecided", value.name)
      allowed = allowed + _MARGIN * spread[i]
      places = far_places(array, value.array, allowed)
    if places.any():
      at = tuple(int(i) for i in np.unravel_index(int(places.argmax()), places.shape))
      names.append(value.name)
      limit = np.broadcast_to(allowed, value.shape)[at]
      far = far or (f"{value.name}{list(at)} of {value.dtype}{list(value.shape)}: {array[at]}, "
                    f"expected {value.array[at]} +- {limit:.3g}; {places.sum()} of "
                    f"{places.size} differ")
  return Outcome("differs", far, names) if far else Outcome("same")


def check_model(content: bytes, feeds: dict[str, Array], steps: Sequence[Step],
                outputs: Sequence[Value], settings: Settings) -> Outcome:
  """Runs and compares."""
  try:
    got = run_stretto(content, feeds, settings)
  except UnsupportedError as error:
    return Outcome("refused", str(error))
  except AssertionError as error:
    return Outcome("unstable", str(error))
  except Exception as error:
    return Outcome("error", f"{type(error).__name__}: {error}")
  return compare(steps, outputs, got, settings)


def check_steps(draft: Draft, steps: Sequence[Step], outputs: Sequence[Value],
                settings: Settings, inputs: Sequence[Value] = ()) -> Outcome:
  """Makes the model of some steps, runs and compares it."""
  model, feeds = build_model(draft, steps, outputs, inputs)
  return check_model(model.SerializeToString(), feeds, steps, outputs, settings)


def is_valid(model: onnx.ModelProto) -> str:
  """What ONNX's own checker finds wrong with a model."""
  try:
    onnx.checker.check_model(model)
  except Exception as error:
    return str(error)
  return ""
