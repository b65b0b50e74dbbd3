"""Turns tensors into dense memory of the host with element types that the engine knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from stretto._errors import InvalidArgumentError
from stretto.torch._transfers import bring, take_back

NAMES = {
    torch.float32: "float32", torch.float64: "float64", torch.float16: "float16",
    torch.bfloat16: "bfloat16", torch.int8: "int8", torch.int16: "int16", torch.int32: "int32",
    torch.int64: "int64", torch.uint8: "uint8", torch.bool: "bool",
    **{getattr(torch, n): n for n in ("uint16", "uint32", "uint64") if hasattr(torch, n)},
}


def usable(tensor: torch.Tensor) -> bool:
  """Whether the engine can work on the tensor as it is. It is the only check for small messages,
  which are sent by the thousand."""
  try:
    return (tensor.dtype in NAMES and tensor.layout is torch.strided and tensor.is_cpu
            and tensor.is_contiguous() and not tensor.is_neg())
  except AttributeError:  # no tensor: the longer way says so
    return False


def plain(tensor: torch.Tensor, what: str, sums: bool) -> torch.Tensor:
  """A view of the same memory with an element type of the engine. `sums`: values are combined, so
  the type must have the same arithmetic."""
  tensor = tensor.detach()
  if tensor.layout != torch.strided:
    raise InvalidArgumentError(
        f"{what}: sparse tensors are not supported, got {tensor.layout}; "
        "use dense gradients (sparse=False)")
  if tensor.is_complex():
    return torch.view_as_real(tensor.resolve_conj())
  if tensor.dtype in NAMES:
    return tensor
  if sums:
    raise InvalidArgumentError(f"{what}: cannot combine {tensor.dtype}; convert it to one of "
                               f"{', '.join(NAMES.values())}")
  return tensor.view(torch.uint8)


def staged(tensor: torch.Tensor, read: bool, arrivals: list | None = None) -> torch.Tensor:
  """The tensor itself if the engine can work on it, else dense host memory of its size, with its
  values if `read`. The memory is pinned for CUDA. The values are there on return, or with
  `arrivals` when the events that are added to it have come."""
  if tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_neg():
    return tensor
  if tensor.device.type != "cuda":
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    return host.copy_(tensor) if read else host
  host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
  if read:
    event = bring(tensor, host)
    if arrivals is None:
      event.synchronize()
    else:
      arrivals.append(event)
  return host


def host_memory(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
  """For values that come from or go to `device`."""
  return torch.empty(count, dtype=dtype, device="cpu", pin_memory=device.type == "cuda")


def give_back(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None] | None:
  """A function that copies staged results to the caller's tensors; None when there are none."""
  moves = [(to, source) for to, source in pairs if to is not source]
  if not moves:
    return None

  moves = [(to, source.view(to.shape) if source.shape != to.shape else source)
           for to, source in moves]
  on_gpu = [move for move in moves if move[0].device.type == "cuda"]
  take = take_back(on_gpu) if on_gpu else None
  here = [move for move in moves if move[0].device.type != "cuda"]

  def finish() -> None:
    with torch.no_grad():
      if take is not None:
        take()
      for to, source in here:
        to.copy_(source)

  return finish


def slice_of(name: str, tensor: torch.Tensor) -> tuple[str, int, int, int, int]:
  """A whole parameter, as comm.Gradients.submit takes it: a matrix has rows and columns."""
  count = tensor.numel()
  rows = tensor.shape[0] if tensor.dim() > 1 and count > 0 else 0
  return name, 0, count, rows, count // rows if rows else 0


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
  """All values one after another, on the host."""
  return torch.cat([t.reshape(-1).cpu() for t in tensors]) \
      if tensors else torch.empty(0, device="cpu")


def parts(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
  """Views of `flat`, one for each tensor."""
  return list(flat.split([t.numel() for t in tensors]))
