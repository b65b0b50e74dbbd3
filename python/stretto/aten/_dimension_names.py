"""Names that a caller gave to dimensions: PyTorch's programs have symbols of their own for them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from sympy import Symbol
from torch.export import ExportedProgram

_KEY = "stretto.dimension_names"


def keep_names(program: ExportedProgram, forward: Any, args: tuple[Any, ...],
               kwargs: Mapping[str, Any], leaves: Sequence[Any], dynamic_shapes: Any) -> None:
  """Notes in the program what its symbols are called in `dynamic_shapes`.

  Args:
    program: was made from a module.
    forward: its function.
    args: of the call that it was made with.
    kwargs: likewise.
    leaves: all arguments without their containers, in the program's order.
    dynamic_shapes: as for `torch.export.export`.
  """
  try:
    given = inspect.signature(forward).bind(*args, **kwargs).arguments
  except (TypeError, ValueError):
    return
  specs = (dynamic_shapes if isinstance(dynamic_shapes, Mapping)
           else dict(zip(given, dynamic_shapes or ())))
  of_tensors = {id(tensor): dims for key, value in given.items()
                for tensor, dims in _dimensions(specs.get(key), value)}
  tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
  nodes = [node for node in program.graph.find_nodes(op="placeholder")
           if node.name in program.graph_signature.user_inputs
           and isinstance(node.meta.get("val"), torch.Tensor)]
  kept: dict[str, str] = {}
  for tensor, node in zip(tensors, nodes):
    for axis, dim in of_tensors.get(id(tensor), {}).items():
      size = node.meta["val"].shape[axis]
      symbols = size.node.expr.free_symbols if isinstance(size, torch.SymInt) else ()
      root = getattr(dim, "root", None)  # of a dimension such as 2 * length
      if len(symbols) == 1 and (root is not None or size.node.expr.is_Symbol):
        kept.setdefault(str(*symbols), (root or dim).__name__)
  if len(set(kept.values())) == len(kept):
    program.graph_module.meta[_KEY] = kept


def named(program: ExportedProgram, size: Any) -> Any:
  """A size with the caller's names for its symbols."""
  names = program.graph_module.meta.get(_KEY, {})
  if not names or isinstance(size, (int, float)):
    return size
  return size.xreplace({symbol: Symbol(names[str(symbol)]) for symbol in size.free_symbols
                        if str(symbol) in names})


def _dimensions(spec: Any, value: Any) -> Iterator[tuple[torch.Tensor, dict[int, Any]]]:
  """Tensors in containers, and their dimensions with a name, by axis."""
  if isinstance(value, torch.Tensor):
    axes = (spec.items() if isinstance(spec, Mapping)
            else enumerate(spec) if isinstance(spec, Sequence) else ())
    yield value, {axis: dim for axis, dim in axes if hasattr(dim, "__name__")}
  elif isinstance(value, Mapping) and isinstance(spec, Mapping):
    for key in value:
      yield from _dimensions(spec.get(key), value[key])
  elif isinstance(value, (list, tuple)) and isinstance(spec, (list, tuple)):
    for inner, one in zip(spec, value):
      yield from _dimensions(inner, one)
