"""Starting all ranks from the same values, and Python objects between them."""

from __future__ import annotations

import io

import torch

from stretto.horovod._handles import synchronize
from stretto.horovod._moves import allgather, broadcast, broadcast_, broadcast_async_
from stretto.horovod._process_sets import members_of
from stretto.horovod._state import job


def broadcast_parameters(params, root_rank: int = 0, process_set=None) -> None:
  """`params`: a state_dict, or named_parameters()."""
  items = params.items() if hasattr(params, "items") else list(params)
  handles = [broadcast_async_(p, root_rank, f"parameter.{name}", process_set)
             for name, p in items if isinstance(p, torch.Tensor)]
  for handle in handles:
    synchronize(handle)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0,
                              model=None, process_set=None) -> None:
  """`model` is not needed."""
  del model
  root = job().place.rank == root_rank
  state = broadcast_object(optimizer.state_dict() if root else None, root_rank, "optimizer state",
                           process_set)
  if not root:
    optimizer.load_state_dict(state)


def packed(obj) -> torch.Tensor:
  buffer = io.BytesIO()
  torch.save(obj, buffer)
  return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def unpacked(content: torch.Tensor):
  return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=False)


def broadcast_object(obj, root_rank: int = 0, name: str | None = None, process_set=None):
  """Anything torch.save takes; for ranks that trust each other."""
  name = name or "object"
  root = job().place.rank == root_rank
  content = packed(obj) if root else torch.empty(0, dtype=torch.uint8)
  length = broadcast(torch.tensor([content.numel()]), root_rank, f"{name}.length", process_set)
  if not root:
    content = torch.empty(int(length), dtype=torch.uint8)
  broadcast_(content, root_rank, f"{name}.content", process_set)
  return obj if root else unpacked(content)


def broadcast_object_fn(root_rank: int = 0, name: str | None = None, process_set=None):
  return lambda obj: broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj, name: str | None = None, process_set=None) -> list:
  members_of(process_set)
  content, name = packed(obj), name or "objects"
  lengths = allgather(torch.tensor([content.numel()]), f"{name}.lengths", process_set)
  parts = allgather(content, f"{name}.contents", process_set).split(lengths.tolist())
  return [unpacked(p) for p in parts]
