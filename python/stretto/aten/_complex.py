"""Complex numbers: pairs of real and imaginary parts along one more axis, the last.

The engine has no complex element type. Operators that only arrange elements are those of the table
with this axis left alone; products and Fourier transforms are built of real ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from stretto._errors import UnsupportedError
from stretto.aten import _elementwise as elementwise
from stretto.aten import _shapes as shapes
from stretto.aten._builder import COMPLEX, Builder, Operand, Value


def is_complex(x: Any) -> bool:
  return isinstance(x, Value) and x.torch_dtype in COMPLEX


def _is_real(x: Operand) -> bool:
  return not is_complex(x) and not isinstance(x, complex)


def _pair(b: Builder, x: Operand) -> tuple[Value, Value | None]:
  """Real and imaginary part; None for that of a real number or tensor."""
  if not isinstance(x, Value):
    real = b.scalar(complex(x).real, b.dtype)
    return real, b.scalar(complex(x).imag, b.dtype) if isinstance(x, complex) else None
  if not is_complex(x):
    return b.cast(x, b.dtype), None
  # A transpose works on vectors, and the halves of its result need no copy.
  last = x.rank - 1
  parts = b.nodes("Split", [b.transpose(x, [last, *range(last)]), b.ints([1, 1])], 2, axis=0)
  return b.squeeze(parts[0], 0), b.squeeze(parts[1], 0)


def _together(b: Builder, real: Value, imaginary: Value) -> Value:
  shape = torch.broadcast_shapes(real.shape, imaginary.shape)
  parts = b.concat([b.unsqueeze(b.expand(x, shape), 0) for x in (real, imaginary)], 0)
  return b.transpose(parts, [*range(1, len(shape) + 1), 0])


def _by_real(b: Builder, op: str, x: Value, y: Operand) -> Value:
  """Mul or Div of both parts."""
  real, _ = _pair(b, y)
  if isinstance(y, Value) and real.shape:
    real = b.unsqueeze(real, real.rank)
  return b.node(op, b.cast(x, b.dtype), real)


def _product(op: str) -> Callable[..., Value]:
  """Mul or MatMul."""
  def build(b: Builder, x: Operand, y: Operand) -> Value:
    if op == "Mul" and is_complex(x) and _is_real(y):
      return _by_real(b, op, x, y)
    if op == "Mul" and is_complex(y) and _is_real(x):
      return _by_real(b, op, y, x)
    (a, p), (c, q) = _pair(b, x), _pair(b, y)
    real, imaginary = b.node(op, a, c), None
    if p is not None and q is not None:
      real = b.node("Sub", real, b.node(op, p, q))
      imaginary = b.node("Add", b.node(op, a, q), b.node(op, p, c))
    elif q is not None:
      imaginary = b.node(op, a, q)
    else:
      assert p is not None
      imaginary = b.node(op, p, c)
    return _together(b, real, imaginary)
  return build


def _divide(b: Builder, x: Operand, y: Operand) -> Value:
  if is_complex(x) and _is_real(y):
    return _by_real(b, "Div", x, y)
  (a, p), (c, q) = _pair(b, x), _pair(b, y)
  assert q is not None
  size = b.node("Add", b.node("Mul", c, c), b.node("Mul", q, q))
  real, imaginary = b.node("Mul", a, c), b.node("Neg", b.node("Mul", a, q))
  if p is not None:
    real = b.node("Add", real, b.node("Mul", p, q))
    imaginary = b.node("Add", imaginary, b.node("Mul", p, c))
  return _together(b, b.node("Div", real, size), b.node("Div", imaginary, size))


def _exponential(b: Builder, x: Value) -> Value:
  real, imaginary = _pair(b, x)
  assert imaginary is not None
  return _polar(b, b.node("Exp", real), imaginary)


def _sum(op: str) -> Callable[..., Value]:
  """Add or Sub."""
  def build(b: Builder, x: Operand, y: Operand, alpha: float = 1) -> Value:
    if is_complex(x) and is_complex(y) and alpha == 1:
      return b.node(op, b.cast(x, b.dtype), b.cast(y, b.dtype))
    (a, p), (c, q) = _pair(b, x), _pair(b, y)
    if alpha != 1:
      c, q = (None if v is None else b.node("Mul", v, b.scalar(alpha, v.dtype)) for v in (c, q))
    assert c is not None
    zero = b.scalar(0.0, b.dtype)
    return _together(b, b.node(op, a, c), b.node(op, zero if p is None else p,
                                                 zero if q is None else q))
  return build


def _absolute(b: Builder, x: Value) -> Value:
  return b.node("ReduceL2", x, b.ints([x.rank - 1]), keepdims=0)


def _angle(b: Builder, x: Value) -> Value:
  real, imaginary = _pair(b, x)
  assert imaginary is not None
  return elementwise.arc_tangent(b, imaginary, real)


def _conjugate(b: Builder, x: Value) -> Value:
  real, imaginary = _pair(b, x)
  assert imaginary is not None
  return _together(b, real, b.node("Neg", imaginary))


def _negative(b: Builder, x: Value) -> Value:
  return b.node("Neg", x)


def _polar(b: Builder, size: Value, angle: Value) -> Value:
  return _together(b, b.node("Mul", size, b.node("Cos", angle)),
                   b.node("Mul", size, b.node("Sin", angle)))


def _cast(b: Builder, x: Value, *_: Any, **__: Any) -> Value:
  """To another precision, or from real numbers."""
  if is_complex(x):
    return b.cast(x, b.dtype)
  real = b.cast(x, b.dtype)
  return _together(b, real, b.scalar(0.0, b.dtype))


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
  return b.node("Where", condition, _of_both(b, x), _of_both(b, y))


def _of_both(b: Builder, x: Operand) -> Value:
  """With an axis of parts, also of real numbers."""
  if is_complex(x):
    assert isinstance(x, Value)
    return b.cast(x, b.dtype)
  real, imaginary = _pair(b, x)
  return _together(b, real, b.scalar(0.0, b.dtype) if imaginary is None else imaginary)


def _full(b: Builder, _: Any, value: Operand, **__: Any) -> Value:
  return b.expand(_of_both(b, value), b.shape)


def _copy(b: Builder, x: Value, source: Value, *_: Any) -> Value:
  return b.expand(_of_both(b, source), x.shape)


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
  "abs.default": _absolute,
  "add.Tensor": _sum("Add"),
  "alias.default": elementwise.identity,
  "angle.default": _angle,
  "bmm.default": _product("MatMul"),
  "cat.default": _with_axes(shapes.concatenate, 1),
  "clone.default": elementwise.identity,
  "complex.default": _together,
  "constant_pad_nd.default": _pad,
  "copy.default": _copy,
  "div.Tensor": _divide,
  "exp.default": _exponential,
  "expand.default": shapes.expand,
  "flip.default": _with_axes(shapes.flip, 1),
  "full_like.default": _full,
  "matmul.default": _product("MatMul"),
  "mean.default": _reduction("ReduceMean"),
  "mean.dim": _reduction("ReduceMean"),
  "mm.default": _product("MatMul"),
  "mul.Tensor": _product("Mul"),
  "neg.default": _negative,
  "permute.default": _permute,
  "polar.default": _polar,
  "reciprocal.default": lambda b, x: _divide(b, 1.0, x),
  "roll.default": _roll,
  "select.int": _with_axes(shapes.select, 1),
  "select_scatter.default": _with_axes(shapes.select_scatter, 2),
  "slice.Tensor": _with_axes(shapes.slice_axis, 1),
  "slice_scatter.default": _with_axes(shapes.slice_scatter, 2),
  "split.Tensor": _with_axes(shapes.split, 2),
  "split_with_sizes.default": _with_axes(shapes.split_by_sizes, 2),
  "squeeze.dims": shapes.to_shape,
  "stack.default": _with_axes(shapes.stack, 1),
  "sub.Tensor": _sum("Sub"),
  "sum.dim_IntList": _reduction("ReduceSum"),
  "unbind.int": _with_axes(shapes.unbind, 1),
  "unsqueeze.default": shapes.to_shape,
  "view.default": shapes.to_shape,
  "view_as_complex.default": elementwise.identity,
  "view_as_real.default": elementwise.identity,
  "where.self": _where,
}
