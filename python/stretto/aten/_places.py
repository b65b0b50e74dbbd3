"""Names and places of the nodes of a program, as people know them from the module and its code."""

from __future__ import annotations

import os
import re

import torch
from torch.fx import Node


def _short(node: Node) -> str:
  """The operator without its library, form and leading underscores."""
  parts = str(node.target).split(".")
  return (parts[1] if len(parts) > 1 else parts[0]).strip("_")


def label(node: Node) -> str:
  """A name from the module's path, which people know: "layer1.0.conv1", "layer1.0.add"."""
  stack = list((node.meta.get("nn_module_stack") or {}).values())
  short = _short(node)
  if not stack:
    return short
  path, kind = stack[-1][0], str(stack[-1][1]).rsplit(".", 1)[-1].lower()
  plain = short.replace("_", "")
  same = plain in kind or kind in plain or ("batchnorm" in plain and "batchnorm" in kind)
  if path and same:
    return path
  return f"{path}.{short}" if path else short


def place(node: Node) -> str:
  """Where the node comes from, for messages: the module's path, and the line of the user's code."""
  frames = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
  library = os.path.dirname(torch.__file__) + os.sep
  own = [f for f in frames if not f[0].startswith(library)] or frames
  line = f" ({os.path.basename(own[-1][0])}:{own[-1][1]})" if own else ""
  return f"{label(node)}{line}"
