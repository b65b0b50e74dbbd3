"""Gradients of one optimizer that go through a codec (comm/gradient/gradients.h). Residuals belong
to parameters, as in a DDP module with stretto.torch.attach()."""

from __future__ import annotations

import itertools
import json
import threading
from collections import defaultdict

import torch

from stretto import comm
from stretto.torch._buffers import NAMES, plain, staged


class GradientSet:
  """Ranks make these objects in the same order; `number` counts them."""

  def __init__(self, group, number: int, codec: str):
    self._gradients = comm.Gradients(
        group.engine, f"horovod {group.group_name}, optimizer {number}", group.members, codec)
    self._group, self._number, self._loss_scale = group, number, 1.0
    # How often each gradient was reduced, the same on all ranks.
    self._steps: dict[str, itertools.count] = defaultdict(lambda: itertools.count(1))
    self._stand_ins: dict[str, StandIn] = {}  # the last one of a gradient

  @property
  def codec(self) -> str:
    return self._gradients.codec

  def submit(self, unordered, name: str, gradient: torch.Tensor,
             loss_scale: float) -> tuple[int, torch.Tensor, torch.Tensor]:
    """The handle, the gradient as the engine sees it, and the memory that the average will be
    in."""
    values = plain(gradient, "gradient", sums=True)
    host = staged(values, read=True)
    self._loss_scale = loss_scale
    count, matrix = host.numel(), values.dim() > 1 and values.numel() > 0
    rows = values.shape[0] if matrix else 0
    where = (name, 0, count, rows, count // rows if matrix else 0)
    description = json.dumps({"operation": "gradient", "dtype": NAMES[host.dtype],
                              "shape": list(values.shape), "optimizer": self._number,
                              "codec": self.codec, "slice": where})
    handle = unordered.submit_gradient(
        f"gradient.{name}", description, self._gradients, [where], NAMES[host.dtype],
        host.data_ptr(), next(self._steps[name]), loss_scale, self._group.timeout_s)
    return handle, values, host

  def stand_in(self, what: dict) -> None:
    """Contributes zeros plus the residual of the parameter."""
    where = tuple(what["slice"])
    name = where[0]
    if name in self._stand_ins:  # the other ranks are through with it, this one may be slower
      self._stand_ins[name].over.wait()
    stand_in = StandIn(torch.zeros(what["shape"], dtype=getattr(torch, what["dtype"]),
                                   device="cpu"))
    self._stand_ins[name] = stand_in
    self._gradients.submit(stand_in.finished, [where], what["dtype"], stand_in.zeros.data_ptr(),
                           next(self._steps[name]), self._loss_scale, self._group.timeout_s)

  def finish_stand_ins(self) -> None:
    """Waits for them. Called when all ranks have joined, before this one submits its gradients."""
    while self._stand_ins:
      self._stand_ins.popitem()[1].over.wait()

  def close(self) -> None:
    self._gradients.close()


class StandIn:

  def __init__(self, zeros: torch.Tensor):
    self.zeros, self.over = zeros, threading.Event()

  def finished(self, error: Exception | None) -> None:
    del error  # the error of the job, which all ranks raise
    self.over.set()
