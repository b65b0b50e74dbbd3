"""Complex numbers: pairs of real and imaginary parts along one more axis, the last (`_pairs.py`).

The engine has no complex element type. Operators that only arrange elements are those of the table
with this axis left alone; products and Fourier transforms are built of real ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from stretto._errors import UnsupportedError
from stretto.aten import _complex_functions as functions
from stretto.aten import _complex_layers as layers
from stretto.aten import _elementwise as elementwise
from stretto.aten import _indexing as indexing
from stretto.aten import _reductions as reductions
from stretto.aten import _shapes as shapes
from stretto.aten._builder import Builder, Operand, Value
from stretto.aten._pairs import (
  both_parts,
  by_parts,
  is_complex,
  is_real,
  marked,
  of_both,
  parts_of,
  together,
)


def _by_real(b: Builder, op: str, x: Value, y: Operand) -> Value:
  """Mul or Div of both parts."""
  real, _ = parts_of(b, y)
  if isinstance(y, Value) and real.shape:
    real = b.unsqueeze(real, real.rank)
  return b.node(op, b.cast(x, b.dtype), real)


def _product(op: str) -> Callable[..., Value]:
  """Mul or MatMul."""
  def build(b: Builder, x: Operand, y: Operand) -> Value:
    if op == "Mul" and is_complex(x) and is_real(y):
      return _by_real(b, op, x, y)
    if op == "Mul" and is_complex(y) and is_real(x):
      return _by_real(b, op, y, x)
    (a, p), (c, q) = parts_of(b, x), parts_of(b, y)
    real, imaginary = b.node(op, a, c), None
    if p is not None and q is not None:
      real = b.node("Sub", real, b.node(op, p, q))
      imaginary = b.node("Add", b.node(op, a, q), b.node(op, p, c))
    elif q is not None:
      imaginary = b.node(op, a, q)
    else:
      assert p is not None
      imaginary = b.node(op, p, c)
    return together(b, real, imaginary)
  return build


def _divide(b: Builder, x: Operand, y: Operand) -> Value:
  if is_complex(x) and is_real(y):
    return _by_real(b, "Div", x, y)
  (a, p), (c, q) = parts_of(b, x), parts_of(b, y)
  assert q is not None
  size = b.node("Add", b.node("Mul", c, c), b.node("Mul", q, q))
  real, imaginary = b.node("Mul", a, c), b.node("Neg", b.node("Mul", a, q))
  if p is not None:
    real = b.node("Add", real, b.node("Mul", p, q))
    imaginary = b.node("Add", imaginary, b.node("Mul", p, c))
  return together(b, b.node("Div", real, size), b.node("Div", imaginary, size))


def _sum(op: str) -> Callable[..., Value]:
  """Add or Sub."""
  def build(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    if is_complex(x) and is_complex(y) and alpha == 1:
      return b.node(op, b.cast(x, b.dtype), b.cast(y, b.dtype))
    (a, p), (c, q) = parts_of(b, x), parts_of(b, y)
    if alpha != 1:
      c, q = (None if v is None else b.node("Mul", v, b.scalar(alpha, v.dtype)) for v in (c, q))
    assert c is not None
    zero = b.scalar(0.0, b.dtype)
    return together(b, b.node(op, a, c), b.node(op, zero if p is None else p,
                                                 zero if q is None else q))
  return build


def _conjugate(b: Builder, x: Value) -> Value:
  real, imaginary = parts_of(b, x)
  assert imaginary is not None
  return together(b, real, b.node("Neg", imaginary))


def _negative(b: Builder, x: Value) -> Value:
  return b.node("Neg", x)


def _cast(b: Builder, x: Value, *_: Any, **__: Any) -> Value:
  """To another precision, or from real numbers."""
  if is_complex(x):
    return b.cast(x, b.dtype)
  real = b.cast(x, b.dtype)
  return together(b, real, b.scalar(0.0, b.dtype))


# Reductions and choices.


def _reduction(op: str) -> Callable[..., Value]:
  """ReduceSum or ReduceMean, which work on both parts by themselves."""
  def build(b: Builder, x: Value, dim: int | Sequence[int] | None = None, keepdim: bool = False,
            **_: Any) -> Value:
    rank = x.rank - 1
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
    if rank == 0:
      return x
    return b.node(op, b.cast(x, b.dtype), b.ints([d % rank for d in dims]), keepdims=int(keepdim))
  return build


def _where(b: Builder, condition: Value, x: Operand, y: Operand) -> Value:
  condition = b.unsqueeze(b.cast(condition, "bool"), condition.rank)
  return b.node("Where", condition, of_both(b, x), of_both(b, y))


def _full(b: Builder, _: Any, value: Operand, **__: Any) -> Value:
  return b.expand(of_both(b, value), b.shape)


def _copy(b: Builder, x: Value, source: Value, *_: Any) -> Value:
  return b.expand(of_both(b, source), x.shape)


# Arranging elements.


def _with_axes(function: Callable[..., Any], place: int) -> Callable[..., Any]:
  """A function of real tensors whose argument at `place` names axes from either end."""
  def build(b: Builder, x: Any, *args: Any, **kwargs: Any) -> Any:
    first = x[0] if isinstance(x, list) else x
    rank = first.rank - 1 + (function is shapes.stack)
    given = list(args)
    if len(given) >= place:  # otherwise 0
      axes = given[place - 1]
      given[place - 1] = ([a % rank for a in axes] if isinstance(axes, (list, tuple))
                          else axes % rank)
    return function(b, x, *given, **kwargs)
  return build


def _roll(b: Builder, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
  if not dims:
    raise UnsupportedError("roll of a flat complex tensor is not supported; name its axes")
  return shapes.roll(b, x, shifts, [d % (x.rank - 1) for d in dims])


def _permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
  last = x.rank - 1
  return b.transpose(x, [*(d % last for d in dims), last])


def _pad(b: Builder, x: Value, pad: Sequence[int], value: float = 0) -> Value:
  if value != 0:
    raise UnsupportedError("padding complex tensors with other numbers than 0 is not supported")
  return shapes.pad_constant(b, x, [0, 0, *pad])


def _variance(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
  """The sum of those of the parts."""
  both = (reductions.variance_corrected(b, part, *args, **kwargs) for part in both_parts(b, x))
  return b.node("Add", *both)


# Products with weights, and powers.


def _matmul(b: Builder, x: Operand, y: Operand) -> Value:
  if isinstance(x, Value) and isinstance(y, Value) and y.tensor is not None:
    if x.rank > (2 if is_complex(x) else 1) and y.tensor.dim() == 2:
      return layers.product_with(y, b, x)
  return _product("MatMul")(b, x, y)


def _addmm(b: Builder, bias: Value, x: Value, y: Value, *, beta: complex = 1,
           alpha: complex = 1) -> Value:
  found = marked(b, _matmul(b, x, y))
  if alpha != 1:
    found = marked(b, _product("Mul")(b, found, alpha))
  if beta == 0:
    return found
  return _sum("Add")(b, found, bias if beta == 1 else marked(b, _product("Mul")(b, bias, beta)))


def _power(b: Builder, x: Operand, y: Operand) -> Value:
  return functions.power(b, x, y, _product("Mul"), _divide)


def _masked_fill(b: Builder, x: Value, mask: Value, value: Operand) -> Value:
  return _where(b, mask, value, x)


# Fourier transforms.


def _scale(normalization: int, count: int) -> float:
  """PyTorch's numbers: none, by the root of the count, by the count."""
  return {0: 1.0, 1: count ** -0.5, 2: 1.0 / count}[normalization]


