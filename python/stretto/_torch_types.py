"""What `optimize` takes of PyTorch, described by itself: type checkers then need no torch."""

from __future__ import annotations

from typing import Any, Protocol


class TorchModule(Protocol):
  """A `torch.nn.Module`."""

  def named_parameters(self) -> Any: ...


class TorchProgram(Protocol):
  """A `torch.export.ExportedProgram`."""

  @property
  def graph_signature(self) -> Any: ...


class TorchTensor(Protocol):
  """A `torch.Tensor`."""

  def __dlpack__(self) -> Any: ...
