"""Reads the arguments of collectives as torch passes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from stretto import comm
from stretto._errors import InvalidArgumentError
from stretto.torch._buffers import NAMES


def one_or_more(tensors) -> list[torch.Tensor]:
  tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
  if len(tensors) != 1:
    raise InvalidArgumentError(f"expected one tensor per rank, got {len(tensors)}")
  return tensors


def reduce_options(opts, kind):
  """torch also takes the operation alone."""
  if opts is None or hasattr(opts, "reduceOp"):
    return opts or kind()
  options = kind()
  options.reduceOp = opts
  return options


def check_alike(what: str, name: str, tensor: torch.Tensor, other_name: str,
                other: torch.Tensor) -> None:
  """The engine knows addresses and one count."""
  if tensor.numel() != other.numel() or tensor.dtype != other.dtype:
    raise InvalidArgumentError(
        f"{what}: {name} has {tensor.numel()} {tensor.dtype}, and {other_name} "
        f"{other.numel()} {other.dtype}")


def check_list(what: str, name: str, tensors: Sequence[torch.Tensor], own: torch.Tensor,
               size: int) -> None:
  """The root's list of one tensor per rank, of which each rank has `own`."""
  if len(tensors) != size:
    raise InvalidArgumentError(f"{what}: {len(tensors)} {name} for {size} ranks")
  for index, tensor in enumerate(tensors):
    check_alike(what, f"tensor {index} of the {name}", tensor, "the tensor of this rank", own)


def uneven(counts: Sequence[int] | None) -> list[int]:
  """Empty when all parts are alike: the engine has `count` for that."""
  return [] if counts is None or len(set(counts)) <= 1 else list(counts)


def row_counts(tensor: torch.Tensor, splits, size: int) -> list[int]:
  """Elements for every rank when the first dimension is cut into `splits`, or evenly."""
  rows = tensor.shape[0] if tensor.dim() else 0
  if not splits:
    if rows % size:
      raise InvalidArgumentError(f"all_to_all: {rows} rows cannot be cut evenly for {size} ranks")
    splits = [rows // size] * size
  if sum(splits) != rows or len(splits) != size:
    raise InvalidArgumentError(
        f"all_to_all: splits {list(splits)} do not cut {rows} rows for {size} ranks")
  each = tensor.numel() // rows if rows else 0
  return [n * each for n in splits]


def exchange(source, target, sends: list[int], receives: list[int]) -> dict:
  return {"kind": comm.ALL_TO_ALL, "dtype": NAMES[source.dtype], "count": 0,
          "input": source.data_ptr(), "output": target.data_ptr(), "input_counts": sends,
          "output_counts": receives}
