"""Functions of special names, taken apart as in `_decompositions.py`, in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def double(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
  def decompose(x: Tensor) -> Tensor:
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    return function(x.double()).to(dtype)
  return decompose


# Stirling's series of log(gamma) and the derivative's (Abramowitz and Stegun 6.1.41, 6.3.18), exact
# to double precision from 10 on.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_SHIFTS = 10


def _series(numbers: tuple[float, ...], x: Tensor) -> Tensor:
  total = torch.full_like(x, numbers[-1])
  for number in reversed(numbers[:-1]):
    total = total * x + number
  return total


def lgamma(x: Tensor) -> Tensor:
  mirrored = x < 0.5
  y = torch.where(mirrored, 1 - x, x)
  product = y
  for i in range(1, _SHIFTS):
    product = product * (y + i)
  small = y < _SHIFTS
  z = torch.where(small, y + _SHIFTS, y)
  found = ((z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi)
           + _series(_STIRLING, 1 / (z * z)) / z)
  found = torch.where(small, found - product.log(), found)
  sine = torch.sin(math.pi * (x - x.floor()))  # of what is left of whole turns
  found = torch.where(mirrored, math.log(math.pi) - sine.abs().log() - found, found)
  found = torch.where((x <= 0) & (x == x.floor()), math.inf, found)
  found = torch.where((x == 1) | (x == 2), 0.0, found)
  return torch.where(x.isinf(), math.inf, found)


def digamma(x: Tensor) -> Tensor:
  mirrored = x < 0
  y = torch.where(mirrored, 1 - x, x)
  shares = torch.zeros_like(y)
  for i in range(_SHIFTS):
    shares = shares + 1 / (y + i)
  small = y < _SHIFTS
  z = torch.where(small, y + _SHIFTS, y)
  squares = 1 / (z * z)
  found = z.log() - 0.5 / z - squares * _series(_DIGAMMA, squares)
  found = torch.where(small, found - shares, found)
  turn = math.pi * (x - x.floor())
  found = torch.where(mirrored, found - math.pi * torch.cos(turn) / torch.sin(turn), found)
  found = torch.where(mirrored & (x == x.floor()), math.nan, found)
  found = torch.where(x == 0, -torch.copysign(torch.full_like(x, math.inf), x), found)
  return torch.where(x == math.inf, x, found)


def erfinv(x: Tensor) -> Tensor:
  """Winitzki's approximation, and steps of Halley's method."""
  a = 0.147
  logarithm = torch.log1p(-x * x)
  middle = 2 / (math.pi * a) + logarithm / 2
  y = torch.copysign((torch.sqrt(middle * middle - logarithm / a) - middle).sqrt(), x)
  for _ in range(3):
    error = (torch.erf(y) - x) / (2 / math.sqrt(math.pi) * torch.exp(-y * y))
    y = y - error / (1 + y * error)
  y = torch.where(x.abs() == 1, x * math.inf, y)
  return torch.where(x == 0, x, y)


def _scaled_tail(x: Tensor) -> Tensor:
  """exp(x^2) erfc(x) from 2 on, by a continued fraction (Abramowitz and Stegun 7.1.14)."""
  fraction = x
  for i in range(60, 0, -1):
    fraction = x + i / 2 / fraction
  return 1 / (math.sqrt(math.pi) * fraction)


def erfc(x: Tensor) -> Tensor:
  return _erfc_double(x) if x.dtype == torch.float64 else _erfc_single(x)


# t exp(-x^2 + a polynomial of t = 1 / (1 + x / 2)), from Press et al., Numerical Recipes, 6.2.
_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
         1.48851587, -0.82215223, 0.17087277)


def _erfc_single(x: Tensor) -> Tensor:
  """To some units in the last place; 1 - erf(x) has lost its digits from 1 on."""
  x = x.to(torch.float32) if not x.is_floating_point() else x
  far = x.clamp(min=1)
  t = 1 / (1 + far / 2)
  tail = t * torch.exp(_series(_ERFC, t) - far * far)
  return torch.where(x >= 1, tail, 1 - torch.erf(x))


def _erfc_double(x: Tensor) -> Tensor:
  far = x >= 2
  tail = torch.exp(-x * x) * _scaled_tail(torch.where(far, x, 2.0))
  return torch.where(far, tail, 1 - torch.erf(x))


def erfcx(x: Tensor) -> Tensor:
  far = x >= 2
  near = torch.exp(x * x) * (1 - torch.erf(x))
  return torch.where(far, _scaled_tail(torch.where(far, x, 2.0)), near)


# Modified Bessel functions (Abramowitz and Stegun 9.6.10, 9.7.1): below a limit the power series,
# whose terms are all positive, above it the asymptotic one, whose terms are then small enough.
_FAR, _NEAR_TERMS, _FAR_TERMS = 18.0, 48, 30


def _bessel(order: int, scaled: bool) -> Callable[[Tensor], Tensor]:
  """I of order 0 or 1; times exp(-|x|), if it is scaled."""
  near = [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(_NEAR_TERMS)]
  far = [1.0]
  for k in range(1, _FAR_TERMS):
    far.append(far[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k))

  def decompose(x: Tensor) -> Tensor:
    size = x.abs()
    low, high = size.clamp(max=_FAR), size.clamp(_FAR, 1e300)
    half = low / 2
    small = _series(tuple(near), half * half) * (half if order else 1)
    large = _series(tuple(far), 1 / high) / (2 * math.pi * high).sqrt()
    small = small * torch.exp(-low) if scaled else small
    large = large if scaled else large * torch.exp(high.clamp(max=800))  # infinite
    found = torch.where(size <= _FAR, small, large)
    found = torch.where(x < 0, -found, found) if order else found
    return torch.where(x.isnan(), x, found)
  return double(decompose)


i0, i0e = _bessel(0, False), _bessel(0, True)
i1, i1e = _bessel(1, False), _bessel(1, True)


def ndtri(x: Tensor) -> Tensor:
  """Where the normal distribution reaches x. It is computed of the smaller tail."""
  tail = torch.where(x > 0.5, 1 - x, x)
  found = math.sqrt(2) * erfinv(2 * tail - 1)
  return torch.where(x > 0.5, -found, found)
