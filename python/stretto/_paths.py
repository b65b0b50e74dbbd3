"""What users pass as paths, made into what the engine takes."""

from __future__ import annotations

import os
from typing import Any

from stretto._errors import InvalidArgumentError


def path_text(name: str, path: Any) -> str:
  """The path as text in UTF-8; `name` is the argument's, for the error when it is no path."""
  try:
    text = os.fsdecode(path)
  except TypeError:
    raise InvalidArgumentError(f"{name}: expected a path, got {type(path).__name__}") from None
  if "\0" in text:
    raise InvalidArgumentError(f"{name}: a path holds no null characters, got {text!r}")
  try:
    text.encode()
  except UnicodeEncodeError:
    raise InvalidArgumentError(f"{name}: expected a path in UTF-8, got {text!r}; rename the file"
                               ) from None
  return text
