"""The side of a rank that holds parts of a model for others: answers calls, sums gradients, and
takes the optimizer's steps."""

from __future__ import annotations

import queue
import threading
from collections import deque
from typing import Any

import torch

from stretto._errors import CommError
from stretto.torch._messages import ANSWER, REQUEST, Mail, flatten, unflatten
from stretto.torch._remote_call import tag


class Client:
  """A rank that calls. Its requests are answered in their order."""

  def __init__(self) -> None:
    self.requests: deque[tuple[dict[str, Any], list[torch.Tensor]]] = deque()
    self.calls: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}  # by number
    self.backwards = 0  # of this step
    self.stepped = False  # it waits for the others' steps
    self.ended = False


class Holder:
  """Gradients are summed in an order that does not depend on what comes first: the first backward
  pass of each client by rank, then the second. The optimizer's step comes when all clients have
  taken theirs, with the mean over clients, as DistributedDataParallel forms it for their part."""

  def __init__(self, mail: Mail, parts: dict[str, torch.nn.Module],
               devices: dict[str, torch.device], clients: list[int], optimizer: Any,
               scheduler: Any) -> None:
    self._mail, self._parts, self._devices = mail, parts, devices
    self._clients = {rank: Client() for rank in clients}
    self._optimizer, self._scheduler = optimizer, scheduler
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
      if client.requests and not client.stepped and (
          client.requests[0][0]["kind"] != "backward" or self._turn() == rank):
        content, tensors = client.requests.popleft()
        getattr(self, f"_{content['kind']}")(rank, client, content, tensors)
        return True
    return False

  def _turn(self) -> int:
    """Whose backward pass is next."""
    return min((client.backwards, rank) for rank, client in self._clients.items()
               if not client.stepped and not client.ended)[1]

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
      module.train(content["training"])
      with torch.set_grad_enabled(content["grad"]):
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
    client.backwards += 1
    try:
      if content["call"] not in client.calls:
        raise CommError("this call was differentiated already; a second backward pass through it "
                        "is not possible")
      inputs, results = client.calls.pop(content["call"])
      of = [results[i] for i in content["present"]]
      torch.autograd.backward(of, [g.to(r.device) for g, r in zip(tensors, of)])
    except Exception as error:
      self._refuse(rank, content, 1, error)
      return
    gradients = [tensor.grad for tensor in inputs]
    self._mail.send(rank, tag(content["call"], 1),
                    {"present": [i for i, g in enumerate(gradients) if g is not None]},
                    [g for g in gradients if g is not None])

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
    clients = [client for client in self._clients.values() if not client.ended]
    if not clients or not all(client.stepped for client in clients):
      return False
    for part in self._parts.values():
      for parameter in part.parameters():
        if parameter.grad is not None and len(clients) > 1:
          parameter.grad.div_(len(clients))
    if self._optimizer is not None:
      self._optimizer.step()
      if self._scheduler is not None:
        self._scheduler.step()
    for part in self._parts.values():
      part.zero_grad(set_to_none=True)
    for client in clients:
      client.backwards, client.stepped = 0, False
    return True
