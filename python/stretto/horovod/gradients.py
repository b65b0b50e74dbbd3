"""Gradients of one optimizer on their way through a codec (comm/gradients.h): residuals belong to
parameters, as in a DDP module with stretto.torch.attach()."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import torch

from stretto import comm
from stretto.torch.buffers import kNames, plain, staged


class GradientSet:
  """Ranks make them in the same order, which is their number."""

  def __init__(self, group, number: int, codec: str):
    self.gradients_ = comm.Gradients(
        group.engine, f"horovod {group.group_name}, optimizer {number}", group.members, codec)
    self.number_, self.loss_scale_ = number, 1.0
    # How often each was reduced, which is the same on all ranks.
    self.steps_: dict[str, itertools.count] = defaultdict(lambda: itertools.count(1))
    self.stand_ins_: list[StandIn] = []

  @property
  def codec(self) -> str:
    return self.gradients_.codec

  def submit(self, unordered, name: str, gradient: torch.Tensor,
             loss_scale: float) -> tuple[int, torch.Tensor, torch.Tensor]:
    """The handle, the gradient as the engine sees it, and the memory that the average will be
    in."""
    values = plain(gradient, "gradient", sums=True)
    host = staged(values, read=True)
    self.loss_scale_ = loss_scale
    count, matrix = host.numel(), values.dim() > 1 and values.numel() > 0
    rows = values.shape[0] if matrix else 0
    where = (name, 0, count, rows, count // rows if matrix else 0)
    description = json.dumps({"operation": "gradient", "dtype": kNames[host.dtype],
                              "shape": list(values.shape), "optimizer": self.number_,
                              "codec": self.codec, "slice": where})
    handle = unordered.submit_gradient(
        f"gradient.{name}", description, self.gradients_, [where], kNames[host.dtype],
        host.data_ptr(), next(self.steps_[name]), loss_scale)
    return handle, values, host

  def stand_in(self, what: dict) -> None:
    """Contributes zeros, and what is owed to the parameter."""
    self.stand_ins_ = [s for s in self.stand_ins_ if not s.done]
    where = tuple(what["slice"])
    stand_in = StandIn(torch.zeros(what["shape"], dtype=getattr(torch, what["dtype"])))
    self.stand_ins_.append(stand_in)
    self.gradients_.submit(stand_in.finished, [where], what["dtype"], stand_in.zeros.data_ptr(),
                           next(self.steps_[where[0]]), self.loss_scale_)

  def close(self) -> None:
    self.gradients_.close()


class StandIn:

  def __init__(self, zeros: torch.Tensor):
    self.zeros, self.done = zeros, False

  def finished(self, error: Exception | None) -> None:
    del error  # the job's, which everybody is told of
    self.done = True
