"""Gives the engine a DDP module's gradients, with the parameters to which they belong."""

from __future__ import annotations

import functools
import logging
import threading
import weakref

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stretto import comm
from stretto._checks import TEXT, expected, require
from stretto._comm_arguments import check_codec
from stretto._errors import InvalidArgumentError
from stretto.torch import _policies as policies
from stretto.torch._buffers import slice_of
from stretto.torch._names import MODULES
from stretto.torch._segments import Segments

# Bytes on the wire per byte of gradient; other codecs need whole buckets.
WIRE_SHARES = {"none": 1.0, "fp16": 0.5, "bf16": 0.5, "int8": 0.26}
LOG = logging.getLogger("stretto")
LOCK = threading.Lock()


def attach(ddp, codec: str = "", scaler=None, step_policy: str = "",
           segments: bool = False) -> Attached:
  """Gives a DistributedDataParallel module's gradients to the engine, by a communication hook.

  The engine then knows which parameters a bucket holds, and of what shape. Every rank calls it,
  before the first backward pass; a module has one hook.

  Args:
    ddp: a DistributedDataParallel module over the "stretto" backend.
    codec: how gradients cross the wire, any value of `STRETTO_CODEC`; empty: as the process group
      was made.
    scaler: the torch.amp.GradScaler in use, if any. What codecs owe, and what is accumulated, is
      converted when its scale changes.
    step_policy: what a step exchanges, any value of `STRETTO_STEP_POLICY`; empty: that variable's.
    segments: send parts of a bucket before it is full. Where to cut is computed from some steps
      and tried on real ones. Only with the codecs none, fp16, bf16 and int8 and the step policy
      "every".

  Returns:
    The state of the hook. Its `synchronize()` averages parameters that a step policy lets differ
    between ranks; every rank calls it, before a checkpoint for instance.

  Raises:
    InvalidArgumentError: the module is no DistributedDataParallel module, its process group is of
      another backend, it has a hook already, or the options do not go together.

  Examples:
    ```python
    model = torch.nn.parallel.DistributedDataParallel(model)
    stretto.torch.attach(model, codec="powersgd")
    ```
  """
  if not isinstance(ddp, DistributedDataParallel):
    raise InvalidArgumentError(
        f"attach: ddp: expected a DistributedDataParallel module, got {type(ddp).__name__}; wrap "
        "the model first: ddp = torch.nn.parallel.DistributedDataParallel(model)")
  check_codec("attach", codec)
  require("attach", step_policy=(step_policy, TEXT))
  if scaler is not None and not hasattr(scaler, "get_scale"):
    raise expected("attach: scaler", "a torch.amp.GradScaler or None", scaler)
  group = ddp.process_group
  if not hasattr(group, "average_bucket"):
    raise InvalidArgumentError("attach: the module's process group has another backend; call "
        "init_process_group(\"stretto\") first")
  if getattr(ddp, "_comm_hooks", None):
    raise InvalidArgumentError("attach: the module has a communication hook already, and a module "
                               "has one at most")
  policy = policies.parse(step_policy or group.engine.options.step_policy)
  state = Attached(ddp, codec or group.codec, scaler)
  if segments:
    each_step = (step_policy or group.engine.options.step_policy) == "every"
    if state.codec not in WIRE_SHARES or not each_step:
      raise InvalidArgumentError(
          f"attach: segments=True works with the codecs {', '.join(WIRE_SHARES)} and the step "
          f"policy every, not with codec {state.codec} and step policy "
          f"{step_policy or group.engine.options.step_policy}")
    state.segments = Segments(ddp, state.send, WIRE_SHARES[state.codec])
    group.engine.segments = state.segments.history
  ddp.register_comm_hook(state, reduce_bucket)
  state.policy = policies.make(policy, ddp, state)
  return state


class Attached:
  """What the hook keeps. `step` is the number of the backward pass, from 1."""

  def __init__(self, ddp, codec: str, scaler):
    self.group, self.scaler = ddp.process_group, scaler
    with LOCK:
      number = self.group.attached = getattr(self.group, "attached", 0) + 1
    self.name = f"{self.group.engine_name}, module {number}"
    self.names = {parameter: name for name, parameter in ddp.module.named_parameters()}
    self.gradients = comm.Gradients(self.group.engine, self.name, self.group.members, codec)
    self.group.users.add(self.gradients)
    self.step, self._scale = 1, 0.0  # of the loss; 0: not asked for in this step
    self.policy: policies.Every
    self.segments: Segments | None = None

  @property
  def codec(self) -> str:
    return self.gradients.codec

  @property
  def loss_scale(self) -> float:
    """The loss scale of this step, read once, because on a GPU reading it waits for the device."""
    if self._scale == 0.0:
      self._scale = float(self.scaler.get_scale()) if self.scaler is not None else 1.0
    return self._scale

  def synchronize(self) -> None:
    """Averages parameters now, if the step policy lets them differ between ranks. Every rank calls
    it, for example before a checkpoint."""
    self.policy.synchronize()

  def slices(self, parameters) -> list[tuple[str, int, int, int, int]]:
    return [slice_of(self.names.get(parameter, "?"), parameter) for parameter in parameters]

  def send(self, buffer, parameters: list) -> torch.futures.Future:
    """Replaces the buffer by its mean over ranks."""
    return self.group.average_bucket(self.gradients, buffer, self.slices(parameters), self.step,
                                     self.loss_scale)

  def reduce(self, bucket: dist.GradBucket) -> torch.futures.Future:
    if self.policy.holds_back(bucket, self.step, self.loss_scale):
      future = torch.futures.Future()
      future.set_result(bucket.buffer())
    elif self.segments is not None:
      future = self.segments.reduce(bucket)
    else:
      future = self.send(bucket.buffer(), bucket.parameters())
    if bucket.is_last():
      self.policy.backward_done(self.step)
      self.step, self._scale = self.step + 1, 0.0
    return future


# torch checks these annotations, so they must be the classes themselves and not strings.
def reduce_bucket(state: Attached, bucket: dist.GradBucket):
  return state.reduce(bucket)


reduce_bucket.__annotations__ = {"state": Attached, "bucket": dist.GradBucket,
                                 "return": torch.futures.Future[torch.Tensor]}


def attach_by_option() -> None:
  """Makes DDP modules whose group has a codec or a step policy call attach() in their first forward
  pass of training, unless they have a communication hook by then. So scripts need no change."""
  original = DistributedDataParallel.__init__

  @functools.wraps(original)
  def init(self, *args, **kwargs):
    original(self, *args, **kwargs)
    group = self.process_group
    if not hasattr(group, "average_bucket"):
      return
    MODULES.add(self)
    if group.codec != "none" or group.engine.options.step_policy != "every":
      WAITING[self] = self.register_forward_pre_hook(first_forward)

  DistributedDataParallel.__init__ = init


WAITING: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # module -> its hook's handle


def first_forward(ddp, args) -> None:
  del args
  if not (ddp.training and torch.is_grad_enabled()):
    return
  WAITING.pop(ddp).remove()
  hooks = getattr(ddp, "_comm_hooks", [])
  if not hooks:
    attach(ddp).policy.forward_begins()  # the policy's hook is called from the second pass on
  elif not any(isinstance(part, Attached) for hook in hooks for part in hook):
    LOG.warning("STRETTO_CODEC=%s, STRETTO_STEP_POLICY=%s: the module has a communication hook of "
                 "its own, which is used instead", ddp.process_group.codec,
                 ddp.process_group.engine.options.step_policy)
