"""The side of a rank that holds parts of a model for others: answers calls, sums gradients, and
takes the optimizer's steps."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from stretto._errors import CommError
from stretto.torch._messages import ANSWER, DTYPES, REQUEST, Mail, flatten, unflatten
from stretto.torch._remote_call import tag


class Client:
  """A rank that calls. Its requests are answered in their order."""

  def __init__(self) -> None:
    self.requests: deque[tuple[dict[str, Any], list[torch.Tensor]]] = deque()
    self.calls: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}  # by number
    self.gradients: dict[torch.nn.Parameter, torch.Tensor] = {}  # of its passes in this step
    self.modes: dict[str, tuple[int, list[bool]]] = {}  # of parts: which train() it saw, and modes
    self.waits = False  # for the norm of the mean of gradients
    self.zeroed = False  # it set gradients to zero after that
    self.stepped = False  # it waits for the others' steps
    self.ended = False


class Holder:
  """Each client has gradients of its own, so that no backward pass waits for another rank. They are
  summed by rank, whatever came first. The optimizer's step comes when all clients have taken
  theirs, with the mean over clients, as DistributedDataParallel forms it for their part."""

  def __init__(self, mail: Mail, parts: dict[str, torch.nn.Module],
               devices: dict[str, torch.device], clients: list[int], optimizer: Any,
               scheduler: Any) -> None:
    self._mail, self._parts, self._devices = mail, parts, devices
    self._clients = {rank: Client() for rank in clients}
    self._optimizer, self._scheduler = optimizer, scheduler
    self._first_modes = {name: [m.training for m in part.modules()] for name, part in parts.items()}
    self._mean: dict[torch.nn.Parameter, torch.Tensor] | None = None  # once a norm was asked for
    self._arrived: queue.SimpleQueue[tuple[int, Any, Any]] = queue.SimpleQueue()

  def run(self) -> int:
    """Until all clients have ended. How many steps were taken."""
    for rank in self._clients:
      threading.Thread(target=self._listen, args=(rank,), name=f"stretto-holder-{rank}",
                       daemon=True).start()
    steps = 0
    while not all(client.ended for client in self._clients.values()):
      rank, content, tensors = self._arrived.get()
      if isinstance(content, BaseException):
        raise content
      self._clients[rank].requests.append((content, tensors))
      while self._serve_one():
        pass
      if self._step():
        steps += 1
        while self._serve_one():
          pass
    self._mail.flush()
    return steps

  def _listen(self, rank: int) -> None:
    try:
      while True:
        content, tensors = self._mail.receive(rank, REQUEST)
        self._arrived.put((rank, content, tensors))
        if content["kind"] in ("end", "failed"):
          return
    except BaseException as error:  # run() raises it
      self._arrived.put((rank, error, None))

  def _serve_one(self) -> bool:
    """Answers the first request that may be answered now."""
    for rank, client in self._clients.items():
      if client.requests and not client.stepped:
        content, tensors = client.requests.popleft()
        for number in content.get("gone", []):
          client.calls.pop(number, None)
        getattr(self, f"_{content['kind']}")(rank, client, content, tensors)
        return True
    return False

  # What clients ask for.

  def _forward(self, rank: int, client: Client, content: dict[str, Any],
               tensors: list[torch.Tensor]) -> None:
    name = content["name"]
    module, device = self._parts[name], self._devices[name]
    inputs = [tensor.to(device) for tensor in tensors]
    for i in content["wanted"]:
      inputs[i] = inputs[i].detach().requires_grad_()
    args, kwargs = unflatten(content["form"], inputs)
    results: list[torch.Tensor] = []
    try:
      self._set_modes(client, module, content)
      autocast = content["autocast"]
      with torch.set_grad_enabled(content["grad"]), torch.autocast(
          device.type, DTYPES.get(autocast), autocast is not None), own_buffers(
              module, client is not next(iter(self._clients.values()))):
        form = flatten(module(*args, **kwargs), results, name)
    except Exception as error:
      self._refuse(rank, content, 0, error)
      return
    differentiable = [result.requires_grad for result in results]
    if any(differentiable):
      client.calls[content["call"]] = ([inputs[i] for i in content["wanted"]], results)
    self._mail.send(rank, tag(content["call"], 0),
                    {"form": form, "differentiable": differentiable}, results)

  def _backward(self, rank: int, client: Client, content: dict[str, Any],
                tensors: list[torch.Tensor]) -> None:
    try:
      if content["accumulate"] and self._mean is not None and not client.zeroed:
        raise CommError("a backward pass between clip_grad_norm_ or GradScaler.unscale_ and the "
                        "optimizer's step; clip behind the last backward pass of a step")
      if content["call"] not in client.calls:
        raise CommError("this call was differentiated already; a second backward pass through it "
                        "is not possible")
      inputs, results = client.calls.pop(content["call"])
      of = [results[i] for i in content["present"]]
      given = [g.to(r.device) for g, r in zip(tensors, of)]
      gradients: list[torch.Tensor | None]
      if content["accumulate"]:
        self._differentiate(client, of, given)
        gradients = [tensor.grad for tensor in inputs]
      elif inputs:
        gradients = list(torch.autograd.grad(of, inputs, given, allow_unused=True))
      else:
        gradients = []
    except Exception as error:
      self._refuse(rank, content, 1, error)
      return
    self._mail.send(rank, tag(content["call"], 1),
                    {"present": [i for i, g in enumerate(gradients) if g is not None]},
                    [g for g in gradients if g is not None])

  def _differentiate(self, client: Client, of: list[torch.Tensor],
                     given: list[torch.Tensor]) -> None:
    """Adds to the gradients of this client."""
    parameters = [p for part in self._parts.values() for p in part.parameters()]
    for parameter in parameters:
      parameter.grad = client.gradients.get(parameter)
    try:
      torch.autograd.backward(of, given)
    finally:
      client.gradients = {p: p.grad for p in parameters if p.grad is not None}
      for parameter in parameters:
        parameter.grad = None

  def _set_modes(self, client: Client, module: torch.nn.Module, content: dict[str, Any]) -> None:
    """Training or not, of each module of the part: what this client last said, if it did."""
    name = content["name"]
    told, modes = client.modes.get(name, (0, self._first_modes[name]))
    for each, mode in zip(module.modules(), modes):
      each.training = mode
    if content["told"] != told:
      module.train(content["training"])
      client.modes[name] = content["told"], [each.training for each in module.modules()]

  def _zero(self, rank: int, client: Client, content: dict[str, Any],
            tensors: list[torch.Tensor]) -> None:
    del rank, content, tensors
    client.gradients = {}
    if self._mean is not None:
      client.zeroed = True
      if all(one.zeroed for one in self._active()):
        self._forget_mean()

  def _forget_mean(self) -> None:
    self._mean = None
    for client in self._clients.values():
      client.zeroed = False

  def _norm(self, rank: int, client: Client, content: dict[str, Any],
            tensors: list[torch.Tensor]) -> None:
    """Answers when all clients have asked."""
    del rank, tensors
    client.waits = True
    active = self._active()
    for other in active:
      if other.stepped:
        raise CommError("some ranks called clip_grad_norm_, or used a GradScaler, in a step and "
                        "others did not; do it on all ranks that hold no part")
    if not all(other.waits for other in active):
      return
    if self._mean is None:
      self._mean = self._take_mean()
    norms = [torch.linalg.vector_norm(g, content["type"]) for g in self._mean.values()]
    for rank, other in self._clients.items():
      if other.waits:
        other.waits = False
        self._mail.send(rank, ANSWER, {}, norms)

  def _scale(self, rank: int, client: Client, content: dict[str, Any],
             tensors: list[torch.Tensor]) -> None:
    del rank, content
    if client is next(iter(self._active())) and self._mean is not None:  # all say the same
      for gradient in self._mean.values():
        gradient.mul_(tensors[0].to(gradient.device))

  def _active(self) -> list[Client]:
    return [client for client in self._clients.values() if not client.ended]

  def _take_mean(self) -> dict[torch.nn.Parameter, torch.Tensor]:
    """Of the gradients of clients, which are no longer kept."""
    clients = self._active()
    mean: dict[torch.nn.Parameter, torch.Tensor] = {}
    for client in clients:
      for parameter, gradient in client.gradients.items():
        mean[parameter] = mean[parameter].add_(gradient) if parameter in mean else gradient
      client.gradients = {}
    for gradient in mean.values():
      if len(clients) > 1:
        gradient.div_(len(clients))
    return {p: mean[p] for part in self._parts.values() for p in part.parameters() if p in mean}

  def _refuse(self, rank: int, content: dict[str, Any], phase: int, error: Exception) -> None:
    self._mail.send(rank, tag(content["call"], phase),
                    {"error": f"{type(error).__name__}: {error}"}, [])

  def _optimize(self, rank: int, client: Client, content: dict[str, Any],
                tensors: list[torch.Tensor]) -> None:
    del rank, content, tensors
    client.stepped = True
    client.calls.clear()

  def _state(self, rank: int, client: Client, content: dict[str, Any],
             tensors: list[torch.Tensor]) -> None:
    del client, tensors
    state = self._parts[content["name"]].state_dict()
    self._mail.send(rank, ANSWER, {"names": list(state)}, list(state.values()))

  def _load(self, rank: int, client: Client, content: dict[str, Any],
            tensors: list[torch.Tensor]) -> None:
    del client
    try:
      self._parts[content["name"]].load_state_dict(dict(zip(content["names"], tensors)))
      self._mail.send(rank, ANSWER, {}, [])
    except Exception as error:
      self._mail.send(rank, ANSWER, {"error": f"{type(error).__name__}: {error}"}, [])

  def _end(self, rank: int, client: Client, content: dict[str, Any],
           tensors: list[torch.Tensor]) -> None:
    del rank, content, tensors
    client.ended = True

  def _failed(self, rank: int, client: Client, content: dict[str, Any],
              tensors: list[torch.Tensor]) -> None:
    del client, tensors
    raise CommError(f"rank {rank} ended with an error: {content['error']}")

  def _step(self) -> bool:
    """Takes a step if all clients have."""
    clients = self._active()
    if not clients or not all(client.stepped for client in clients):
      return False
    if any(client.zeroed for client in clients):
      raise CommError("some ranks set gradients to zero after clip_grad_norm_ and others took a "
                      "step with them; decide by the norm, which is the same on all ranks")
    mean = self._take_mean() if self._mean is None else self._mean
    for parameter, gradient in mean.items():
      parameter.grad = gradient
    if self._optimizer is not None:
      self._optimizer.step()
      if self._scheduler is not None:
        self._scheduler.step()
    for part in self._parts.values():
      part.zero_grad(set_to_none=True)
    self._mean = None
    for client in clients:
      client.stepped = False
    return True


@contextlib.contextmanager
def own_buffers(module: torch.nn.Module, apart: bool) -> Iterator[None]:
  """A call's changes of buffers, such as BatchNorm's running statistics, are not kept if it is
  `apart`: those of the first rank are, as with DistributedDataParallel."""
  if not apart:
    yield
    return
  kept = [(each, name, buffer) for each in module.modules()
          for name, buffer in each._buffers.items() if buffer is not None]
  copies: dict[int, torch.Tensor] = {}
  for each, name, buffer in kept:  # backward passes may still read the buffer itself
    each._buffers[name] = copies.setdefault(id(buffer), buffer.clone())
  try:
    yield
  finally:
    for each, name, buffer in kept:
      each._buffers[name] = buffer
