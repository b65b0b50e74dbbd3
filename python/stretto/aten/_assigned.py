"""Tensors that a module puts in the place of others of its own while it is traced.

torch.export sees that where the module itself does so, but not if it puts an argument or another
buffer there; where a part of it does so, the change is lost without a word. So after the module has
run, what is new is copied into the old buffer, which torch.export does see.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_leaves

from stretto._errors import UnsupportedError


@dataclass
class Assigned:
  """Paths of attributes that are no buffers and that a run of a module has changed."""
  tensors: list[str] = field(default_factory=list)  # with other tensors in their place
  others: list[str] = field(default_factory=list)


@contextmanager
def copied_assignments(module: torch.nn.Module, name: str) -> Iterator[Assigned]:
  """While this lasts, a run of the module copies new buffers into the old ones.

  Yields:
    What else it has changed.

  Raises:
    UnsupportedError: in a run: the new one has another shape or element type.
  """
  found = Assigned()
  others: dict[str, Any] = {}
  before: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
  kind = type(module)
  setting = _setting_buffers(kind) if module._buffers else kind

  def begin(*_: Any) -> None:
    module.__class__ = setting
    before.clear()
    others.clear()
    others.update(_plain_state(module))
    for path, part in module.named_modules():
      for tensors in (part._buffers, part.__dict__):
        kept = {k: x for k, x in tensors.items() if isinstance(x, torch.Tensor)}
        if kept:
          before.append((f"{path}." if path else "", tensors, kept))

  def end(*_: Any) -> None:
    module.__class__ = kind
    for _path, tensors, kept in before:
      tensors.update((key, old) for key, old in kept.items() if _is_same(tensors.get(key), old))
    changed = [(path + key, tensors, key, old) for path, tensors, kept in before
               for key, old in kept.items() if tensors.get(key) is not old]
    found.tensors = [path for path, tensors, key, _ in changed if _is_attribute(tensors)]
    after = _plain_state(module)
    tensors_before = {path + key for path, tensors, kept in before if _is_attribute(tensors)
                      for key in kept}
    found.others = [path for path in {**others, **after} if path not in tensors_before
                    and others.get(path, _NOTHING) != after.get(path, _NOTHING)]
    buffers = [row for row in changed if not _is_attribute(row[1])]
    news = []
    for path, tensors, key, old in buffers:
      new = tensors.get(key)
      if not isinstance(new, torch.Tensor) or (new.dtype, new.shape) != (old.dtype, old.shape):
        got = (f"{new.dtype}{list(new.shape)}" if isinstance(new, torch.Tensor)
               else type(new).__name__)
        raise UnsupportedError(f"{name}: the module puts {got} in the place of its buffer {path}, "
                               f"which is {old.dtype}{list(old.shape)}; an optimised model keeps "
                               "types and shapes")
      news.append(new.clone())  # which may be the old content of another buffer
    for new, (_path, tensors, key, old) in zip(news, buffers):
      old.copy_(new)
      tensors[key] = old

  had = [(part, set(vars(part)), {key: set(vars(part)[key]) for key in _HOOKS})
         for part in module.modules()]
  handles = [module.register_forward_pre_hook(begin), module.register_forward_hook(end)]
  try:
    yield found
  finally:
    module.__class__ = kind
    for handle in handles:
      handle.remove()
    for part, keys, hooks in had:  # torch.export only takes back what was there before
      for key in set(vars(part)) - keys:
        delattr(part, key)
      for key, kept in hooks.items():
        for handle_id in set(vars(part)[key]) - kept:
          del vars(part)[key][handle_id]


def _setting_buffers(kind: type[torch.nn.Module]) -> type[torch.nn.Module]:
  """The same class, but that it sets buffers without PyTorch's hook, by which torch.export sees
  them."""
  def set_attribute(module: torch.nn.Module, key: str, value: Any) -> None:
    if isinstance(value, torch.Tensor) and key in module._buffers:
      module._buffers[key] = value
    else:
      kind.__setattr__(module, key, value)

  names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
  try:
    return type(kind.__name__, (kind,), {**names, "__setattr__": set_attribute})
  except TypeError:  # one that nothing can be derived from; torch.export sees most of what it sets
    return kind


def _stays(path: str, module: torch.nn.Module, args: tuple[Any, ...],
           kwargs: Mapping[str, Any]) -> bool:
  owner, _, key = path.rpartition(".")
  module, args, kwargs = copy.deepcopy((module, args, kwargs))
  part = module.get_submodule(owner)
  before = getattr(part, key)
  module(*args, **kwargs)
  return _is_same(getattr(part, key), before)


def _is_same(new: Any, old: torch.Tensor) -> bool:
  """Also for what `old.detach()` gives, and casts to the type that it has."""
  return new is old or (isinstance(new, torch.Tensor) and torch._C._is_alias_of(new, old)
                        and (new.dtype, new.shape, new.stride(), new.storage_offset())
                        == (old.dtype, old.shape, old.stride(), old.storage_offset()))


def _is_attribute(tensors: dict[str, Any]) -> bool:
  return "_buffers" in tensors


# In the place of what is not there.
_NOTHING = object()
# What every module has, of which nothing tells what it computes.
_OWN = frozenset(vars(torch.nn.Module()))
# Dictionaries of hooks, among them. A run may register some and note that it has, as modules of
# transformers do to return what layers make.
_HOOKS = [key for key in _OWN if "hooks" in key and isinstance(vars(torch.nn.Module())[key], dict)]


def _plain_state(module: torch.nn.Module) -> dict[str, Any]:
  """What tells whether attributes have changed: of each by its path."""
  return {f"{path}.{key}" if path else key: _mark(value)
          for path, part in module.named_modules() for key, value in vars(part).items()
          if key not in _OWN}


def _mark(value: Any, depth: int = 0) -> Any:
  if value is None or isinstance(value, (bool, int, float, complex, str)):
    return value
  if isinstance(value, (list, tuple, dict)) and depth < 4 and len(value) <= 1000:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return type(value), [(_mark(key, depth + 1), _mark(one, depth + 1)) for key, one in items]
  if isinstance(value, torch.Tensor):
    return id(value)
  return type(value)


def _remembers(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
  """Whether a second run gives something else, with the buffers that the first one began with."""
  parameters = {id(p): p for p in module.parameters()}  # which both may share
  twin = copy.deepcopy(module, parameters)
  results = []
  for _ in range(2):
    for path, buffer in module.named_buffers():
      owner, _, key = path.rpartition(".")
      twin.get_submodule(owner)._buffers[key] = buffer.clone()
    given, named = copy.deepcopy((args, dict(kwargs)))
    results.append(tree_leaves(twin(*given, **named)))
  first, second = results
  return len(first) != len(second) or not all(map(_alike, first, second))


def _alike(a: Any, b: Any) -> bool:
  if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
    return type(a) is type(b) and bool(a == b)
  return a.shape == b.shape and torch.allclose(a, b, equal_nan=True)


def refuse_plain_state(program: ExportedProgram, assigned: Assigned, module: torch.nn.Module,
                       args: tuple[Any, ...], kwargs: Mapping[str, Any], name: str) -> None:
  """Refuses a module whose next run depends on what it has put into attributes: one that reads a
  plain tensor and puts another in its place, unless that is the same memory in a run of the module,
  or one that counts, collects or remembers otherwise. What is only computed once stays."""
  changed = " and ".join(assigned.others[:3])
  try:
    remembers = bool(changed) and _remembers(module, args, kwargs)
  except (TypeError, RuntimeError) as error:
    raise UnsupportedError(f"{name}: the module changes {changed} when it runs, and cannot be "
                           "copied to see whether its next results depend on it: "
                           f"{error}") from error
  if remembers:
    raise UnsupportedError(f"{name}: the module changes {changed} when it runs, and its next "
                           "results depend on it; keep that in tensors that are made buffers with "
                           "register_buffer")
  nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
  for spec in program.graph_signature.input_specs:
    if (spec.kind == InputKind.CONSTANT_TENSOR and spec.target in assigned.tensors
        and nodes[spec.arg.name].users
        and not _stays(spec.target, module, args, kwargs)):
      raise UnsupportedError(f"{name}: the module puts another tensor in the place of "
                             f"{spec.target}, which is no buffer, when it runs; make it one with "
                             "register_buffer")
