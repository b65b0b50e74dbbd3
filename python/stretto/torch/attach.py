"""Tells the engine about a DDP module's parameters."""

from __future__ import annotations

import bisect
from itertools import accumulate

import torch
import torch.distributed as dist


def attach(ddp, codec: str = "") -> None:
  """Installs a communication hook on a DistributedDataParallel module over the "stretto" backend.
  Buckets then carry the names of their parameters, so that a report of NaN names one, and `codec`
  ("fp16", "bf16", "int8") says how gradients cross the wire (default: the group's codec). Before
  the first backward pass; a module has one hook.

  The mean is formed by the engine: values are divided after the sum, not before it."""
  group = ddp.process_group
  if not hasattr(group, "engine"):
    raise ValueError("attach: the module's process group is not of the stretto backend")
  names = {parameter: name for name, parameter in ddp.module.named_parameters()}
  ddp.register_comm_hook(Attached(group, codec or group.codec, names), reduce_bucket)


class Attached:
  """State of the hook."""

  def __init__(self, group, codec: str, names: dict[torch.nn.Parameter, str]):
    self.group, self.codec, self.names = group, codec, names
    self.buckets: dict[tuple[int, int], tuple[str, list[int], list[str]]] = {}

  def describe(self, bucket) -> str:
    """A bucket's name: stays the same as long as it holds the same parameters."""
    buffer = bucket.buffer()
    key = (buffer.data_ptr(), buffer.numel())
    known = self.buckets.get(key)
    if known is None:
      parameters = bucket.parameters()
      names = [self.names.get(p, "?") for p in parameters]
      starts = [0, *accumulate(p.numel() for p in parameters)][:-1]
      label = names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}"
      known = self.buckets[key] = (label, starts, names)
    return known[0]

  def parameter(self, label: str, offset: int) -> str:
    """The parameter at an offset of a bucket."""
    for known, starts, names in self.buckets.values():
      if known == label:
        return names[bisect.bisect_right(starts, offset) - 1]
    return label


def reduce_bucket(state: Attached, bucket: dist.GradBucket) -> torch.futures.Future:
  return state.group.average_bucket(bucket.buffer(), state.describe(bucket), state.codec)
