"""Cases of torch.linalg that are taken apart in `_linear_algebra.py`, and of Bessel functions."""

from __future__ import annotations

import math

import torch
from aten_draws import reals

A = torch.ops.aten
L = torch.linalg


def factorised():
  x = reals(3, 5, 5) + 3 * torch.eye(5)
  y, row = reals(3, 5, 2), reals(5)
  swaps = torch.tensor([[0.0, 2, 1], [1, 0, 3], [4, 1, 0]])
  root = x @ x.mT + torch.eye(5)
  tall, wide = reals(2, 6, 4), reals(2, 4, 6)
  flat = torch.tensor([[2.0, 1, 3], [0, 4, 5], [0, 0, 6]])  # nothing to reflect
  large = reals(40, 40) + 8 * torch.eye(40)
  singular = torch.tensor([[1.0, 2], [2, 4]])
  turning = reals(2, 4, 4)
  turning = turning - turning.mT
  return [
    *[(f"inv {kind}", L.inv, (given,)) for kind, given in (
      ("stack", x), ("with exchanges", swaps), ("float64", x.double()), ("large", large),
      ("one", torch.tensor([[4.0]])), ("nothing", reals(2, 0, 0)))],
    ("inv_ex", lambda x: tuple(L.inv_ex(x)), (x,)),
    ("inv_ex info", lambda x: L.inv_ex(x).info, (singular,)),
    ("inverse of a half", lambda x: torch.inverse(x.float()).half(), (x.half(),)),
    ("solve", L.solve, (x, y)), ("solve one", L.solve, (x[0], row)),
    ("solve rows", lambda x, y: L.solve(x, y.mT, left=False), (x, y)),
    ("solve for many", L.solve, (x[:1], y)), ("solve vectors", L.solve, (x, reals(3, 5))),
    ("solve_ex", lambda x, y: tuple(A._linalg_solve_ex(x, y)), (x, y)),
    ("solve_triangular", lambda x, y: L.solve_triangular(x.triu(), y, upper=True), (x, y)),
    ("solve_triangular lower", lambda x, y: L.solve_triangular(x, y.mT, upper=False, left=False),
     (x, y)),
    ("solve_triangular unit", lambda x, y: L.solve_triangular(x, y, upper=False,
                                                              unitriangular=True), (x / 4, y)),
    ("triangular_solve", lambda x, y: tuple(torch.triangular_solve(y, x.triu(), transpose=True)),
     (x, y)),
    ("cholesky", L.cholesky, (root,)), ("cholesky upper", lambda x: L.cholesky(x, upper=True),
                                        (root,)),
    ("cholesky_ex", lambda x: tuple(L.cholesky_ex(x)), (root,)),
    ("cholesky_ex info", lambda x: L.cholesky_ex(x).info, (singular - 1,)),
    ("cholesky of old", lambda x: torch.cholesky(x), (root,)),
    ("cholesky_solve", lambda y, x: torch.cholesky_solve(y, L.cholesky(x)), (y, root)),
    ("cholesky_inverse", lambda x: torch.cholesky_inverse(L.cholesky(x, upper=True), upper=True),
     (root,)),
    *[(f"qr {kind} {mode}", lambda x, mode=mode: tuple(L.qr(x, mode)), (given,))
      for mode in ("reduced", "complete", "r")
      for kind, given in (("tall", tall), ("wide", wide), ("square", x), ("triangle", flat),
                          ("column", tall[:, :, :1]))],
    ("lu", lambda x: tuple(L.lu(x)), (x,)), ("lu tall", lambda x: tuple(L.lu(x)), (tall,)),
    ("lu wide", lambda x: tuple(L.lu(x)), (wide,)),
    ("lu_factor", lambda x: tuple(L.lu_factor(x)), (swaps,)),
    ("lu_unpack", lambda x: tuple(torch.lu_unpack(*L.lu_factor(x))), (swaps,)),
    ("lu_solve", lambda x, y: L.lu_solve(*L.lu_factor(x), y), (x, y)),
    ("slogdet", lambda x: tuple(L.slogdet(x)), (torch.stack([swaps, -swaps, swaps.mT]),)),
    ("logdet", torch.logdet, (root,)),
    *[(f"matrix_exp {kind}", L.matrix_exp, (given,)) for kind, given in (
      ("small", x / 10), ("large", x), ("turning", 10 * turning), ("zero", torch.zeros(2, 3, 3)),
      ("float64", x.double() / 3))],
    *[(f"matrix_power {n}", lambda x, n=n: L.matrix_power(x, n), (x,)) for n in (-2, -1, 0, 1, 5)],
    ("tensorinv", lambda x: L.tensorinv(x, ind=1), (reals(4, 2, 2) + torch.eye(4).view(4, 2, 2),)),
    *[(f"matrix_norm {kind}", lambda x, kind=kind: L.matrix_norm(x, kind), (tall,))
      for kind in ("fro", 1, -1, math.inf, -math.inf)],
    ("cond of sums", lambda x: L.cond(x, 1), (x,)),
    *[(f"{name} {kind}", getattr(torch.special, name), (given,))
      for name in ("i0", "i0e", "i1", "i1e", "modified_bessel_i0", "modified_bessel_i1")
      for kind, given in (("wide", reals(99, low=-60, high=60)), ("float64", reals(9).double()),
                          ("ends", torch.tensor([math.nan, 0.0, -0.0, 18.0, 18.1, 1e-30, 200.0])))],
    *[(f"{name} infinite", getattr(torch.special, name), (torch.tensor([math.inf, -math.inf]),))
      for name in ("i0e", "i1e")],
    ("kaiser window", lambda n: torch.i0(12 * (1 - n * n).sqrt()), (reals(20, low=-1, high=1),)),
    ("ndtri", torch.special.ndtri, (torch.tensor([0, 1e-9, 1e-3, 0.3, 0.5, 0.9, 1, -1.0,
                                                  math.nan]),)),
  ]
