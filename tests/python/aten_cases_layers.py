"""Cases of products, windows, normalisation and recurrent layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from aten_draws import ints, reals

A = torch.ops.aten


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
  small = [ints(*size, low=-128, high=127, dtype=torch.int8) for size in ((32, 16), (16, 8))]
  hidden = torch.zeros(5, 6).masked_fill(~none, -torch.inf)
  attend = F.scaled_dot_product_attention
  return [
    ("det", torch.linalg.det, (reals(2, 4, 4),)), ("det of one", torch.det, (reals(1, 1),)),
    ("int_mm", torch._int_mm, (small[0], small[1])),
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
    ("pools larger than the image", lambda x: (
      F.max_pool2d(x[..., :2, :2], 3, 2, ceil_mode=True),
      F.avg_pool2d(x[..., :2, :2], 3, 2, ceil_mode=True)), (image,)),
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
    *[(f"grid_sample of many places {mode}",
       lambda x, g, mode=mode: F.grid_sample(x, g, mode=mode, align_corners=False),
       (image, 1.3 * reals(2, 11, 17, 2))) for mode in ("bilinear", "nearest", "bicubic")],
    ("grid_sampler_2d", lambda x, g: A.grid_sampler_2d(x, g, 0, 1, True),
     (image, reals(2, 3, 5, 2))),
    ("grid_sampler_3d", lambda x, g: A.grid_sampler_3d(x, g, 0, 0, False),
     (volume, reals(1, 2, 3, 4, 3))),
    ("affine_grid", lambda x, m: F.grid_sample(x, F.affine_grid(m, [2, 4, 3, 3])),
     (image, reals(2, 2, 3))),
    *[(f"interpolate smoothed {mode} {label}", lambda x, mode=mode, options=options: F.interpolate(
      x, mode=mode, antialias=True, **options), (reals(2, 3, 9, 11),))
      for mode in ("bilinear", "bicubic")
      for label, options in (("smaller", {"size": (4, 5)}), ("larger", {"size": (13, 6)}),
                             ("corners", {"size": (4, 5), "align_corners": True}),
                             ("by factor", {"scale_factor": 0.45}))],
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
