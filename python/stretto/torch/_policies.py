"""Step policies: when ranks exchange gradients or parameters (STRETTO_STEP_POLICY).

  every          averages gradients in every step
  accumulate:K   averages gradients over ranks and over K steps; the optimizer takes one step for K
                 steps of the script, as with a batch K times as large
  local:K        averages parameters every K steps, and no gradients (local SGD)
  gossip:K       like local:K, and in the other steps averages parameters with one partner

With `:overlap` after K, the exchange of local and gossip runs during the next step, and what it
changes is added after that step.

All ranks must count the same steps. A loss scaler may skip the optimizer's steps on some ranks, so
local and gossip count forward passes of training, and exchange parameters at the beginning of the
next one.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from stretto import _stretto, comm
from stretto._errors import InvalidArgumentError
from stretto.torch._buffers import NAMES, slice_of, staged
from stretto.torch._patches import keeping_class


class Every:
  """Base of the policies. stretto.torch.attach calls the methods."""

  def __init__(self, ddp, state, interval: int, overlap: bool):
    del ddp, state
    self.interval, self._overlap = interval, overlap

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

  def __init__(self, ddp, state, interval: int, overlap: bool):
    super().__init__(ddp, state, interval, overlap)
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


@dataclass
class Averaging:
  """Tensors of one type whose mean is under way. `before`: their values when it began, one after
  another. `wait()` returns the mean."""
  tensors: list[torch.Tensor]
  before: torch.Tensor
  wait: Callable[[], torch.Tensor]


class Local(Every):
  """With a codec, ranks average by how much parameters have moved since the last average, because
  an encoding loses a share of what it encodes. What it loses is kept for the next average."""

  def __init__(self, ddp, state, interval: int, overlap: bool):
    super().__init__(ddp, state, interval, overlap)
    ddp.require_backward_grad_sync = False  # as in DDP.no_sync()
    group = state.group
    self._process_group, self._gradients, self._codec = group, state.gradients, state.codec
    self._engine, self._rank, self._size = group.engine, group._rank, group._size
    self._group = self._engine.add_group(f"{state.name}, parameters", group.members)
    self._module = weakref.ref(ddp.module)
    self._steps = self._exchanges = 0
    self._agreed: list[torch.Tensor] = []  # with a codec: the last mean of the parameters, by type
    self._under_way: list[Averaging] = []
    if self._codec != "none":
      self._agreed = [self.values(tensors) for tensors in self.by_type("parameters")]
    policy = weakref.ref(self)

    def before_forward(ddp, args) -> None:
      del args
      if ddp.training and torch.is_grad_enabled():
        policy().forward_begins()

    ddp.register_forward_pre_hook(before_forward)

  def __del__(self):
    if getattr(self, "_under_way", None):  # the engine may still write there
      self._process_group.abandoned.append(self._under_way)

  def forward_begins(self) -> None:
    if self._steps > 0:
      self.finish(late=True)
      self.after_step(self._steps)
      if not self._overlap:
        self.finish()
    self._steps += 1

  def after_step(self, step: int) -> None:
    if step % self.interval == 0:
      self.begin_average()

  def synchronize(self) -> None:
    self.finish(late=True)
    self.begin_average()
    self.finish()

  def by_type(self, *kinds: str) -> list[dict[str, torch.Tensor]]:
    """Tensors of floating point by name, a dictionary for each type: `kinds` are "parameters" and
    "buffers"."""
    module = self._module()
    found: dict[torch.dtype, dict[str, torch.Tensor]] = {}
    for kind in kinds:
      for name, tensor in getattr(module, f"named_{kind}")():
        if tensor.is_floating_point():
          found.setdefault(tensor.dtype, {})[name] = tensor
    return list(found.values())

  def values(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
      return staged(torch.cat([t.detach().reshape(-1) for t in tensors.values()]), read=True)

  def begin_average(self) -> None:
    """Starts the mean over all ranks."""
    if self._codec == "none":
      self.begin(self.by_type("parameters", "buffers"), self.mean)
      return
    self._exchanges += 1
    parameters = self.by_type("parameters")
    for number, tensors in enumerate(parameters):
      values = self.values(tensors)
      moved = values - self._agreed[number]
      slices = [slice_of(name, tensor) for name, tensor in tensors.items()]
      future = self._process_group.average_bucket(self._gradients, moved, slices, self._exchanges,
                                                  1.0)

      def wait(number=number, future=future) -> torch.Tensor:
        self._agreed[number] = self._agreed[number] + keeping_class(future.wait)()
        return self._agreed[number]

      self._under_way.append(Averaging(list(tensors.values()), values, wait))
    self.begin(self.by_type("buffers"), self.mean)

  def begin(self, groups: list[dict[str, torch.Tensor]], start) -> None:
    """`start(values)` starts an exchange and returns what waits for its result."""
    for tensors in groups:
      values = self.values(tensors)
      self._under_way.append(Averaging(list(tensors.values()), values, start(values)))

  def finish(self, late: bool = False) -> None:
    """Takes the means. `late`: tensors have changed since the exchange began, and keep that."""
    under_way, self._under_way = self._under_way, []
    with torch.no_grad():
      for averaging in under_way:
        mean = averaging.wait()
        change = mean - averaging.before if late else mean
        sizes = [t.numel() for t in averaging.tensors]
        for tensor, values in zip(averaging.tensors, change.split(sizes)):
          values = values.view(tensor.shape).to(tensor.device)
          if late:
            tensor.add_(values)
          else:
            tensor.copy_(values)

  def mean(self, values: torch.Tensor) -> Callable[[], torch.Tensor]:
    result = torch.empty_like(values)
    return self.run(values, result, [
        {"kind": comm.ALL_REDUCE, "reduction": comm.REDUCTIONS.index("average"),
         "input": values.data_ptr(), "output": result.data_ptr()}])

  def run(self, values: torch.Tensor, result: torch.Tensor, operations: list[dict],
          finish: Callable[[torch.Tensor], torch.Tensor] = lambda result: result
          ) -> Callable[[], torch.Tensor]:
    """Starts operations on `values` that write `result`."""
    common = {"dtype": NAMES[values.dtype], "count": values.numel(), "name": "parameters",
              "timeout_s": self._process_group.timeout_s}
    handles = [self._engine.submit(self._group, codec="none", **common, **operation)
               for operation in operations]

    def wait() -> torch.Tensor:
      for handle in handles:
        self._engine.wait(handle)
      return finish(result)

    return wait


# Types in which partners send their parameters, by codec.
MESSAGES = {"none": None, "fp16": torch.float16, "bf16": torch.bfloat16}


class Gossip(Local):
  """Partners form an exponential graph (Assran et al., "Stochastic gradient push", 2019), at
  distance 1, 2, 4, and so on. A rank sends its parameters to one rank and adds half of the
  difference to what it receives from another, which keeps the mean over all ranks, also where both
  are rounded to be sent."""

  def __init__(self, ddp, state, interval: int, overlap: bool):
    if state.codec not in MESSAGES:
      raise InvalidArgumentError(f"attach: the step policy gossip works with the codecs "
                                 f"{', '.join(MESSAGES)}, not with {state.codec}; use local, or "
                                 "another codec")
    super().__init__(ddp, state, interval, overlap)

  def after_step(self, step: int) -> None:
    if step % self.interval == 0:
      self.begin_average()
    elif self._size > 1:
      distances = [1 << i for i in range((self._size - 1).bit_length())]
      distance = distances[step % len(distances)]
      self.begin(self.by_type("parameters", "buffers"),
                 lambda values: self.mix(values, distance))

  def mix(self, values: torch.Tensor, distance: int) -> Callable[[], torch.Tensor]:
    narrow = MESSAGES[self._codec] if values.dtype == torch.float32 else None
    mine = values.to(narrow) if narrow else values
    other = torch.empty_like(mine)
    # A partner that is a step behind still receives from another: what comes too early would halve
    # the bandwidth of what it waits for.
    return self.run(mine, other, [
        {"kind": comm.SEND, "input": mine.data_ptr(), "peer": (self._rank + distance) % self._size,
         "rendezvous": True},
        {"kind": comm.RECV, "output": other.data_ptr(),
         "peer": (self._rank - distance) % self._size}],
        lambda other: values + (other.to(values.dtype) - mine.to(values.dtype)) / 2)


# In the order of StepPolicy::Kind.
POLICIES = (Every, Accumulate, Local, Gossip)


def parse(text: str) -> tuple[type[Every], int, bool]:
  kind, interval, overlap = _stretto.parse_step_policy(text)
  return POLICIES[kind], interval, overlap


def make(policy: tuple[type[Every], int, bool], ddp, state) -> Every:
  """`state`: what attach() keeps for the module."""
  kind, interval, overlap = policy
  return kind(ddp, state, interval, overlap)
