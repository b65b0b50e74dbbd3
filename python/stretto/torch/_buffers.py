"""From tensors to addresses: dense memory of the host, element types the engine knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

NAMES = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16",
    torch.bfloat16: "bfloat16", torch.int8: "int8", torch.int16: "int16", torch.int32: "int32",
    torch.int64: "int64", torch.uint8: "uint8", torch.bool: "bool",
    **{getattr(torch, n): n for n in ("uint16", "uint32", "uint64") if hasattr(torch, n)},
}


def usable(tensor: torch.Tensor) -> bool:
  """Whether the engine can work on the tensor as it is. Nothing more is looked at where small
  messages are sent by the thousand."""
  return (tensor.dtype in NAMES and tensor.layout is torch.strided and tensor.device.type == "cpu"
          and tensor.is_contiguous() and not tensor.is_neg())


def plain(tensor: torch.Tensor, what: str, sums: bool) -> torch.Tensor:
  """The same memory under an element type of the engine. `sums`: values are combined, so it has to
  mean the same."""
  tensor = tensor.detach()
  if tensor.layout != torch.strided:
    raise ValueError(f"{what}: sparse tensors are not supported, got {tensor.layout}; "
                     "use dense gradients (sparse=False)")
  if tensor.is_complex():
    return torch.view_as_real(tensor.resolve_conj())
  if tensor.dtype in NAMES:
    return tensor
  if sums:
    raise ValueError(f"{what}: cannot combine {tensor.dtype}")
  return tensor.view(torch.uint8)


def staged(tensor: torch.Tensor, read: bool) -> torch.Tensor:
  """The tensor itself when the engine can work on it, else dense host memory of its size, holding
  its values if `read`. Pinned for CUDA, and complete when this returns."""
  if tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_neg():
    return tensor
  pinned = tensor.device.type == "cuda"
  host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=pinned)
  if read:
    host.copy_(tensor, non_blocking=pinned)
    if pinned:
      torch.cuda.current_stream(tensor.device).synchronize()
  return host


def give_back(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None] | None:
  """What copies staged results to where they belong; None when all are there."""
  moves = [(to, source) for to, source in pairs if to is not source]
  if not moves:
    return None

  def finish() -> None:
    with torch.no_grad():
      for to, source in moves:
        # Blocking: pinned memory is free for reuse afterwards.
        to.copy_(source.view(to.shape) if source.shape != to.shape else source)

  return finish


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
  """All values one after the other, on the host."""
  return torch.cat([t.reshape(-1).cpu() for t in tensors]) if tensors else torch.empty(0)


def parts(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
  """Views of `flat` that belong to the tensors."""
  return list(flat.split([t.numel() for t in tensors]))
