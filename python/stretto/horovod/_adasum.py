"""Adasum (Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2020): a sum of
gradients that point in different directions, an average of those that point in the same.

Every rank collects the tensors of all ranks and combines them itself, so the cost is that of an
all-gather, in memory too. Products of two fp32 numbers are exact in fp64, NumPy adds them in an
order that depends on their number alone, and nothing is contracted into fused operations: so all
ranks get the same bits, whatever their processors are."""

from __future__ import annotations

import numpy as np
import torch

from stretto._errors import InvalidArgumentError
from stretto.horovod._handles import Handle, describe, full_name, submit_call
from stretto.horovod._members import Members

BLOCK = 1 << 16  # elements of a dot product that are in fp64 at once


def dot(a: np.ndarray, b: np.ndarray) -> float:
  return float(sum(np.sum(a[i:i + BLOCK].astype(np.float64) * b[i:i + BLOCK].astype(np.float64))
                   for i in range(0, a.size, BLOCK)))


def combine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
  """The Adasum of two flat arrays: (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b."""
  both, of_a, of_b = dot(a, b), dot(a, a), dot(b, b)
  share_a = 1.0 - both / (2.0 * of_a) if of_a != 0.0 else 1.0
  share_b = 1.0 - both / (2.0 * of_b) if of_b != 0.0 else 1.0
  return a.dtype.type(share_a) * a + a.dtype.type(share_b) * b


def adasum(arrays: list[np.ndarray]) -> np.ndarray:
  """The Adasum of flat arrays by rank. Neighbours are combined, then pairs of neighbours, and so
  on, as by recursive doubling; an array without a partner waits for the next round."""
  while len(arrays) > 1:
    pairs = [combine(arrays[i], arrays[i + 1]) for i in range(0, len(arrays) - 1, 2)]
    arrays = pairs + arrays[len(arrays) - len(arrays) % 2:]
  return arrays[0]


def numbers(tensor: torch.Tensor) -> np.ndarray:
  """fp32, or fp64 where the tensor is."""
  wide = tensor if tensor.dtype is torch.float64 else tensor.float()
  return wide.detach().cpu().contiguous().reshape(-1).numpy()


def adasum_tensors(members: Members, tensors, outputs, name, compression, prescale: float,
                   postscale: float) -> Handle:
  """Starts to combine tensors, each for itself."""
  for tensor in tensors:
    if not tensor.dtype.is_floating_point:
      raise InvalidArgumentError(
          f"allreduce: Adasum is for floating-point numbers, got {tensor.dtype}")
  packed = [compression.compress(t.detach() * prescale if prescale != 1.0 else t.detach().clone())
            for t in tensors]
  wires = [wire.contiguous() for wire, _ in packed]

  def start():
    started = []
    for wire in wires:
      gathered = [torch.empty_like(wire) for _ in range(members.size)]
      started.append((gathered, members.group.allgather([gathered], [wire])))
    return started

  def finish(started):
    results = []
    for (gathered, work), (_, context), tensor, out in zip(
        started, packed, tensors, outputs or [None] * len(tensors)):
      work.wait()
      whole = adasum([numbers(compression.decompress(g, context)) for g in gathered])
      result = torch.from_numpy(whole).reshape(tensor.shape) * postscale
      target = torch.empty_like(tensor, requires_grad=False) if out is None else out
      with torch.no_grad():
        target.copy_(result)
      results.append(target)
    return results

  return submit_call(members, full_name(members, "adasum", name),
                     describe("adasum", wires[0].dtype, shapes=[list(w.shape) for w in wires]),
                     start, finish, wires)
