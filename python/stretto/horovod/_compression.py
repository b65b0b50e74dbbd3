"""How tensors are changed before they are sent. `none` and `fp16` are Horovod's; a class of the
script's own with compress() and decompress() does too. The others name a codec of the engine, which
DistributedOptimizer keeps error feedback for."""

from __future__ import annotations

import torch


class NoneCompressor:
  codec = ""  # as STRETTO_CODEC says

  @staticmethod
  def compress(tensor: torch.Tensor):
    return tensor, None

  @staticmethod
  def decompress(tensor: torch.Tensor, context) -> torch.Tensor:
    del context
    return tensor


class FP16Compressor(NoneCompressor):
  codec = "fp16"

  @staticmethod
  def compress(tensor: torch.Tensor):
    if not tensor.dtype.is_floating_point:
      return tensor, None
    return tensor.to(torch.float16), tensor.dtype

  @staticmethod
  def decompress(tensor: torch.Tensor, context) -> torch.Tensor:
    return tensor if context is None else tensor.to(context)


def coded(name: str) -> type:
  return type(f"{name}Compressor", (NoneCompressor,), {"codec": name})


class Compression:
  """How tensors are changed before they are sent.

  `none` (what `STRETTO_CODEC` says) and `fp16` are Horovod's; `bf16`, `int8`, `topk`, `powersgd`
  and `mixed` are codecs of Stretto. `DistributedOptimizer` keeps what a lossy codec loses and adds
  it in the next step. A class with `compress(tensor)` and `decompress(tensor, context)` works too.
  """

  none = NoneCompressor
  fp16 = FP16Compressor
  bf16, int8, topk, powersgd, mixed = map(coded, ("bf16", "int8", "topk", "powersgd", "mixed"))
