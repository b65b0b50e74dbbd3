"""Cases of complex numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from aten_draws import reals

A = torch.ops.aten


def _parts_set(x, y):
  z = torch.complex(x, y)
  low, one, ones = torch.zeros_like(z), z.clone(), torch.full_like(z, 1 - 2j)
  low[..., :3] = z[..., 2:5]
  one[:, 1] = z[:, 0]
  ones[0].copy_(x[0])
  return low, one, ones


def complex_numbers():
  x, y, row = reals(2, 3, 8), reals(2, 3, 8), reals(8)
  z = torch.polar(torch.rand(3, 4), reals(3, 4))
  def pair(x, y):
    return torch.complex(x, y)
  rotations = torch.polar(torch.ones(3, 4), reals(3, 4))
  fft = torch.fft
  return [
    ("fft", lambda x: fft.fft(x), (x,)), ("fft axis", lambda x: fft.fft(x, dim=1), (x,)),
    ("fft of seven", lambda x: fft.fft(x, n=7), (x,)),
    ("fft padded", lambda x: fft.fft(x, n=11, norm="ortho"), (x,)),
    ("fft of complex", lambda x, y: fft.fft(pair(x, y), norm="forward"), (x, y)),
    ("ifft", lambda x, y: fft.ifft(pair(x, y), dim=1), (x, y)),
    ("rfft", lambda x: fft.rfft(x), (x,)), ("rfft odd", lambda x: fft.rfft(x, dim=1), (x,)),
    ("irfft", lambda x, y: fft.irfft(pair(x, y)), (x, y)),
    ("irfft odd", lambda x, y: fft.irfft(pair(x, y), n=9), (x, y)),
    ("irfft cut", lambda x, y: fft.irfft(pair(x, y), n=6, norm="ortho"), (x, y)),
    ("irfft longer", lambda x, y: fft.irfft(pair(x, y), n=20), (x, y)),
    ("fft2", lambda x: fft.fft2(x), (x,)), ("rfft2", lambda x: fft.rfft2(x, norm="ortho"), (x,)),
    ("irfft2", lambda x, y: fft.irfft2(pair(x, y), s=(3, 8)), (x, y)),
    ("fftn", lambda x: fft.fftn(x), (x,)), ("fftshift", lambda x: fft.fftshift(fft.fft(x), (1, 2)),
                                            (x,)),
    ("hfft", lambda x, y: fft.hfft(pair(x, y)), (x, y)),
    ("long fft", lambda x: fft.fft(x).real, (reals(2, 1025),)),
    ("long rfft", lambda x: fft.rfft(x, norm="ortho"), (reals(2, 1026),)),
    ("long ifft", lambda x, y: fft.ifft(pair(x, y)), (reals(1, 1030), reals(1, 1030))),
    ("long irfft", lambda x, y: fft.irfft(pair(x, y), n=4096), (reals(2, 2049), reals(2, 2049))),
    ("long irfft of a prime", lambda x, y: fft.irfft(pair(x, y), n=2053, norm="forward"),
     (reals(2, 1027), reals(2, 1027))),
    ("long rfft of a prime", lambda x: fft.rfft(x), (reals(2, 4999),)),
    ("rfft along rows", lambda x: fft.irfft(fft.rfft(x, dim=0), n=300, dim=0), (reals(300, 20),)),
    ("double fft", lambda x: fft.irfft(fft.rfft(x), n=50), (reals(3, 50).double(),)),
    ("stft", lambda x, w: torch.stft(x, 16, 4, window=w, return_complex=True).abs(),
     (reals(2, 50), torch.hann_window(16))),
    ("abs and angle", lambda x, y: (pair(x, y).abs(), pair(x, y).angle()), (x, y)),
    ("parts", lambda x, y: (pair(x, y).real, pair(x, y).imag), (x, y)),
    ("products", lambda x, y: (pair(x, y) * pair(y, x), pair(x, y) * 2, pair(x, y) * x,
                               pair(x, y) * 1j), (x, y)),
    ("sums", lambda x, y: (pair(x, y) + pair(y, x), pair(x, y) - x, pair(x, y) + 1), (x, y)),
    ("scaled sum", lambda x, y: torch.add(pair(x, y), pair(y, x), alpha=3), (x, y)),
    ("division", lambda x, y, r: (pair(x, y) / 3, pair(x, y) / (r.abs() + 1)), (x, y, row)),
    ("neg and conj", lambda x, y: (-pair(x, y), pair(x, y).conj() * 1.0), (x, y)),
    ("conj_physical", lambda x, y: A._conj_physical(pair(x, y)), (x, y)),
    ("matmul", lambda x, y: pair(x, y) @ pair(y, x).mT, (x, y)),
    ("mm", lambda x, y: torch.mm(pair(x[0], y[0]), pair(x[1], y[1]).t()), (x, y)),
    ("bmm", lambda x, y: torch.bmm(pair(x, y), pair(x, y).mT), (x, y)),
    ("einsum", lambda x, y: torch.einsum("bij,bkj->bik", pair(x, y), pair(y, x)), (x, y)),
    ("polar", lambda x, y: torch.polar(x.abs(), y), (x, y)),
    ("rotary", lambda x: torch.view_as_real(torch.view_as_complex(
      x.unflatten(-1, (4, 2)).contiguous()) * rotations).flatten(2), (x,)),
    ("shapes", lambda x, y: (
      pair(x, y)[:, -1, ::2], pair(x, y).permute(-1, 0, 1), pair(x, y).flatten(1),
      pair(x, y).transpose(-1, -2).unsqueeze(-1), pair(x, y)[:1].squeeze(0),
      pair(x, y)[None].expand(2, -1, -1, -1)), (x, y)),
    ("joined", lambda x, y: (
      torch.cat([pair(x, y), pair(y, x)], -1), torch.stack([pair(x, y), pair(y, x)], -1),
      pair(x, y).split(3, -1), pair(x, y).split([2, 6], -1), pair(x, y).unbind(-2)), (x, y)),
    ("arranged", lambda x, y: (pair(x, y).flip(-1), pair(x, y).roll(2, -1),
                               F.pad(pair(x, y), (1, 2))), (x, y)),
    ("copies", lambda x, y: (pair(x, y).clone(), pair(x, y).detach(), x.to(torch.complex64),
                             pair(x, y).to(torch.complex128).real), (x, y)),
    ("complex in", lambda z: z * 2, (z,)),
    ("quotients", lambda x, y: (pair(x, y) / pair(y, x + 3), x / pair(y, x + 3),
                                1 / pair(y, x + 3)), (x, y)),
    ("e to the power", lambda x, y: pair(x, y).exp(), (x, y)),
    ("sums and means", lambda x, y: (pair(x, y).sum(), pair(x, y).sum(-1), pair(x, y).mean((0, 2)),
                                     pair(x, y).mean(1, keepdim=True),
                                     pair(x, y).mean()), (x, y)),
    ("parts set", _parts_set, (x, y)),
    ("choices", lambda x, y: torch.where(x > 0, pair(x, y), 2j), (x, y)),
    ("complex in conjugate", lambda z: z * z, (z.conj(),)),
  ]
