"""torch's scan, map and while_loop: a body is copied as often as it runs.

How often is known from the size of what is scanned, and of while_loop where its condition depends
on nothing but constants, such as a counter. Other loops stay, and are refused later.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import is_concrete_int

from stretto.aten._branches import copied, results_of

# Nodes that the copies of one body may be.
_MOST = 20_000

_SELECT, _STACK = torch.ops.aten.select.int, torch.ops.aten.stack.default


def is_loop(node: Node) -> bool:
  return _kind(node) in ("map_impl", "scan", "while_loop")


def unroll(module: GraphModule, node: Node, constants: Mapping[str, torch.Tensor]) -> None:
  """Puts copies of the loop's body in its place, if it is known how many.

  Args:
    module: its graphs in graphs are inlined already.
    node: a loop of it.
    constants: placeholders that are tensors of the program.
  """
  if any(user.target is not operator.getitem for user in node.users):
    return
  if _kind(node) == "while_loop":
    results = _repeated(module, node, constants)
  else:
    results = _mapped(module, node)
  if results is None:
    return
  for user in list(node.users):
    user.replace_all_uses_with(results[user.args[1]])
    module.graph.erase_node(user)
  bodies = [one for one in node.args if isinstance(one, Node) and one.op == "get_attr"]
  module.graph.erase_node(node)
  for body in bodies:
    if not body.users:
      module.graph.erase_node(body)


def _kind(node: Node) -> str:
  target = node.target
  return target.name() if isinstance(target, torch._ops.HigherOrderOperator) else ""


def _body(module: GraphModule, node: Any) -> GraphModule | None:
  """None where it holds something that cannot be copied."""
  body = getattr(module, node.target)
  graph = body.graph
  if any(one.op not in ("placeholder", "call_function", "output") for one in graph.nodes):
    return None
  return body if all(isinstance(result, Node) for result in results_of(body)) else None


def _where(node: Node) -> dict[str, Any]:
  return {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}


def _mapped(module: GraphModule, node: Node) -> list[Any] | None:
  """scan(body, carried, rows, others) and map(body, rows, others): along the first axis."""
  carried = list(node.args[1]) if _kind(node) == "scan" else []
  rows, others = node.args[-2], node.args[-1]
  body = _body(module, node.args[0])
  if body is None or not rows:
    return None
  count = rows[0].meta["val"].shape[0]
  if not is_concrete_int(count) or not 0 < int(count) * len(body.graph.nodes) <= _MOST:
    return None
  found: list[list[Any]] = []
  graph = module.graph
  with graph.inserting_before(node):
    for i in range(int(count)):
      row = []
      for x in rows:
        row.append(graph.call_function(_SELECT, (x, 0, i)))
        row[-1].meta = {**_where(node), "val": x.meta["val"].select(0, i)}
      results = copied(module, body, [*carried, *row, *others])
      carried, results = results[:len(carried)], results[len(carried):]
      found.append(results)
    stacked = []
    for parts, described in zip(zip(*found), node.meta["val"][len(carried):]):
      stacked.append(graph.call_function(_STACK, (list(parts), 0)))
      stacked[-1].meta = {**_where(node), "val": described}
  return [*carried, *stacked]


def _repeated(module: GraphModule, node: Node,
              constants: Mapping[str, torch.Tensor]) -> list[Any] | None:
  """while_loop(condition, body, carried, others)."""
  condition, body = (_body(module, one) for one in node.args[:2])
  carried, others = list(node.args[2]), list(node.args[3])
  if condition is None or body is None:
    return None
  known = [_value(one, constants) for one in (*carried, *others)]
  turns = 0
  while True:
    (goes_on,) = _evaluated(condition, known)
    if goes_on is None or turns * len(body.graph.nodes) > _MOST:
      return None
    if not goes_on:
      break
    known[:len(carried)] = _evaluated(body, known)
    turns += 1
  with module.graph.inserting_before(node):
    for _ in range(turns):
      carried = copied(module, body, [*carried, *others])
  return carried


def _value(one: Any, constants: Mapping[str, torch.Tensor]) -> Any:
  """What an argument is; None where only a run tells."""
  if not isinstance(one, Node):
    return one
  values: dict[Node, Any] = {}
  waiting = [one]
  while waiting:
    node = waiting[-1]
    if node in values:
      waiting.pop()
    elif node.op == "placeholder":
      values[node] = constants.get(node.name)
    elif not _is_small(node):
      values[node] = None
    elif unknown := [n for n in node.all_input_nodes if n not in values]:
      waiting += unknown
    else:
      values[node] = _called(node, values)
  return values[one]


def _is_small(node: Node) -> bool:
  """Whether a call gives a single number."""
  described = node.meta.get("val")
  return node.op == "call_function" and isinstance(described, torch.Tensor) and not described.dim()


def _evaluated(body: GraphModule, inputs: Sequence[Any]) -> list[Any]:
  """The results of a body of which some inputs are known; None for those that are not."""
  values: dict[Node, Any] = {}
  places = (node for node in body.graph.nodes if node.op == "placeholder")
  values.update(zip(places, inputs))
  for node in body.graph.nodes:
    if node.op == "call_function":
      values[node] = _called(node, values)
  return [values[result] for result in results_of(body)]


def _called(node: Node, values: Mapping[Node, Any]) -> Any:
  """The node's result, of small tensors that are all known; else None."""
  target = node.target
  if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
    return None
  random = torch.Tag.nondeterministic_seeded in target.tags
  if random or target._schema.is_mutable or any(values[n] is None for n in node.all_input_nodes):
    return None
  if not _is_small(node):
    return None
  args = torch.fx.node.map_arg(node.args, lambda n: values[n])
  kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: values[n])
  with torch.no_grad():
    return target(*args, **kwargs)
