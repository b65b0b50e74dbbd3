"""Backends of torch.distributed: Gloo as it comes, Gloo at its best, Stretto."""

from __future__ import annotations

import os
from datetime import timedelta

from bench.comm.peers import Context

# Gloo's best on links that cap single connections: this many connections per pair, one collective
# on each, so a large tensor has to be cut by hand.
CONNECTIONS = 4
PIECES = 8
PIECE_BYTES = 1 << 20
TIMEOUT = timedelta(seconds=90)


def connect(context: Context) -> Driver:
  return Driver(context)


class Driver:

  def __init__(self, context: Context):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    self._torch, self._dist = torch, dist
    self._backend = "stretto" if context.setting == "stretto" else "gloo"
    self._tuned = context.setting == "tuned"
    self._attached = None  # what attach() of Stretto keeps for the wrapped model
    interfaces = context.interfaces if self._tuned else context.interfaces[:1]
    if self._tuned and len(interfaces) == 1:
      interfaces = interfaces * CONNECTIONS
    os.environ["GLOO_SOCKET_IFNAME"] = ",".join(interfaces)
    if self._backend == "stretto":
      os.environ["STRETTO_INTERFACES"] = ",".join(context.interfaces)
      import stretto.torch  # noqa: F401
    dist.init_process_group(self._backend, init_method=f"tcp://{context.address}:{context.port}",
                            rank=context.rank, world_size=context.size, timeout=TIMEOUT)

  def version(self) -> str:
    if self._backend == "gloo":
      return f"torch {self._torch.__version__.partition('+')[0]}"
    import stretto
    return stretto.__version__

  def buffers(self, size_bytes: int, count: int) -> list:
    return [self._torch.empty(size_bytes // 4) for _ in range(count)]

  def pieces(self, tensor) -> tuple:
    if self._tuned and tensor.numel() * 4 > PIECE_BYTES:
      return tensor.chunk(PIECES)
    return (tensor,)

  def each(self, buffers: list) -> None:
    for tensor in buffers:
      self.burst(self.pieces(tensor)) if self._tuned else self._dist.all_reduce(tensor)

  def burst(self, buffers) -> None:
    for work in [self._dist.all_reduce(tensor, async_op=True) for tensor in buffers]:
      work.wait()

  def broadcast(self, buffers: list) -> None:
    for tensor in buffers:
      self._dist.broadcast(tensor, 0)

  def barrier(self) -> None:
    self._dist.barrier()

  def wrap(self, model, wire: str):
    if self._backend == "stretto" and wire:
      from stretto.torch import GroupOptions
      group = self._dist.new_group(backend="stretto", pg_options=GroupOptions(codec=wire))
      return self._torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    wrapped = self._torch.nn.parallel.DistributedDataParallel(model)
    segments = bool(os.environ.get("STRETTO_BENCH_SEGMENTS"))
    if segments or os.environ.get("STRETTO_STEP_POLICY"):
      import stretto.torch
      self._attached = stretto.torch.attach(wrapped, segments=segments)
    if wire:
      from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
      hook = {"fp16": default_hooks.fp16_compress_hook,
              "bf16": default_hooks.bf16_compress_hook}[wire]
      wrapped.register_comm_hook(None, hook)
    return wrapped

  def synchronize(self) -> None:
    """Averages the parameters of the wrapped model, where a step policy lets them differ."""
    if self._attached is not None:
      self._attached.synchronize()

  def close(self) -> None:
    self._dist.destroy_process_group()
