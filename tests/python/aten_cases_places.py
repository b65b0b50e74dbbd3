"""Cases of operators that arrange elements or look them up."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from aten_draws import ints, reals

A = torch.ops.aten


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
    ("native_channel_shuffle", lambda x: torch.native_channel_shuffle(x, 4), (image,)),
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
  few = ints(4, 3, low=0, high=4)  # some places are met by none, some by several
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
      for reduce in ("sum", "prod", "mean", "amax", "amin")],
    *[(f"scatter_reduce {reduce} without itself {kind}", lambda x, n, y, reduce=reduce:
       x.scatter_reduce(0, n, y, reduce, include_self=False), (given, few, more))
      for reduce in ("sum", "prod", "mean", "amax", "amin")
      for kind, given, more in (("float", reals(6, 3), reals(4, 3)),
                                ("int", ints(6, 3), ints(4, 3)))],
    ("scatter_reduce mean of integers", lambda x, n, y: x.scatter_reduce(0, n, y, "mean"),
     (ints(6, 3), few, ints(4, 3))),
    ("scatter_reduce mean of a scalar", lambda x, n, y: x.scatter_reduce(0, n, y, "mean"),
     (torch.tensor(3.0), torch.tensor(0), torch.tensor(2.0))),
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


def counted():
  """Results of a size that only a run tells."""
  x, n = reals(5, 6), ints(4, 5, low=0, high=3)
  return [
    ("nonzero", lambda x: (x > 0).nonzero(), (x,)),
    ("places", lambda x: torch.where(x > 0), (x,)),
    ("masked_select", lambda x: x.masked_select(x[0] > 0), (x,)),
    ("index of a mask", lambda x: (x[x > 0], x[:, x[1] > 0], x[x[:, 1] > 0]), (x,)),
    ("unique", lambda n: torch.unique(n, return_inverse=True, return_counts=True), (n,)),
    ("unique values", torch.unique, (x,)),
    ("unique rows", lambda n: torch.unique(n, dim=0), (n[:, :1],)),
    ("unique_consecutive", lambda n: torch.unique_consecutive(n, return_inverse=True,
                                                              return_counts=True), (n,)),
    ("repeat_interleave of run", lambda x, n: x.repeat_interleave(n[:, 0], 0), (x[:4], n)),
  ]