def _transform(b: Builder, x: Value, axis: int, scale: float, length: int | None = None,
               **attributes: int) -> Value:
  """The engine's transform of pairs; its inverse divides by the length."""
  size = None if length is None else b.scalar(length, "int64")
  y = b.node("DFT", x, size, b.scalar(axis, "int64"), **attributes)
  unit = abs(scale - 1) < 1e-12  # of a size times its reciprocal
  return y if unit else b.node("Mul", y, b.scalar(scale, y.dtype))


def _real_forward(b: Builder, x: Value, axis: int, onesided: bool, scale: float) -> Value:
  """A transform of real numbers."""
  return _transform(b, b.unsqueeze(x, x.rank), axis, scale, onesided=int(onesided))


def _whole(b: Builder, x: Value, axis: int, inverse: bool, scale: float) -> Value:
  """A transform of complex numbers."""
  scale *= x.shape[axis] if inverse else 1
  return _transform(b, x, axis, scale, inverse=int(inverse))


def _real_backward(b: Builder, x: Value, axis: int, size: int, scale: float) -> Value:
  """From the first half of the frequencies to `size` real numbers."""
  y = _transform(b, x, axis, scale * size, size, inverse=1, onesided=1)
  return b.squeeze(y, y.rank - 1)


def _from_real(b: Builder, x: Value, dims: Sequence[int], normalization: int,
               onesided: bool) -> Value:
  axes = [d % x.rank for d in dims]
  scale = _scale(normalization, math.prod(x.shape[a] for a in axes))
  x = _real_forward(b, x, axes[-1], onesided, scale)
  for axis in reversed(axes[:-1]):
    x = _whole(b, x, axis, False, 1.0)
  return x


