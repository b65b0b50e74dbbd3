"""Step policies: when ranks exchange gradients or parameters (STRETTO_STEP_POLICY).

  every          averages gradients in every step
  accumulate:K   averages gradients that are summed over K steps; the optimizer takes one step for K
                 steps of the script
  local:K        averages parameters every K steps, and no gradients (local SGD)
  gossip:K       like local:K, and in the other steps averages parameters with one partner

All ranks must count the same steps. A loss scaler may skip the optimizer's steps on some ranks, so
local and gossip count forward passes of training, and exchange parameters at the beginning of the
next one.
"""

from __future__ import annotations

import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from stretto import _stretto, comm
from stretto.torch._buffers import NAMES, staged


class Every:
  """Base of the policies. stretto.torch.attach calls the methods."""

  def __init__(self, ddp, group, name: str, interval: int):
    del ddp, group, name
    self.interval = interval

  def holds_back(self, bucket, step: int, loss_scale: float) -> bool:
    """True when the bucket is not to be reduced in this step."""
    del bucket, step, loss_scale
    return False

  def backward_done(self, step: int) -> None:
    pass

  def forward_begins(self) -> None:
    """Called at the beginning of a forward pass of training, by policies that need it."""

  def synchronize(self) -> None:
    pass


class Accumulate(Every):
  """In steps without an exchange, gradients are kept here. DDP gets zeros, so that loss scalers and
  gradient clipping do nothing. The optimizer finds no gradients, so that it changes neither
  parameters nor its state."""

  def __init__(self, ddp, group, name: str, interval: int):
    super().__init__(ddp, group, name, interval)
    self._parameters = set(ddp.module.parameters())
    self._sums: dict[torch.Tensor, torch.Tensor] = {}
    self._scale = 1.0
    self._held_back = False
    ACCUMULATING.add(self)

  def holds_back(self, bucket, step: int, loss_scale: float) -> bool:
    with torch.no_grad():
      if loss_scale != self._scale:
        for total in self._sums.values():
          total.mul_(loss_scale / self._scale)
        self._scale = loss_scale
      pairs = list(zip(bucket.parameters(), bucket.gradients()))
      if step % self.interval == 0:
        for parameter, gradient in pairs:
          if parameter in self._sums:
            gradient.add_(self._sums.pop(parameter))
        bucket.buffer().div_(self.interval)
        return False
      for parameter, gradient in pairs:
        if parameter in self._sums:
          self._sums[parameter].add_(gradient)
        else:
          self._sums[parameter] = gradient.clone()
      bucket.buffer().zero_()
      return True

  def backward_done(self, step: int) -> None:
    self._held_back = step % self.interval != 0

  def before_optimizer(self, optimizer) -> None:
    if not self._held_back:
      return
    for options in optimizer.param_groups:
      for parameter in options["params"]:
        if parameter in self._parameters:
          parameter.grad = None


# Optimizers do not know their module, so every policy is called for every optimizer.
ACCUMULATING: weakref.WeakSet[Accumulate] = weakref.WeakSet()


def before_optimizer(optimizer, args, kwargs) -> None:
  del args, kwargs
  for policy in list(ACCUMULATING):
    policy.before_optimizer(optimizer)


register_optimizer_step_pre_hook(before_optimizer)


class Local(Every):

  def __init__(self, ddp, group, name: str, interval: int):
    super().__init__(ddp, group, name, interval)
    ddp.require_backward_grad_sync = False  # as in DDP.no_sync()
    self._engine, self._rank, self._size = group.engine, group._rank, group._size
    self._group = self._engine.add_group(f"{name}, parameters", group.members)
    self._module = weakref.ref(ddp.module)
    self._steps = 0
    policy = weakref.ref(self)

    def before_forward(ddp, args) -> None:
      del args
      if ddp.training and torch.is_grad_enabled():
        policy().forward_begins()

    ddp.register_forward_pre_hook(before_forward)

  def forward_begins(self) -> None:
    if self._steps > 0:
      self.after_step(self._steps)
    self._steps += 1

  def after_step(self, step: int) -> None:
    if step % self.interval == 0:
      self.synchronize()

  def synchronize(self) -> None:
    self.exchange(self.average)

  def exchange(self, mix) -> None:
    """Calls `mix` with the values of all parameters and floating-point buffers of a type."""
    module = self._module()
    with torch.no_grad():
      by_type: dict[torch.dtype, list[torch.Tensor]] = {}
      for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
          by_type.setdefault(tensor.dtype, []).append(tensor)
      for tensors in by_type.values():
        flat = staged(torch.cat([t.reshape(-1) for t in tensors]), read=True)
        mix(flat)
        for tensor, values in zip(tensors, flat.split([t.numel() for t in tensors])):
          tensor.copy_(values.view(tensor.shape))

  def average(self, flat: torch.Tensor) -> None:
    self.run([{"kind": comm.ALL_REDUCE, "reduction": comm.REDUCTIONS.index("average"),
               "input": flat.data_ptr(), "output": flat.data_ptr()}], flat)

  def run(self, operations: list[dict], flat: torch.Tensor) -> None:
    common = {"dtype": NAMES[flat.dtype], "count": flat.numel(), "name": "parameters"}
    handles = [self._engine.submit(self._group, codec="none", **common, **op)
               for op in operations]
    for handle in handles:
      self._engine.wait(handle)


class Gossip(Local):
  """Partners form an exponential graph (Assran et al., "Stochastic gradient push", 2019), at
  distance 1, 2, 4, and so on. A rank sends its parameters to one rank and takes the mean with what
  it receives from another, which keeps the mean over all ranks."""

  def after_step(self, step: int) -> None:
    if step % self.interval == 0:
      self.synchronize()
    elif self._size > 1:
      distances = [1 << i for i in range((self._size - 1).bit_length())]
      distance = distances[step % len(distances)]
      self.exchange(lambda flat: self.mix_with(flat, distance))

  def mix_with(self, flat: torch.Tensor, distance: int) -> None:
    other = torch.empty_like(flat)
    self.run([{"kind": comm.SEND, "input": flat.data_ptr(),
               "peer": (self._rank + distance) % self._size},
              {"kind": comm.RECV, "output": other.data_ptr(),
               "peer": (self._rank - distance) % self._size}], flat)
    flat.add_(other).mul_(0.5)


# In the order of StepPolicy::Kind.
POLICIES = (Every, Accumulate, Local, Gossip)


def parse(text: str) -> tuple[type[Every], int]:
  kind, interval = _stretto.parse_step_policy(text)
  return POLICIES[kind], interval


def make(policy: tuple[type[Every], int], ddp, group, name: str) -> Every:
  kind, interval = policy
  return kind(ddp, group, name, interval)
