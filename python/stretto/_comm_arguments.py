"""What stretto.comm takes: its errors about arguments of a wrong type, and its options."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stretto import _stretto
from stretto._checks import (
  COUNT,
  FUNCTION,
  NUMBER,
  RANKS,
  SECONDS,
  TEXT,
  WHOLE,
  Kind,
  are_whole,
  expected,
  is_count,
  is_text,
  is_whole,
  wrong,
)
from stretto._errors import InvalidArgumentError


def is_array(value: Any) -> bool:
  import numpy as np

  return isinstance(value, np.ndarray)


def is_slice(value: Any) -> bool:
  return (isinstance(value, tuple) and len(value) == 5 and is_text(value[0])
          and are_whole(value[1:]))


__all__ = ["ADDRESS", "ARRAY", "COUNT", "DTYPE", "ENGINE", "FUNCTION", "GROUP", "HANDLE", "NUMBER",
           "OPTIONS", "RANK", "RANKS", "SECONDS", "SLICES", "STORE", "TEXT", "WHOLE", "check_codec",
           "copied", "set_option", "wrong_field"]

ARRAY: Kind = (is_array, "a NumPy array")
GROUP: Kind = (is_count, "the number of a group, from add_group()")
HANDLE: Kind = (is_count, "a handle, from submit() or start_all_reduce()")
RANK: Kind = (is_whole, "a rank")
ADDRESS: Kind = (is_count, "an address")
DTYPE: Kind = (is_text, "NumPy's name of an element type")
STORE: Kind = (
  lambda store: isinstance(store, str) or (hasattr(store, "set") and hasattr(store, "get")),
  "a folder (a path with a '/'), HOST:PORT, or an object with set() and get()")
ENGINE: Kind = (lambda value: hasattr(value, "native"), "a stretto.comm.Engine")
OPTIONS: Kind = (lambda value: value is None or isinstance(value, _stretto.CommOptions),
                 "stretto.comm.Options or None")
COUNTS: Kind = (are_whole, "a list of numbers of elements")
SLICES: Kind = (lambda slices: isinstance(slices, (list, tuple)) and all(map(is_slice, slices)),
                "a list of tuples (parameter, first element, count, rows, columns)")

# The fields of an operation, as python/comm.cc takes them.
FIELDS: dict[str, Kind] = {
  "group": GROUP, "kind": (is_count, "a kind of operation, like stretto.comm.ALL_REDUCE"),
  "dtype": DTYPE, "reduction": (is_count, "a place in stretto.comm.REDUCTIONS"), "count": COUNT,
  "input": ADDRESS, "output": ADDRESS, "root": RANK, "peer": RANK, "tag": COUNT, "codec": TEXT,
  "name": TEXT, "queue": WHOLE, "blocking": WHOLE, "input_counts": COUNTS, "output_counts": COUNTS,
  "timeout_s": SECONDS,
}


def wrong_field(method: str, error: Exception, group: Any, operation: dict[str, Any]) -> Exception:
  """The error about what `Engine.submit` was given."""
  for name in operation:
    if name not in FIELDS:
      return InvalidArgumentError(
        f"{method}: an operation has no field '{name}'; it has {', '.join(FIELDS)}")
  for name in ("kind", "dtype"):
    if name not in operation:
      return InvalidArgumentError(f"{method}: {name} is missing")
  return wrong(method, error, group=(group, GROUP),
               **{name: (value, FIELDS[name]) for name, value in operation.items()})


def check_codec(where: str, codec: Any) -> None:
  """Refuses what is neither empty nor a value of STRETTO_CODEC."""
  if not isinstance(codec, str):
    raise expected(f"{where}: codec", "a string", codec)
  if codec:
    _stretto.check_codec(codec)


def set_option(options: _stretto.CommOptions, name: str, value: Any) -> None:
  """What `options.name = value` calls."""
  try:
    object.__setattr__(options, name, value)
  except TypeError:
    kind = type(getattr(options, name)).__name__
    raise expected(f"Options: {name}", f"a value of type {kind}", value) from None


def copied(options: _stretto.CommOptions) -> SimpleNamespace:
  """A copy without C++ objects: torch's reducers keep process groups beyond the interpreter."""
  fields = {name: getattr(options, name) for name in dir(options) if not name.startswith("_")}
  return SimpleNamespace(**{name: v for name, v in fields.items() if not callable(v)})
