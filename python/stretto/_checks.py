"""What an InvalidArgumentError says when an argument is of a wrong type.

Where calls are made by the thousand, nothing is checked beforehand. There `wrong()` looks for the
argument to blame only after Python or nanobind has refused one of them.
"""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable
from typing import Any

from stretto._errors import InvalidArgumentError

# Says whether a value will do, and in words what will do.
Kind = tuple[Callable[[Any], bool], str]


def expected(argument: str, what: str, value: Any) -> InvalidArgumentError:
  """The error for `argument` ("all_reduce: group"), which should be `what` ("a number")."""
  return InvalidArgumentError(f"{argument}: expected {what}, got {shown(value)}")


def shown(value: Any) -> str:
  """A short value itself, of anything else the name of its type."""
  if value is None or isinstance(value, (bool, int, float, str)):
    return reprlib.repr(value)
  return type(value).__name__


def wrong(operation: str, error: Exception, **arguments: tuple[Any, Kind]) -> Exception:
  """The error to raise in place of `error`, which may name no argument: an InvalidArgumentError
  about the first argument that is not of its kind. If they all are, `error` itself."""
  for name, (value, (will_do, what)) in arguments.items():
    if not will_do(value):
      return expected(f"{operation}: {name}", what, value)
  return error


def is_whole(value: Any) -> bool:
  try:
    operator.index(value)
  except TypeError:
    return False
  return True


def is_count(value: Any) -> bool:
  """True and False are none: `batch=True` is a mistake."""
  return is_whole(value) and not isinstance(value, bool) and operator.index(value) >= 0


def is_number(value: Any) -> bool:
  try:
    float(value)
  except (TypeError, ValueError, OverflowError):
    return False
  return not isinstance(value, (str, bytes, bool))


def is_text(value: Any) -> bool:
  return isinstance(value, str)


def are_whole(values: Any) -> bool:
  try:
    return all(is_whole(value) for value in values)
  except TypeError:
    return False


WHOLE: Kind = (is_whole, "an integer")
COUNT: Kind = (is_count, "an integer from 0 on")
NUMBER: Kind = (is_number, "a number")
SECONDS: Kind = (is_number, "a number of seconds")
TEXT: Kind = (is_text, "a string")
RANKS: Kind = (are_whole, "a list of ranks")
FUNCTION: Kind = (callable, "a function")


def require(operation: str, **arguments: tuple[Any, Kind]) -> None:
  """Raises InvalidArgumentError about the first argument that is not of its kind."""
  for name, (value, (will_do, what)) in arguments.items():
    if not will_do(value):
      raise expected(f"{operation}: {name}", what, value)
