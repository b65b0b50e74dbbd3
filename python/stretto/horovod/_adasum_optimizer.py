"""What DistributedOptimizer makes of an optimizer with op=Adasum."""

from __future__ import annotations

import contextlib

import torch

from stretto.horovod._handles import synchronize
from stretto.horovod._process_sets import members_of
from stretto.horovod._reductions import Adasum, grouped_allreduce_async


class DistributedAdasum:
  """Base that is added to the class of the wrapped optimizer. Every rank makes its own step, and
  the changes of the parameters are combined: Adasum is for what an optimizer makes of gradients,
  not for the gradients."""

  def _distribute(self, compression, process_set) -> None:
    self._compression, self._process_set = compression, process_set
    self._begin()

  def _begin(self) -> None:
    """Also when the job has been formed again."""
    self._members = members_of(self._process_set)

  def synchronize(self) -> None:
    """Does nothing: step() combines what it has done itself."""

  @contextlib.contextmanager
  def skip_synchronize(self):
    raise AssertionError("skip_synchronize() is not possible with op=hvd.Adasum")
    yield

  def set_backward_passes_per_step(self, passes: int) -> None:
    """Does nothing: gradients add up until step() is called."""

  def step(self, closure=None):
    parameters = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
    before = [p.detach().clone() for p in parameters]
    loss = super(self.__class__, self).step(closure)
    with torch.no_grad():
      changes = [p.detach() - b for p, b in zip(parameters, before)]
      for p, b, change in zip(parameters, before, synchronize(grouped_allreduce_async(
          changes, name="adasum step", op=Adasum, compression=self._compression,
          process_set=self._process_set))):
        p.copy_(b + change)
    return loss
