"""Cases of operators that work on each element by itself, and of reductions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from aten_draws import bools, ints, over, reals

A = torch.ops.aten
SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0, 0.5, -7.25, 2.5])
QUOTIENTS = [("floor division", lambda x, y: torch.div(x, y, rounding_mode="floor")),
             ("trunc division", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
             ("floor_divide", torch.floor_divide), ("remainder", torch.remainder),
             ("fmod", torch.fmod)]


def unary():
  x, small, above = reals(3, 5), reals(3, 5, low=-0.9, high=0.9), reals(3, 5, low=1.1, high=9)
  n = ints(3, 5)
  odd = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.5, 1.5, 2.5, -2.5])
  return [
    *over("abs atan cos cosh erf erfc exp exp2 expm1 neg sigmoid sign sin sinh tan tanh "
          "asinh square positive", x),
    *over("acos asin atanh", small),
    *over("acosh log log10 log1p log2 reciprocal rsqrt sqrt", above),
    *over("ceil floor round trunc isnan isinf isfinite", odd),
    ("sign of no number", torch.sign, (torch.tensor([torch.nan, -torch.inf, 2.0, 0.0]),)),
    ("nan_to_num", torch.nan_to_num, (odd,)),
    *[(f"{name} of int64", getattr(torch, name), (n,)) for name in
      "abs neg sign ceil floor round trunc bitwise_not isnan isinf sin exp sqrt".split()],
    ("bitwise_not of bool", torch.bitwise_not, (bools(7),)),
    ("logical_not", torch.logical_not, (bools(7),)),
    ("logical_not of float", torch.logical_not, (torch.tensor([0.0, 1.0, -2.0]),)),
    ("round decimals", lambda x: torch.round(x, decimals=1), (reals(9),)),
    ("abs of a scalar", torch.abs, (torch.tensor(-3.0),)),
    ("float64", lambda x: torch.exp(x) + 1, (reals(4).double(),)),
    ("round to tens", lambda x: torch.round(x, decimals=-1), (reals(9, low=-99, high=99),)),
    *[(f"{name} of {kind}", getattr(torch, name), (given,))
      for kind, given in (("small numbers", 1e-6 * reals(9)), ("special numbers", SPECIAL))
      for name in "log1p expm1 exp2 trunc round ceil floor exp log sqrt rsqrt abs neg sign sgn "
      "reciprocal tanh sigmoid erf erfc atan asinh sinh cosh frac isnan isinf isfinite isposinf "
      "isneginf nan_to_num logical_not sin cos tan log2 log10 square relu acos asin acosh "
      "atanh".split()],
    ("floors of logarithms", lambda x, y: (x.log2().floor(), y.log10().floor()),
     (2.0 ** torch.arange(-100, 100), 10.0 ** torch.arange(30))),
    ("exp2 of whole numbers", lambda n: torch.exp2(n).log2().floor(), (ints(20).float(),)),
    *[(f"signbit of {name}", torch.signbit, (x,)) for name, x in
      (("floats", SPECIAL), ("int8", ints(9, dtype=torch.int8)), ("bool", bools(4)))],
    ("view of bits", lambda x: x.view(torch.int32), (SPECIAL,)),
    ("view of integers", lambda n: (n.view(torch.float64), n.int().view(torch.uint32)), (n,)),
    ("angle", torch.angle, (SPECIAL,)), ("angle of integers", torch.angle, (n,)),
    ("view of bool", lambda b: b.view(torch.uint8), (bools(5),)),
  ]


def activations():
  x = reals(2, 4, 3, 3, low=-8, high=8)
  return [
    *[(name, getattr(F, name), (x,)) for name in
      "relu relu6 gelu silu hardswish hardsigmoid hardtanh elu selu celu leaky_relu mish softplus "
      "logsigmoid softsign tanhshrink hardshrink softshrink".split()],
    ("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), (x,)),
    ("elu 0.3", lambda x: F.elu(x, 0.3), (x,)),
    ("leaky_relu 0.2", lambda x: F.leaky_relu(x, 0.2), (x,)),
    ("hardtanh -2 3", lambda x: F.hardtanh(x, -2, 3), (x,)),
    ("softplus 2", lambda x: F.softplus(x, 2.0, 5.0), (x,)),
    ("threshold", lambda x: F.threshold(x, 0.5, 20.0), (x,)),
    ("glu", lambda x: F.glu(x, 1), (x,)),
    ("prelu one", lambda x: F.prelu(x, torch.tensor([0.3])), (x,)),
    ("prelu channels", F.prelu, (x, reals(4))),
    ("prelu vector", F.prelu, (reals(5), reals(1))),
    ("relu of int", torch.relu, (ints(5),)),
  ]


def binary():
  x, y, row, n, m = reals(2, 3, 4), reals(2, 3, 4), reals(4), ints(2, 3, 4), ints(3, 1)
  positive = reals(2, 3, 4, low=0.2, high=3)
  divisors = torch.where(n == 0, 3, n)
  b, c = bools(5), bools(5)
  left, right = (x.flatten() for x in torch.meshgrid(SPECIAL, SPECIAL, indexing="ij"))
  return [
    ("add", torch.add, (x, row)), ("add alpha", lambda x, y: torch.add(x, y, alpha=2.5), (x, y)),
    ("add number", lambda x: x + 3, (x,)), ("add number to int", lambda n: n + 1.5, (n,)),
    ("add bool", torch.add, (b, c)), ("int and float", torch.add, (n, x)),
    ("float and float64", torch.add, (x, y.double())),
    ("add int32 int64", torch.add, (n.int(), m)), ("add scalar tensor", torch.add,
                                                  (x, torch.tensor(2.0).double())),
    ("add.Scalar", lambda x: A.add.Scalar(x, 2), (x,)),
    ("sub", torch.sub, (x, row)), ("sub alpha", lambda n, m: torch.sub(n, m, alpha=3), (n, m)),
    ("sub.Scalar", lambda x: A.sub.Scalar(x, 2), (x,)),
    ("rsub", lambda x: 1 - x, (x,)), ("rsub tensor", torch.rsub, (x, y)),
    ("rsub alpha", lambda x, y: torch.rsub(x, y, alpha=2), (x, y)),
    ("mul", torch.mul, (x, row)), ("mul bool", torch.mul, (b, c)),
    ("mul bool float", torch.mul, (b, reals(5))),
    ("mul.Scalar", lambda x: A.mul.Scalar(x, 2), (x,)),
    ("div", torch.div, (x, positive)), ("div int", torch.div, (n, divisors)),
    ("div number", lambda x: x / 3, (x,)), ("div.Scalar", lambda x: A.div.Scalar(x, 3), (x,)),
    *[(f"div {mode} {kind}", lambda x, y, mode=mode: torch.div(x, y, rounding_mode=mode), pair)
      for mode in ("floor", "trunc")
      for kind, pair in (("float", (x, positive)), ("int", (n, divisors)))],
    ("div.Scalar_mode", lambda n: A.div.Scalar_mode(n, 3, rounding_mode="floor"), (n,)),
    ("floor_divide", lambda n: n // 4, (n,)),
    ("floor_divide float", lambda x: x // 0.7, (x,)),
    ("remainder", torch.remainder, (x, positive)), ("remainder int", lambda n: n % 4, (n,)),
    ("remainder negative", lambda n: n % -4, (n,)),
    ("remainder int tensor", torch.remainder, (n, divisors)),
    ("fmod", torch.fmod, (x, positive)), ("fmod number", lambda x: torch.fmod(x, 0.7), (x,)),
    *[(f"{name} of special numbers", f, (left, right))
      for name, f in QUOTIENTS + [(name, getattr(torch, name)) for name in
                                  "atan2 hypot copysign fmax fmin maximum minimum".split()]],
    *[(f"{name} of special numbers and {number}", lambda x, f=f, number=number: f(x, number),
       (SPECIAL,)) for name, f in QUOTIENTS for number in (0.7, -2.0, 0.0, math.inf, -math.inf)],
    *[(f"{name} of {dtype}", f, (torch.iinfo(dtype).min + ints(6, low=0, high=3, dtype=dtype),
                                 torch.tensor([3, 7, 2, 5, 9, 4], dtype=dtype)))
      for name, f in QUOTIENTS for dtype in (torch.int32, torch.int64, torch.uint8)],
    ("copysign number", lambda x: torch.copysign(x, -1.0), (x,)),
    ("copysign of integers", torch.copysign, (n, m)),
    *[(f"{name} of integers", getattr(torch, name), (n, m)) for name in ("fmax", "fmin")],
    *[(f"{name} {kind}", f, pair)
      for name, f in (("lshift", lambda n, m: n << m), ("rshift", lambda n, m: n >> m),
                      ("left", torch.bitwise_left_shift), ("right", torch.bitwise_right_shift))
      for kind, pair in (("tensor", (n, m.abs())), ("number", (n.int(), 2)),
                         ("all bits", (n.int(), 32)))],
    ("rshift uint8", lambda n: n >> 3, (ints(6, low=0, high=255, dtype=torch.uint8),)),
    ("pow", torch.pow, (positive, y)), ("pow 2", lambda x: x**2, (x,)),
    ("pow 3", lambda x: x**3, (x,)), ("pow 0.5", lambda x: x**0.5, (positive,)),
    ("pow -1", lambda x: x**-1, (positive,)), ("pow -0.5", lambda x: x**-0.5, (positive,)),
    ("pow 1", lambda x: x**1, (x,)), ("pow int", lambda n: n**2, (n,)),
    ("pow uint8", lambda n: n**2, (ints(6, low=0, high=9, dtype=torch.uint8),)),
    *[(f"pow {dtype}", torch.pow, (ints(6, dtype=dtype), ints(6, low=0, high=4, dtype=dtype)))
      for dtype in (torch.int8, torch.int16, torch.int32)],
    ("pow of number", lambda x: 2.0**x, (x,)),
    ("pow int float", lambda n: n**0.5, (ints(5, low=1),)),
    ("maximum bool", torch.maximum, (b, c)), ("minimum bool", torch.minimum, (b, c[:1])),
    ("maximum", torch.maximum, (x, row)), ("minimum", torch.minimum, (n, m)),
    ("atan2", torch.atan2, (x, y)),
    ("atan2 axes", torch.atan2, (torch.tensor([0.0, 1, -1, 0, 0]),
                                 torch.tensor([1.0, 0, 0, -1, 0]))),
    ("lerp", lambda x, y: torch.lerp(x, y, 0.3), (x, y)),
    ("addcmul", lambda x, y: torch.addcmul(x, y, y, value=0.5), (x, y)),
    ("logaddexp", torch.logaddexp, (x, y)), ("hypot", torch.hypot, (x, row)),
    ("hypot of large and zero", torch.hypot, (torch.tensor([3e30, 0.0, -1.0]),
                                              torch.tensor([4e30, 0.0, 0.0]))),
    *[(f"{op} {kind}", getattr(torch, op), pair)
      for op in ("bitwise_and", "bitwise_or", "bitwise_xor")
      for kind, pair in (("int", (n, m)), ("bool", (b, c)), ("number", (n, 5)))],
    *[(f"{op} {kind}", getattr(torch, op), pair)
      for op in ("logical_and", "logical_or", "logical_xor")
      for kind, pair in (("bool", (b, c)), ("float", (x, row)))],
    *[(f"{op} {kind}", getattr(torch, op), pair) for op in ("eq", "ne", "lt", "le", "gt", "ge")
      for kind, pair in (("float", (x, row)), ("int float", (n, row)), ("number", (n, 0.5)),
                         ("bool", (b, c)), ("float number", (x, 0)))],
    ("clamp", lambda x: x.clamp(-0.5, 0.7), (x,)), ("clamp low", lambda x: x.clamp(min=0), (x,)),
    ("clamp high", lambda n: n.clamp(max=3), (n,)), ("clamp int", lambda n: n.clamp(-2, 3), (n,)),
    ("clamp int by float", lambda n: n.clamp(-2.5, 3.5), (n,)),
    ("clamp crossed", lambda x: x.clamp(1.0, -1.0), (x,)),
    ("clamp tensors", lambda x, y: torch.clamp(x, y, y + 0.5), (x, row)),
    ("clamp NaN", lambda x: (x.clamp(min=math.nan), x.clamp(max=math.nan)), (SPECIAL,)),
    ("clamp one tensor", torch.clamp, (x, torch.tensor(-0.5), torch.tensor(math.nan))),
    ("clamp_min", lambda x, y: torch.clamp(x, min=y), (x, y)),
    ("where", torch.where, (x > 0, x, y)), ("where broadcast", torch.where, (row > 0, x, row)),
    ("where number", lambda x: torch.where(x > 0, x, 0.0), (x,)),
    ("where types", torch.where, (x > 0, x, n)),
    ("masked_fill", lambda x: x.masked_fill(x > 0, -math.inf), (x,)),
    ("masked_fill tensor", lambda x, v: x.masked_fill(x > 0, v), (x, torch.tensor(2.0))),
    ("fill", lambda x: torch.fill(x, 2.0), (x,)),
    ("fill tensor", lambda x, v: torch.fill(x, v), (x, torch.tensor(2.0))),
    ("copy", lambda x, y: torch.ops.aten.copy(x, y), (x, row)),
    *[(f"to {dtype}", lambda x, dtype=dtype: x.to(dtype), (reals(9, low=0, high=99),))
      for dtype in (torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)],
    ("int8 to float", lambda n: n.float(), (ints(9, dtype=torch.int8),)),
    ("type_as", lambda n, x: n.type_as(x), (n, x)),
    ("clone", lambda x: x.clone() + x.detach(), (x,)),
    ("in place", lambda x: x.mul(2).add_(1).relu_(), (x,)),
  ]


def reductions():
  x, n, b = reals(2, 3, 4, 5), ints(3, 4), bools(3, 4)
  nothing = torch.tensor(1.5)
  return [
    *[(f"{name} {dim} {keep}", lambda x, name=name, dim=dim, keep=keep:
       getattr(torch, name)(x, dim=dim, keepdim=keep), (x,))
      for name in ("sum", "mean", "amax", "amin", "logsumexp")
      for dim, keep in ((1, False), ((-1, 0), True))],
    *[(name, getattr(torch, name), (x,)) for name in "sum mean max min prod argmax argmin".split()],
    *[(f"{name} int", getattr(torch, name), (n,)) for name in "sum max min prod argmax".split()],
    ("sum bool", torch.sum, (b,)), ("sum int8", torch.sum, (ints(4, dtype=torch.int8),)),
    ("sum to float", lambda n: n.sum(1, dtype=torch.float32), (n,)),
    ("sum of a scalar", lambda x: x.sum(0), (nothing,)),
    ("prod dim", lambda x: x.prod(2, keepdim=True), (x,)),
    *[(f"{name} dim {keep}", lambda x, name=name, keep=keep:
       tuple(getattr(torch, name)(x, 1, keepdim=keep)), (x,))
      for name in ("max", "min") for keep in (False, True)],
    ("max dim of bool", lambda b: b.max(1).values, (b,)),
    *[(f"{name} dim", lambda x, name=name: getattr(torch, name)(x, -1, keepdim=True), (x,))
      for name in ("argmax", "argmin")],
    ("any", torch.any, (b,)), ("all", torch.all, (b,)),
    ("any dim", lambda b: b.any(1, keepdim=True), (b,)), ("all dim", lambda b: b.all(0), (b,)),
    ("any dims", lambda b: torch.any(b, (0, 1)), (b,)),
    ("all dims", lambda b: torch.all(b, (0, 1)), (b,)),
    ("any and all of uint8", lambda n: (n.any(), n.all(), n.any(0)),
     (ints(2, 3, low=0, high=2, dtype=torch.uint8),)),
    ("any of floats", torch.any, (torch.tensor([0.0, 2.0]),)),
    ("var", torch.var, (x,)), ("var dim", lambda x: x.var(1), (x,)),
    ("var biased", lambda x: x.var((1, 2), unbiased=False, keepdim=True), (x,)),
    ("std", lambda x: x.std(-1), (x,)),
    ("var_mean", lambda x: torch.var_mean(x, (2, 3), correction=0), (x,)),
    ("std_mean", lambda x: torch.std_mean(x, 1, keepdim=True), (x,)),
    *[(f"norm {p}", lambda x, p=p: torch.linalg.vector_norm(x, p, dim=(1, 2)), (x,))
      for p in (1, 2, 3, 0, math.inf, -math.inf)],
    ("norm", lambda x: x.norm(), (x,)), ("normalize", lambda x: F.normalize(x, dim=1), (x,)),
    ("norm keepdim", lambda x: x.norm(p=2, dim=-1, keepdim=True), (x,)),
    ("cosine_similarity", lambda x: F.cosine_similarity(x, x.flip(0), dim=1), (x,)),
    ("cumsum", lambda x: x.cumsum(1), (x,)), ("cumsum int", lambda n: n.cumsum(0), (n,)),
    ("cumsum of bool", lambda b: b.cumsum(1), (b,)),
    ("cumprod", lambda x: x.cumprod(-1), (x,)), ("cumprod int", lambda n: n.cumprod(1), (n,)),
    ("bucketize", lambda x, t: torch.bucketize(x, t), (x, torch.tensor([-1.0, 0.0, 1.5]))),
    ("bucketize right", lambda n, t: torch.bucketize(n, t, right=True, out_int32=True),
     (n, torch.tensor([-3, 0, 4]))),
    *((f"bucketize {count}{' right' if right else ''}",
       lambda x, t, right=right: torch.bucketize(x, t, right=right),
       (torch.tensor([[-9.0, 0.0, 1.0, 2.5], [math.inf, -math.inf, math.nan, 40.0]]),
        torch.arange(count) / 2 - 1)) for count in (8, 15, 16, 21) for right in (False, True)),
    ("bucketize equal boundaries", lambda n, t: torch.bucketize(n, t),
     (torch.tensor([-1, 0, 1, 2, 3, 9]), torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3]))),
    ("searchsorted", lambda t, x: torch.searchsorted(t, x, side="right"),
     (torch.tensor([-1.0, 0.0, 1.5]), x)),
    ("searchsorted rows", torch.searchsorted, (reals(2, 3, 9).sort(-1).values, reals(2, 3, 4))),
    ("searchsorted rows right", lambda t, x: torch.searchsorted(t, x, right=True),
     (ints(3, 9).sort(-1).values, ints(3, 4))),
    ("searchsorted sorter", lambda t, x, s: torch.searchsorted(t, x, sorter=s),
     (torch.tensor([3.0, 1.0, 2.0]), SPECIAL, torch.tensor([1, 2, 0]))),
    ("searchsorted number", lambda t: (torch.searchsorted(t, 0.3), torch.bucketize(0.3, t)),
     (reals(9).sort().values,)),
    ("bucketize special numbers", torch.bucketize, (SPECIAL, torch.tensor([-1.0, 0.0, 1.0]))),
    ("norm 0 of special numbers", lambda x: torch.linalg.vector_norm(x, 0), (SPECIAL,)),
    *[(f"cdist {p}", lambda x, y, p=p: torch.cdist(x, y, p), (reals(2, 4, 3), reals(2, 5, 3)))
      for p in (1.0, 2.0, math.inf)],
    ("topk", lambda x: tuple(x.topk(2, 1)), (x,)),
    ("topk smallest", lambda x: tuple(x.topk(3, largest=False)), (x,)),
    ("sort", lambda x: tuple(x.sort(-1)), (x,)),
    ("sort descending", lambda x: tuple(torch.sort(x, dim=1, descending=True)), (x,)),
    ("sort stable", lambda n: tuple(torch.sort(n, dim=1, stable=True)), (n,)),
    ("argsort", lambda x: x.argsort(1), (x,)),
    ("softmax", lambda x: x.softmax(1), (x,)), ("log_softmax", lambda x: x.log_softmax(-1), (x,)),
    ("softmax of a scalar", lambda x: x.softmax(0), (nothing,)),
    ("softmax to float", lambda n: n.softmax(1, dtype=torch.float32), (n,)),
    ("softmin", lambda x: F.softmin(x, dim=1), (x,)),
    ("aten softmax", lambda x: A._softmax(x, 1, False), (x,)),
    ("aten log_softmax", lambda x: A._log_softmax(x, 1, False), (x,)),
    ("safe_softmax", lambda x: A._safe_softmax(x, -1),
     (torch.tensor([[1.0, 2.0], [-math.inf, -math.inf]]),)),
  ]
