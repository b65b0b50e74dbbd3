"""Calls of a module on another rank, as nodes of autograd's graph.

A call has two nodes. In the backward pass the later one sends the gradients of the results, the
earlier one waits for those of the arguments. In between autograd runs what is ready: with several
calls in flight, gradients of all of them are on their way before it waits for the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stretto._errors import CommError, InvalidArgumentError
from stretto.torch._messages import ANSWER, ANSWERS, Mail, flatten, unflatten
from stretto.torch._watch import Watch, wanted

Ask = Callable[[int, dict[str, Any], list[torch.Tensor]], None]  # sends a request to a rank


class Call:
  """One call of `name` on `rank`, which was sent. `result()` waits."""

  def __init__(self, mail: Mail, ask: Ask, watch: Watch, rank: int, name: str, number: int,
               args: tuple[Any, ...], kwargs: dict[str, Any], modes: dict[str, Any],
               in_flight: bool) -> None:
    self._mail, self._ask, self._watch = mail, ask, watch
    self._rank, self._name, self._number = rank, name, number
    self.answered: Callable[[], Any] = lambda: None  # told when the result is here
    tensors: list[torch.Tensor] = []
    form = flatten([args, kwargs], tensors, name)
    grad = torch.is_grad_enabled()
    self._wanted = [i for i, t in enumerate(tensors) if grad and t.requires_grad]
    self._devices = [tensors[i].device for i in self._wanted]
    self._device = tensors[0].device if tensors else torch.device("cpu")
    # The caller may go on and change its arguments before they are sent.
    sent = [tensor.detach().clone() for tensor in tensors] if in_flight else tensors
    kind = self._device.type
    autocast = (str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
                if torch.is_autocast_enabled(kind) else None)
    ask(rank, {"kind": "forward", "name": name, "call": number, "form": form, "grad": grad,
               "wanted": self._wanted, "autocast": autocast} | modes, sent)
    self._token: torch.Tensor | None = None
    if grad:
      # Every whole backward pass comes to this leaf, and no one can ask for its gradient by name.
      leaf = torch.zeros((), requires_grad=True)
      self._leaf = torch.autograd.graph.get_gradient_edge(leaf).node
      self._token = Earlier.apply(self, leaf, *(tensors[i] for i in self._wanted))

  def result(self) -> Any:
    content, tensors = self.answer(0)
    tensors = [tensor.to(self._device) for tensor in tensors]
    # Autograd's graph keeps this call and ends with it; the call must not keep the graph.
    token, self._token = self._token, None
    if token is not None and any(content["differentiable"]):
      tensors = list(Later.apply(self, token, content["differentiable"], *tensors))
    return unflatten(content["form"], tensors)

  def answer(self, phase: int) -> tuple[dict[str, Any], list[torch.Tensor]]:
    content, tensors = self._mail.receive(self._rank, tag(self._number, phase))
    if phase == 0:
      self.answered()
    if "error" in content:
      raise CommError(f"rank {self._rank}, which holds {self._name}: {content['error']}")
    return content, tensors

  def send_gradients(self, gradients: tuple[torch.Tensor | None, ...]) -> None:
    if torch.is_grad_enabled():
      raise InvalidArgumentError(f"place: create_graph=True through {self._name}: its part of the "
                                 f"graph is on rank {self._rank}, so gradients of gradients cannot "
                                 "be formed; keep this part on the ranks that call it")
    whole = wanted(self._leaf)
    if not whole:
      self._watch.check_inputs()
    present = [i for i, gradient in enumerate(gradients) if gradient is not None]
    self._ask(self._rank, {"kind": "backward", "name": self._name, "call": self._number,
                           "present": present, "accumulate": whole},
              [gradient for gradient in gradients if gradient is not None])
    if whole:
      self._watch.passed = True

  def receive_gradients(self) -> list[torch.Tensor | None]:
    content, tensors = self.answer(1)
    found = dict(zip(content["present"], tensors))
    return [found[i].to(device) if i in found else None
            for i, device in zip(self._wanted, self._devices)]


def tag(number: int, phase: int) -> int:
  return ANSWER + 1 + (2 * number + phase) % ANSWERS


class Earlier(torch.autograd.Function):

  @staticmethod
  def forward(ctx: Any, call: Call, anchor: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    del inputs
    ctx.call = call
    return anchor.clone()

  @staticmethod
  def backward(ctx: Any, gradient: torch.Tensor) -> Any:
    del gradient
    return None, None, *ctx.call.receive_gradients()


class Later(torch.autograd.Function):

  @staticmethod
  def forward(ctx: Any, call: Call, token: torch.Tensor, differentiable: list[bool],
              *results: torch.Tensor) -> Any:
    del token
    ctx.set_materialize_grads(False)
    ctx.call, ctx.count = call, len(results)
    outputs = tuple(result.view_as(result) for result in results)
    ctx.mark_non_differentiable(*(o for o, yes in zip(outputs, differentiable) if not yes))
    return outputs

  @staticmethod
  def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
    ctx.call.send_gradients(gradients)
    return None, torch.zeros(()), None, *([None] * ctx.count)


class Pending(torch.Tensor):
  """A result that may not be there yet. Whatever uses it in Python waits for it."""

  @staticmethod
  def of(call: Call) -> Pending:
    pending = torch.Tensor._make_subclass(Pending, torch.empty(0, device="meta"))
    pending.__dict__["_call"] = call
    return pending

  @classmethod
  def __torch_function__(cls, function: Any, types: Any, args: Any = (),
                         kwargs: Any = None) -> Any:
    del types
    return function(*arrived(args), **arrived(kwargs or {}))


def arrived(value: Any) -> Any:
  """`value` with results in place of those that were pending."""
  if isinstance(value, Pending):
    fields = value.__dict__
    call = fields.pop("_call", None)
    if call is not None:
      try:
        fields["_value"] = call.result()
      except Exception as error:
        fields["_error"] = error
    if "_error" in fields:
      raise fields["_error"]
    return fields["_value"]
  if type(value) in (list, tuple):
    return type(value)(arrived(one) for one in value)
  if type(value) is dict:
    return {key: arrived(one) for key, one in value.items()}
  return value
