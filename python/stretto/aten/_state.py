"""What a module changes when it runs: buffers of its own, and arguments.

An optimised model changes nothing but its outputs. So a tensor that the module changes is an input,
what it becomes is an output, and whoever calls the model writes it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from stretto._errors import UnsupportedError

# Names of kinds of results; PyTorch 2.6 lacks the second.
_OF_STATE = ("BUFFER_MUTATION", "PARAMETER_MUTATION")


def changed_state(program: ExportedProgram) -> list[str]:
  """Paths of the buffers and parameters that the program changes, in the order of its inputs."""
  changed = {spec.target for spec in program.graph_signature.output_specs
             if spec.kind.name in _OF_STATE}
  return [spec.target for spec in program.graph_signature.input_specs if spec.target in changed]


def changes(program: ExportedProgram, name: str) -> list[tuple[bool, str]]:
  """What its first results become: whether it is of the state, and its path or the argument's name.

  Raises:
    UnsupportedError: it has effects of another kind.
  """
  found: list[tuple[bool, str]] = []
  for spec in program.graph_signature.output_specs:
    kind = spec.kind.name
    if kind in (*_OF_STATE, "USER_INPUT_MUTATION"):
      found.append((kind in _OF_STATE, str(spec.target)))
    elif kind != "USER_OUTPUT":
      raise UnsupportedError(f"{name}: the program has a result of the kind {kind}")
  return found


class State:
  """Where the tensors lie that a model changes.

  They are looked up for each call: a module may have put another tensor in the place of one.
  """

  def __init__(self, source: torch.nn.Module | ExportedProgram, paths: Iterable[str],
               name: str) -> None:
    self._places = [_holder(source, path, name) for path in paths]

  def tensors(self) -> list[torch.Tensor]:
    return [holder[key] for holder, key in self._places]


def _holder(source: torch.nn.Module | ExportedProgram, path: str,
            name: str) -> tuple[dict[str, Any], str]:
  """A dictionary of tensors, and the tensor's key in it."""
  if isinstance(source, ExportedProgram):
    tensors = source.state_dict if path in source.state_dict else source.constants
    return tensors, path
  owner, _, key = path.rpartition(".")
  part = source.get_submodule(owner)
  for tensors in (part._buffers, part._parameters):
    if key in tensors:
      return tensors, key
  raise UnsupportedError(f"{name}: the module changes its tensor {path} when it runs, which is no "
                         "buffer; make it one with register_buffer")


def shared(tensors: Sequence[Any], changed: Sequence[int]) -> tuple[int, int] | None:
  """One of those that are changed, and another that lies in the same memory, if there are such.
  What is written to the first would be seen in the second while the module runs."""
  memory = {_memory(tensors[i]): i for i in changed}
  for k, x in enumerate(tensors):
    i = memory.get(_memory(x)) if isinstance(x, (torch.Tensor, np.ndarray)) else None
    if i is not None and i != k:
      return i, k
  return None


def _memory(x: Any) -> int:
  if isinstance(x, np.ndarray):
    x = torch.from_numpy(x)
  return x.untyped_storage().data_ptr() if x.numel() else id(x)


def write_back(targets: Sequence[Any], results: Sequence[torch.Tensor]) -> None:
  """Gives tensors and arrays their new content."""
  with torch.no_grad():
    for target, result in zip(targets, results):
      if isinstance(target, np.ndarray):
        np.copyto(target, result.numpy())
      else:
        target.copy_(result)