def _from_complex(b: Builder, x: Value, dims: Sequence[int], normalization: int,
                  forward: bool) -> Value:
  axes = [d % (x.rank - 1) for d in dims]
  scale = _scale(normalization, math.prod(x.shape[a] for a in axes))
  for i, axis in enumerate(axes):
    x = _whole(b, x, axis, not forward, scale if i == 0 else 1.0)
  return x


def _to_real(b: Builder, x: Value, dims: Sequence[int], normalization: int,
             last_dim_size: int) -> Value:
  axes = [d % (x.rank - 1) for d in dims]
  scale = _scale(normalization, math.prod(x.shape[a] for a in axes[:-1]) * last_dim_size)
  for axis in axes[:-1]:
    x = _whole(b, x, axis, True, 1.0)
  return _real_backward(b, x, axes[-1], last_dim_size, scale)


# Operators with complex tensors among their inputs or results. `Builder.shape` has the last axis.
TABLE: dict[str, Callable[..., Any]] = {
  "_conj.default": _conjugate,
  "_conj_physical.default": _conjugate,
  "_fft_c2c.default": _from_complex,
  "_fft_c2r.default": _to_real,
  "_fft_r2c.default": _from_real,
  "_to_copy.default": _cast,
  "abs.default": functions.absolute,
  "add.Tensor": _sum("Add"),
  "addmm.default": _addmm,
  "alias.default": elementwise.identity,
  "angle.default": functions.angle,
  "as_strided.default": by_parts(shapes.strided),
  "bmm.default": _matmul,
  "cat.default": _with_axes(shapes.concatenate, 1),
  "clone.default": elementwise.identity,
  "complex.default": together,
  "constant_pad_nd.default": _pad,
  "conv1d.default": layers.forward,
  "conv1d.padding": layers.forward,
  "conv2d.default": layers.forward,
  "conv2d.padding": layers.forward,
  "conv3d.default": layers.forward,
  "conv3d.padding": layers.forward,
  "conv_transpose1d.default": layers.transposed,
  "conv_transpose2d.input": layers.transposed,
  "conv_transpose3d.input": layers.transposed,
  "copy.default": _copy,
  "cos.default": functions.cosine,
  "cosh.default": functions.hyperbolic_cosine,
  "cumsum.default": by_parts(reductions.cumulative_sum),
  "diagonal.default": by_parts(shapes.diagonal),
  "div.Tensor": _divide,
  "embedding.default": by_parts(indexing.embedding),
  "eq.Scalar": functions.equality(invert=False),
  "eq.Tensor": functions.equality(invert=False),
  "exp.default": functions.exponential,
  "expand.default": shapes.expand,
  "expm1.default": functions.expm1,
  "flip.default": _with_axes(shapes.flip, 1),
  "full_like.default": _full,
  "gather.default": by_parts(indexing.gather),
  "index.Tensor": by_parts(indexing.index),
  "index_put.default": by_parts(indexing.index_put, 2),
  "index_select.default": by_parts(indexing.index_select),
  "isinf.default": functions.of_either(elementwise.is_infinite),
  "isnan.default": functions.of_either(elementwise.predicate("IsNaN")),
  "linalg_vector_norm.default": functions.norm(reductions.vector_norm),
  "linear.default": layers.linear,
  "log.default": functions.logarithm(),
  "log10.default": functions.logarithm(10),
  "log1p.default": functions.log1p,
  "log2.default": functions.logarithm(2),
  "masked_fill.Scalar": _masked_fill,
  "masked_fill.Tensor": _masked_fill,
  "matmul.default": _matmul,
  "mean.default": _reduction("ReduceMean"),
  "mean.dim": _reduction("ReduceMean"),
  "mm.default": _matmul,
  "mul.Tensor": _product("Mul"),
  "ne.Scalar": functions.equality(invert=True),
  "ne.Tensor": functions.equality(invert=True),
  "neg.default": _negative,
  "permute.default": _permute,
  "polar.default": functions.polar,
  "pow.Scalar": _power,
  "pow.Tensor_Scalar": _power,
  "pow.Tensor_Tensor": _power,
  "prod.default": functions.product_along(_product("Mul")),
  "prod.dim_int": functions.product_along(_product("Mul")),
  "reciprocal.default": lambda b, x: _divide(b, 1.0, x),
  "reflection_pad1d.default": by_parts(shapes.pad_by("reflect")),
  "reflection_pad2d.default": by_parts(shapes.pad_by("reflect")),
  "repeat.default": by_parts(shapes.repeat),
  "replication_pad1d.default": by_parts(shapes.pad_by("edge")),
  "replication_pad2d.default": by_parts(shapes.pad_by("edge")),
  "roll.default": _roll,
  "rsqrt.default": lambda b, x: _divide(b, 1.0, marked(b, functions.root(b, x))),
  "scatter.src": by_parts(indexing.scatter),
  "scatter.value": by_parts(indexing.scatter, 3),
  "scatter_add.default": by_parts(indexing.scatter_add),
  "select.int": _with_axes(shapes.select, 1),
  "select_scatter.default": _with_axes(shapes.select_scatter, 2),
  "sigmoid.default": functions.sigmoid,
  "sin.default": functions.sine,
  "sinh.default": functions.hyperbolic_sine,
  "slice.Tensor": _with_axes(shapes.slice_axis, 1),
  "slice_scatter.default": _with_axes(shapes.slice_scatter, 2),
  "split.Tensor": _with_axes(shapes.split, 2),
  "split_with_sizes.default": _with_axes(shapes.split_by_sizes, 2),
  "sqrt.default": functions.root,
  "squeeze.dims": shapes.to_shape,
  "stack.default": _with_axes(shapes.stack, 1),
  "sub.Tensor": _sum("Sub"),
  "sum.dim_IntList": _reduction("ReduceSum"),
  "tan.default": functions.tangent,
  "tanh.default": functions.hyperbolic_tangent,
  "tril.default": by_parts(shapes.triangle(upper=False)),
  "triu.default": by_parts(shapes.triangle(upper=True)),
  "unbind.int": _with_axes(shapes.unbind, 1),
  "unfold.default": by_parts(shapes.windows),
  "var.correction": _variance,
  "unsqueeze.default": shapes.to_shape,
  "view.default": shapes.to_shape,
  "view_as_complex.default": elementwise.identity,
  "view_as_real.default": elementwise.identity,
  "where.self": _where,
}
