"""Matrices factorised, inverted and solved with, taken apart as in `_decompositions.py`.

The loops of the textbook (Golub and Van Loan, Matrix Computations) are unrolled, so that they are
for small matrices, and run in double precision, because operators of the engine sum in other orders
than LAPACK. Nothing is raised for a matrix that is singular: its results are infinite or NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Rows or columns of the largest matrix. A loop is a dozen operators for each of them.
_MOST = 64


def _fits(*matrices: Tensor) -> bool:
  """Whether sizes are known and small, and elements are real floats."""
  return all(x.is_floating_point() and all(isinstance(size, int) and size <= _MOST
                                           for size in x.shape[-2:]) for x in matrices)


def _in_double(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
  """The first `count` arguments are matrices: they are converted, and so are results of floats. Of
  others the operator stays whole."""
  def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    def decompose(*args: Any, **kwargs: Any) -> Any:
      if not _fits(*args[:count]):
        return NotImplemented
      dtype = args[0].dtype
      found = function(*(x.double() for x in args[:count]), *args[count:], **kwargs)

      def back(x: Tensor) -> Tensor:
        return x.to(dtype) if x.is_floating_point() else x
      return tuple(map(back, found)) if isinstance(found, tuple) else back(found)
    return decompose
  return wrapped


def _identity_like(x: Tensor) -> Tensor:
  return torch.eye(x.shape[-1], dtype=x.dtype).expand(x.shape)


def _first_of(wrong: Tensor) -> Tensor:
  """One more than the first place where it is true; 0 where there is none."""
  found = wrong.to(torch.int64)
  if not wrong.shape[-1]:
    return found.sum(-1).to(torch.int32)
  return torch.where(wrong.any(-1), found.argmax(-1) + 1, 0).to(torch.int32)


# Triangles.


def _inverse_of_lower(x: Tensor) -> Tensor:
  """Of a lower triangle: blocks of twice the size at each step, all along the diagonal at once."""
  n, size = x.shape[-1], 1
  full = 1 << max(n - 1, 0).bit_length()
  x = torch.nn.functional.pad(x, (0, full - n, 0, full - n))
  if full > n:
    x = x + torch.diag((torch.arange(full) >= n).to(x.dtype))
  blocks = (1 / x.diagonal(dim1=-2, dim2=-1))[..., None, None]
  while size < full:
    count = full // (2 * size)
    pairs = x.reshape(*x.shape[:-2], count, 2 * size, count, 2 * size)
    low = pairs.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)[..., size:, :size]
    first, second = blocks.unflatten(-3, (count, 2)).unbind(-3)
    corner = -(second @ low @ first)
    blocks = torch.cat([torch.cat([first, torch.zeros_like(first)], -1),
                        torch.cat([corner, second], -1)], -2)
    size *= 2
  return blocks.squeeze(-3)[..., :n, :n]


def _triangle_inverse(x: Tensor, upper: bool, unit: bool = False) -> Tensor:
  if unit:
    x = x.triu(1) if upper else x.tril(-1)
    x = x + _identity_like(x)
  else:
    x = x.triu() if upper else x.tril()
  return _inverse_of_lower(x.mT).mT if upper else _inverse_of_lower(x)


@_in_double(2)
def solve_triangular(x: Tensor, right: Tensor, *, upper: bool, left: bool = True,
                     unitriangular: bool = False) -> Tensor:
  inverse = _triangle_inverse(x, upper, unitriangular)
  return inverse @ right if left else right @ inverse


@_in_double(2)
def triangular_solve(right: Tensor, x: Tensor, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> tuple[Tensor, Tensor]:
  inverse = _triangle_inverse(x, upper, unitriangular)
  return (inverse.mT if transpose else inverse) @ right, x.expand(
    *torch.broadcast_shapes(x.shape[:-2], right.shape[:-2]), *x.shape[-2:]).clone()


# Lower and upper triangle with rows exchanged.


def _exchanged(places: Tensor, k: int, other: Tensor) -> Tensor:
  """Rows by place, of which number k and another one are exchanged."""
  return torch.where(places == k, other, torch.where(places == other, k, places))


def _factorised(x: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
  """Both triangles in one matrix, LAPACK's exchanges from 1 on, and the order of the rows."""
  rows, columns = torch.arange(x.shape[-2]), torch.arange(x.shape[-1])
  order = rows.expand(x.shape[:-1])
  exchanges = []
  for k in range(min(x.shape[-2:])):
    chosen = torch.full((*x.shape[:-2], 1), k)
    if pivot and k + 1 < x.shape[-2]:
      sizes = torch.where(rows >= k, x[..., k].abs(), -1.0)
      chosen = sizes.argmax(-1, keepdim=True)
      places = _exchanged(rows, k, chosen)
      x = x.gather(-2, places[..., None].expand(x.shape))
      order = order.gather(-1, places)
    exchanges.append(chosen)
    head = x[..., k:k + 1, k:k + 1]
    below = (rows > k)[:, None]
    factors = torch.where(below, x[..., k:k + 1] / torch.where(head == 0, 1.0, head), 0.0)
    rest = x - factors * torch.where(columns > k, x[..., k:k + 1, :], 0.0)
    x = torch.where(below & (columns == k), factors, rest)
  if not exchanges:
    return x, torch.zeros(*x.shape[:-2], 0, dtype=torch.int32), order
  return x, torch.cat(exchanges, -1).to(torch.int32) + 1, order


