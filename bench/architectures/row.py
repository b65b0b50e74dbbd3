"""What a row of the list of architectures says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Input:
  """An input without its batch, which comes first.

  Attributes:
    kind: floats, ids, ones (a mask that hides nothing), or unit (floats from 0 to 1).
    shape: its sizes after the batch.
    below: ids are drawn from 0 to this.
    batch_axis: where the batch goes.
  """

  kind: str
  shape: tuple[int, ...]
  below: int = 0
  batch_axis: int = 0


@dataclass(frozen=True)
class Architecture:
  """A row.

  Attributes:
    name: unique; torchvision's or timm's own name where it is theirs.
    family: for the summary.
    source: torchvision, timm, transformers or diffusers; otherwise a file of bench.architectures.
    inputs: by position.
    make: what of the source makes it: a class or function; the name where empty.
    options: what it is made with: sizes that keep one run below seconds.
    keywords: names of the inputs where they are given by name.
    outputs: fields of what it returns that count; all tensors where empty.
    note: what was made smaller, or left out.
  """

  name: str
  family: str
  source: str
  inputs: tuple[Input, ...]
  make: str = ""
  options: dict[str, Any] = field(default_factory=dict)
  keywords: tuple[str, ...] = ()
  outputs: tuple[str, ...] = ()
  note: str = ""


def floats(*shape: int, batch_axis: int = 0) -> Input:
  return Input("floats", shape, batch_axis=batch_axis)


def unit(*shape: int) -> Input:
  return Input("unit", shape)


def ids(length: int, below: int = 1000) -> Input:
  return Input("ids", (length,), below)


def ones(length: int) -> Input:
  return Input("ones", (length,))


def image(size: int) -> tuple[Input, ...]:
  return (floats(3, size, size),)
