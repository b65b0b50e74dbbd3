"""Tells the engine which parameters a DDP module's gradients belong to."""

import bisect
import weakref
from itertools import accumulate

import torch
import torch.distributed as dist


def attach(ddp, codec: str = "") -> "Attached":
  """Installs a communication hook on a DistributedDataParallel module over the "stretto" backend.
  Operations then carry the names of parameters, so that a report of NaN names one, and `codec`
  ("fp16", "bf16", "int8") says how gradients cross the wire (empty: as the group was made). Call it
  before the first backward pass; a module has one hook."""
  group = ddp.process_group
  if not hasattr(group, "average_bucket"):
    raise ValueError("attach: the module's process group is not of the stretto backend")
  names = {parameter: name for name, parameter in ddp.module.named_parameters()}
  state = Attached(group, codec or group.codec, names)
  ddp.register_comm_hook(state, reduce_bucket)
  group.engine.namers.append(weakref.WeakMethod(state.parameter))
  return state


class Attached:
  """State of the hook. `step` is the number of the backward pass, from 1."""

  def __init__(self, group, codec: str, names: dict[torch.nn.Parameter, str]):
    self.group, self.codec, self.names = group, codec, names
    self.step = 1
    self.steps_: dict[str, int] = {}  # when a bucket was last sent
    self.buckets_: dict[str, tuple[list[int], list[str]]] = {}

  def describe(self, bucket) -> str:
    """A bucket's name: the same as long as it holds the same parameters."""
    parameters = bucket.parameters()
    names = [self.names.get(p, "?") for p in parameters]
    label = names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)} gradients)"
    self.steps_[label] = self.step
    if label not in self.buckets_:
      starts = [0, *accumulate(p.numel() for p in parameters)][:-1]
      self.buckets_[label] = (starts, names)
    return label

  def parameter(self, label: str, offset: int) -> "str | None":
    """The parameter at an offset of a bucket, and the step."""
    if label not in self.buckets_:
      return None
    starts, names = self.buckets_[label]
    return f"{names[bisect.bisect_right(starts, offset) - 1]} at step {self.steps_[label]}"


# torch looks at these annotations, so they have to be the classes themselves.
def reduce_bucket(state: Attached,
                  bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
  future = state.group.average_bucket(bucket.buffer(), state.describe(bucket), state.codec)
  if bucket.is_last():
    state.step += 1
  return future