def _order_of(exchanges: Tensor, rows: int) -> Tensor:
  places = torch.arange(rows)
  order = places.expand(*exchanges.shape[:-1], rows)
  for k in range(exchanges.shape[-1]):
    other = exchanges[..., k:k + 1].to(torch.int64) - 1
    order = order.gather(-1, _exchanged(places, k, other))
  return order


def _rows(x: Tensor, order: Tensor) -> Tensor:
  batch = torch.broadcast_shapes(x.shape[:-2], order.shape[:-1])
  x = x.expand(*batch, *x.shape[-2:])
  return x.gather(-2, order[..., None].expand(x.shape))


def _zeros_on_diagonal(x: Tensor) -> Tensor:
  return _first_of(x.diagonal(dim1=-2, dim2=-1) == 0)


def _solved(both: Tensor, order: Tensor, right: Tensor) -> Tensor:
  lower, upper = _triangle_inverse(both, False, True), _triangle_inverse(both, True)
  return upper @ (lower @ _rows(right, order))


@_in_double(1)
def inv_ex(x: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
  both, _, order = _factorised(x)
  return _solved(both, order, _identity_like(x)), _zeros_on_diagonal(both)


@_in_double(2)
def solve_ex(x: Tensor, right: Tensor, *, left: bool = True,
             check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
  vectors = right.dim() == 1 or right.shape == x.shape[:-1]
  right = right.unsqueeze(-1) if vectors else right
  both, exchanges, order = _factorised(x if left else x.mT)
  found = _solved(both, order, right if left else right.mT)
  found = found if left else found.mT
  found = found.squeeze(-1) if vectors else found
  return found, both, exchanges, _zeros_on_diagonal(both)


@_in_double(1)
def slogdet(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
  both, exchanges, _ = _factorised(x)
  moved = exchanges != torch.arange(1, x.shape[-1] + 1)
  diagonal = both.diagonal(dim1=-2, dim2=-1)
  sign = (1 - 2 * (moved.sum(-1) % 2)) * diagonal.sign().prod(-1)
  return sign, diagonal.abs().log().sum(-1), both, exchanges


@_in_double(1)
def lu_factor_ex(x: Tensor, *, pivot: bool = True,
                 check_errors: bool = False) -> tuple[Tensor, Tensor, Tensor]:
  both, exchanges, _ = _factorised(x, pivot)
  return both, exchanges, _zeros_on_diagonal(both)


def _unpacked(both: Tensor, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
  """The rows' order as a matrix, and the triangles."""
  rows, columns = both.shape[-2:]
  k = min(rows, columns)
  permutation = (order[..., None, :] == torch.arange(rows)[:, None]).to(both.dtype)
  lower = both[..., :k].tril(-1) + torch.eye(rows, k, dtype=both.dtype)
  return permutation, lower, both[..., :k, :].triu()


@_in_double(1)
def lu(x: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
  both, _, order = _factorised(x, pivot)
  permutation, lower, upper = _unpacked(both, order)
  return permutation if pivot else torch.empty(0, dtype=x.dtype), lower, upper


@_in_double(1)
def lu_unpack(both: Tensor, exchanges: Tensor, unpack_data: bool = True,
              unpack_pivots: bool = True) -> tuple[Tensor, Tensor, Tensor]:
  parts = _unpacked(both, _order_of(exchanges, both.shape[-2]))
  none = torch.empty(0, dtype=both.dtype)
  permutation = parts[0] if unpack_pivots else none
  return (permutation, *parts[1:]) if unpack_data else (permutation, none, none)


def lu_solve(both: Tensor, exchanges: Tensor, right: Tensor, *, left: bool = True,
             adjoint: bool = False) -> Tensor:
  if not left or adjoint or not _fits(both, right):
    return NotImplemented
  found = _solved(both.double(), _order_of(exchanges, both.shape[-2]), right.double())
  return found.to(right.dtype)


# Roots and rotations.


def _root(x: Tensor) -> tuple[Tensor, Tensor]:
  """The lower triangle of which x, given by its own, is the square, and 1 + the first place where
  there is none."""
  n = x.shape[-1]
  rows = torch.arange(n)
  found, heads = [], []
  for k in range(n):
    column = torch.where(rows >= k, x[..., k], 0.0)
    heads.append(column[..., k:k + 1])
    column = column / heads[-1].sqrt()
    found.append(column)
    x = x - column[..., :, None] * column[..., None, :]
  if not found:
    return x.clone(), _first_of(x.diagonal(dim1=-2, dim2=-1) > 0)
  return torch.stack(found, -1), _first_of((torch.cat(heads, -1) > 0).logical_not())


@_in_double(1)
def cholesky_ex(x: Tensor, *, upper: bool = False,
                check_errors: bool = False) -> tuple[Tensor, Tensor]:
  found, info = _root(x.triu().mT if upper else x.tril())
  return found.mT if upper else found, info


@_in_double(1)
def cholesky(x: Tensor, upper: bool = False) -> Tensor:
  found, _ = _root(x.triu().mT if upper else x.tril())
  return found.mT if upper else found


@_in_double(2)
def cholesky_solve(right: Tensor, root: Tensor, upper: bool = False) -> Tensor:
  inverse = _triangle_inverse(root.mT if upper else root, False)
  return inverse.mT @ (inverse @ right)


@_in_double(1)
def cholesky_inverse(root: Tensor, upper: bool = False) -> Tensor:
  inverse = _triangle_inverse(root.mT if upper else root, False)
  return inverse.mT @ inverse


def _reflections(x: Tensor) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
  """Vectors and factors of Householder's reflections with LAPACK's signs, and what they make of
  x."""
  rows, found = torch.arange(x.shape[-2])[:, None], []
  for k in range(min(x.shape[-2] - 1, x.shape[-1])):
    column = torch.where(rows >= k, x[..., k:k + 1], 0.0)
    head = column[..., k:k + 1, :]
    below = torch.where(rows > k, column, 0.0)
    done = (below == 0).all(-2, keepdim=True)
    length = torch.linalg.vector_norm(column, dim=-2, keepdim=True)
    other = torch.where(head < 0, length, -length)
    factor = torch.where(done, 0.0, (other - head) / torch.where(done, 1.0, other))
    vector = below / torch.where(done, 1.0, head - other) + (rows == k)
    x = x - factor * vector * (vector.mT @ x)
    found.append((vector, factor))
  return found, x


@_in_double(1)
def qr(x: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
  found, rest = _reflections(x)
  k = x.shape[-2] if mode == "complete" else min(x.shape[-2:])
  triangle = rest[..., :k, :].triu()
  if mode == "r":
    return torch.empty(0, dtype=x.dtype), triangle
  y = torch.eye(x.shape[-2], k, dtype=x.dtype).expand(*x.shape[:-1], k)
  for vector, factor in reversed(found):
    y = y - factor * vector * (vector.mT @ y)
  return y.clone(), triangle


# Taylor's series of a matrix whose norm is at most 1, and the most squarings after it.
_TERMS, _SQUARINGS = 18, 20


@_in_double(1)
def matrix_exp(x: Tensor) -> Tensor:
  """By scaling and squaring."""
  if x.shape[-1] == 0:
    return x.clone()
  norm = x.abs().sum(-2).amax(-1)
  # Of 0, infinity and NaN the bounds are left.
  count = torch.nan_to_num(norm.log2().ceil(), 0.0, _SQUARINGS, 0.0).clamp(0, _SQUARINGS)
  count = count[..., None, None]
  x = x * torch.exp2(-count)
  one = _identity_like(x)
  found = one
  for i in range(_TERMS, 0, -1):
    found = one + x @ found / i
  for i in range(_SQUARINGS):
    found = torch.where(count > i, found @ found, found)
  return found


def no_check(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
  """Of a singular matrix PyTorch raises an error; a model has none."""

