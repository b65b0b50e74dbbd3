"""`stretto migrate`: turns a PyTorch script for one device into one for several ranks.

The rules are in `_rules`, one file each. They look at the script through `Facts`, which follows
models and loaders through variables, calls and attributes, and ask for `Edits`. What they cannot
decide they list by line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stretto._errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
  from stretto.migrate._edits import Finding

__all__ = ["Migrated", "migrate"]

MISSING = ("stretto migrate needs the package libcst, which reads and writes Python: "
           "pip install 'stretto[migrate]'")


@dataclass
class Migrated:
  """A migrated script.

  Attributes:
    source: the new text.
    distributed: why the script counts as distributed already, and so is left as it is; "" if it
      was not.
    done: what was changed, by the lines of the old text.
    by_hand: what somebody has to decide or do, by the lines of the old text.
    notes: what another number of ranks means for the training.
  """
  source: str
  distributed: str = ""
  done: list[Finding] = field(default_factory=list)
  by_hand: list[Finding] = field(default_factory=list)
  notes: list[Finding] = field(default_factory=list)


def migrate(source: str, backend: str = "auto") -> Migrated:
  """Makes a script for several ranks of one for a single device.

  Args:
    source: the text of the script.
    backend: of torch.distributed: "stretto", "gloo" or "nccl"; "auto" takes NCCL on GPUs and
      Stretto elsewhere.

  Raises:
    InvalidArgumentError: the text is no Python, or has no training with PyTorch in it.
    UnsupportedError: libcst is not installed.
  """
  try:
    import libcst  # noqa: F401
  except ImportError as error:
    raise UnsupportedError(MISSING) from error
  from stretto.migrate import _rewrite
  from stretto.migrate._helpers import BACKENDS

  if backend not in BACKENDS:
    raise InvalidArgumentError(f"backend: expected one of {', '.join(BACKENDS)}, got {backend}")
  return _rewrite.rewrite(source, backend)
