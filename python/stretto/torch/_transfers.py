"""Copies between GPUs and host memory that run beside what the GPU computes.

A call on CUDA tensors returns at once, as NCCL's does: the values go to pinned memory in a stream
of their own, after what the caller's stream has queued, and a thread starts the operation when they
are there. Results go back in another stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

LOCK = threading.Lock()
STREAMS: dict[tuple[torch.device, str], torch.cuda.Stream] = {}


def stream_of(device: torch.device, direction: str) -> torch.cuda.Stream:
  """One per GPU and direction, because a GPU copies in both at once."""
  with LOCK:
    if (device, direction) not in STREAMS:
      STREAMS[device, direction] = torch.cuda.Stream(device)
    return STREAMS[device, direction]


def bring(tensor: torch.Tensor, host: torch.Tensor) -> torch.cuda.Event:
  """Begins the copy to the host; the event is that of its end."""
  stream = stream_of(tensor.device, "to host")
  stream.wait_stream(torch.cuda.current_stream(tensor.device))
  with torch.cuda.stream(stream):
    host.copy_(tensor, non_blocking=True)
    tensor.record_stream(stream)  # the caller may free it meanwhile
    return stream.record_event()


def take_back(moves: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None]:
  """A function that copies host memory to tensors of GPUs, after what is queued now, and returns
  when it is there."""
  devices = {to.device for to, _ in moves}
  queued = [torch.cuda.current_stream(device).record_event() for device in devices]

  def finish() -> None:
    for device in devices:
      stream = stream_of(device, "from host")
      for event in queued:
        stream.wait_event(event)
      with torch.cuda.stream(stream):
        for to, source in moves:
          if to.device == device:
            to.copy_(source, non_blocking=True)
      stream.synchronize()

  return finish


class Feeder:
  """Starts operations in the order of the calls, each when its values have arrived."""

  def __init__(self) -> None:
    self._thread: ThreadPoolExecutor | None = None
    self._open = 0
    self._lock = threading.Lock()

  def idle(self) -> bool:
    """Whether an operation may be started at once without overtaking another."""
    return self._open == 0

  def add(self, arrivals: Sequence[torch.cuda.Event], start: Callable[[], None]) -> None:
    """`start` raises nothing."""
    with self._lock:
      self._open += 1
      if self._thread is None:
        self._thread = ThreadPoolExecutor(1, "stretto-feeder")
      self._thread.submit(self._run, arrivals, start)

  def _run(self, arrivals: Sequence[torch.cuda.Event], start: Callable[[], None]) -> None:
    try:
      for event in arrivals:
        event.synchronize()
      start()
    finally:
      with self._lock:
        self._open -= 1

  def close(self) -> None:
    """Waits for what was added."""
    with self._lock:
      thread, self._thread = self._thread, None
    if thread is not None:
      thread.shutdown()
