"""Where parts of a model lie: the list that `place` is given."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from stretto._checks import expected
from stretto._errors import InvalidArgumentError


@dataclass(frozen=True)
class Part:
  name: str  # of the module in the model
  rank: int  # that holds it
  device: torch.device


def read(model: torch.nn.Module, places: Mapping[str, str], world: int) -> list[Part]:
  """The parts, checked. In a job of one process a place is a device of it, such as "cuda:0"; in
  others it is a kind of device and a rank, such as "cpu:1"."""
  if not isinstance(model, torch.nn.Module):
    raise expected("place: model", "a torch.nn.Module", model)
  if not isinstance(places, Mapping):
    raise expected("place: parts", 'a dictionary such as {"head": "cpu:1"}', places)
  if not places:
    raise InvalidArgumentError('place: parts: expected a dictionary such as {"head": "cpu:1"}, '
                               "got an empty one")
  modules = dict(model.named_modules())
  parts = [part_of(name, place, modules, world) for name, place in places.items()]
  for part in parts:
    for other in parts:
      if other.name.startswith(part.name + "."):
        raise InvalidArgumentError(f"place: {other.name} is in {part.name}, which is placed too; "
                                   "name modules that do not contain each other")
  check_ties(model, parts)
  held = {part.rank for part in parts}
  if world > 1 and len(held) == world:
    raise InvalidArgumentError(f"place: no rank is left to hold the rest of the model, as each of "
                               f"the {world} ranks holds a part; start more ranks")
  return parts


def part_of(name: str, place: str, modules: dict[str, torch.nn.Module], world: int) -> Part:
  if not isinstance(name, str) or name == "" or name not in modules:
    near = difflib.get_close_matches(str(name), [known for known in modules if known], 3, 0.4)
    known = ", ".join(near or [known for known in modules if known][:5])
    raise InvalidArgumentError(f"place: no rank can hold {name!r}: the model has no such module; "
                               f"it has {known}")
  if not isinstance(place, str):
    raise expected(f"place: {name}", 'a place such as "cpu:1"', place)
  if world == 1:
    try:
      return Part(name, 0, torch.device(place))
    except RuntimeError as error:
      raise InvalidArgumentError(f"place: {name}: {place!r} is no device: {error}") from None
  kind, _, number = place.partition(":")
  if not number.isdecimal() or kind not in ("cpu", "cuda"):
    raise InvalidArgumentError(f"place: {name}: expected cpu or cuda and a rank, such as cpu:1, "
                               f"got {place!r}")
  if int(number) >= world:
    raise InvalidArgumentError(f"place: {name}: rank {number} does not exist, so no rank holds it; "
                               f"the job has the ranks 0 to {world - 1}")
  return Part(name, int(number), torch.device(kind))


def check_ties(model: torch.nn.Module, parts: list[Part]) -> None:
  """A parameter of two parts would have to lie in two places."""
  owner: dict[torch.nn.Parameter, tuple[str, str]] = {}
  for name, parameter in model.named_parameters(remove_duplicate=False):
    place = next((part.name for part in parts if name.startswith(part.name + ".")), "")
    before = owner.setdefault(parameter, (place, name))
    if before[0] != place:
      raise InvalidArgumentError(f"place: {before[1]} and {name} are one parameter, which cannot "
                                 "lie in two places; place both in one part, or untie them")


def materialize(module: torch.nn.Module, device: torch.device, name: str) -> None:
  """Gives what is on the meta device memory on `device`, and its first values."""
  fresh = [m for m in module.modules() if any(
      t.is_meta for t in [*m.parameters(recurse=False), *m.buffers(recurse=False)])]
  kept: list[torch.nn.Parameter] = []
  for each in fresh:
    if not callable(getattr(each, "reset_parameters", None)):
      raise InvalidArgumentError(f"place: a {type(each).__name__} in {name} is on the meta device "
                                 "and has no reset_parameters(), which gives first values; make "
                                 "this module on the CPU")
  tied: dict[int, torch.nn.Parameter | None] = {}
  for each in fresh:
    before = dict(each._parameters)
    each.to_empty(device=device, recurse=False)
    each.reset_parameters()
    for key, parameter in before.items():  # what was one parameter stays one
      if parameter is not None:
        each._parameters[key] = tied.setdefault(id(parameter), each._parameters[key])
        kept.append(parameter)  # so that no other gets its id
