"""Backends of torch.distributed: Gloo as it comes, Gloo at its best, Stretto."""

from __future__ import annotations

import os
from datetime import timedelta

from bench.comm.peers import Context

# Gloo's best on links that cap single connections: this many connections per pair, one collective
# on each, so a large tensor has to be cut by hand.
kConnections = 4
kPieces = 8
kPieceBytes = 1 << 20
kTimeout = timedelta(seconds=90)


def connect(context: Context) -> Driver:
  return Driver(context)


class Driver:

  def __init__(self, context: Context):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    self.torch_, self.dist_ = torch, dist
    self.backend_ = "stretto" if context.setting == "stretto" else "gloo"
    self.tuned_ = context.setting == "tuned"
    interfaces = context.interfaces if self.tuned_ else context.interfaces[:1]
    if self.tuned_ and len(interfaces) == 1:
      interfaces = interfaces * kConnections
    os.environ["GLOO_SOCKET_IFNAME"] = ",".join(interfaces)
    if self.backend_ == "stretto":
      os.environ["STRETTO_INTERFACES"] = ",".join(context.interfaces)
      os.environ.setdefault("STRETTO_TUNE", "off")  # turns are too short, and others' lie between
      import stretto.torch  # noqa: F401
    dist.init_process_group(self.backend_, init_method=f"tcp://{context.address}:{context.port}",
                            rank=context.rank, world_size=context.size, timeout=kTimeout)

  def version(self) -> str:
    if self.backend_ == "gloo":
      return f"torch {self.torch_.__version__.partition('+')[0]}"
    import stretto
    return stretto.__version__

  def buffers(self, size_bytes: int, count: int) -> list:
    return [self.torch_.empty(size_bytes // 4) for _ in range(count)]

  def pieces(self, tensor) -> tuple:
    if self.tuned_ and tensor.numel() * 4 > kPieceBytes:
      return tensor.chunk(kPieces)
    return (tensor,)

  def each(self, buffers: list) -> None:
    for tensor in buffers:
      self.burst(self.pieces(tensor)) if self.tuned_ else self.dist_.all_reduce(tensor)

  def burst(self, buffers) -> None:
    for work in [self.dist_.all_reduce(tensor, async_op=True) for tensor in buffers]:
      work.wait()

  def barrier(self) -> None:
    self.dist_.barrier()

  def wrap(self, model, wire: str):
    if self.backend_ == "stretto" and wire:
      from stretto.torch import GroupOptions
      group = self.dist_.new_group(backend="stretto", pg_options=GroupOptions(codec=wire))
      return self.torch_.nn.parallel.DistributedDataParallel(model, process_group=group)
    wrapped = self.torch_.nn.parallel.DistributedDataParallel(model)
    if wire:
      from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
      hook = {"fp16": default_hooks.fp16_compress_hook,
              "bf16": default_hooks.bf16_compress_hook}[wire]
      wrapped.register_comm_hook(None, hook)
    return wrapped

  def close(self) -> None:
    self.dist_.destroy_process_group()
