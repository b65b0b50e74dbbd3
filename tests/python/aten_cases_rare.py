"""Cases of operators that are taken apart in `_decompositions.py`."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from aten_draws import bools, ints, reals

A = torch.ops.aten

# What transformers calls for mixtures of experts while it is traced, where that is not installed.
_LIBRARY = torch.library.Library("transformers", "FRAGMENT")
if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
  _LIBRARY.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
  _LIBRARY.impl("grouped_mm_fallback", lambda x, weight, offs: _by_groups(x, weight, offs), "CPU")
  _LIBRARY.impl("grouped_mm_fallback",
                lambda x, weight, offs: x.new_empty(x.shape[0], weight.shape[2]), "Meta")


def _by_groups(x, weight, offs):
  y, begin = x.new_zeros(len(x), weight.shape[2]), 0
  for i, end in enumerate(offs.tolist()):
    y[begin:end], begin = x[begin:end] @ weight[i], end
  return y


def taken_apart():
  x, n, rows = reals(4, 7), ints(4, 7), torch.stack([torch.randperm(7) for _ in range(4)])
  holes = x.clone()
  holes[1, 2], holes[2, 4:] = math.nan, math.nan
  ends = torch.tensor([-math.inf, -math.inf, 1.0, math.inf, 2.0])
  square, scalar, wide = reals(4, 4), torch.tensor(2.5), reals(200, low=-20, high=20)
  poles = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, 2.0, -1.0, 0.5, -2.5, 1e-30])
  scales, zeros = reals(7, low=0.1, high=0.5), ints(7, dtype=torch.int32)
  parts = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.5, 3e30, 1e-40])
  return [
    *[(f"{name} {kind} {dim}", lambda x, name=name, dim=dim: tuple(getattr(torch, name)(x, dim)),
       (given,))
      for name in ("cummax", "cummin") for dim in (0, -1)
      for kind, given in (("floats", x), ("with NaN", holes), ("integers", n), ("scalar", scalar),
                          ("nothing", reals(0, 3)), ("bool", bools(3, 5)))],
    *[(f"logcumsumexp {kind}", lambda x: x.logcumsumexp(-1), (given,))
      for kind, given in (("floats", x), ("with NaN", holes), ("ends", ends), ("scalar", scalar))],
    *[(f"{name} {kind}", getattr(torch, name), (given,)) for name in ("median", "nanmedian")
      for kind, given in (("floats", x), ("with NaN", holes), ("integers", n), ("scalar", scalar))],
    *[(f"{name} dim {kind}", lambda x, name=name, keep=keep: tuple(
        getattr(torch, name)(x, 1, keepdim=keep)), (given,)) for name in ("median", "nanmedian")
      for kind, given, keep in (("floats", x, True), ("with NaN", holes[:2], False),
                                ("integers", rows, False))],
    *[(f"groups of rows {kind}", lambda x, w, offs: (
        torch.ops.transformers.grouped_mm_fallback(x, w, offs), x.sum()),
       (reals(rows, 8), reals(len(ends), 8, 12), torch.tensor(ends, dtype=torch.int32)))
      for kind, rows, ends in (("of many", 9, [2, 2, 5, 9]), ("of few", 3, [0, 1, 1, 2, 3]),
                               ("with an end", 6, [1, 4]),
                                ("few with an end", 3, [0, 0, 1, 1, 2]))],
    ("groups of rows", lambda x, w, offs: A._grouped_mm(x, w, offs),
     (reals(6, 8).bfloat16(), reals(3, 8, 16).bfloat16(),
      torch.tensor([2, 2, 6], dtype=torch.int32))),
    ("empty", lambda x: torch.empty(4, 7).copy_(x), (x,)),
    ("empty of halves", lambda n: torch.empty(n.shape, dtype=torch.float16).copy_(n), (n,)),
    ("empty permuted", lambda x: torch.empty_like(x).copy_(x), (x,)),
    ("empty permuted otherwise", lambda x: torch.empty_like(x.t()).copy_(x.t()), (x,)),
    ("kthvalue", lambda x: tuple(x.kthvalue(2, 1)), (x,)),
    ("kthvalue keepdim", lambda x: tuple(x.kthvalue(4, 0, keepdim=True)), (x,)),
    ("mode", lambda n: tuple(n.mode(1)), (n,)),
    ("mode first axis", lambda n: tuple(n.mode(0, keepdim=True)), (n,)),
    ("quantile", lambda x: torch.quantile(x, torch.tensor([0.1, 0.5]), 1), (x,)),
    ("nanquantile", lambda x: torch.nanquantile(x, 0.3, 1), (holes,)),
    ("histc", lambda x: torch.histc(x, 5, -1, 1), (x,)),
    ("histc between extrema", lambda x: torch.histc(x, 7), (x,)),
    ("histc of no range", lambda x: torch.histc(x, 5, 0.25, 0.25), (x,)),
    ("histc of equal ones", lambda x: torch.histc(x, 4), (torch.ones(3),)),
    ("put", lambda x, i, y: x.put(i, y), (x, torch.tensor([0, -1, 5]), reals(3))),
    ("put and add", lambda x, i, y: torch.put(x, i, y, accumulate=True),
     (x, torch.tensor([[0, 0], [1, -1]]), reals(2, 2))),
    *[(f"index_reduce {op}", lambda x, i, y, op=op: x.index_reduce(1, i, y, op),
       (x, torch.tensor([0, 0, 3]), reals(4, 3))) for op in ("prod", "mean", "amax", "amin")],
    ("masked_scatter", torch.masked_scatter, (x, x > 0, reals(28))),
    ("masked_scatter rows", torch.masked_scatter, (x, bools(7), reals(30))),
    ("diagonal_scatter", torch.diagonal_scatter, (square, reals(4))),
    ("diagonal_scatter below", lambda x, y: torch.diagonal_scatter(x, y, -1, 1, 2),
     (reals(2, 4, 5), reals(2, 3))),
    ("as_strided_scatter", lambda x, y: torch.as_strided_scatter(x, y, (4,), (5,)),
     (square, reals(4))),
    ("repeat_interleave", lambda x: x.repeat_interleave(torch.tensor([1, 0, 2, 3]), 0,
                                                        output_size=6), (x,)),
    ("repeat_interleave counts", lambda x, n: x.repeat_interleave(n, 0, output_size=6),
     (x, torch.tensor([1, 0, 2, 3]))),
    ("rrelu", lambda x: F.rrelu(x, 0.1, 0.4), (x,)),
    ("addmv", lambda y, m, v: torch.addmv(y, m, v, beta=0.5, alpha=2), (reals(4), x, reals(7))),
    ("addmv beta 0", lambda y, m, v: torch.addmv(y, m, v, beta=0),
     (torch.full((4,), math.nan), x, reals(7))),
    ("addbmm", torch.addbmm, (reals(4, 5), reals(2, 4, 6), reals(2, 6, 5))),
    ("dist", torch.dist, (x, reals(4, 7))), ("dist 1", lambda x, y: torch.dist(x, y, 1),
                                              (x, reals(7))),
    *[(f"pdist {p}", lambda x, p=p: F.pdist(x, p), (x,)) for p in (1.0, 2.0, math.inf)],
    ("fake_quantize", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -20, 20), (x,)),
    ("fake_quantize tensors", lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, 0, 30),
     (x, torch.tensor(0.1), torch.tensor(9, dtype=torch.int32))),
    ("fake_quantize channels", lambda x, s, z: torch.fake_quantize_per_channel_affine(
      x, s, z, 1, -12, 12), (x, scales, zeros)),
    *[(f"{name} {kind}", getattr(torch, name), (given,)) for name in ("lgamma", "digamma")
      for kind, given in (("wide", wide), ("poles", poles), ("float64", wide.double()),
                          ("integers", ints(9, low=1)))],
    ("erfinv", torch.erfinv, (reals(99, low=-1, high=1),)),
    ("erfinv ends", torch.erfinv, (torch.tensor([1, -1, 0.0, 1.5, math.nan, 0.999, 1e-20]),)),
    ("erfc tail", lambda x: x.erfc().log(), (reals(50, low=1, high=9),)),
    ("erfc", torch.erfc, (torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0, -3, 2, 30]),)),
    ("erfcx", torch.special.erfcx, (reals(99, low=-4, high=30),)),
    ("log_ndtr", torch.special.log_ndtr, (reals(99, low=-30, high=3),)),
    ("frexp", lambda x: tuple(torch.frexp(x)), (parts,)),
    ("frexp float64", lambda x: tuple(torch.frexp(x)), (wide.double(),)),
    ("ldexp", torch.ldexp, (x, n)), ("ldexp of integers", torch.ldexp, (n, n.abs())),
    ("nextafter", torch.nextafter, (parts, parts.flip(0))),
    *[(f"unfold_backward {shape} {dim} {size} {step}", lambda x, given=(shape, dim, size, step):
       A.unfold_backward(x, *given), (reals(*shape[:dim], (shape[dim] - size) // step + 1,
                                            *shape[dim + 1:], size),))
      for shape, dim, size, step in (((3, 20), 1, 8, 4), ((20, 3), 0, 7, 3), ((2, 11, 2), 1, 2, 3),
                                     ((50,), 0, 40, 1), ((3, 9), 1, 9, 9))],
    ("nextafter zero", torch.nextafter, (parts, torch.tensor(0.0))),
  ]
