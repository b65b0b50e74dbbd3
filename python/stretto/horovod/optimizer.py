"""DistributedOptimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import torch

from stretto.horovod import reductions as ops
from stretto.horovod.compression import Compression
from stretto.horovod.handles import Handle, synchronize
from stretto.horovod.process_sets import members_of
from stretto.torch.buffers import give_back


class Distributed:
  """Mixed into the class of the wrapped optimizer: gradients are reduced as soon as they are there,
  and step() waits for them."""

  def distribute_(self, names, compression, passes: int, op: str, predivide: float,
                  sparse_as_dense: bool, process_set, scaler) -> None:
    self.compression_, self.op_, self.passes_ = compression, op, passes
    self.predivide_, self.sparse_as_dense_ = predivide, sparse_as_dense
    self.process_set_, self.scaler_ = process_set, scaler
    members = self.members_ = members_of(process_set)
    parameters = [p for group in self.param_groups for p in group["params"]]
    named = {p: name for name, p in names} if names else {}
    if named and len(named) != len(set(named.values())):
      raise ValueError("DistributedOptimizer: two parameters have the same name")
    self.names_ = {p: named.get(p, f"noname.{i}") for i, p in enumerate(parameters)}
    # A codec that keeps what it loses; classes of the script's own go their own way.
    codec = getattr(compression, "codec", "none") or members.group.codec
    self.gradients_ = None
    if codec != "none" and op in (ops.Average, ops.Sum):
      self.gradients_ = members.add_gradients(codec)
    self.handles_: dict[torch.Tensor, Handle] = {}
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
    name = self.names_[parameter]
    if parameter.grad.is_sparse and self.sparse_as_dense_:
      parameter.grad = parameter.grad.to_dense()
    grad = parameter.grad
    if grad.is_sparse:
      handle = ops.sparse_allreduce_async(grad, f"gradient.{name}", self.op_, self.process_set_)
    elif self.gradients_ is not None and grad.dtype.is_floating_point:
      handle = self.reduce_coded_(name, grad)
    else:
      handle = ops.allreduce_async_(grad, name=f"gradient.{name}", compression=self.compression_,
                                    process_set=self.process_set_, **self.scaling_())
    self.handles_[parameter] = handle

  def scaling_(self) -> dict:
    if self.predivide_ == 1.0:
      return {"op": self.op_}
    return {"op": ops.Sum, "prescale_factor": 1 / self.predivide_,
            "postscale_factor": self.predivide_ / self.members_.size}

  def reduce_coded_(self, name: str, grad: torch.Tensor) -> Handle:
    scale = float(self.scaler_.get_scale()) if self.scaler_ is not None else 1.0
    number, values, host = self.gradients_.submit(self.members_.unordered, name, grad, scale)

    def finish():
      bring = give_back([(values, host)])
      if bring is not None:
        bring()
      if self.op_ == ops.Sum:
        grad.mul_(self.members_.size)
      return grad

    return Handle(self.members_, number, [values, host], finish)

  def synchronize(self) -> None:
    """Waits until every gradient is the reduced one. A parameter that took no part in the backward
    pass contributes zeros, as it may have on other ranks."""
    for parameter in self.left_:
      if parameter.requires_grad and parameter not in self.handles_:
        if parameter.grad is None:
          parameter.grad = torch.zeros_like(parameter)
        self.reduce_(parameter)
    for parameter, handle in self.handles_.items():
      result = synchronize(handle)
      if result.is_sparse:
        parameter.grad = result
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
    gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups=None,
    sparse_as_dense: bool = False, process_set=None, scaler=None) -> torch.optim.Optimizer:
  """The optimizer, turned into one that averages gradients over ranks. It shares its state with the
  one given.

  With a codec (`compression`, or STRETTO_CODEC where that is Compression.none) what is lost on the
  wire is kept per parameter and added to the next step's gradient; give the torch.amp.GradScaler in
  use as `scaler`, then. `num_groups` and `groups` are not needed: small gradients that wait travel
  together anyway."""
  del num_groups, groups
  op = ops.operation_of(None, op)
  if gradient_predivide_factor != 1.0 and op != ops.Average:
    raise ValueError("gradient_predivide_factor is for averages")
  kind = type(optimizer.__class__.__name__, (optimizer.__class__,), {
      name: value for name, value in vars(Distributed).items() if not name.startswith("__")})
  optimizer.__class__ = kind
  optimizer.distribute_(list(named_parameters or ()), compression, backward_passes_per_step, op,
                        gradient_predivide_factor, sparse_as_dense, process_set, scaler)
  return optimizer
