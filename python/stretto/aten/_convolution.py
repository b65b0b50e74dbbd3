"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from stretto.aten._builder import Builder, Value


def _each(values: int | Sequence[int], count: int) -> list[int]:
  """One number per axis: PyTorch takes a single one for all of them."""
  values = [values] if isinstance(values, int) else list(values)
  return values * count if len(values) == 1 else values


def _same_padding(kernel: Sequence[int], dilation: Sequence[int]) -> tuple[list[int], list[int]]:
  """Before and after the data; PyTorch puts the odd one after it."""
  total = [d * (k - 1) for k, d in zip(kernel, dilation)]
  return [t // 2 for t in total], [t - t // 2 for t in total]


def _run(b: Builder, x: Value, weight: Value, bias: Value | None, op: str,
         **attributes: object) -> Value:
  """The operator, with a batch of 1 around an input that has none."""
  alone = x.rank == weight.rank - 1
  if alone:
    x = b.unsqueeze(x, 0)
  y = b.node(op, x, weight, bias, **attributes)
  return b.squeeze(y, 0) if alone else y


def forward(b: Builder, x: Value, weight: Value, bias: Value | None = None,
            stride: int | Sequence[int] = 1, padding: str | int | Sequence[int] = 0,
            dilation: int | Sequence[int] = 1, groups: int = 1) -> Value:
  """conv1d, conv2d, conv3d."""
  kernel = weight.shape[2:]
  rank = len(kernel)
  dilation = _each(dilation, rank)
  if isinstance(padding, str):
    before, after = (_same_padding(kernel, dilation) if padding == "same"
                     else ([0] * rank, [0] * rank))
  else:
    before = after = _each(padding, rank)
  return _run(b, x, weight, bias, "Conv", strides=_each(stride, rank), pads=[*before, *after],
              dilations=dilation, group=groups, kernel_shape=list(kernel))


def transposed(b: Builder, x: Value, weight: Value, bias: Value | None = None,
               stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
               output_padding: int | Sequence[int] = 0, groups: int = 1,
               dilation: int | Sequence[int] = 1) -> Value:
  """conv_transpose1d, conv_transpose2d, conv_transpose3d."""
  kernel = weight.shape[2:]
  rank = len(kernel)
  return _run(b, x, weight, bias, "ConvTranspose", strides=_each(stride, rank),
              pads=_each(padding, rank) * 2, output_padding=_each(output_padding, rank),
              dilations=_each(dilation, rank), group=groups, kernel_shape=list(kernel))


def general(b: Builder, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
            padding: Sequence[int], dilation: Sequence[int], is_transposed: bool,
            output_padding: Sequence[int], groups: int) -> Value:
  """aten.convolution, which says everything in its arguments."""
  if is_transposed:
    return transposed(b, x, weight, bias, stride, padding, output_padding, groups, dilation)
  return forward(b, x, weight, bias, stride, padding, dilation, groups)
