"""Operators with the arguments of PyTorch's functions, one function each."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from stretto._errors import InvalidArgumentError
from stretto.ops._context import Constant, Context, constant, default_context


def _integers(function: str, name: str, value: Any, what: str) -> list[int]:
  try:
    return [operator.index(value)]
  except TypeError:
    pass
  try:
    return [operator.index(one) for one in value]
  except TypeError:
    raise InvalidArgumentError(f"{function}: {name}: expected {what}, got {value!r}") from None


def _pair(function: str, name: str, value: Any) -> list[int]:
  sizes = _integers(function, name, value, "an integer or two")
  if not 1 <= len(sizes) <= 2:
    raise InvalidArgumentError(f"{function}: {name}: expected an integer or two, got {value!r}")
  return sizes if len(sizes) == 2 else 2 * sizes


def conv2d(x: Any, weight: Any, bias: Any = None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1,
           groups: int = 1, *, out: Any = None, context: Context | None = None) -> Any:
  """Convolves images, as `torch.nn.functional.conv2d`.

  Args:
    x: images [N, C, H, W].
    weight: filters [K, C / groups, R, S]; `constant` filters are packed once.
    bias: [K], or None.
    stride: of both axes, or [vertical, horizontal].
    padding: zeros around the image, on both axes or [vertical, horizontal]; "valid" for none, or
      "same" for as many as keep the size, with a stride of 1.
    dilation: distance of taps, like stride.
    groups: into how many groups channels are split.
    out: the array for the result.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    [N, K, H', W'].
  """
  attributes: dict[str, Any] = {"strides": _pair("conv2d", "stride", stride),
                                "dilations": _pair("conv2d", "dilation", dilation)}
  if isinstance(padding, str):
    if padding not in ("same", "valid"):
      raise InvalidArgumentError(
        f"conv2d: padding: expected integers, 'same' or 'valid', got {padding!r}")
    if padding == "same" and attributes["strides"] != [1, 1]:
      raise InvalidArgumentError(
        f"conv2d: padding: 'same' needs a stride of 1, got {stride!r}; give the zeros as integers")
    attributes["auto_pad"] = "SAME_UPPER" if padding == "same" else "VALID"
  else:
    attributes["pads"] = 2 * _pair("conv2d", "padding", padding)
  return (context or default_context()).Conv(x, weight, bias, group=groups, out=out, **attributes)


def linear(x: Any, weight: Any, bias: Any = None, *, out: Any = None,
           context: Context | None = None) -> Any:
  """Multiplies rows with a matrix, as `torch.nn.functional.linear`.

  Args:
    x: rows [..., K].
    weight: [N, K]; a `constant` one is packed once.
    bias: [N], or None.
    out: the array for the result.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    x times the transposed weight, plus the bias: [..., N].
  """
  gemm = (context or default_context()).Gemm
  if len(x.shape) == 2:
    return gemm(x, weight, bias, transB=1, out=out)
  if out is not None:
    raise InvalidArgumentError("linear: out needs an x with two axes, [rows, K]; reshape both")
  return gemm(x.reshape(-1, x.shape[-1]), weight, bias, transB=1).reshape(
    (*x.shape[:-1], weight.shape[0]))


def matmul(a: Any, b: Any, *, out: Any = None, context: Context | None = None) -> Any:
  """Multiplies matrices, as `numpy.matmul` and `torch.matmul`.

  Args:
    a: [..., M, K], or [K].
    b: [..., K, N], or [K]; a `constant` matrix is packed once.
    out: the array for the result.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    [..., M, N].
  """
  return (context or default_context()).MatMul(a, b, out=out)


def softmax(x: Any, dim: int = -1, *, out: Any = None, context: Context | None = None) -> Any:
  """Normalises exponentials, as `torch.nn.functional.softmax`.

  Args:
    x: any array of floats.
    dim: the axis along which results add up to 1.
    out: the array for the result.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    An array like x.
  """
  return (context or default_context()).Softmax(x, axis=dim, out=out)


def layer_norm(x: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None,
               eps: float = 1e-5, *, out: Any = None, context: Context | None = None) -> Any:
  """Normalises the last axes, as `torch.nn.functional.layer_norm`.

  Args:
    x: [..., *normalized_shape].
    normalized_shape: the sizes of the axes that are normalised together; an integer is that of the
      last one.
    weight: a factor per element, of shape normalized_shape, or None.
    bias: an addend per element, of shape normalized_shape, or None.
    eps: added to the variance.
    out: the array for the result.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    An array like x.
  """
  shape = tuple(_integers("layer_norm", "normalized_shape", normalized_shape,
                          "the sizes of the last axes"))
  if tuple(x.shape[len(x.shape) - len(shape):]) != shape or not shape:
    raise InvalidArgumentError(
      f"layer_norm: normalized_shape: expected the last axes of {tuple(x.shape)}, got {shape}")
  if weight is None:
    weight = _ones(shape, x.dtype)
  return (context or default_context()).LayerNormalization(
    x, weight, bias, axis=-len(shape), epsilon=eps, out=out)


@lru_cache(maxsize=64)
def _ones(shape: tuple[int, ...], dtype: Any) -> Constant:
  torch = sys.modules.get("torch")
  if torch is not None and isinstance(dtype, torch.dtype):  # NumPy may lack it
    return constant(torch.ones(shape, dtype=dtype, device="cpu"))
  return constant(np.ones(shape, dtype))


def max_pool2d(x: Any, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1,
               ceil_mode: bool = False, *, out: Any = None,
               context: Context | None = None) -> Any:
  """Takes the largest value of every window, as `torch.nn.functional.max_pool2d`.

  Args:
    x: images [N, C, H, W].
    kernel_size: of the window, on both axes or [vertical, horizontal].
    stride: distance of windows; None: kernel_size.
    padding: around the image, where nothing is taken from.
    dilation: distance of what a window looks at.
    ceil_mode: whether windows may hang over the end.
    out: the array for the result.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    [N, C, H', W'].
  """
  return (context or default_context()).MaxPool(
    x, kernel_shape=_pair("max_pool2d", "kernel_size", kernel_size),
    strides=_pair("max_pool2d", "stride", kernel_size if stride is None else stride),
    pads=2 * _pair("max_pool2d", "padding", padding),
    dilations=_pair("max_pool2d", "dilation", dilation), ceil_mode=int(ceil_mode), out=out)


def avg_pool2d(x: Any, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, *, out: Any = None,
               context: Context | None = None) -> Any:
  """Takes the mean of every window, as `torch.nn.functional.avg_pool2d`.

  Args:
    x: images [N, C, H, W].
    kernel_size: of the window, on both axes or [vertical, horizontal].
    stride: distance of windows; None: kernel_size.
    padding: zeros around the image.
    ceil_mode: whether windows may hang over the end.
    count_include_pad: whether the zeros count.
    out: the array for the result.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    [N, C, H', W'].
  """
  return (context or default_context()).AveragePool(
    x, kernel_shape=_pair("avg_pool2d", "kernel_size", kernel_size),
    strides=_pair("avg_pool2d", "stride", kernel_size if stride is None else stride),
    pads=2 * _pair("avg_pool2d", "padding", padding), ceil_mode=int(ceil_mode),
    count_include_pad=int(count_include_pad), out=out)


def relu(x: Any, *, out: Any = None, context: Context | None = None) -> Any:
  """Replaces negative values by 0, as `torch.nn.functional.relu`.

  Args:
    x: any array of numbers.
    out: the array for the result, which may be x.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    An array like x.
  """
  return (context or default_context()).Relu(x, out=out)


def gelu(x: Any, approximate: str = "none", *, out: Any = None,
         context: Context | None = None) -> Any:
  """Multiplies with the normal distribution's function, as `torch.nn.functional.gelu`.

  Args:
    x: any array of floats.
    approximate: "none", or "tanh" for the form with a hyperbolic tangent.
    out: the array for the result, which may be x.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    An array like x.
  """
  return (context or default_context()).Gelu(x, approximate=approximate, out=out)


def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *, is_causal: bool = False,
              scale: float | None = None, out: Any = None, context: Context | None = None) -> Any:
  """Attends, as `torch.nn.functional.scaled_dot_product_attention` without dropout.

  PyTorch's fifth argument by position is the dropout, so what follows the mask goes by name.

  Args:
    query: [N, heads, L, E].
    key: [N, heads, S, E].
    value: [N, heads, S, V].
    attn_mask: what is added to the scores, or bools that say what may be looked at: a shape that
      broadcasts to [N, heads, L, S]. None: no mask.
    is_causal: whether position i of the query sees positions 0 to i only.
    scale: the factor of the products; None: 1 / sqrt(E).
    out: the array for the result.
    context: where it is compiled and kept; None: where all functions are.

  Returns:
    [N, heads, L, V].
  """
  if len(query.shape) != 4:
    raise InvalidArgumentError(
      f"attention: query: expected [N, heads, L, E], got the shape {tuple(query.shape)}")
  return (context or default_context()).Attention(
    query, key, value, attn_mask, is_causal=int(is_causal), scale=scale, out=out)
