"""Operators that PyTorch does not take apart into core operators, taken apart here.

Each function is written in PyTorch and gives what the operator gives. What it computes is traced
like the module itself, so that the table of operators stays short. They are rare in models, and
so these forms are short rather than fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from stretto.aten import _linear_algebra as linear
from stretto.aten import _special as special

Pair = tuple[Tensor, Tensor]

# An operator for which a function returns NotImplemented stays as it is.


# Scans: after step k every element has seen 2^k elements up to itself.


def _scan(parts: tuple[Tensor, ...], dim: int,
          combine: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], tuple[Tensor, ...]]
          ) -> tuple[Tensor, ...]:
  """All results of an associative function along a dimension. `combine` gets elements that stand
  before others, and these."""
  if parts[0].dim() == 0:
    return parts
  size, step = parts[0].shape[dim], 1
  while step < size:
    before = tuple(x.narrow(dim, 0, size - step) for x in parts)
    after = tuple(x.narrow(dim, step, size - step) for x in parts)
    met = combine(before, after)
    parts = tuple(torch.cat([x.narrow(dim, 0, step), y], dim) for x, y in zip(parts, met))
    step *= 2
  return parts


def _is_open(x: Tensor, dim: int) -> bool:
  """Whether the size is symbolic, so that nobody knows how many steps a scan takes."""
  return x.dim() > 0 and isinstance(x.shape[dim], torch.SymInt)


def _places(x: Tensor, dim: int) -> Tensor:
  """Of every element along a dimension."""
  if x.dim() == 0:
    return torch.zeros_like(x, dtype=torch.int64)
  shape = [1] * x.dim()
  shape[dim] = x.shape[dim]
  return torch.arange(x.shape[dim]).reshape(shape).expand(x.shape)


def _extremum_so_far(larger: bool) -> Callable[[Tensor, int], Pair]:
  def decompose(x: Tensor, dim: int) -> Pair:
    if _is_open(x, dim):
      return NotImplemented

    def combine(before: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
      (a, at_a), (b, at_b) = before, after
      take = b >= a if larger else b <= a  # of equal ones the last
      if x.is_floating_point():
        take = take | b.isnan()
      return torch.where(take, b, a), torch.where(take, at_b, at_a)
    values, places = _scan((x, _places(x, dim)), dim, combine)
    return values.clone(), places.clone()
  return decompose


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
  if _is_open(x, dim):
    return NotImplemented
  return _scan((x,), dim, lambda a, b: (torch.logaddexp(a[0], b[0]),))[0].clone()


# Order statistics.


def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
  if x.dim() == 0:
    return x.clone(), torch.zeros_like(x, dtype=torch.int64)
  values, places = torch.sort(x, dim=dim, stable=True)
  found = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
  return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _middle(x: Tensor, dim: int, keepdim: bool, skip: bool) -> Pair:
  """The median, of two the lower one. NaN counts as the largest, and is left out with `skip`;
  otherwise it is the median wherever there is one."""
  if x.dim() == 0:
    return x.clone(), torch.zeros_like(x, dtype=torch.int64)
  values, places = torch.sort(x, dim=dim, stable=True)
  size = x.shape[dim]
  if x.is_floating_point():
    numbers = x.isnan().logical_not().sum(dim, keepdim=True)
    if skip:
      at = (numbers - 1).clamp(min=0) // 2
    else:
      at = torch.where(numbers < size, numbers, (size - 1) // 2)
  else:
    at = torch.full_like(values.narrow(dim, 0, 1), (size - 1) // 2, dtype=torch.int64)
  found = values.gather(dim, at), places.gather(dim, at)
  return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _median(skip: bool) -> Callable[[Tensor], Tensor]:
  def decompose(x: Tensor) -> Tensor:
    if x.numel() == 0:
      return x.new_full((), math.nan)
    return _middle(x.reshape(-1), 0, False, skip)[0]
  return decompose


def _median_along(skip: bool) -> Callable[..., Pair]:
  def decompose(x: Tensor, dim: int, keepdim: bool = False) -> Pair:
    return _middle(x, dim, keepdim, skip)
  return decompose


def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Pair:
  """Of the most frequent elements the smallest, and its last place."""
  if x.dim() == 0:
    return x.clone(), torch.zeros_like(x, dtype=torch.int64)
  rows = x.movedim(dim, -1)
  size = rows.shape[-1]
  if isinstance(size, int) and size > 2048:  # every element is compared with every other one
    return NotImplemented
  same = rows.unsqueeze(-1) == rows.unsqueeze(-2)
  count = same.sum(-1)
  often = count == count.amax(-1, keepdim=True)
  values, places = torch.sort(rows, dim=-1, stable=True)
  first = often.gather(-1, places).to(torch.int64).argmax(-1, keepdim=True)
  value = values.gather(-1, first)
  last = torch.where(rows == value, torch.arange(size), 0).amax(-1, keepdim=True)
  found = value.movedim(-1, dim), last.movedim(-1, dim)
  return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
  flat = x.reshape(-1)
  if min == max and flat.numel():
    low, high = flat.amin(), flat.amax()
  else:
    low, high = x.new_full((), min), x.new_full((), max)
  apart = low != high
  low, high = torch.where(apart, low, low - 1), torch.where(apart, high, high + 1)
  inside = (flat >= low) & (flat <= high)
  place = ((flat - low) / (high - low) * bins).to(torch.int64).clamp(0, bins - 1)
  place = torch.where(inside, place, 0)
  return x.new_zeros(bins).scatter_add(0, place, inside.to(x.dtype))


# Places.


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
  flat = x.reshape(-1)
  index = torch.where(index < 0, index + flat.shape[0], index).reshape(-1)
  source = source.reshape(-1)
  put = flat.scatter_add if accumulate else flat.scatter
  return put(0, index, source).reshape(x.shape)


def _index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
                  include_self: bool = True) -> Tensor:
  shape = [1] * x.dim()
  shape[dim] = index.shape[0]
  return x.scatter_reduce(dim, index.reshape(shape).expand(source.shape), source, reduce,
                          include_self=include_self)


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
  x, mask = torch.broadcast_tensors(x, mask)
  if x.numel() == 0 or source.numel() == 0:
    return x.clone()
  flat = mask.reshape(-1)
  place = (flat.to(torch.int64).cumsum(0) - 1).clamp(0, source.numel() - 1)
  return torch.where(flat, source.reshape(-1)[place], x.reshape(-1)).reshape(x.shape)


def _diagonal_scatter(x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0,
                      dim2: int = 1) -> Tensor:
  places = torch.arange(x.numel()).reshape(x.shape).diagonal(offset, dim1, dim2)
  return _put(x, places, source.expand(places.shape))


def _as_strided_scatter(x: Tensor, source: Tensor, size: list[int], stride: list[int],
                        storage_offset: int | None = None) -> Tensor:
  if not x.is_contiguous() or x.storage_offset():
    return NotImplemented
  places = torch.arange(x.numel()).reshape(x.shape).as_strided(size, stride, storage_offset or 0)
  return _put(x, places, source)


# Pieces of windows that are added one after the other.
_MOST_PIECES = 32


def _overlapped(x: Tensor, shape: list[int], dim: int, size: int, step: int) -> Tensor:
  """unfold_backward: windows added up at their places, piece by piece of one step each."""
  pieces = -(-size // step)
  if pieces > _MOST_PIECES or not shape:
    usual = decomposition_table[torch.ops.aten.unfold_backward.default]
    return usual(x, shape, dim, size, step)  # type: ignore[no-any-return]
  x = x.movedim(dim % len(shape), -2)
  x = torch.nn.functional.pad(x, (0, pieces * step - size))
  count, total = x.shape[-2], None
  for i in range(pieces):
    piece = x.narrow(-1, i * step, step).flatten(-2)
    piece = torch.nn.functional.pad(piece, (i * step, (pieces - 1 - i) * step))
    total = piece if total is None else total + piece
  assert total is not None
  rest = shape[dim] - (count + pieces - 1) * step  # less than 0: the end is zeros
  return torch.nn.functional.pad(total, (0, rest)).movedim(-1, dim)


def _repeated(x: Tensor, *, output_size: int | None = None) -> Tensor:
  """repeat_interleave of counts: every place as often as its count says."""
  if output_size is None:
    return NotImplemented
  return torch.searchsorted(x.to(torch.int64).cumsum(0), torch.arange(output_size), right=True)


def _rrelu(x: Tensor, noise: Tensor, lower: float = 1 / 8, upper: float = 1 / 3,
           training: bool = False, generator: Any = None) -> Pair:
  if training:
    return NotImplemented
  return torch.nn.functional.leaky_relu(x, (lower + upper) / 2), noise


# Products and distances.


def _sum(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
  """beta * x + alpha * product, where a beta of 0 leaves x out even if it is NaN."""
  product = product if alpha == 1 else product * alpha
  if beta == 0:
    return product
  return x * beta + product if beta != 1 else x + product


def _addmv(x: Tensor, matrix: Tensor, vector: Tensor, *, beta: float = 1,
           alpha: float = 1) -> Tensor:
  return _sum(x, torch.mv(matrix, vector), beta, alpha)


def _addbmm(x: Tensor, first: Tensor, second: Tensor, *, beta: float = 1,
            alpha: float = 1) -> Tensor:
  return _sum(x, torch.bmm(first, second).sum(0), beta, alpha)


def _dist(x: Tensor, y: Tensor, p: float = 2) -> Tensor:
  return torch.linalg.vector_norm(x - y, p)


def _pdist(x: Tensor, p: float = 2) -> Tensor:
  first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
  return torch.linalg.vector_norm(x[first] - x[second], p, dim=-1)


# Quantisation as in training: rounded to the grid of integers and back.


def _fake_quantized(x: Tensor, scale: Any, zero_point: Any, low: int, high: int) -> Pair:
  place = torch.round(x * (1 / scale)) + zero_point
  inside = (place >= low) & (place <= high)
  return ((place.clamp(low, high) - zero_point) * scale).to(x.dtype), inside


def _fake_quantize(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Pair:
  return _fake_quantized(x, scale, zero_point, low, high)


def _fake_quantize_by_tensors(x: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor,
                              low: int, high: int) -> Pair:
  done, inside = _fake_quantized(x, scale, zero_point, low, high)
  on = enabled.reshape(()) >= 1
  return torch.where(on, done, x), inside | on.logical_not()


def _fake_quantize_channels(x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int,
                            high: int) -> Pair:
  shape = [1] * x.dim()
  shape[axis] = x.shape[axis]
  return _fake_quantized(x, scale.reshape(shape), zero_point.reshape(shape), low, high)


# Parts of floats.

# Integers of as many bits; bits of the fraction; the exponent of 1/2.
_LAYOUTS = {torch.float32: (torch.int32, 23, 126), torch.float64: (torch.int64, 52, 1022)}


def _frexp(x: Tensor) -> Pair:
  if x.dtype not in _LAYOUTS:
    return NotImplemented
  integer, bits, half = _LAYOUTS[x.dtype]
  tiny = x.abs() < torch.finfo(x.dtype).tiny
  raised = torch.where(tiny, x * 2.0**bits, x)
  word = raised.view(integer)
  exponent = ((word >> bits) & (2 * half + 3)) - half
  mantissa = ((word & ~((2 * half + 3) << bits)) | (half << bits)).view(x.dtype)
  exponent = torch.where(tiny, exponent - bits, exponent).to(torch.int32)
  as_it_is = (x == 0) | x.isinf() | x.isnan()
  return torch.where(as_it_is, x, mantissa), torch.where(as_it_is, 0, exponent)


def _ldexp(x: Tensor, exponent: Tensor) -> Tensor:
  return x * torch.pow(2.0, exponent)


def _nextafter(x: Tensor, y: Tensor) -> Tensor:
  x, y = torch.broadcast_tensors(x, y)
  if x.dtype not in _LAYOUTS:
    return NotImplemented
  integer = _LAYOUTS[x.dtype][0]
  word = x.contiguous().view(integer)
  away = (x < y) == (x > 0)  # from zero
  moved = torch.where(away, word + 1, word - 1).view(x.dtype)
  least = torch.full_like(x, torch.finfo(x.dtype).smallest_normal * torch.finfo(x.dtype).eps)
  moved = torch.where(x == 0, torch.copysign(least, y), moved)
  return torch.where(x.isnan() | y.isnan(), x + y, torch.where(x == y, y, moved))


# Tensors of any content hold zeros, so that a graph can make them for open sizes.


def _empty(size: Sequence[int], *, dtype: torch.dtype | None = None,
           memory_format: torch.memory_format | None = None, **_: Any) -> Tensor:
  if memory_format not in (None, torch.contiguous_format):
    return NotImplemented
  return torch.zeros(size, dtype=dtype)


def _empty_permuted(size: Sequence[int], physical: Sequence[int], *,
                    dtype: torch.dtype | None = None, **_: Any) -> Tensor:
  if list(physical) != list(range(len(size))):
    return NotImplemented
  return torch.zeros(size, dtype=dtype)


# Products with the matrix of a row's group, as mixtures of experts have them.

_GATHERED = 1 << 20  # elements of the matrices that are copied, one for each row


def _grouped_rows(x: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
  """Row i times the matrix weight[g] of the first group whose end offs[g] lies behind i; zeros
  behind the last end."""
  groups, inner, columns = weight.shape
  rows = x.shape[0]
  if isinstance(rows, int) and rows < groups and rows * inner * columns <= _GATHERED:
    group = (torch.arange(rows).unsqueeze(1) >= offs).sum(1)
    y = torch.bmm(x.unsqueeze(1), weight[group.clamp(max=groups - 1)]).squeeze(1)
    return torch.where((group < groups).unsqueeze(1), y, 0)
  place = torch.arange(rows).unsqueeze(1)
  y = x.new_zeros(rows, columns)
  for i in reversed(range(groups)):
    y = torch.where(place < offs[i], x @ weight[i], y)
  return y


def _grouped_mm(x: Tensor, weight: Tensor, offs: Tensor | None = None, bias: Tensor | None = None,
                out_dtype: torch.dtype | None = None) -> Tensor:
  if offs is None or x.dim() != 2 or weight.dim() != 3 or bias is not None:
    return NotImplemented
  return _grouped_rows(x, weight, offs).to(out_dtype or x.dtype)


# An operator that is not PyTorch's own has its library in front of its name.
DECOMPOSITIONS: dict[str, Callable[..., Any]] = {
  "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default": _fake_quantize_by_tensors,
  "_grouped_mm.default": _grouped_mm,
  "_linalg_check_errors.default": linear.no_check,
  "_linalg_slogdet.default": linear.slogdet,
  "_linalg_solve_ex.default": linear.solve_ex,
  "_pdist_forward.default": _pdist,
  "addbmm.default": _addbmm,
  "addmv.default": _addmv,
  "as_strided_scatter.default": _as_strided_scatter,
  "cholesky.default": linear.cholesky,
  "cholesky_inverse.default": linear.cholesky_inverse,
  "cholesky_solve.default": linear.cholesky_solve,
  "cummax.default": _extremum_so_far(larger=True),
  "cummin.default": _extremum_so_far(larger=False),
  "diagonal_scatter.default": _diagonal_scatter,
  "digamma.default": special.double(special.digamma),
  "dist.default": _dist,
  "empty.memory_format": _empty,
  "empty_permuted.default": _empty_permuted,
  "erfc.default": special.erfc,
  "erfinv.default": special.double(special.erfinv),
  "fake_quantize_per_channel_affine_cachemask.default": _fake_quantize_channels,
  "fake_quantize_per_tensor_affine_cachemask.default": _fake_quantize,
  "frexp.Tensor": _frexp,
  "histc.default": _histc,
  "i0.default": special.i0,
  "index_reduce.default": _index_reduce,
  "kthvalue.default": _kthvalue,
  "ldexp.Tensor": _ldexp,
  "lgamma.default": special.double(special.lgamma),
  "linalg_cholesky_ex.default": linear.cholesky_ex,
  "linalg_inv_ex.default": linear.inv_ex,
  "linalg_lu.default": linear.lu,
  "linalg_lu_factor_ex.default": linear.lu_factor_ex,
  "linalg_lu_solve.default": linear.lu_solve,
  "linalg_matrix_exp.default": linear.matrix_exp,
  "linalg_qr.default": linear.qr,
  "linalg_solve_triangular.default": linear.solve_triangular,
  "logcumsumexp.default": _logcumsumexp,
  "lu_unpack.default": linear.lu_unpack,
  "masked_scatter.default": _masked_scatter,
  "median.default": _median(skip=False),
  "median.dim": _median_along(skip=False),
  "mode.default": _mode,
  "nanmedian.default": _median(skip=True),
  "nanmedian.dim": _median_along(skip=True),
  "nextafter.default": _nextafter,
  "put.default": _put,
  "repeat_interleave.Tensor": _repeated,
  "rrelu_with_noise_functional.default": _rrelu,
  "special_erfcx.default": special.double(special.erfcx),
  "special_i0e.default": special.i0e,
  "special_i1.default": special.i1,
  "special_i1e.default": special.i1e,
  "special_modified_bessel_i0.default": special.i0,
  "special_modified_bessel_i1.default": special.i1,
  "special_ndtri.default": special.double(special.ndtri),
  "transformers::grouped_mm_fallback.default": _grouped_rows,
  "triangular_solve.default": linear.triangular_solve,
  "unfold_backward.default": _overlapped,
}
