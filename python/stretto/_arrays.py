"""What users pass as arrays, made into what the engine takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from stretto._errors import InvalidArgumentError

# What arrays of element types are given as that NumPy lacks, also by those of ml_dtypes.
_NUMPY_TYPES = {
  "bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e4m3fnuz": "float32",
  "float8_e5m2": "float32", "float8_e5m2fnuz": "float32", "float8_e8m0fnu": "float32",
  "float4_e2m1fn": "float32", "int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8",
}


def as_array(value: Any, dtype: str | None = None, name: str = "input") -> np.ndarray:
  """A C-contiguous array of `dtype` (any when None).

  Takes NumPy arrays, anything with __dlpack__ or __array__, and nested lists. Arrays keep their
  values: an element type is only changed when none can be lost ("safe" in NumPy's words), or from
  float64 to float32, which rounds. Python numbers and lists take the type that is asked for. Types
  that NumPy lacks, like bfloat16, become wider ones; the engine rounds them.
  """
  if dtype is not None:
    dtype = _NUMPY_TYPES.get(dtype, dtype)
  if isinstance(value, (list, tuple, int, float, bool)):
    try:
      return np.asarray(value, dtype=dtype, order="C")
    except (TypeError, ValueError, OverflowError) as error:
      raise InvalidArgumentError(f"{name}: {error}") from None
  if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
    try:
      array = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
      raise InvalidArgumentError(f"{name}: cannot be read as an array: {error}") from None
  else:
    array = np.asarray(value)
  if array.dtype == object:
    raise InvalidArgumentError(f"{name}: expected an array, got {type(value).__name__}")
  if array.dtype.name in _NUMPY_TYPES:
    array = array.astype(_NUMPY_TYPES[array.dtype.name])
  if dtype is None and array.dtype.kind in "SUMmc":
    raise InvalidArgumentError(f"{name}: expected an array of numbers, got {array.dtype}")
  if dtype is not None and array.dtype != dtype:
    if not (np.can_cast(array.dtype, dtype, "safe")
            or (array.dtype == np.float64 and dtype == "float32")):
      raise InvalidArgumentError(
          f"{name}: expected {dtype}, got {array.dtype}; "
          f"convert it with .astype('{dtype}')")
    array = array.astype(dtype)
  if not array.dtype.isnative:
    array = array.astype(array.dtype.newbyteorder("="))
  # ascontiguousarray would make a scalar one-dimensional.
  return array if array.flags.c_contiguous else np.ascontiguousarray(array)
