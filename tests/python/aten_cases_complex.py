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


def complex_functions():
  z, w = torch.complex(reals(3, 4), reals(3, 4)), torch.complex(reals(4, 5), reals(4, 5))
  ends = torch.tensor([0j, -1 + 0j, 1j, -1j, 3 + 4j, -3 - 4j, 1e-3 + 0j, 2 + 1e-4j])
  small = torch.tensor([1e-4 + 1e-3j, -2e-3j, 0.5 + 0j])
  x, fixed = torch.complex(reals(2, 4, 9), reals(2, 4, 9)), torch.complex(reals(2, 4), reals(2, 4))
  kernel, bias = torch.complex(reals(6, 2, 3), reals(6, 2, 3)), torch.complex(reals(6), reals(6))
  picture = torch.complex(reals(2, 4, 7, 6), reals(2, 4, 7, 6))
  window = torch.complex(reals(4, 4, 3, 3), reals(4, 4, 3, 3))
  volume, cube = picture[:, :2, :5, :5, None].expand(-1, -1, -1, -1, 4), window[:2, :2, :, :, None]
  weight = torch.complex(reals(5, 4), reals(5, 4))
  rows = torch.tensor([[0, 1], [1, 1], [2, 2]])
  holes = torch.tensor([complex(1, float("nan")), complex(float("inf"), 0), 1j])
  return [
    *[(f"{name} {kind}", getattr(torch, name), (given,))
      for name in ("sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid", "sgn", "square")
      for kind, given in (("numbers", z), ("ends", ends), ("complex128", z.to(torch.complex128)))],
    *[(f"{name} {kind}", getattr(torch, name), (given,)) for name in ("log", "log2", "log10")
      for kind, given in (("numbers", z), ("ends", ends[1:]))],
    ("tanh far away", torch.tanh, (torch.tensor([200 + 1j, -200 - 1j, 90j]),)),
    ("expm1", torch.expm1, (torch.cat([z.flatten(), small]),)),
    ("log1p", torch.log1p, (torch.cat([z.flatten(), small]),)),
    ("rsqrt", torch.rsqrt, (z,)),
    *[(f"power {p}", lambda z, p=p: z**p, (z,)) for p in (2, 3, -2, 0.5, 1.7, 1 - 2j, 7)],
    ("powers", torch.pow, (z, z.flip(0))), ("power of a real", torch.pow, (z.real.abs() + 0.1, z)),
    ("power of a number", lambda z: 2.5**z, (z,)), ("power of zero", lambda z: 0**z, (z + 3,)),
    ("power of complex", lambda z: torch.pow(1 - 2j, z), (z,)),
    ("equal", lambda z, w: (z == w, z != w, z == 1j, z != 0, z == z.real),
     (torch.tensor([1j, 0j, 2 + 0j]), torch.tensor([1j, 1 + 0j, 2 + 1j]))),
    ("equal to a number", lambda z: (A.eq.Scalar(z, 1j), A.ne.Scalar(z, 1j)),
     (torch.tensor([1j, 0j]),)),
    ("predicates", lambda z: (z.isnan(), z.isinf(), z.isfinite()), (holes,)),
    ("norm", lambda z: (torch.linalg.vector_norm(z, dim=1), torch.linalg.vector_norm(z, 1)), (z,)),
    ("variance", lambda z: (z.var(), z.std(0, correction=0), z.var(1, keepdim=True)), (z,)),
    ("product", lambda z: (z.prod(), z.prod(0), z.prod(1, keepdim=True)), (z,)),
    ("cumsum", lambda z: z.cumsum(1), (z,)),
    ("moved", lambda z: (z.repeat(2, 1), z.tril(), z.triu(1), z.diagonal(), z.unfold(1, 2, 1),
                         z.as_strided((2, 2), (1, 4)), z[rows[:, 0]], z[:, rows[0]],
                         z.gather(1, rows), z.index_select(1, rows[:, 0])), (z,)),
    ("padded", lambda x: (F.pad(x, (1, 2), mode="reflect"), F.pad(x, (1, 2), mode="replicate")),
     (x,)),
    ("pictures padded", lambda x: (F.pad(x, (1, 2, 0, 1), mode="reflect"),
                                   F.pad(x, (1, 2, 0, 1), mode="replicate")), (picture,)),
    ("embedding", F.embedding, (rows, z)),
    ("scattered", lambda z: (
      torch.zeros(5, 4, dtype=z.dtype).index_add(0, torch.tensor([0, 2, 2]), z),
      torch.zeros(5, 4, dtype=z.dtype).index_put((torch.tensor([0, 2, 3]),), z),
      torch.zeros(5, 4, dtype=z.dtype).scatter(0, rows, z), z.scatter(1, rows, 1 - 1j),
      torch.zeros(5, 4, dtype=z.dtype).scatter_add(0, rows, z)), (z,)),
    ("masked_fill", lambda z: (z.masked_fill(z.real > 0, 2), z.masked_fill(z.real > 0, 1j),
                               A.masked_fill.Tensor(z, z.real > 0, torch.tensor(3.0))), (z,)),
    ("linear", F.linear, (z, weight, torch.complex(reals(5), reals(5)))),
    ("linear of one", F.linear, (z[0], weight)),
    ("linear of weights", lambda x: F.linear(x, weight.conj()), (x.mT,)),
    ("matmul of weights", lambda x: x @ fixed.mT, (x.mT,)),
    ("real matmul of weights", lambda x: x.to(fixed.dtype) @ fixed.mT, (x.real.mT,)),
    ("addmm", lambda x, y, b: torch.addmm(b, x, y, alpha=2, beta=1j), (z, w, w[0])),
    ("addmm plain", lambda x, y, b: torch.addmm(b, x, y), (z, w, w[0])),
    ("baddbmm", torch.baddbmm, (torch.complex(reals(2, 3, 5), reals(2, 3, 5)),
                                z.expand(2, 3, 4), w.expand(2, 4, 5))),
    ("mv and dot", lambda z, w: (torch.mv(z, w[:, 0]), torch.dot(z[0], w[:, 1]),
                                 torch.vdot(z[0], w[:, 1])), (z, w)),
    ("conv1d", lambda x: F.conv1d(x, kernel, bias, groups=2, stride=2), (x,)),
    ("conv1d of inputs", lambda x, w: F.conv1d(x, w, padding="same", groups=2), (x, kernel)),
    ("conv1d of one", lambda x: F.conv1d(x, kernel, groups=2), (x[0],)),
    ("conv2d", lambda x: F.conv2d(x, window, padding=1, dilation=2), (picture,)),
    ("conv2d same", lambda x, w: F.conv2d(x, w, padding="same"), (picture, window)),
    ("conv3d", lambda x, w: F.conv3d(x, w), (volume, cube)),
    ("conv3d same", lambda x, w: F.conv3d(x, w, padding="same"), (volume, cube)),
    ("conv_transpose1d", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2),
     (x, torch.complex(reals(4, 6, 3), reals(4, 6, 3)), bias)),
    ("conv_transpose2d", lambda x: F.conv_transpose2d(x, window[:, :2], stride=2, groups=2),
     (picture,)),
    ("conv_transpose3d", lambda x, w: F.conv_transpose3d(x, w), (volume, cube)),
    ("istft", lambda z: torch.istft(z, 16), (torch.stft(reals(2, 100), 16, return_complex=True),)),
  ]
