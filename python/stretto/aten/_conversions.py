"""Modules that convert parts of themselves while they run, as `part.to(self.dtype)` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def idle_conversions() -> Iterator[None]:
  """While this lasts, torch.export takes conversions for what they mostly are: for nothing, since
  the part has that type already. It cannot trace that PyTorch sets the parameters anew."""
  original = torch.nn.Module._apply

  def apply(self: torch.nn.Module, function: Callable[[torch.Tensor], torch.Tensor],
            recurse: bool = True) -> Any:
    tensors = [*self.parameters(recurse), *self.buffers(recurse)]
    if torch.compiler.is_exporting() and all(_is_same(function(t), t) for t in tensors):
      return self
    return original(self, function, recurse)

  torch.nn.Module._apply = apply  # type: ignore[method-assign]
  try:
    yield
  finally:
    torch.nn.Module._apply = original  # type: ignore[method-assign]


def _is_same(converted: torch.Tensor, tensor: torch.Tensor) -> bool:
  return ((converted.dtype, converted.device, converted.shape)
          == (tensor.dtype, tensor.device, tensor.shape))
