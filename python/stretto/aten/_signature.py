"""What goes into a translated program, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Input:
  """An argument of the module, once containers are flat.

  Attributes:
    name: of the graph's input; of a constant what PyTorch calls it.
    dtype: the element type that the module takes; None for a constant.
    shape: its shape.
    constant: what an argument that is no tensor was when the module was traced.
    state: the path of the tensor of the module that this is, and no argument: one that the module
      changes. These come first.
  """

  name: str
  dtype: torch.dtype | None
  shape: tuple[int, ...] = ()
  constant: Any = None
  state: str | None = None


@dataclass(frozen=True)
class Output:
  """A result of the module, once containers are flat: a tensor, or something that never changes.

  Attributes:
    shape: None where only a run tells it.
    becomes: the place among the inputs of the tensor that this is the new content of, where it is
      no result. These come first.
  """

  dtype: torch.dtype | None
  shape: tuple[int, ...] | None = ()
  constant: Any = None
  becomes: int | None = None
