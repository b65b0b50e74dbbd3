"""A model whose parts lie on different devices or ranks."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import (
  register_optimizer_step_post_hook,
  register_optimizer_step_pre_hook,
)

from stretto._errors import CommError, Error, InvalidArgumentError
from stretto.torch import _parts as parts_of
from stretto.torch import _rows as rows_of
from stretto.torch._holder import Holder
from stretto.torch._messages import ANSWER, REQUEST, Mail
from stretto.torch._parts import Part
from stretto.torch._remote_call import Call, Pending
from stretto.torch._watch import Watch


def place(model: torch.nn.Module, parts: Mapping[str, str | Sequence[str]], *,
          in_flight: bool = False) -> Placed:
  """Puts parts of a model on other devices or ranks than the rest, such as a last layer that is too
  large for the chips into the host memory of a rank without one.

  In a job of several ranks, ranks that no part names hold the rest of the model and train it data
  parallel. Parameters, gradients and the optimizer's state of a part stay on its rank; activations
  and their gradients go between ranks. Every rank calls it with the same arguments. In a job of one
  process, parts move to devices of it and activations follow.

  A model on the meta device gets memory on each rank only for what that rank holds.

  Args:
    model: the model. Its modules are taken, not copied.
    parts: places by the names of modules: "cpu:1" or "cuda:1" for the CPU or GPU of rank 1; in a
      job of one process a device, such as "cuda:0". A list of places, such as ["cpu:1", "cpu:2"],
      divides an nn.Linear by its rows among them.
    in_flight: calls return before the result is there, and what uses a result waits for it. So
      with `outputs = [model(x) for x in micro_batches]` ranks compute at the same time. Only for
      results that Python functions of torch use, not an autograd function of one's own.

  Returns:
    The model to train.

  Raises:
    InvalidArgumentError: a module or a rank does not exist, no rank is left for the rest of the
      model, or parts share parameters.

  Examples:
    ```python
    model = stretto.torch.place(Net(), {"head": "cpu:1"})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # of what this rank holds
    if model.holds:
      model.serve(optimizer)                                  # rank 1, until the others are through
    else:
      with model:
        for x, y in loader:
          optimizer.zero_grad()
          loss_of(model(x), y).backward()
          optimizer.step()                                    # also on rank 1
    ```
  """
  joined = dist.is_initialized()
  world, rank = (dist.get_world_size(), dist.get_rank()) if joined else (1, 0)
  places, divided = rows_of.divide(model, parts)
  return Placed(model, parts_of.read(model, places, world), rank, world, in_flight, divided)


class Placed(torch.nn.Module):
  """What `place` returns. Parameters are those that this rank holds.

  Args:
    model: as for `place`.
    parts: the checked places.
    rank: this rank.
    world: how many ranks there are.
    in_flight: as for `place`.
    divided: into how many pieces the modules are that are divided by rows.

  Attributes:
    holds: names of the parts for which this rank answers calls: it has to call `serve`.
    group: the process group of the ranks that hold the rest of the model, for
      `DistributedDataParallel(model, process_group=model.group)`; None in a job of one process.
    module: the model, or what this rank holds of it.
  """

  def __init__(self, model: torch.nn.Module, parts: list[Part], rank: int, world: int,
               in_flight: bool, divided: dict[str, int]) -> None:
    super().__init__()
    self._placed = parts
    self._divided = divided
    self._in_flight = in_flight
    self.holds = [part.name for part in parts if part.rank == rank] if world > 1 else []
    self.group: dist.ProcessGroup | None = None
    self._number = 0  # of the next call
    self._unanswered: dict[int, Call] = {}
    self._single: set[str] = set()  # parts whose result is known to be one tensor
    self._gone: dict[int, list[int]] = {}  # calls of each rank that nobody can differentiate now
    self._open = False  # holders wait for this rank
    if world == 1:
      self._clients = [0]
      self.module = locally(model, parts)
      return
    self._mail = Mail(dist.new_group())  # its own, so that messages of other models do not match
    self._clients = sorted(set(range(world)) - {part.rank for part in parts})
    self.group = dist.new_group(self._clients)
    held = {part.name: model.get_submodule(part.name) for part in parts}
    for part in parts:
      parent, _, name = part.name.rpartition(".")
      setattr(model.get_submodule(parent), name, Remote(self, part))
    if self.holds:
      own = [part for part in parts if part.rank == rank]
      for part in own:
        parts_of.materialize(held[part.name], part.device, part.name)
        held[part.name].to(part.device)
      self.module = torch.nn.ModuleList(held[part.name] for part in own)
    else:
      parts_of.materialize(model, torch.device("cpu"), "the model")
      self.module = model
      self._gone = {part.rank: [] for part in parts}
      self._watch = Watch(model, [part.name for part in parts])
      self._open = True
      OPEN.add(self)

  def forward(self, *args: Any, **kwargs: Any) -> Any:
    """Runs the model, whose parts on other ranks are asked.

    Returns:
      What the model returns.

    Raises:
      CommError: a rank was lost, or a part raised an error.
      InvalidArgumentError: this rank holds a part for others, or an argument of a part cannot be
        sent.
    """
    if self.holds:
      raise InvalidArgumentError(f"place: this rank holds {', '.join(self.holds)} for other ranks, "
                                 "which call it; call serve() here")
    return self.module(*args, **kwargs)

  def serve(self, optimizer: torch.optim.Optimizer | None = None, scheduler: Any = None) -> int:
    """On a rank that holds parts: answers the other ranks until they are through.

    When all of them have taken a step with their optimizer, this one takes one, with the mean of
    their gradients, and sets gradients to zero.

    Args:
      optimizer: of the parts' parameters; None: they are not trained.
      scheduler: of its learning rate, which is told of every step.

    Returns:
      How many steps were taken.

    Raises:
      CommError: another rank was lost, or ended with an error.
      InvalidArgumentError: this rank holds no part for others.
    """
    if not self.holds:
      raise InvalidArgumentError("place: serve: this rank holds no part for other ranks; call the "
                                 "model instead")
    own = [part for part in self._placed if part.name in self.holds]
    modules = dict(zip((part.name for part in own), self.module.children()))
    return Holder(self._mail, modules, {part.name: part.device for part in own}, self._clients,
                  optimizer, scheduler).run()

  def close(self, error: str = "") -> None:
    """Tells the ranks that hold parts that this one is through, as the end of `with model:` does.

    Args:
      error: why, if this rank cannot go on: theirs end with it.
    """
    if not self._open:
      return
    self._open = False
    OPEN.discard(self)
    content = {"kind": "failed", "error": error} if error else {"kind": "end"}
    if not error:
      for call in list(self._unanswered.values()):  # whose results nobody asked for
        call.answer(0)
    for rank in self._holders():
      self._mail.send(rank, REQUEST, content, [])
    self._mail.flush()

  def __enter__(self) -> Placed:
    return self

  def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
    if error is None:
      self.close()
      return
    with contextlib.suppress(Error):  # a rank that is lost cannot be told
      self.close(f"{type(error).__name__}: {error}")

  def full_state_dict(self) -> dict[str, torch.Tensor]:
    """The state of the whole model, with the names of the model that was not split.

    One of the ranks that do not hold parts calls it, between two steps.

    Returns:
      What the model that was not split takes in `load_state_dict`, in host memory.

    Raises:
      CommError: a rank was lost.
      InvalidArgumentError: this rank holds a part for others.
    """
    self._check_client("full_state_dict")
    state = {name: value.detach().cpu() for name, value in self.module.state_dict().items()}
    if self.group is not None:
      for part in self._placed:
        self._mail.send(part.rank, REQUEST, {"kind": "state", "name": part.name}, [])
        content, tensors = self._mail.receive(part.rank, ANSWER)
        state |= {f"{part.name}.{name}": t for name, t in zip(content["names"], tensors)}
    return rows_of.joined(state, self._divided)

  def load_full_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
    """Takes the state of the whole model. All ranks that do not hold parts call it.

    Args:
      state: what `full_state_dict` returned, or the state of a model that was not split.

    Raises:
      CommError: a rank was lost, or a part does not take its state.
      InvalidArgumentError: the state lacks a part, or this rank holds one for others.
    """
    self._check_client("load_full_state_dict")
    rest = rows_of.taken_apart(state, self._divided)
    if self.group is None:
      self.module.load_state_dict(rest)
      return
    for part in self._placed:
      prefix = part.name + "."
      own = {name: rest.pop(name) for name in list(rest) if name.startswith(prefix)}
      if not own:
        raise InvalidArgumentError(f"place: the state has nothing of {part.name}; it is of another "
                                   "model")
      if dist.get_rank() == self._clients[0]:
        self._mail.send(part.rank, REQUEST, {
            "kind": "load", "name": part.name,
            "names": [name.removeprefix(prefix) for name in own]}, list(own.values()))
        content, _ = self._mail.receive(part.rank, ANSWER)
        if "error" in content:
          raise CommError(f"rank {part.rank}, which holds {part.name}: {content['error']}")
    self.module.load_state_dict(rest)
    dist.barrier(group=self.group)

  def zero_grad(self, set_to_none: bool = True) -> None:
    """Sets gradients to zero, also those of the parts on other ranks. So does an optimizer's
    `zero_grad`, unless the rest of the model has no gradients.

    Args:
      set_to_none: as for `torch.nn.Module.zero_grad`.
    """
    super().zero_grad(set_to_none)
    if self._open:
      self._watch.zeroed()
      self._send_zero()

  def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
    """Scales gradients down to a norm over those of the whole model, on all ranks.

    All ranks that do not hold parts call it, behind the last backward pass of a step.

    Args:
      max_norm: the largest norm.
      norm_type: which norm, such as 2.0 or inf.

    Returns:
      The norm before, as `torch.nn.utils.clip_grad_norm_` does.

    Raises:
      CommError: a rank was lost, or only some ranks called it.
      InvalidArgumentError: this rank holds a part for others, or gradients were changed by hand.
    """
    self._check_client("clip_grad_norm_")
    if not self._open:
      return torch.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
    own = [p.grad.detach() for p in self.parameters() if p.grad is not None]
    device = own[0].device if own else torch.device("cpu")
    norms = [torch.linalg.vector_norm(gradient, norm_type).to(device) for gradient in own]
    for rank in self._holders():
      self._ask(rank, {"kind": "norm", "type": norm_type}, [])
    for rank in self._holders():
      norms += [norm.to(device) for norm in self._mail.receive(rank, ANSWER)[1]]
    total = torch.linalg.vector_norm(torch.stack(norms), norm_type) if norms else torch.zeros(())
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for gradient in own:
      gradient.mul_(factor.to(gradient.device))
    self._watch.scaled()
    for rank in self._holders():
      self._ask(rank, {"kind": "scale"}, [factor])
    return total

  def _unscale(self, inverse: torch.Tensor) -> float:
    """A GradScaler has multiplied the gradients of this rank by `inverse`; those of the parts are
    too. 1.0 if one of theirs is not finite, the same on all ranks."""
    self._watch.scaled()
    for rank in self._holders():
      self._ask(rank, {"kind": "norm", "type": float("inf")}, [])
    norms = [norm for rank in self._holders() for norm in self._mail.receive(rank, ANSWER)[1]]
    for rank in self._holders():
      self._ask(rank, {"kind": "scale"}, [inverse])
    return float(not all(bool(norm.isfinite()) for norm in norms))

  def _check_client(self, what: str) -> None:
    if self.holds:
      raise InvalidArgumentError(f"place: {what}: this rank holds {', '.join(self.holds)} for "
                                 f"other ranks; call it on rank {self._clients[0]}")

  def _holders(self) -> list[int]:
    return sorted({part.rank for part in self._placed}) if self.group is not None else []

  def _begin(self, part: Part, args: tuple[Any, ...], kwargs: dict[str, Any],
             modes: dict[str, Any]) -> Call:
    if not self._open:
      raise InvalidArgumentError(f"place: {part.name} was called after close(): its rank answers "
                                 "no longer; call the model inside of `with model:`")
    number, self._number = self._number, self._number + 1
    call = Call(self._mail, self._ask, self._watch, part.rank, part.name, number, args, kwargs,
                modes, self._in_flight)
    # The end of a call may come while something is sent, so it is told later.
    weakref.finalize(call, self._gone[part.rank].append, number).atexit = False
    self._unanswered[number] = call
    call.answered = lambda: self._unanswered.pop(number, None)
    return call

  def _call(self, part: Part, args: tuple[Any, ...], kwargs: dict[str, Any],
            modes: dict[str, Any]) -> Any:
    call = self._begin(part, args, kwargs, modes)
    if self._in_flight and part.name in self._single:
      return Pending.of(call)
    result = call.result()
    if isinstance(result, torch.Tensor):
      self._single.add(part.name)
    return result

  def _ask(self, rank: int, content: dict[str, Any], tensors: list[torch.Tensor]) -> None:
    """Sends a request, after what happened to gradients before it."""
    if self._watch.take_zero():
      self._send_zero()
    gone = self._gone[rank]
    content = content | {"gone": [gone.pop() for _ in range(len(gone))]}
    self._mail.send(rank, REQUEST, content, tensors)

  def _send_zero(self) -> None:
    for rank in self._holders():
      self._mail.send(rank, REQUEST, {"kind": "zero"}, [])

  def _is_mine(self, optimizer: torch.optim.Optimizer) -> bool:
    mine = {id(parameter) for parameter in self.parameters()}
    return any(id(parameter) in mine for options in optimizer.param_groups
               for parameter in options["params"])

  def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
    if self._watch.passed and self._is_mine(optimizer):
      if self._watch.take_zero():
        self._send_zero()
      else:
        self._watch.check()

  def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
    """An optimizer has taken a step. The first one after a backward pass counts."""
    if self._watch.passed and self._is_mine(optimizer):
      for rank in self._holders():
        self._ask(rank, {"kind": "optimize"}, [])
      self._watch.stepped()


class Remote(torch.nn.Module):
  """In place of a part that another rank holds."""

  def __init__(self, owner: Placed, part: Part) -> None:
    super().__init__()
    self._part, self._owner = part, weakref.ref(owner)
    self._told = 0  # how often train() or eval() was called

  def train(self, mode: bool = True) -> Remote:
    self._told += 1
    return super().train(mode)

  def forward(self, *args: Any, **kwargs: Any) -> Any:
    return self._of()._call(self._part, args, kwargs, self._modes())

  def begin(self, *args: Any, **kwargs: Any) -> Call:
    """A call whose result() is asked for later."""
    return self._of()._begin(self._part, args, kwargs, self._modes())

  def _of(self) -> Placed:
    owner = self._owner()
    if owner is None:
      raise InvalidArgumentError(f"place: {self._part.name} lies on rank {self._part.rank}, and "
                                 "what place() returned is gone; keep it")
    return owner

  def _modes(self) -> dict[str, Any]:
    return {"training": self.training, "told": self._told}

  def extra_repr(self) -> str:
    return f"{self._part.name} on rank {self._part.rank}, {self._part.device}"


def locally(model: torch.nn.Module, parts: list[Part]) -> torch.nn.Module:
  """Moves parts to devices of this process; arguments and results follow."""
  for part in parts:
    module = model.get_submodule(part.name)
    parts_of.materialize(module, part.device, part.name)
    module.to(part.device)
    module.register_forward_pre_hook(bring(part.device), with_kwargs=True)
    module.register_forward_hook(take_back, with_kwargs=True)
  parts_of.materialize(model, torch.device("cpu"), "the model")
  return model


def bring(device: torch.device) -> Any:
  def hook(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    first = next((a for a in [*args, *kwargs.values()] if isinstance(a, torch.Tensor)), None)
    CAME_FROM[module] = first.device if first is not None else device
    return moved(args, device), moved(kwargs, device)

  return hook


def take_back(module: torch.nn.Module, args: Any, kwargs: Any, result: Any) -> Any:
  del args, kwargs
  return moved(result, CAME_FROM.pop(module))


CAME_FROM: weakref.WeakKeyDictionary[torch.nn.Module, torch.device] = weakref.WeakKeyDictionary()


def moved(value: Any, device: torch.device) -> Any:
  if isinstance(value, torch.Tensor):
    return value.to(device)
  if type(value) in (list, tuple):
    return type(value)(moved(one, device) for one in value)
  if type(value) is dict:
    return {key: moved(one, device) for key, one in value.items()}
  return value


# Optimizers do not know their module, so every model is told of every optimizer.
OPEN: weakref.WeakSet[Placed] = weakref.WeakSet()


def before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
  del args, kwargs
  for placed in list(OPEN):
    placed._before_step(optimizer)


def after_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
  del args, kwargs
  for placed in list(OPEN):
    placed._after_step(optimizer)


register_optimizer_step_pre_hook(before_step)
register_optimizer_step_post_hook(after_step)


# A GradScaler changes gradients, and leaves out a step, without a trace that a model could see.
plain_unscale: Any = torch.amp.GradScaler._unscale_grads_
plain_step: Any = torch.amp.GradScaler.step


def scaler_unscale(scaler: Any, optimizer: torch.optim.Optimizer, inverse: torch.Tensor,
                   found: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
  """By device, whether a gradient is not finite; those of parts on other ranks count here too."""
  placed = [one for one in list(OPEN) if one._watch.passed and one._is_mine(optimizer)]
  for one in placed:
    one._before_step(optimizer)
  by_device = plain_unscale(scaler, optimizer, inverse, found, *args, **kwargs)
  for one in placed:
    by_device[inverse.device] = by_device.get(inverse.device, found) + one._unscale(inverse)
  return by_device


def scaler_step(scaler: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
  if scaler.is_enabled() and getattr(optimizer, "_step_supports_amp_scaling", False) and any(
      placed._is_mine(optimizer) for placed in list(OPEN)):
    raise InvalidArgumentError("place: a fused optimizer leaves out steps by itself, which the "
                               "ranks that hold parts could not see; make it with fused=False")
  return plain_step(scaler, optimizer, *args, **kwargs)


setattr(torch.amp.GradScaler, "_unscale_grads_", scaler_unscale)  # noqa: B010
setattr(torch.amp.GradScaler, "step", scaler_step)  # noqa: B010
