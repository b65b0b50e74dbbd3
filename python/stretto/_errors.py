"""Every exception that Stretto raises itself, from C++ and from Python alike."""

from __future__ import annotations

import errno
from typing import Any


class Error(Exception):
  """Base of all exceptions that Stretto raises itself."""


class InvalidArgumentError(Error, ValueError):
  """The caller passed something wrong. The text says what was expected and what came."""


class UnsupportedError(Error, NotImplementedError):
  """The request is legal, but Stretto cannot do it here. The text gives every reason."""


class InternalError(Error, RuntimeError):
  """A promise of Stretto itself was broken, or verification failed. Please report it."""


class CommError(Error, RuntimeError):
  """A rank or a link is lost, or an operation took too long. The engine cannot be used any more.

  Args:
    message: what happened, in words.
    rank: the rank that is lost; -1: none in particular.
    link: the link that failed; empty: unknown.

  Attributes:
    rank: the rank that is lost; -1 if the error concerns none in particular.
    link: the link that failed, as addresses; empty if unknown.
  """

  def __init__(self, message: str, rank: int = -1, link: str = "") -> None:
    super().__init__(message)
    self.rank = rank
    self.link = link

  def __reduce__(self) -> tuple[Any, ...]:
    return type(self), (str(self), self.rank, self.link)


class FormatError(Error, OSError):
  """A file is missing, truncated, altered or not what it claims to be.

  If the operating system refused the file, the exception is also of Python's class for that error:
  a missing file is a FileNotFoundError, one without permission a PermissionError.

  Attributes:
    filename: the file.
    offset: the byte where the problem was found; -1 if unknown.
    errno: the operating system's error number; None if the file could be read.
  """

  offset: int = -1

  def __str__(self) -> str:
    return str(self.args[0]) if self.args else ""

  def __reduce__(self) -> tuple[Any, ...]:
    return format_error, (str(self), self.filename, self.offset, self.errno or 0)


def _refused(base: type[OSError]) -> type[FormatError]:
  # Shown as FormatError: the class of Python beside it is for `except` clauses.
  return type("FormatError", (FormatError, base), {"__module__": "stretto"})


_REFUSED = {
  errno.ENOENT: _refused(FileNotFoundError),
  errno.EACCES: _refused(PermissionError),
  errno.EPERM: _refused(PermissionError),
  errno.EISDIR: _refused(IsADirectoryError),
  errno.ENOTDIR: _refused(NotADirectoryError),
  errno.EEXIST: _refused(FileExistsError),
}


def format_error(message: str, file: str, offset: int = -1, code: int = 0) -> FormatError:
  """A FormatError that is also Python's own exception for the errno `code`; 0: for none."""
  error = _REFUSED.get(code, FormatError)(message)
  error.filename = file
  error.offset = offset
  if code:
    error.errno = code
    error.strerror = message
  return error


# Tracebacks and reprs show the names that users import.
for _class in (Error, InvalidArgumentError, UnsupportedError, InternalError, CommError,
               FormatError):
  _class.__module__ = "stretto"
