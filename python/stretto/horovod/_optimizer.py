"""DistributedOptimizer."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable

import torch

from stretto._checks import expected, is_number, is_whole
from stretto._errors import InvalidArgumentError
from stretto.horovod import _reductions as ops
from stretto.horovod._adasum_optimizer import DistributedAdasum
from stretto.horovod._arguments import check_compression, named
from stretto.horovod._compression import Compression
from stretto.horovod._handles import Handle, synchronize
from stretto.horovod._process_sets import members_of
from stretto.torch._buffers import give_back

OPTIMIZERS: list[weakref.ref] = []  # in the order in which they were made


class Distributed:
  """Base that is added to the class of the wrapped optimizer. Gradients are reduced as soon as they
  are ready, and step() waits for them."""

  def _distribute(self, names, compression, passes: int, op: str, predivide: float,
                  sparse_as_dense: bool, process_set, scaler) -> None:
    self._compression, self._op, self._passes = compression, op, passes
    self._predivide, self._sparse_as_dense = predivide, sparse_as_dense
    self._process_set, self._scaler = process_set, scaler
    members = self._members = members_of(process_set)
    parameters = [p for group in self.param_groups for p in group["params"]]
    named = {p: name for name, p in names} if names else {}
    if named and len(named) != len(set(named.values())):
      raise InvalidArgumentError("DistributedOptimizer: two parameters have the same name")
    self._names = {p: named.get(p, f"noname.{i}") for i, p in enumerate(parameters)}
    # A codec with error feedback; the script's own compression classes are used as they are.
    codec = getattr(compression, "codec", "none") or members.group.codec
    self._codec = codec if op in (ops.Average, ops.Sum) else "none"
    self._handles: dict[torch.Tensor, Handle] = {}
    self._left = dict.fromkeys(parameters, passes)
    self._should_synchronize = True
    self._begin()
    OPTIMIZERS.append(weakref.ref(self, OPTIMIZERS.remove))
    for parameter in parameters:
      if parameter.requires_grad:
        parameter.register_post_accumulate_grad_hook(self._gradient_ready)

  def _begin(self) -> None:
    """Also when the job has been formed again, perhaps in the middle of a backward pass."""
    self._members = members_of(self._process_set)
    self._gradients = self._members.add_gradients(self._codec) if self._codec != "none" else None
    self._handles.clear()
    self._left = dict.fromkeys(self._left, self._passes)
    self._synchronized = False

  def _gradient_ready(self, parameter: torch.Tensor) -> None:
    if self._left[parameter] <= 0:
      raise AssertionError("gradients were computed more than backward_passes_per_step times "
                           "before step() or synchronize()")
    self._left[parameter] -= 1
    if self._left[parameter] == 0:
      self._reduce(parameter)

  def _reduce(self, parameter: torch.Tensor) -> None:
    name = self._names[parameter]
    if parameter.grad.is_sparse and self._sparse_as_dense:
      parameter.grad = parameter.grad.to_dense()
    grad = parameter.grad
    if grad.is_sparse:
      handle = ops.sparse_allreduce_async(grad, f"gradient.{name}", self._op, self._process_set)
    elif self._gradients is not None and grad.dtype.is_floating_point:
      handle = self._reduce_coded(name, grad)
    else:
      handle = ops.allreduce_async_(grad, name=f"gradient.{name}", compression=self._compression,
                                    process_set=self._process_set, **self._scaling())
    self._handles[parameter] = handle

  def _scaling(self) -> dict:
    if self._predivide == 1.0:
      return {"op": self._op}
    return {"op": ops.Sum, "prescale_factor": 1 / self._predivide,
            "postscale_factor": self._predivide / self._members.size}

  def _reduce_coded(self, name: str, grad: torch.Tensor) -> Handle:
    scale = float(self._scaler.get_scale()) if self._scaler is not None else 1.0
    self._members.let_go()
    number, values, host = self._gradients.submit(self._members.unordered, name, grad, scale)

    def finish():
      bring = give_back([(values, host)])
      if bring is not None:
        bring()
      if self._op == ops.Sum:
        grad.mul_(self._members.size)
      return grad

    return Handle(self._members, number, [values, host], finish)

  def synchronize(self) -> None:
    """Waits until every gradient is reduced. A parameter without a gradient on this rank
    contributes zeros, because it may have one on other ranks."""
    for parameter in self._left:
      if parameter.requires_grad and parameter not in self._handles:
        if parameter.grad is None:
          parameter.grad = torch.zeros_like(parameter)
        self._reduce(parameter)
    for parameter, handle in self._handles.items():
      result = synchronize(handle)
      if result.is_sparse:
        parameter.grad = result
    self._handles.clear()
    self._left = dict.fromkeys(self._left, self._passes)
    self._synchronized = True

  @contextlib.contextmanager
  def skip_synchronize(self):
    """Inside it step() does not wait. Call synchronize() before, for example to clip gradients."""
    self._should_synchronize = False
    try:
      yield
    finally:
      self._should_synchronize = True

  def set_backward_passes_per_step(self, passes: int) -> None:
    self._passes = passes
    self._left = dict.fromkeys(self._left, passes)

  def step(self, closure=None):
    if self._should_synchronize:
      self.synchronize()
    self._synchronized = False
    return super(self.__class__, self).step(closure)

  def zero_grad(self, *args, **options):
    if self._handles:
      raise AssertionError("zero_grad() was called between backward() and step(), while gradients "
                           "are reduced")
    return super(self.__class__, self).zero_grad(*args, **options)


def rejoin() -> None:
  """Makes the optimizers of this process use the job that has been formed again."""
  for optimizer in [reference() for reference in OPTIMIZERS]:
    if optimizer is not None:
      optimizer._begin()


def DistributedOptimizer(  # noqa: N802  Horovod's name
    optimizer: torch.optim.Optimizer, named_parameters: Iterable | None = None,
    compression=Compression.none, backward_passes_per_step: int = 1, op: str = ops.Average,
    gradient_predivide_factor: float = 1.0, num_groups: int = 0, groups=None,
    sparse_as_dense: bool = False, process_set=None, scaler=None) -> torch.optim.Optimizer:
  """Turns an optimizer into one that combines gradients over ranks before each step.

  Args:
    optimizer: the optimizer; it is changed and returned.
    named_parameters: what `model.named_parameters()` returns. Names tell which gradients belong
      together where ranks compute them in different orders.
    compression: how gradients cross the wire, a member of `Compression`. `Compression.none` means
      the value of `STRETTO_CODEC`. What a lossy codec loses is kept for the parameter and added to
      the next step's gradient.
    backward_passes_per_step: number of backward passes whose gradients are added before they are
      sent.
    op: `Average`, or `Sum`, `Min`, `Max`, `Product`; with `Adasum` every rank makes its own step,
      and what the steps have changed is combined.
    gradient_predivide_factor: with `Average`: divides gradients by this factor before they are
      summed, and by size / factor afterwards.
    num_groups: Horovod's; not used, since small gradients that wait travel together anyway.
    groups: as `num_groups`.
    sparse_as_dense: make sparse gradients dense before they are sent.
    process_set: as in `allreduce`.
    scaler: the torch.amp.GradScaler in use, if any: what a codec owes is converted when the scale
      changes.

  Returns:
    The optimizer given.

  Raises:
    InvalidArgumentError: an argument is of a wrong type, the operation is unknown, or two
      parameters have the same name.

  Examples:
    ```python
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    ```
  """
  del num_groups, groups
  op = ops.operation_of(None, op)
  if not isinstance(optimizer, torch.optim.Optimizer):
    raise expected("DistributedOptimizer: optimizer", "a torch.optim.Optimizer", optimizer)
  names = named("DistributedOptimizer: named_parameters", named_parameters or ())
  check_compression("DistributedOptimizer", compression)
  if not is_whole(backward_passes_per_step) or backward_passes_per_step < 1:
    raise expected("DistributedOptimizer: backward_passes_per_step", "a number from 1 on",
                   backward_passes_per_step)
  if not is_number(gradient_predivide_factor) or gradient_predivide_factor == 0:
    raise expected("DistributedOptimizer: gradient_predivide_factor", "a number other than 0",
                   gradient_predivide_factor)
  if scaler is not None and not hasattr(scaler, "get_scale"):
    raise expected("DistributedOptimizer: scaler", "a torch.amp.GradScaler or None", scaler)
  members_of(process_set)
  base = DistributedAdasum if op == ops.Adasum else Distributed
  if gradient_predivide_factor != 1.0 and op != ops.Average:
    raise InvalidArgumentError("gradient_predivide_factor needs op=hvd.Average")
  kind = type(optimizer.__class__.__name__, (optimizer.__class__,), {
      name: value for name, value in vars(base).items() if not name.startswith("__")})
  optimizer.__class__ = kind
  if op == ops.Adasum:
    optimizer._distribute(compression, process_set)
    OPTIMIZERS.append(weakref.ref(optimizer, OPTIMIZERS.remove))
    return optimizer
  optimizer._distribute(names, compression, backward_passes_per_step, op,
                        gradient_predivide_factor, sparse_as_dense, process_set, scaler)
  return optimizer
