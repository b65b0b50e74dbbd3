"""Element types of ONNX as NumPy knows them, and how fine each is."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import helper

Array = NDArray[Any]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
INDICES = ("int64", "int32")
STORED = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4")
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + ("bool",)

# How ONNX writes the types in the schemas of operators, where NumPy's name differs.
_SCHEMA_NAMES = {"float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn",
                 "float8e4m3fnuz": "float8_e4m3fnuz", "float8e5m2": "float8_e5m2",
                 "float8e5m2fnuz": "float8_e5m2fnuz"}

# The distance of 1 to the next number.
_STEPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7,
          "float8_e4m3fn": 2.0**-3, "float8_e4m3fnuz": 2.0**-3, "float8_e5m2": 2.0**-2,
          "float8_e5m2fnuz": 2.0**-2}

# Numbers that are a multiple of `unit` below `limit` have a few bits to spare in the type.
_GRIDS = {"float64": (2.0**-10, 2.0**12), "float32": (2.0**-10, 2.0**12),
          "float16": (2.0**-4, 2.0**6), "bfloat16": (2.0**-2, 2.0**4)}


def numpy_type(name: str) -> np.dtype[np.generic]:
  """The type of a name, also of those that NumPy lacks."""
  return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


def onnx_type(array: Array) -> int:
  """ONNX's number of an array's type."""
  return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def schema_type(text: str) -> str:
  """NumPy's name of a type as a schema writes it, such as tensor(float)."""
  name = text.removeprefix("tensor(").removesuffix(")")
  return _SCHEMA_NAMES.get(name, name)


def is_float(array: Array) -> bool:
  """Whether numbers of the array's type are rounded."""
  return array.dtype.name in _STEPS


def step(array: Array) -> float:
  """The distance of 1 to the next number, or 0 for types that round nothing."""
  return _STEPS.get(array.dtype.name, 0.0)


def largest(array: Array) -> float:
  """The largest number without its sign."""
  return float(np.abs(array.astype(np.float64)).max()) if array.size else 0.0


def scale(array: Array) -> float:
  """What errors are measured by: the largest number, or where the type gets coarser near 0."""
  if not is_float(array):
    return largest(array)
  return max(largest(array), 4 * float(ml_dtypes.finfo(array.dtype).smallest_normal))


def on_grid(array: Array) -> bool:
  """Whether the numbers are so coarse that arithmetic which is exact on them rounds nothing."""
  if not is_float(array):
    return True
  if array.dtype.name not in _GRIDS:
    return False
  unit, limit = _GRIDS[array.dtype.name]
  wide = array.astype(np.float64)
  return bool(np.all(np.abs(wide) < limit) and np.all(wide / unit == np.round(wide / unit)))


def summable(array: Array) -> bool:
  """Whether sums of hundreds of products of such numbers are exact in every order."""
  if not is_float(array):
    return True
  if array.dtype.name not in ("float32", "float64"):
    return False
  wide = array.astype(np.float64)
  return bool(np.all(np.abs(wide) <= 8) and np.all(wide * 4 == np.round(wide * 4)))


def finite(array: Array) -> bool:
  """Whether no number is infinite or not a number."""
  return not is_float(array) or bool(np.isfinite(array.astype(np.float64)).all())
