"""How long a rank computes in a step, without the time in which it waits for other ranks."""

from __future__ import annotations

import time
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook


class OwnTime:
  """Of each batch, the time from the end of the last exchange of gradients to the last gradient.

  The exchange ends where the optimizer begins, so the time has the optimizer's step, what the
  loader needs, and the forward and backward pass. On GPUs, moments are events in the stream.
  """

  def __init__(self, module: torch.nn.Module):
    parameters = [p for p in module.parameters() if p.requires_grad]
    devices = {p.device for p in parameters if p.device.type == "cuda"}
    self._device = devices.pop() if devices else None
    self._from: Any = None  # the last exchange was over, and this rank went on
    self._last: Any = None  # the last gradient of this batch so far
    self._resumed: Any = None  # the optimizer began after it
    self._spans: list[tuple[Any, Any]] = []
    self._samples = 0
    mine = weakref.ref(self)

    def gradient_ready(parameter: torch.Tensor) -> None:
      del parameter
      clock = mine()
      if clock is not None:
        clock._last, clock._resumed = clock._now(clock._last), None

    self._hooks = [p.register_post_accumulate_grad_hook(gradient_ready) for p in parameters]
    OPEN.add(self)

  def _now(self, event: Any = None) -> Any:
    """This moment; of an event that is given, its moment becomes this one."""
    if self._device is None:
      return time.perf_counter()
    event = event or torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(self._device))
    return event

  def before_optimizer(self) -> None:
    if self._last is not None and self._resumed is None:
      self._resumed = self._now()

  def end_batch(self, samples: int) -> None:
    """A batch of `samples` is over."""
    now = self._now()
    if self._from is not None:
      self._spans.append((self._from, self._last or now))
      self._samples += samples
    self._from, self._last, self._resumed = self._resumed or now, None, None

  def pause(self) -> None:
    """What comes before the end of the next batch does not count."""
    self._from = None

  def take(self) -> tuple[int, float]:
    """Samples and seconds since the last call, and a pause."""
    seconds = sum(self._between(a, b) for a, b in self._spans)
    samples, self._samples, self._spans = self._samples, 0, []
    self.pause()
    return samples, seconds

  def _between(self, begin: Any, end: Any) -> float:
    if self._device is None:
      return float(end - begin)
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000

  def close(self) -> None:
    for hook in self._hooks:
      hook.remove()


# Optimizers do not know their module, so every clock is told of every optimizer.
OPEN: weakref.WeakSet[OwnTime] = weakref.WeakSet()


def before_optimizer(optimizer: Any, args: Any, kwargs: Any) -> None:
  del optimizer, args, kwargs
  for clock in list(OPEN):
    clock.before_optimizer()


register_optimizer_step_pre_hook(before_optimizer)
