"""Where an array's memory is and what it holds, as the gradient engine takes them."""

from __future__ import annotations

from typing import Any

from stretto import _stretto
from stretto._errors import InvalidArgumentError

DTYPE_NAMES: dict[Any, str] = {}  # by NumPy's dtype


def name_of(dtype: Any) -> str:
  """dtype.name, which NumPy works out anew each time."""
  name = DTYPE_NAMES.get(dtype)
  if name is None:
    name = DTYPE_NAMES[dtype] = dtype.name
  return name


def address_of(array: Any) -> int:
  address = _stretto.buffer_address(array)
  if address:
    return address
  interface = array.__array_interface__  # the callers say what was wrong when there is none
  if not array.flags.c_contiguous or interface["data"][1]:
    raise InvalidArgumentError("the array must be C-contiguous and writable")
  return int(interface["data"][0])
