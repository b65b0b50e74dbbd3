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

# What stands for the element type of values that are no tensors of numbers.
NO_TENSORS = ("strings", "sequence", "optional")


def to_engine(value: Any, kind: str, name: str = "input") -> Any:
  """A value that is no tensor of numbers, or may be none, in the form that the engine takes: None,
  a list, an array, or strings as a pair of shape and list."""
  if value is None:
    return None
  if kind != "strings" and isinstance(value, (list, tuple)):
    return [to_engine(element, kind, name) for element in value]
  array = np.asarray(value)
  if array.dtype.kind not in "OUST":
    return as_array(value, name=name)
  texts = []
  for text in array.reshape(-1).tolist():
    if not isinstance(text, (str, bytes)):
      raise InvalidArgumentError(f"{name}: expected strings, got {type(text).__name__}")
    texts.append(text if isinstance(text, str) else text.decode("utf-8", "surrogateescape"))
  return (list(array.shape), texts)


def from_engine(value: Any) -> Any:
  """The other way round; strings become an array of objects."""
  if isinstance(value, list):
    return [from_engine(element) for element in value]
  if not isinstance(value, tuple):
    return value
  shape, texts = value
  array = np.empty(len(texts), dtype=object)
  array[:] = texts
  return array.reshape(shape)


def _widened(value: Any) -> Any:
  """A tensor of PyTorch in a type that NumPy has."""
  kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
  return value.float() if kind in _NUMPY_TYPES and hasattr(value, "float") else value


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
      array = np.from_dlpack(_widened(value))
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
