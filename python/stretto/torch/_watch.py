"""What happens to the gradients of this rank's parameters outside of backward passes. Ranks that
hold parts have to do the same with theirs, or training would go on with other gradients than those
of the model that was not split."""

from __future__ import annotations

from typing import Any

import torch

from stretto._errors import InvalidArgumentError

Seen = tuple[int, int]  # which tensor a gradient was, and how often it had been written


def seen(gradient: torch.Tensor) -> Seen:
  return id(gradient), gradient._version


class Watch:
  """Of the parameters that this rank holds."""

  def __init__(self, module: torch.nn.Module, parts: list[str]) -> None:
    self._parts = ", ".join(parts)
    self._parameters = list(module.parameters())
    self.passed = False  # a backward pass came here since the last step
    self._kept = False  # gradients were accumulated since then, and not set to zero
    self._zero = False  # they were set to zero, which nobody was told yet
    self._task = -1  # the backward pass that was seen last
    self._seen: dict[int, Seen] = {}  # at the end of that pass, by the parameter's id
    for parameter in self._parameters:
      if parameter.requires_grad:
        parameter.register_post_accumulate_grad_hook(self._accumulated)

  def _accumulated(self, parameter: torch.Tensor) -> None:
    task = torch._C._current_graph_task_id()
    if task != self._task:
      self._look(parameter)
      self._task = task
      # Callbacks run in their order when the pass is over. DistributedDataParallel has one that
      # writes gradients; what a callback adds comes behind it.
      engine: Any = torch.autograd.Variable._execution_engine
      engine.queue_callback(lambda: engine.queue_callback(self._record))
    self.passed = self._kept = True

  def _record(self) -> None:
    self._seen = {id(p): seen(p.grad) for p in self._parameters if p.grad is not None}

  def _look(self, accumulated: torch.Tensor | None = None) -> None:
    """Were gradients set to zero since the last pass? `accumulated` has got one since."""
    if self._kept and self._seen and all(
        self._is_zero(p, p is accumulated) for p in self._parameters if id(p) in self._seen):
      self._zero, self._kept, self._seen = True, False, {}

  def _is_zero(self, parameter: torch.Tensor, accumulated: bool) -> bool:
    gradient = parameter.grad
    if gradient is None:
      return True
    tensor, version = self._seen[id(parameter)]
    if accumulated:
      return seen(gradient) != (tensor, version + 1)
    if seen(gradient) == (tensor, version):  # zeros may be what the backward pass gave
      return False
    return not bool((gradient._values() if gradient.is_sparse else gradient).any())

  def take_zero(self) -> bool:
    """Whether gradients were set to zero since the last call."""
    # In a pass that has accumulated something here, that was looked at before it did.
    if (task := torch._C._current_graph_task_id()) == -1 or task != self._task:
      self._look()
    zero, self._zero = self._zero, False
    return zero

  def check(self) -> None:
    """Raises if gradients are no longer those of the backward passes: those of the parts are."""
    if any(p.grad is not None and self._seen.get(id(p)) != seen(p.grad) for p in self._parameters):
      raise InvalidArgumentError(
          "place: gradients of this rank were changed between a backward pass and the optimizer's "
          f"step, as clip_grad_norm_ does; those of {self._parts} lie on another rank and were "
          "not. Clip with model.clip_grad_norm_(max_norm) of what place() returned")

  def scaled(self) -> None:
    """Gradients were changed here and on the ranks of the parts."""
    self._record()

  def zeroed(self) -> None:
    """The ranks of the parts are told that gradients were set to zero."""
    self._kept, self._zero, self._seen = False, False, {}

  def stepped(self) -> None:
    """The ranks of the parts take their step, and begin with gradients of zero."""
    self.passed = self._kept = self._zero = False

  def check_inputs(self) -> None:
    """In a backward pass that forms gradients of given tensors only: none may be a parameter."""
    for parameter in self._parameters:
      if parameter.requires_grad and wanted(torch.autograd.graph.get_gradient_edge(parameter).node):
        raise InvalidArgumentError(
            f"place: gradients of parameters were asked for by name, through {self._parts}, whose "
            "parameters lie on another rank and cannot be among them; call backward() without "
            "inputs=, or ask torch.autograd.grad for gradients of the model's inputs only")


def wanted(node: Any) -> bool:
  """Whether the running backward pass forms the gradient of this leaf."""
  try:
    return bool(torch._C._will_engine_execute_node(node))
  except RuntimeError:  # a leaf that torch.autograd.grad was given
    return True
