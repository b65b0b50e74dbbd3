"""Masks of nn.TransformerEncoder and nn.TransformerDecoder.

They compare a mask that comes without `is_causal` with a causal one, only to tell the attention
that it may leave the mask out. No tracer can decide that: torch.export refuses the module, and
torch.compile runs all of it in the framework. Without the hint the mask is applied as it is, which
gives the same numbers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.modules import transformer

_NAME = "_detect_is_causal_mask"
_ARGUMENTS = ["mask", "is_causal", "size"]


def _as_given(mask: torch.Tensor | None, is_causal: bool | None = None,
              size: int | None = None) -> bool:
  return is_causal is True


def _is_known() -> bool:
  """Whether this version of PyTorch asks as those did that this was written for."""
  detect = getattr(transformer, _NAME, None)
  return detect is not None and list(inspect.signature(detect).parameters) == _ARGUMENTS


@contextmanager
def unasked() -> Iterator[None]:
  """While a module is exported. Modules that other threads run meanwhile compute the same."""
  if not _is_known():
    yield
    return
  detect = getattr(transformer, _NAME)
  setattr(transformer, _NAME, _as_given)
  try:
    yield
  finally:
    setattr(transformer, _NAME, detect)


@functools.cache
def leave_out_of_compiled() -> None:
  """For everything that torch.compile traces from now on, whatever its backend."""
  if _is_known() and hasattr(torch.compiler, "substitute_in_graph"):
    torch.compiler.substitute_in_graph(getattr(transformer, _NAME))(_as_given)
