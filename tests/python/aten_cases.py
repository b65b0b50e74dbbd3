"""Cases for every row of the table of ATen operators: functions of tensors, and the tensors.

They stand in groups, each of which is one module: tracing takes longer than running.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

SEED = 20261125
A = torch.ops.aten


def reals(*shape, low=-2.0, high=2.0):
  return torch.rand(shape) * (high - low) + low


def ints(*shape, low=-9, high=9, dtype=torch.int64):
  return torch.randint(low, high, shape, dtype=dtype)


def bools(*shape):
  return torch.rand(shape) > 0.5


def over(names, *inputs):
  """One case for each function of torch, all on the same tensors."""
  return [(name, getattr(torch, name), inputs) for name in names.split()]


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
    ("pow", torch.pow, (positive, y)), ("pow 2", lambda x: x**2, (x,)),
    ("pow 3", lambda x: x**3, (x,)), ("pow 0.5", lambda x: x**0.5, (positive,)),
    ("pow -1", lambda x: x**-1, (positive,)), ("pow -0.5", lambda x: x**-0.5, (positive,)),
    ("pow 1", lambda x: x**1, (x,)), ("pow int", lambda n: n**2, (n,)),
    ("pow uint8", lambda n: n**2, (ints(6, low=0, high=9, dtype=torch.uint8),)),
    ("pow of number", lambda x: 2.0**x, (x,)),
    ("pow int float", lambda n: n**0.5, (ints(5, low=1),)),
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
    ("searchsorted", lambda t, x: torch.searchsorted(t, x, side="right"),
     (torch.tensor([-1.0, 0.0, 1.5]), x)),
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


def shapes():
  x, m, v = reals(2, 3, 4, 6), reals(4, 5), reals(7)
  image = reals(1, 8, 4, 6)
  return [
    ("view", lambda x: x.view(6, -1), (x,)), ("reshape", lambda x: x.permute(1, 0, 3, 2)
                                             .reshape(-1, 8), (x,)),
    ("flatten", lambda x: x.flatten(1), (x,)),
    ("unflatten", lambda x: x.unflatten(3, (2, 3)), (x,)),
    ("permute", lambda x: x.permute(0, -1, 1, 2), (x,)),
    ("transpose", lambda x: x.transpose(1, -1), (x,)), ("t", lambda m: m.t(), (m,)),
    ("mT", lambda x: x.mT.contiguous(), (x,)), ("movedim", lambda x: x.movedim(0, 2), (x,)),
    ("unsqueeze", lambda x: x.unsqueeze(-1).unsqueeze(0), (x,)),
    ("squeeze", lambda x: (x[:, :1].squeeze(), x[:, :1].squeeze(1), x.squeeze(0),
                           x[:1, :1].squeeze((0, 1))), (x,)),
    ("expand", lambda v: v.expand(3, 2, 7), (v,)),
    ("expand -1", lambda m: m[:, None].expand(-1, 3, -1), (m,)),
    ("repeat", lambda m: m.repeat(2, 1, 3), (m,)), ("tile", lambda m: m.tile(2), (m,)),
    ("cat", lambda x: torch.cat([x, x * 2, x[:, :1]], 1), (x,)),
    ("cat types", lambda x, n: torch.cat([x, n]), (v, ints(2))),
    ("cat empty", lambda v: torch.cat([torch.zeros(0), v]), (v,)),
    ("stack", lambda m: torch.stack([m, m + 1], -1), (m,)),
    ("hstack", lambda m: torch.hstack([m, m]), (m,)),
    ("split", lambda x: torch.split(x, 2, 3), (x,)),
    ("split uneven", lambda m: m.split(3, 0), (m,)),
    ("split sizes", lambda x: torch.split(x, [1, 5], -1), (x,)),
    ("chunk", lambda x: x.chunk(3, 1), (x,)), ("unbind", lambda x: x.unbind(1), (x,)),
    ("tensor_split", lambda v: v.tensor_split(3), (v,)),
    ("slice", lambda x: x[:, 1:, :-1, ::2], (x,)), ("slice far", lambda v: v[-3:100], (v,)),
    ("slice nothing", lambda v: v[5:2], (v,)), ("narrow", lambda x: x.narrow(2, 1, 2), (x,)),
    ("select", lambda x: x[:, -1, 2], (x,)), ("ellipsis", lambda x: x[..., None, 0], (x,)),
    ("select_scatter", lambda m, v: torch.select_scatter(m, v[:5], 0, -1), (m, v)),
    ("slice_scatter", lambda m, v: torch.slice_scatter(m, v[:5].expand(2, 5), 0, 1, 3), (m, v)),
    ("slice_scatter step", lambda m, v: torch.slice_scatter(m, v[:5].expand(2, 5), 0, 0, 4, 2),
     (m, v)),
    ("slice_scatter start", lambda m: torch.slice_scatter(m, m[:2] * 2, 0, end=2), (m,)),
    ("slice assignment", _assigned, (m,)),
    ("flip", lambda x: x.flip(1, -1), (x,)), ("roll", lambda x: x.roll((1, -2), (2, 3)), (x,)),
    ("roll flat", lambda m: m.roll(3), (m,)), ("rot90", lambda m: m.rot90(), (m,)),
    ("pad", lambda x: F.pad(x, (1, 2, 0, 3), value=1.5), (x,)),
    ("crop", lambda x: F.pad(x, (-1, 2)), (x,)),
    ("pad nothing", lambda x: F.pad(x, (0, 0)), (x,)),
    ("reflect 1", lambda x: F.pad(x[0], (2, 1), mode="reflect"), (x,)),
    ("reflect 2", lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect"), (x,)),
    ("reflect 3", lambda x: F.pad(x[None], (2, 1, 1, 2, 1, 1), mode="reflect"), (x,)),
    ("replicate 1", lambda x: F.pad(x[0], (2, 1), mode="replicate"), (x,)),
    ("replicate 2", lambda x: F.pad(x, (2, 1, 1, 2), mode="replicate"), (x,)),
    ("replicate 3", lambda x: F.pad(x[None], (2, 1, 1, 2, 1, 1), mode="replicate"), (x,)),
    ("circular", lambda x: F.pad(x, (1, 2, 1, 1), mode="circular"), (x,)),
    ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (image,)),
    ("pixel_shuffle 3d", lambda x: F.pixel_shuffle(x, 2), (image[0],)),
    ("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (image,)),
    ("channel_shuffle", lambda x: F.channel_shuffle(x, 4), (image,)),
    ("diagonal", lambda x: (x.diagonal(1, 2, 3), x.diagonal(-1, 3, 0)), (x,)),
    ("diag_embed", lambda v: torch.diag_embed(v), (v,)), ("trace", torch.trace, (m,)),
    ("tril", lambda m: (m.tril(), m.tril(-1)), (m,)), ("triu", lambda x: x.triu(1), (x,)),
    ("unfold", lambda x: (x.unfold(3, 3, 2), x.unfold(1, 2, 1)), (x,)),
    ("im2col", lambda x: F.unfold(x, 3, padding=1, stride=2), (x,)),
    ("as_strided", lambda m: m.contiguous().as_strided((3, 3), (5, 1), 1), (m,)),
    ("as_strided of a transposed tensor", lambda m: m.contiguous().t().as_strided((3, 3), (5, 1)),
     (m,)),
    ("as_strided of a part", lambda m: m.contiguous()[1:].as_strided((2, 2), (5, 1)), (m,)),
    ("col2im", lambda x: F.fold(x, (4, 5), 2, padding=1, stride=2), (reals(2, 12, 9),)),
    ("col2im alone", lambda x: F.fold(x, (4, 5), (2, 3), dilation=(1, 2)), (reals(12, 3),)),
    ("repeat_interleave", lambda m: m.repeat_interleave(3, 1), (m,)),
    ("meshgrid", lambda v: torch.meshgrid(v, v[:3], indexing="ij"), (v,)),
    ("zeros_like", lambda x: x + torch.zeros_like(x), (x,)),
    ("ones_like", lambda x: torch.ones_like(x, dtype=torch.int64), (x,)),
    ("full_like", lambda x: torch.full_like(x, 2.5), (x,)),
    ("full of a tensor", lambda x: torch.full((2, 2), 3.0) + x, (torch.tensor(1.0),)),
    ("new", lambda x: (x.new_zeros(2), x.new_ones(3), x.new_full((2, 2), 7.0)), (x,)),
    ("empty_like", lambda x: torch.empty_like(x).fill_(2.0), (x,)),
    ("new_empty", lambda x: x.new_empty((2, 2)).zero_(), (x,)),
    ("arange", lambda x: x + torch.arange(6), (x,)),
    ("large zeros", lambda x: torch.zeros(1 << 17)[:1] + x, (torch.tensor(1.0),)),
    ("linspace", lambda v: v * torch.linspace(0, 1, 7), (v,)), ("eye", lambda m: m @ torch.eye(5),
                                                               (m,)),
  ]


def _assigned(m):
  y = m.clone()
  y[1:3, ::2] = 7.0
  y[0] = m[1]
  return y


def indexing():
  x, table = reals(2, 3, 4, 5), reals(10, 6)
  i, j = ints(3, low=0, high=3), ints(3, low=-3, high=3)
  wide = ints(2, 3, 4, 2, low=0, high=5)
  return [
    ("embedding", lambda t, n: F.embedding(n, t), (table, ints(2, 4, low=0, high=10))),
    ("embedding int32", lambda t, n: F.embedding(n, t),
     (table, ints(2, 4, low=0, high=10, dtype=torch.int32))),
    *[(f"embedding_bag {mode}", lambda t, n, mode=mode: F.embedding_bag(n, t, mode=mode),
       (table, ints(3, 4, low=0, high=10))) for mode in ("sum", "mean", "max")],
    ("aten embedding_bag", lambda t, n: A._embedding_bag(t, n, torch.tensor([0, 2]))[0],
     (table, ints(5, low=0, high=10))),
    *[(f"embedding_bag of a run {mode} {last} {padding}",
       lambda t, n, o, mode=mode, last=last, padding=padding: F.embedding_bag(
         n, t, o, mode=mode, include_last_offset=last, padding_idx=padding),
       (reals(7, 3), torch.tensor([1, 2, 4, 5, 4, 3]),
        torch.tensor([0, 2, 2, 6] if last else [0, 2, 2])))
      for mode in ("sum", "mean") for last in (False, True) for padding in (None, 4)],
    ("embedding_bag padding", lambda t, n: F.embedding_bag(n, t, padding_idx=2, mode="sum"),
     (reals(7, 3), torch.tensor([[1, 2], [2, 2], [4, 0]]))),
    ("embedding_bag weights", lambda t, n, w: F.embedding_bag(
      n, t, mode="sum", per_sample_weights=w), (table, ints(3, 4, low=0, high=10), reals(3, 4))),
    *[(f"embedding_bag offsets {mode}", lambda t, n, mode=mode: F.embedding_bag(
      n, t, torch.tensor([0, 3, 3]), mode=mode), (table, ints(7, low=0, high=10)))
      for mode in ("sum", "mean")],
    ("index one", lambda x, i: x[:, i], (x, i)), ("index negative", lambda x, j: x[:, j], (x, j)),
    ("index two", lambda x, i, j: x[:, i, j], (x, i, j)),
    ("index apart", lambda x, i, j: x[:, i, :, j], (x, i, j)),
    ("index first", lambda x, i: x[i % 2, i], (x, i)),
    ("index wide", lambda x, i: x[:, :, i[:, None], i], (x, i)),
    ("index by numbers", lambda x: x[:, [0, 2]], (x,)),
    ("index by uint8", lambda x, n: x[:, n.long()], (x, ints(2, low=0, high=3, dtype=torch.uint8))),
    ("index_select", lambda x, i: x.index_select(2, i), (x, i)),
    ("gather", lambda x, n: x.gather(3, n), (x, wide)),
    ("gather smaller", lambda x, n: x.gather(3, n[:1, :2]), (x, wide)),
    ("take_along_dim", lambda x, n: torch.take_along_dim(x, n, 3), (x, wide)),
    ("scatter", lambda x, n: x.scatter(3, n[..., :1], x[..., 1:] * 2), (x, wide)),
    ("scatter value", lambda x, n: x.scatter(3, n[..., :1], 9.0), (x, wide)),
    ("scatter add", lambda x, n: x.scatter_add(3, n, x), (x, wide)),
    ("scatter add of more", lambda x, n: torch.zeros(4, 3).scatter_add(0, n, x),
     (reals(10, 3), ints(10, 3, low=0, high=4))),
    *[(f"scatter_reduce {reduce}", lambda x, n, reduce=reduce:
       x.scatter_reduce(3, n, x[..., :2], reduce), (x, wide))
      for reduce in ("sum", "prod", "amax", "amin")],
    ("scatter multiply", lambda x, n: x.scatter(3, n[..., :1], x, reduce="multiply"), (x, wide)),
    ("one_hot", lambda n: F.one_hot(n, 5), (ints(2, 3, low=0, high=5),)),
    ("index_put", lambda x, i: x.index_put((i % 2, i), x[0, :, :]), (x, torch.tensor([0, 1, 2]))),
    ("index_put inner", _put_inner, (x, torch.tensor([0, 2]))),
    ("index_put apart", _put_apart, (x, torch.tensor([0, 2]))),
    ("index_put add", lambda x, i: x.index_put((i,), torch.ones(()), accumulate=True),
     (x, torch.tensor([1, 1, 0]))),
    ("index_put mask", lambda x: x.index_put((x > 0,), torch.tensor(0.5)), (x,)),
    ("index_fill", lambda x, i: x.index_fill(1, i, -1.0), (x, i)),
    ("index_add", lambda x, i: x.index_add(1, i, x), (x, torch.tensor([2, 0, 1]))),
    ("index_copy", lambda x, i: x.index_copy(1, i, x * 2), (x, torch.tensor([2, 0, 1]))),
  ]


def _put_inner(x, i):
  y = x.clone()
  y[:, i, i + 1] = x[:, :2, 0]
  return y


def _put_apart(x, i):
  y = x.clone()
  y[:, i, :, i] = 3.0
  return y


def transformer_layers():
  """What nn.TransformerEncoderLayer and nn.MultiheadAttention call in evaluation, batches first."""
  x, other = reals(2, 5, 8), reals(2, 5, 8)
  attention = [reals(*s, low=-0.5, high=0.5) for s in ((24, 8), (24,), (8, 8), (8,))]
  norms = [reals(8) for _ in range(4)]
  last = [reals(*s, low=-0.5, high=0.5) for s in ((12, 8), (12,), (8, 12), (8,))]

  def attend(q, k, v, *weights):
    return A._native_multi_head_attention(q, k, v, 8, 2, *weights, None, False)[0]

  def masked(mask_type, average):
    return lambda x, mask, *w: A._native_multi_head_attention(x, x, x, 8, 2, *w, mask, True,
                                                              average, mask_type)

  def layer(gelu, norm_first):
    return lambda x, *w: A._transformer_encoder_layer_fwd(x, 8, 2, *w[:4], gelu, norm_first, 1e-5,
                                                          *w[4:])

  def masked_layer(mask_type):
    return lambda x, mask, *w: A._transformer_encoder_layer_fwd(
      x, 8, 2, *w[:4], True, False, 1e-5, *w[4:], mask, mask_type)

  later = torch.ones(5, 5, dtype=torch.bool).triu(1)
  padding = torch.arange(5) >= torch.tensor([[3], [5]])
  both = (later[None, None] | padding[:, None, None]).expand(2, 2, 5, 5)

  return [
    ("self attention", lambda x, *w: attend(x, x, x, *w), (x, *attention)),
    ("attention to others", lambda x, y, *w: attend(x, y, y, *w), (x, other, *attention)),
    ("encoder layer", layer(True, False), (x, *attention, *norms, *last)),
    ("encoder layer, norms first", layer(False, True), (x, *attention, *norms, *last)),
    ("masked attention and its mean weights", masked(0, True), (x, later, *attention)),
    ("padded attention and its weights", masked(1, False), (x, padding, *attention)),
    ("encoder layer, causal", masked_layer(0), (x, later, *attention, *norms, *last)),
    ("encoder layer, padded", masked_layer(1), (x, padding, *attention, *norms, *last)),
    ("encoder layer, both", masked_layer(2), (x, both, *attention, *norms, *last)),
  ]


def products():
  m, n, stack = reals(3, 4), reals(4, 5), reals(2, 3, 4)
  q, k, v = reals(2, 4, 5, 8), reals(2, 4, 6, 8), reals(2, 4, 6, 8)
  mask = torch.tril(torch.ones(5, 6, dtype=torch.bool))
  none = mask.clone()
  none[1] = False
  hidden = torch.zeros(5, 6).masked_fill(~none, -torch.inf)
  attend = F.scaled_dot_product_attention
  return [
    ("mm", torch.mm, (m, n)), ("matmul", torch.matmul, (stack, n)), ("bmm", torch.bmm,
                                                                     (stack, reals(2, 4, 5))),
    ("matmul 4d", torch.matmul, (q, k.mT)), ("mv", torch.mv, (m, reals(4))),
    ("dot", torch.dot, (reals(4), reals(4))), ("mm int", torch.mm, (ints(3, 4), ints(4, 5))),
    ("mm int32", torch.mm, (ints(3, 4).int(), ints(4, 5).int())),
    ("mm int8", torch.mm, (ints(3, 4, low=-3, high=3, dtype=torch.int8),
                           ints(4, 5, low=-3, high=3, dtype=torch.int8))),
    ("bilinear", F.bilinear, (reals(2, 3, 4), reals(2, 3, 5), reals(6, 4, 5), reals(6))),
    ("linear", F.linear, (m, reals(6, 4), reals(6))), ("linear 3d", F.linear,
                                                       (stack, reals(6, 4), reals(6))),
    ("linear plain", F.linear, (stack, reals(6, 4))), ("linear 1d", F.linear,
                                                       (reals(4), reals(6, 4), reals(6))),
    ("addmm", torch.addmm, (reals(5), m, n)),
    ("addmm scaled", lambda b, m, n: torch.addmm(b, m, n, beta=0.5, alpha=2), (reals(3, 5), m, n)),
    ("addmm beta 0", lambda b, m, n: torch.addmm(b, m, n, beta=0), (reals(5), m, n)),
    ("baddbmm", lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5, alpha=2),
     (reals(2, 3, 5), stack, reals(2, 4, 5))),
    ("einsum", lambda a, b: torch.einsum("bij,kj->bki", a, b), (stack, reals(5, 4))),
    ("einsum batch", lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k), (q, k)),
    ("outer", torch.outer, (reals(3), reals(4))), ("tensordot", lambda a, b:
                                                  torch.tensordot(a, b, 1), (stack, n)),
    ("attention", attend, (q, k, v)),
    ("attention causal", lambda q, k, v: attend(q, k, v, is_causal=True), (q, k[:, :, :5],
                                                                          v[:, :, :5])),
    ("attention mask", lambda q, k, v, m: attend(q, k, v, attn_mask=m), (q, k, v, mask)),
    ("attention empty row", lambda q, k, v, m: attend(q, k, v, attn_mask=m), (q, k, v, none)),
    ("attention added", lambda q, k, v, m: attend(q, k, v, attn_mask=m, scale=0.3),
     (q, k, v, reals(5, 6))),
    ("attention groups", lambda q, k, v: attend(q, k, v, enable_gqa=True), (q, k[:, :2], v[:, :2])),
    ("attention added empty row", lambda q, k, v, m: attend(q, k, v, attn_mask=m),
     (q, k, v, hidden)),
    ("attention known empty row", lambda q, k, v: attend(q, k, v, attn_mask=hidden), (q, k, v)),
    ("attention known mask", lambda q, k, v: attend(q, k, v, attn_mask=mask), (q, k, v)),
    *transformer_layers(),
  ]


def windows():
  line, image, volume = reals(2, 4, 9), reals(2, 4, 9, 8), reals(1, 4, 5, 6, 7)
  w1, w2, w3 = reals(6, 4, 3), reals(6, 4, 3, 3), reals(6, 4, 2, 2, 2)
  t1, t2, t3 = reals(4, 6, 3), reals(4, 6, 3, 3), reals(4, 6, 2, 2, 2)
  bias = reals(6)
  return [
    ("conv1d", lambda x, w, b: F.conv1d(x, w, b, padding=1), (line, w1, bias)),
    ("conv1d same", lambda x, w: F.conv1d(x, w, padding="same", dilation=2), (line, w1)),
    ("conv2d", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=(1, 0)), (image, w2, bias)),
    ("conv2d groups", lambda x, w: F.conv2d(x, w[:4, :1], groups=4, dilation=2), (image, w2)),
    ("conv2d same", lambda x, w: F.conv2d(x, w[:, :, :2], padding="same"), (image, w2)),
    ("conv2d valid", lambda x, w: F.conv2d(x, w, padding="valid"), (image, w2)),
    ("conv2d alone", lambda x, w: F.conv2d(x[0], w), (image, w2)),
    ("conv3d", lambda x, w, b: F.conv3d(x, w, b, stride=(1, 2, 1)), (volume, w3, bias)),
    ("conv3d same", lambda x, w: F.conv3d(x, w, padding="same"), (volume, w3)),
    ("convolution", lambda x, w, b: A.convolution(x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0],
                                                  1), (image, w2, bias)),
    ("convolution transposed", lambda x, w, b: A.convolution(x, w, b, [2, 2], [1, 1], [1, 1], True,
                                                             [1, 1], 1), (image, t2, bias)),
    ("transposed 1", lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2), (line, t1, bias)),
    ("transposed 2", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
     (image, t2)),
    ("transposed groups", lambda x, w: F.conv_transpose2d(x, w, groups=2, dilation=2), (image, t2)),
    ("transposed 3", lambda x, w, b: F.conv_transpose3d(x, w, b), (volume, t3, bias)),
    ("max_pool1d", lambda x: F.max_pool1d(x, 3, 2, 1), (line,)),
    ("max_pool2d", lambda x: F.max_pool2d(x, 2), (image,)),
    ("max_pool2d ceil", lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (image,)),
    ("max_pool2d dilated", lambda x: F.max_pool2d(x, 3, 1, 1, 2), (image,)),
    ("max_pool2d alone", lambda x: F.max_pool2d(x[0], (3, 2)), (image,)),
    ("max_pool2d indices", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), (image,)),
    ("max_pool3d", lambda x: F.max_pool3d(x, 2), (volume,)),
    ("max_pool3d indices", lambda x: F.max_pool3d(x, 2, return_indices=True), (volume,)),
    ("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), (line,)),
    ("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), (image,)),
    ("avg_pool2d valid", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (image,)),
    ("avg_pool2d ceil", lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True), (image,)),
    ("avg_pool2d ceil padded", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (image,)),
    ("avg_pool2d divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3), (image,)),
    ("avg_pool2d alone", lambda x: F.avg_pool2d(x[0], 2), (image,)),
    ("avg_pool3d", lambda x: F.avg_pool3d(x, 2), (volume,)),
    ("adaptive 1", lambda x: (F.adaptive_avg_pool1d(x, 1), F.adaptive_avg_pool1d(x, 4)), (line,)),
    *[(f"adaptive 2 {size}", lambda x, size=size: F.adaptive_avg_pool2d(x, size), (image,))
      for size in (1, (3, 4), (5, 3), (9, 8), (None, 2))],
    ("adaptive 2 alone", lambda x: F.adaptive_avg_pool2d(x[0], 3), (image,)),
    ("adaptive 3", lambda x: (F.adaptive_avg_pool3d(x, 1), F.adaptive_avg_pool3d(x, (2, 3, 4))),
     (volume,)),
    ("aten adaptive 2", lambda x: A._adaptive_avg_pool2d(x, [3, 4]), (image,)),
    ("aten adaptive 3", lambda x: A._adaptive_avg_pool3d(x, [1, 1, 1]), (volume,)),
    ("adaptive max", lambda x: (F.adaptive_max_pool2d(x, 1), F.adaptive_max_pool2d(x, (3, 4))),
     (image,)),
    ("adaptive max 3", lambda x: F.adaptive_max_pool3d(x, 1), (volume,)),
    ("adaptive max unequal", lambda x: F.adaptive_max_pool2d(x, (5, 3), return_indices=True),
     (image,)),
    ("adaptive max 3 unequal", lambda x: F.adaptive_max_pool3d(x, (2, 3, 3)), (volume,)),
    ("lp_pool", lambda x: F.lp_pool2d(x.abs(), 2, 2), (image,)),
    *[(f"interpolate {mode} {size} {factor} {align}",
       lambda x, mode=mode, size=size, factor=factor, align=align:
       F.interpolate(x, size=size, scale_factor=factor, mode=mode, align_corners=align), (image,))
      for mode, align in (("nearest", None), ("nearest-exact", None), ("bilinear", False),
                          ("bilinear", True), ("bicubic", False), ("bicubic", True))
      for size, factor in (((18, 16), None), ((5, 11), None), (None, 2), (None, (1.7, 0.6)))],
    *[(f"interpolate 1 {mode}", lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode),
       (line,)) for mode in ("nearest", "linear", "nearest-exact")],
    *[(f"interpolate 3 {mode}", lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode),
       (volume,)) for mode in ("nearest", "trilinear")],
    *[(f"interpolate 3 trilinear {align}", lambda x, align=align: F.interpolate(
      x, size=(3, 8, 9), mode="trilinear", align_corners=align), (volume,))
      for align in (False, True)],
    *[(f"grid_sample {mode} {padding} {align}",
       lambda x, g, mode=mode, padding=padding, align=align: F.grid_sample(
         x, g, mode=mode, padding_mode=padding, align_corners=align), (image, reals(2, 3, 5, 2)))
      for mode in ("bilinear", "nearest", "bicubic")
      for padding, align in (("zeros", False), ("border", True), ("reflection", False))],
    ("grid_sampler_2d", lambda x, g: A.grid_sampler_2d(x, g, 0, 1, True),
     (image, reals(2, 3, 5, 2))),
    ("grid_sampler_3d", lambda x, g: A.grid_sampler_3d(x, g, 0, 0, False),
     (volume, reals(1, 2, 3, 4, 3))),
    ("affine_grid", lambda x, m: F.grid_sample(x, F.affine_grid(m, [2, 4, 3, 3])),
     (image, reals(2, 2, 3))),
    ("interpolate recomputed", lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear",
                                                       recompute_scale_factor=True), (image,)),
  ]


def normalisation():
  x, line = reals(2, 4, 5, 6), reals(2, 4, 7)
  w, b, mean, var = reals(4), reals(4), reals(4), reals(4, low=0.5, high=2)
  return [
    ("batch_norm", lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), (x, w, b, mean, var)),
    ("batch_norm plain", lambda x, m, v: F.batch_norm(x, m, v, eps=1e-3), (x, mean, var)),
    ("batch_norm 1d", lambda x, m, v: F.batch_norm(x, m, v), (line, mean, var)),
    ("batch_norm rows", lambda x, m, v: F.batch_norm(x, m, v), (reals(3, 4), mean, var)),
    ("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), (x, reals(6), reals(6))),
    ("layer_norm two axes", lambda x, w, b: F.layer_norm(x, (5, 6), w, b, 1e-3),
     (x, reals(5, 6), reals(5, 6))),
    ("layer_norm plain", lambda x: F.layer_norm(x, (6,)), (x,)),
    ("layer_norm no bias", lambda x, w: F.layer_norm(x, (6,), w), (x, reals(6))),
    ("native_layer_norm", lambda x: A.native_layer_norm(x, [6], None, None, 1e-5), (x,)),
    ("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), (x, w, b)),
    ("group_norm plain", lambda x: F.group_norm(x, 4), (line,)),
    ("instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (x, w, b)),
    ("instance_norm plain", F.instance_norm, (line,)),
    ("instance_norm running", lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=False),
     (x, mean, var)),
    ("rms_norm", lambda x, w: F.rms_norm(x, (6,), w, 1e-6), (x, reals(6))),
    ("rms_norm plain", lambda x: F.rms_norm(x, (5, 6)), (x,)),
    ("batch_norm of the batch", lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
     (x, w, b)),
    ("batch_norm of rows of the batch", lambda x: F.batch_norm(x, None, None, training=True),
     (reals(5, 4),)),
    ("local_response_norm", lambda x: F.local_response_norm(x, 3), (x,)),
  ]


def _cell(kind, inputs, hidden, *args, **kwargs):
  """A recurrent module with weights of its own seed, called with and without a state."""
  layer = kind(inputs, hidden, *args, **kwargs).eval()
  for parameter in layer.parameters():
    parameter.requires_grad_(False)
  return layer


def recurrent():
  x, alone = reals(5, 2, 6), reals(5, 6)
  cases = []
  for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    for label, options in (
        ("plain", {}), ("two layers", {"num_layers": 2}), ("both ways", {"bidirectional": True}),
        ("no bias", {"bias": False}), ("batch first", {"batch_first": True, "dropout": 0.0}),
        ("all", {"num_layers": 2, "bidirectional": True, "batch_first": True})):
      cases.append((f"{kind.__name__} {label}", _cell(kind, 6, 4, **options), (x,)))
    cases.append((f"{kind.__name__} alone", _cell(kind, 6, 4), (alone,)))
  lstm, gru = _cell(torch.nn.LSTM, 6, 4, 2), _cell(torch.nn.GRU, 6, 4, bidirectional=True)
  cell, unit = _cell(torch.nn.LSTMCell, 6, 4), _cell(torch.nn.GRUCell, 6, 4)
  weights = [reals(16, 6), reals(16, 4), reals(16), reals(16)]
  state = reals(1, 2, 4)
  return [
    *cases,
    ("RNN relu", _cell(torch.nn.RNN, 6, 4, nonlinearity="relu", bidirectional=True), (x,)),
    ("LSTM state", lambda x, h, c: lstm(x, (h, c)), (x, reals(2, 2, 4), reals(2, 2, 4))),
    ("GRU state", lambda x, h: gru(x, h), (x, reals(2, 2, 4))),
    ("LSTM projection", _cell(torch.nn.LSTM, 6, 4, 2, proj_size=3), (x,)),
    ("LSTM projection both ways",
     _cell(torch.nn.LSTM, 6, 4, proj_size=3, bidirectional=True, batch_first=True), (x,)),
    ("LSTM weights that come in", lambda x, h, *w: A.lstm.input(
      x, [h, h], list(w), True, 1, 0.0, False, False, False), (x, state, *weights)),
    ("LSTMCell", lambda x, h, c: cell(x, (h, c)), (x[0], state[0], state[0])),
    ("GRUCell", lambda x, h: unit(x, h), (x[0], state[0])),
  ]


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


GROUPS = {f.__name__: f for f in (unary, activations, binary, reductions, shapes, indexing,
                                  products, windows, normalisation, recurrent, complex_numbers)}
