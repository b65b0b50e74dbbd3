"""How tensors are changed before they are sent, as Horovod has it: a cast there and back. (Codecs
that keep what they lose are the engine's: STRETTO_CODEC.)"""

from __future__ import annotations

import torch


class NoneCompressor:

  @staticmethod
  def compress(tensor: torch.Tensor):
    return tensor, None

  @staticmethod
  def decompress(tensor: torch.Tensor, context) -> torch.Tensor:
    del context
    return tensor


class FP16Compressor:

  @staticmethod
  def compress(tensor: torch.Tensor):
    if not tensor.dtype.is_floating_point:
      return tensor, None
    return tensor.to(torch.float16), tensor.dtype

  @staticmethod
  def decompress(tensor: torch.Tensor, context) -> torch.Tensor:
    return tensor if context is None else tensor.to(context)


class Compression:
  none = NoneCompressor
  fp16 = FP16Compressor
