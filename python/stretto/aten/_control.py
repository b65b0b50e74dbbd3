"""Graphs in the graph of a program: branches and bodies of loops."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.fx import GraphModule

from stretto.aten._branches import inline_branch, is_branch
from stretto.aten._loops import is_loop, unroll


def inline_control_flow(module: GraphModule, constants: Mapping[str, torch.Tensor]) -> None:
  """Puts the operators of all branches and loops into the module's graph, innermost first, but for
  loops of which only a run tells how long they are.

  Args:
    module: what torch.export made.
    constants: placeholders that are tensors of the program.
  """
  found = [node for node in module.graph.nodes if is_branch(node) or is_loop(node)]
  for node in found:
    for name in (one.target for one in node.all_input_nodes if one.op == "get_attr"):
      inside = getattr(module, name)
      if isinstance(inside, GraphModule):
        inline_control_flow(inside, {})
    if is_branch(node):
      inline_branch(module, node)
    else:
      unroll(module, node, constants)
  if found:
    module.recompile()
