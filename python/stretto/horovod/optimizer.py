"""DistributedOptimizer, and starting all ranks from the same values."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable

import torch

from stretto.horovod import operations as ops
from stretto.horovod.compression import Compression
from stretto.horovod.state import job


class Distributed:
  """Mixed into the class of the wrapped optimizer: gradients are reduced as soon as they are there,
  and step() waits for them."""

  def distribute_(self, names, compression, passes: int, op: str) -> None:
    self.compression_, self.op_, self.passes_ = compression, op, passes
    parameters = [p for group in self.param_groups for p in group["params"]]
    named = {p: name for name, p in names} if names else {}
    if named and len(named) != len(set(named.values())):
      raise ValueError("DistributedOptimizer: two parameters have the same name")
    self.names_ = {p: named.get(p, f"noname.{i}") for i, p in enumerate(parameters)}
    self.handles_: dict[torch.Tensor, object] = {}
    self.left_ = dict.fromkeys(parameters, passes)
    self.synchronized_, self.should_synchronize_ = False, True
    for parameter in parameters:
      if parameter.requires_grad:
        parameter.register_post_accumulate_grad_hook(self.gradient_ready_)

  def gradient_ready_(self, parameter: torch.Tensor) -> None:
    if self.left_[parameter] <= 0:
      raise AssertionError("gradients were computed more than backward_passes_per_step times "
                           "before step() or synchronize()")
    self.left_[parameter] -= 1
    if self.left_[parameter] == 0:
      self.reduce_(parameter)

  def reduce_(self, parameter: torch.Tensor) -> None:
    self.handles_[parameter] = ops.allreduce_async_(
        parameter.grad, name=f"gradient.{self.names_[parameter]}", op=self.op_,
        compression=self.compression_)

  def synchronize(self) -> None:
    """Waits until every gradient is the reduced one. A parameter that took no part in the backward
    pass contributes zeros, as it may have on other ranks."""
    for parameter in self.left_:
      if parameter.requires_grad and parameter not in self.handles_:
        if parameter.grad is None:
          parameter.grad = torch.zeros_like(parameter)
        self.reduce_(parameter)
    for handle in self.handles_.values():
      ops.synchronize(handle)
    self.handles_.clear()
    self.left_ = dict.fromkeys(self.left_, self.passes_)
    self.synchronized_ = True

  @contextlib.contextmanager
  def skip_synchronize(self):
    """step() inside it does not wait: synchronize() was called before, to clip gradients say."""
    self.should_synchronize_ = False
    try:
      yield
    finally:
      self.should_synchronize_ = True

  def set_backward_passes_per_step(self, passes: int) -> None:
    self.passes_ = passes
    self.left_ = dict.fromkeys(self.left_, passes)

  def step(self, closure=None):
    if self.should_synchronize_:
      self.synchronize()
    self.synchronized_ = False
    return super(self.__class__, self).step(closure)

  def zero_grad(self, *args, **options):
    if self.handles_:
      raise AssertionError("zero_grad() between backward() and step(): gradients are on their way")
    return super(self.__class__, self).zero_grad(*args, **options)


def DistributedOptimizer(  # noqa: N802  Horovod's name
    optimizer: torch.optim.Optimizer, named_parameters: Iterable | None = None,
    compression=Compression.none, backward_passes_per_step: int = 1, op: str = ops.Average,
    gradient_predivide_factor: float = 1.0, **_) -> torch.optim.Optimizer:
  """The optimizer, turned into one that averages gradients over ranks. It shares its state with the
  one given."""
  if gradient_predivide_factor != 1.0 and op != ops.Average:
    raise ValueError("gradient_predivide_factor is for averages")
  kind = type(optimizer.__class__.__name__, (optimizer.__class__,), {
      name: value for name, value in vars(Distributed).items() if not name.startswith("__")})
  optimizer.__class__ = kind
  optimizer.distribute_(list(named_parameters or ()), compression, backward_passes_per_step, op)
  return optimizer


def broadcast_parameters(params, root_rank: int = 0) -> None:
  """`params`: a state_dict, or named_parameters()."""
  items = params.items() if isinstance(params, dict) else list(params)
  handles = [ops.broadcast_async_(p, root_rank, name=f"parameter.{name}")
             for name, p in items if isinstance(p, torch.Tensor)]
  for handle in handles:
    ops.synchronize(handle)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0) -> None:
  state = broadcast_object(optimizer.state_dict() if job().rank == root_rank else None, root_rank)
  if job().rank != root_rank:
    optimizer.load_state_dict(state)


def broadcast_object(obj, root_rank: int = 0, name: str | None = None):
  """Anything torch.save takes; for ranks that trust each other."""
  name = name or "object"
  content = torch.empty(0, dtype=torch.uint8)
  if job().rank == root_rank:
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    content = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
  length = ops.broadcast(torch.tensor([content.numel()]), root_rank, name=f"{name}.length")
  if job().rank != root_rank:
    content = torch.empty(int(length), dtype=torch.uint8)
  ops.broadcast_(content, root_rank, name=f"{name}.content")
  if job().rank == root_rank:
    return obj
  return torch.load(io.BytesIO(content.numpy().tobytes()), weights_only=False)


def allgather_object(obj, name: str | None = None) -> list:
  buffer = io.BytesIO()
  torch.save(obj, buffer)
  content = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
  name = name or "objects"
  lengths = ops.allgather(torch.tensor([content.numel()]), name=f"{name}.lengths")
  parts = ops.allgather(content, name=f"{name}.contents").split(lengths.tolist())
  return [torch.load(io.BytesIO(p.numpy().tobytes()), weights_only=False) for p in parts]
