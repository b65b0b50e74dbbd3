"""Broadcasts of parameters, optimizer state and Python objects."""

from __future__ import annotations

import io
import pickle

import torch

from stretto._checks import expected
from stretto._errors import InvalidArgumentError
from stretto.horovod._arguments import named
from stretto.horovod._handles import synchronize
from stretto.horovod._moves import allgather, broadcast, broadcast_, broadcast_async_
from stretto.horovod._process_sets import members_of
from stretto.horovod._state import job


def broadcast_parameters(params, root_rank: int = 0, process_set=None,
                         name_prefix: str = "parameter.") -> None:
  """Gives parameters the values that one rank has, in place.

  Args:
    params: a state_dict, or what `named_parameters()` returns.
    root_rank: the rank whose values the others get.
    process_set: as in `allreduce`.
    name_prefix: what the names of the broadcasts begin with.

  Raises:
    InvalidArgumentError: `params` is something else, or ranks disagree on names, shapes or types.
    CommError: a rank or a link is lost.

  Examples:
    ```python
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    ```
  """
  items = named("broadcast_parameters: params", params)
  handles = [broadcast_async_(p, root_rank, f"{name_prefix}{name}", process_set)
             for name, p in items if isinstance(p, torch.Tensor)]
  for handle in handles:
    synchronize(handle)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0,
                              model=None, process_set=None) -> None:
  """Gives an optimizer the state that one rank's optimizer has.

  Args:
    optimizer: the optimizer; ranks other than the root load the state.
    root_rank: the rank whose state the others get.
    model: Horovod's; not used.
    process_set: as in `allreduce`.

  Raises:
    CommError: a rank or a link is lost.
  """
  del model
  if not (hasattr(optimizer, "param_groups") and hasattr(optimizer, "load_state_dict")):
    raise expected("broadcast_optimizer_state: optimizer", "a torch.optim.Optimizer", optimizer)
  root = job().place.rank == root_rank
  state = broadcast_object(optimizer.state_dict() if root else None, root_rank, "optimizer state",
                           process_set)
  if not root:
    optimizer.load_state_dict(state)


def packed(operation: str, obj) -> torch.Tensor:
  buffer = io.BytesIO()
  try:
    torch.save(obj, buffer)
  except (AttributeError, TypeError, pickle.PicklingError) as error:
    raise InvalidArgumentError(f"{operation}: obj: it cannot be pickled: {error}") from error
  return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def unpacked(content: torch.Tensor):
  return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=False)


def broadcast_object(obj, root_rank: int = 0, name: str | None = None, process_set=None):
  """Gives every rank an object of one rank. Only for ranks that trust each other: it is pickled.

  Args:
    obj: anything that torch.save takes; not used on ranks other than the root.
    root_rank: the rank whose object the others get.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    The object.

  Raises:
    CommError: a rank or a link is lost.
  """
  name = name or "object"
  root = job().place.rank == root_rank
  content = packed("broadcast_object", obj) if root else torch.empty(0, device="cpu")
  length = broadcast(torch.tensor([content.numel()], device="cpu"), root_rank, f"{name}.length",
                     process_set)
  if not root:
    content = torch.empty(int(length), dtype=torch.uint8, device="cpu")
  broadcast_(content, root_rank, f"{name}.content", process_set)
  return obj if root else unpacked(content)


def broadcast_object_fn(root_rank: int = 0, name: str | None = None, process_set=None):
  """A function that broadcasts its argument.

  Args:
    root_rank: as in `broadcast_object`.
    name: as in `broadcast_object`.
    process_set: as in `allreduce`.

  Returns:
    A function of an object, as `broadcast_object`.
  """
  return lambda obj: broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj, name: str | None = None, process_set=None) -> list:
  """Collects an object of every rank. Only for ranks that trust each other: they are pickled.

  Args:
    obj: anything that torch.save takes.
    name: as in `allreduce`.
    process_set: as in `allreduce`.

  Returns:
    The objects, by rank.

  Raises:
    CommError: a rank or a link is lost.
  """
  members_of(process_set)
  content, name = packed("allgather_object", obj), name or "objects"
  lengths = allgather(torch.tensor([content.numel()], device="cpu"), f"{name}.lengths",
                      process_set)
  parts = allgather(content, f"{name}.contents", process_set).split(lengths.tolist())
  return [unpacked(p) for p in parts]
