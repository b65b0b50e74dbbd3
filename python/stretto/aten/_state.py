"""What a module changes when it runs: buffers of its own, and arguments.

An optimised model changes nothing but its outputs. So a tensor that the module changes is an input,
what it becomes is an output, and whoever calls the model writes it back.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from stretto._errors import InvalidArgumentError, UnsupportedError

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


# Held by calls of the models of one module, which change the same tensors.
_turns: weakref.WeakKeyDictionary[Any, threading.Lock] = weakref.WeakKeyDictionary()


class State:
  """Where the tensors lie that a model changes.

  They are looked up for each call: a module may have put another tensor in the place of one.

  Attributes:
    turn: held by a call that changes them.
  """

  def __init__(self, source: torch.nn.Module | ExportedProgram, paths: Sequence[str],
               name: str) -> None:
    self.turn = _turns.setdefault(source, threading.Lock())
    self._name = name
    self._places = [(path, *_holder(source, path, name)) for path in paths]
    if paths:
      tensors = tensors_of(source)
      order = [*paths, *(path for path in tensors if path not in paths)]
      both = shared([tensors[path] for path in order], range(len(paths)))
      if both is not None:
        raise UnsupportedError(f"{name}: {order[both[0]]}, which the module changes when it runs, "
                               f"shares memory with {order[both[1]]}; give it memory of its own")

  def tensors(self) -> list[torch.Tensor]:
    found = []
    for path, holder, key in self._places:
      tensor = holder.get(key)
      if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(f"{self._name}: its buffer {path} is {tensor!r} now; it was a "
                                   "tensor when the module was optimised")
      found.append(tensor.detach())
    return found


def tensors_of(source: torch.nn.Module | ExportedProgram) -> dict[str, torch.Tensor]:
  """By path: parameters, buffers and plain tensors."""
  if isinstance(source, ExportedProgram):
    held = {**source.state_dict, **source.constants}
    return {path: x for path, x in held.items() if isinstance(x, torch.Tensor)}
  plain = {f"{path}.{key}".removeprefix("."): x for path, part in source.named_modules()
           for key, x in part.__dict__.items() if isinstance(x, torch.Tensor)}
  return {**dict(source.named_parameters(remove_duplicate=False)),
          **dict(source.named_buffers(remove_duplicate=False)), **plain}


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


def shared(tensors: Sequence[Any], changed: Sequence[int] | None = None
           ) -> tuple[int, int] | None:
  """One of those that are changed, by default any, and another that lies in the same memory, if
  there are such: what is written to the first may be seen in the second."""
  places = [_place(x) for x in tensors]
  for i in range(len(tensors)) if changed is None else changed:
    low, high = places[i]
    for k, (other_low, other_high) in enumerate(places):
      if k != i and low < other_high and other_low < high:
        return i, k
  return None


def _place(x: Any) -> tuple[int, int]:
  """The first byte that belongs to it, and the one behind the last."""
  if isinstance(x, np.ndarray):
    at, strides, bytes_each = x.__array_interface__["data"][0], x.strides, x.itemsize
  elif isinstance(x, torch.Tensor) and x.layout == torch.strided:
    bytes_each = x.itemsize
    at, strides = x.data_ptr(), tuple(bytes_each * step for step in x.stride())
  else:
    return 0, 0
  if not all(x.shape):
    return 0, 0
  steps = [(size - 1) * stride for size, stride in zip(x.shape, strides)]
  return at + sum(min(step, 0) for step in steps), at + sum(
    max(step, 0) for step in steps) + bytes_each


def check_writable(name: str, target: Any) -> None:
  """
  Raises:
    InvalidArgumentError: `write_back` could not write to it.
  """
  if isinstance(target, np.ndarray):
    why = None if target.flags.writeable else "is read-only"
  elif any(size > 1 and step == 0 for size, step in zip(target.shape, target.stride())):
    why = "is expanded: several of its elements are one place in memory"
  elif target.is_inference() and not torch.is_inference_mode_enabled():
    why = "was made under torch.inference_mode()"
  else:
    why = None
  if why is not None:
    raise InvalidArgumentError(f"{name}, which the module changes, {why}; pass a copy")


def write_back(targets: Sequence[Any], results: Sequence[torch.Tensor]) -> None:
  """Gives tensors and arrays their new content."""
  with torch.no_grad():
    for target, result in zip(targets, results):
      if isinstance(target, np.ndarray):
        np.copyto(target, result.numpy())
      else:
        target.copy_(result)
