"""Linear layers that are divided by rows, each of which computes some of the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from stretto._errors import InvalidArgumentError


class Rows(torch.nn.Module):
  """In place of an nn.Linear: pieces that have some of its rows each, in their order. What they
  return is joined along the last dimension."""

  def __init__(self, whole: torch.nn.Linear, count: int) -> None:
    super().__init__()
    begin = 0
    for i in range(count):
      rows = whole.out_features // count + (i < whole.out_features % count)
      self.add_module(str(i), piece_of(whole, begin, begin + rows))
      begin += rows
    self.train(whole.training)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    """All pieces are asked before the first answer is awaited."""
    asked = [part.begin(x) if hasattr(part, "begin") else part(x) for part in self.children()]
    return torch.cat([one if isinstance(one, torch.Tensor) else one.result() for one in asked], -1)


def piece_of(whole: torch.nn.Linear, begin: int, end: int) -> torch.nn.Linear:
  piece = torch.nn.Linear(whole.in_features, end - begin, whole.bias is not None, device="meta",
                          dtype=whole.weight.dtype)
  for name, parameter in whole.named_parameters():
    if not parameter.is_meta:
      setattr(piece, name, torch.nn.Parameter(parameter.detach()[begin:end].clone()))
    getattr(piece, name).requires_grad_(parameter.requires_grad)
  return piece


def divide(model: torch.nn.Module, places: Any) -> tuple[Any, dict[str, int]]:
  """Puts Rows into the model for parts with several places. The places of all parts, by pieces, and
  into how many pieces what was divided is."""
  if not isinstance(model, torch.nn.Module) or not isinstance(places, Mapping):
    return places, {}  # `read` says what is wrong
  found: dict[str, Any] = {}
  divided = {}
  for name, place in places.items():
    if isinstance(place, str) or not isinstance(place, Sequence):
      found[name] = place
      continue
    check(model, name, len(place))
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, Rows(model.get_submodule(name), len(place)))
    divided[name] = len(place)
    found |= {f"{name}.{i}": one for i, one in enumerate(place)}
  return found, divided


def check(model: torch.nn.Module, name: str, count: int) -> None:
  module = dict(model.named_modules()).get(name) if isinstance(name, str) and name else None
  if module is None:
    raise InvalidArgumentError(f"place: no ranks can hold {name!r}: the model has no such module")
  if count < 2:
    raise InvalidArgumentError(f"place: {name}: a list has two places or more; got {count}")
  # An exact type: a subclass, or a layer with parametrizations, computes something else.
  if type(module) is not torch.nn.Linear:
    raise InvalidArgumentError(f"place: {name}: only an nn.Linear is divided by rows, and this is "
                               f"a {type(module).__name__}; give it one place")
  if module.out_features < count:
    raise InvalidArgumentError(f"place: {name}: it has {module.out_features} rows, which are too "
                               f"few for {count} places")
  own = {id(parameter): key for key, parameter in module.named_parameters()}
  for key, parameter in model.named_parameters(remove_duplicate=False):
    if id(parameter) in own and key != f"{name}.{own[id(parameter)]}":
      raise InvalidArgumentError(f"place: {name}.{own[id(parameter)]} and {key} are one parameter, "
                                 "which cannot be divided; untie them")


def joined(state: Mapping[str, torch.Tensor],
           divided: dict[str, int]) -> dict[str, torch.Tensor]:
  """A state with the names of the model before `divide`."""
  whole = dict(state)
  for name, count in divided.items():
    for kind in ("weight", "bias"):
      names = [f"{name}.{i}.{kind}" for i in range(count)]
      if names[0] in whole:
        whole[f"{name}.{kind}"] = torch.cat([whole.pop(each) for each in names])
  return whole


def taken_apart(state: Mapping[str, torch.Tensor],
                divided: dict[str, int]) -> dict[str, torch.Tensor]:
  """The reverse of `joined`."""
  found = dict(state)
  for name, count in divided.items():
    for kind in ("weight", "bias"):
      tensor = found.pop(f"{name}.{kind}", None)
      if tensor is not None:
        found |= {f"{name}.{i}.{kind}": piece
                  for i, piece in enumerate(torch.tensor_split(tensor, count))}
  return found
