"""torch.cond: both branches are computed, and the condition chooses among their results.

Branches have no side effects and results of equal shapes, so the choice is one `where` per result.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

_CHOOSE, _VIEW = torch.ops.aten.where.self, torch.ops.aten.view.default


def is_branch(node: Node) -> bool:
  condition = getattr(torch.ops.higher_order, "cond", None)
  return condition is not None and node.target is condition


def inline_branch(module: GraphModule, node: Node) -> None:
  """Puts the operators of both branches into the module's graph, if they can be there."""
  if _is_plain(module, node):
    _inline(module, node)


def _branches(module: GraphModule, node: Node) -> list[GraphModule]:
  return [getattr(module, branch.target) for branch in node.args[1:3]]


def _is_plain(module: GraphModule, node: Node) -> bool:
  """Whether the condition is a tensor, so is every result, and no branch holds something else."""
  if not isinstance(node.args[0], Node) or not isinstance(node.args[0].meta.get("val"),
                                                          torch.Tensor):
    return False
  if any(user.target is not operator.getitem for user in node.users):
    return False
  branches = _branches(module, node)
  return all(isinstance(result, Node) for branch in branches for result in results_of(branch)) and (
    not any(one.op == "get_attr" for branch in branches for one in branch.graph.nodes))


def results_of(branch: GraphModule) -> Sequence[Any]:
  (output,) = (node for node in branch.graph.nodes if node.op == "output")
  results = output.args[0]
  return results if isinstance(results, (list, tuple)) else [results]


def _inline(module: GraphModule, node: Node) -> None:
  graph = module.graph
  where = {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}
  with graph.inserting_before(node):
    scalar = graph.call_function(_VIEW, (node.args[0], []))
    scalar.meta = {**where, "val": node.args[0].meta["val"].new_empty([])}
    sides = [copied(module, branch, node.args[3]) for branch in _branches(module, node)]
    chosen = []
    for described, *pair in zip(node.meta["val"], *sides):
      chosen.append(graph.call_function(_CHOOSE, (scalar, *pair)))
      chosen[-1].meta = {**where, "val": described}
  for user in list(node.users):
    user.replace_all_uses_with(chosen[user.args[1]])
    graph.erase_node(user)
  names = node.args[1:3]
  graph.erase_node(node)
  for name in names:
    if not name.users:
      graph.erase_node(name)


def copied(module: GraphModule, branch: GraphModule, operands: Sequence[Any]) -> list[Any]:
  """The branch's results, where the module's graph is being extended."""
  copies: dict[Node, Any] = {}
  places = (node for node in branch.graph.nodes if node.op == "placeholder")
  copies.update(zip(places, operands))
  for node in branch.graph.nodes:
    if node.op not in ("placeholder", "output"):
      copies[node] = module.graph.node_copy(node, lambda old: copies[old])
  return [copies[result] for result in results_of(branch)]
