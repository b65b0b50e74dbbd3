"""Operators that make a tensor of nothing but numbers.

PyTorch computes small ones when the module is optimised. What remains are large ones, which need
not be stored, and those that look at a tensor of the program, but only at its shape.
"""

from __future__ import annotations

from typing import Any

from stretto.aten._builder import Builder, Operand, Value


def full_like(b: Builder, x: Value, value: Operand, **_: Any) -> Value:
  return b.expand(b.cast(value, b.dtype), b.shape)


def full(b: Builder, size: Any, value: Operand, **_: Any) -> Value:
  return b.expand(b.cast(value, b.dtype), b.shape)


def arange(b: Builder, start: Operand, end: Operand, step: Operand = 1, **_: Any) -> Value:
  wide = b.dtype if b.dtype in ("float32", "float64", "int32", "int64") else "int64"
  return b.cast(b.node("Range", *b.operands(start, end, step, dtype=wide)), b.dtype)


def scalar_tensor(b: Builder, value: Operand, **_: Any) -> Value:
  return b.cast(value, b.dtype)
