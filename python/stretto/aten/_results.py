"""Results in objects of which PyTorch does not know the tensors: the caches of transformers, a
module's own dataclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

# What torch.export knows beside containers.
_PLAIN = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, int, float, complex, bool, str,
          bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _Apart(NamedTuple):
  tensors: Any  # in lists and dictionaries
  whole: Callable[[Any], Any]  # makes the same of such tensors


class Objects:
  """Those in a module's result, found while it is traced."""

  def __init__(self) -> None:
    self._spec: pytree.TreeSpec | None = None
    self._found: dict[int, _Apart] = {}  # by their place in the result

  def apart(self, result: Any) -> Any:
    """The result with their tensors instead, in lists and dictionaries."""
    leaves, self._spec = pytree.tree_flatten(result)
    self._found = {}
    for i, leaf in enumerate(leaves):
      if not isinstance(leaf, _PLAIN) and (found := _apart(leaf, ())) is not None:
        self._found[i] = found
        leaves[i] = found.tensors
    return pytree.tree_unflatten(leaves, self._spec) if self._found else result

  def whole(self, result: Any) -> Any:
    """The other way round: what the module would have returned."""
    if not self._found or self._spec is None:
      return result
    leaves = self._spec.flatten_up_to(result)
    for i, found in self._found.items():
      leaves[i] = found.whole(leaves[i])
    return pytree.tree_unflatten(leaves, self._spec)


@contextmanager
def plain_results(module: torch.nn.Module) -> Iterator[Objects]:
  """While torch.export traces the module, such objects in its result are taken apart."""
  objects = Objects()

  def hook(_: torch.nn.Module, __: Any, result: Any) -> Any:
    return objects.apart(result) if torch.compiler.is_exporting() else None

  if isinstance(module, torch.jit.ScriptModule):  # takes no hook, and is refused
    yield objects
    return
  handle = module.register_forward_hook(hook)
  try:
    yield objects
  finally:
    handle.remove()


def _apart(value: Any, around: tuple[int, ...]) -> _Apart | None:
  """None where it has no tensors. `around`: objects in which it stands."""
  if isinstance(value, (torch.Tensor, torch.SymInt)):
    return _Apart(value, lambda tensor: tensor)
  if id(value) in around or isinstance(value, (type, torch.nn.Module)):
    return None
  around += (id(value),)
  if type(value) in (list, tuple):
    items = {i: item for i, item in enumerate(value)}
    return _parts(items, around, lambda made: type(value)(made[i] for i in range(len(items))))
  if type(value) is dict:
    return _parts(value, around, lambda made: made)
  if not hasattr(value, "__dict__") or callable(value):
    return None
  kind = type(value)

  def of_kind(attributes: dict[str, Any]) -> Any:
    made = kind.__new__(kind)
    made.__dict__.update(attributes)
    return made

  return _parts(vars(value), around, of_kind)


def _parts(items: dict[Any, Any], around: tuple[int, ...],
           whole: Callable[[dict[Any, Any]], Any]) -> _Apart | None:
  """Of attributes or items: those with tensors, and what makes the whole of these and the rest."""
  found = {key: part for key, item in items.items() if (part := _apart(item, around)) is not None}
  if not found or len({str(key) for key in found}) < len(found):
    return None
  # In the same order; a list of the result's own, since callers may append to it.
  rest = {key: None if key in found else item for key, item in items.items()}

  def make(tensors: dict[str, Any]) -> Any:
    made = {key: item.copy() if type(item) in (list, dict, set) else item
            for key, item in rest.items()}
    made |= {key: part.whole(tensors[str(key)]) for key, part in found.items()}
    return whole(made)

  return _Apart({str(key): part.tensors for key, part in found.items()}, make)
