"""Modules that convert parts of themselves while they run, as `part.to(self.dtype)` does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_lock = threading.Lock()
_users = 0  # how many threads export now
_apply = torch.nn.Module._apply


@contextmanager
def idle_conversions() -> Iterator[None]:
  """While this lasts, torch.export takes conversions for what they mostly are: for nothing, since
  the part has that type already. It cannot trace that PyTorch sets the parameters anew."""
  global _users, _apply
  with _lock:
    if _users == 0:
      _apply = torch.nn.Module._apply
      torch.nn.Module._apply = _apply_unless_idle  # type: ignore[method-assign]
    _users += 1
  try:
    yield
  finally:
    with _lock:
      _users -= 1
      if _users == 0:
        torch.nn.Module._apply = _apply  # type: ignore[method-assign]


def _apply_unless_idle(self: torch.nn.Module, function: Callable[[torch.Tensor], torch.Tensor],
                       recurse: bool = True) -> Any:
  tensors = [*self.parameters(recurse), *self.buffers(recurse)]
  if torch.compiler.is_exporting() and all(_is_same(function(t), t) for t in tensors):
    return self
  return _apply(self, function, recurse)


def _is_same(converted: torch.Tensor, tensor: torch.Tensor) -> bool:
  return ((converted.dtype, converted.device, converted.shape)
          == (tensor.dtype, tensor.device, tensor.shape))
