"""Operators that only check: what PyTorch assumed, and what a module asks for."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

_CHECKS = ("_assert_async.msg", "_assert_scalar.default", "_assert_tensor_metadata.default",
           "sym_constrain_range.default", "sym_constrain_range_for_size.default")


def is_check(node: Node) -> bool:
  return str(node.target).removeprefix("aten.") in _CHECKS


def erase_checks(graph: Graph) -> None:
  """Takes out the checks and what is computed for them alone. A number that one reads from a tensor
  would otherwise count as a size that only a run tells."""
  unused: list[Node] = []
  erased: set[Node] = set()
  for node in reversed(list(graph.nodes)):
    if is_check(node):
      unused += node.all_input_nodes
      graph.erase_node(node)
  while unused:
    node = unused.pop()
    if node in erased or node.users or node.op != "call_function" or _is_needed(node, graph):
      continue
    unused += node.all_input_nodes
    graph.erase_node(node)
    erased.add(node)


def _is_needed(node: Node, graph: Graph) -> bool:
  """Whether it changes something, or binds a symbol of which the shapes of others are made."""
  target = node.target
  if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
    return True
  bound = set(node.meta.get("unbacked_bindings") or {})
  return bool(bound) and any(bound & _symbols(one.meta.get("val")) for one in graph.nodes
                             if one is not node)


def _symbols(described: object) -> set[object]:
  """Of sizes in the description of a result."""
  if isinstance(described, (list, tuple)):
    return set().union(*map(_symbols, described))
  if isinstance(described, torch.Tensor):
    return set().union(*map(_symbols, (*described.shape, *described.stride())))
  if isinstance(described, (torch.SymInt, torch.SymFloat, torch.SymBool)):
    return set(described.node.expr.free_symbols)
  return set()
