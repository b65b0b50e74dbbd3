"""Checks of what users pass, for errors in their words. Operations that training starts by the
thousand go a short way around them (_reductions.reduce_in_place)."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import torch

from stretto._checks import expected, is_number
from stretto._errors import InvalidArgumentError


def dense(operation: str, tensor: Any) -> torch.Tensor:
  """The tensor, if the engine can work on it or on a copy."""
  if not isinstance(tensor, torch.Tensor):
    raise expected(f"{operation}: tensor", "a torch.Tensor", tensor)
  if tensor.layout is not torch.strided:
    raise InvalidArgumentError(
        f"{operation}: tensor: expected a dense tensor, got {tensor.layout}; use "
        "tensor.to_dense(), or sparse_allreduce_async() for a sum")
  if tensor.is_meta:
    raise InvalidArgumentError(f"{operation}: tensor: a tensor on the meta device has no values")
  return tensor


def dense_list(operation: str, tensors: Any) -> list[torch.Tensor]:
  try:
    found = list(tensors)
  except TypeError:
    raise expected(f"{operation}: tensors", "a list of tensors", tensors) from None
  if not found:
    raise InvalidArgumentError(f"{operation}: tensors: expected at least one tensor, got none")
  for tensor in found:
    dense(operation, tensor)
  return found


def check_compression(operation: str, compression: Any) -> None:
  if not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
    raise expected(f"{operation}: compression", "a member of hvd.Compression, or a class with "
                   "compress() and decompress()", compression)


def check_factors(operation: str, prescale: Any, postscale: Any) -> None:
  for name, factor in (("prescale_factor", prescale), ("postscale_factor", postscale)):
    if not is_number(factor):
      raise expected(f"{operation}: {name}", "a number", factor)


def check_root(operation: str, root: Any, ranks: list[int]) -> None:
  if not isinstance(root, numbers.Integral) or root not in ranks:
    raise expected(f"{operation}: root_rank", f"one of the ranks {ranks}", root)


def named(argument: str, pairs: Any) -> list[tuple[str, Any]]:
  """Pairs of a name and something else, from a dictionary or an iterable."""
  found = list(pairs.items() if hasattr(pairs, "items") else
               pairs if isinstance(pairs, Iterable) else [None])
  if not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
             for pair in found):
    raise expected(argument, "a state_dict(), or pairs of a name and a tensor as from "
                   "named_parameters()", pairs)
  return found
