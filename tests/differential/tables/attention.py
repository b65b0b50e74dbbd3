"""Attention and what stands around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.draft import Draft, Value
from differential.tables.row import Row


def attention(d: Draft, op: str) -> object:
  batch, heads, queries, keys = d.extent(1, 3), d.choose(1, 2, 4), d.extent(1, 9), d.extent(1, 9)
  size, size_v = d.choose(2, 4, 8), d.choose(2, 4, 8)
  shared = heads // 2 if heads > 1 and d.chance(0.3) else heads
  flat = d.chance(0.4)

  def part(count: int, length: int, width: int, like: Value | None = None) -> Value:
    shape = (batch, length, count * width) if flat else (batch, count, length, width)
    return d.take((like.dtype,) if like else d.types(op), shape, -3, 3)

  q = part(heads, queries, size)
  k, v = part(shared, keys, size, q), part(shared, keys, size_v, q)
  mask = None
  if d.chance(0.5):
    form = d.choose((queries, keys), (1, heads, queries, keys), (batch, 1, queries, keys))
    if d.chance(0.5):
      allowed = d.rng.random(form) < 0.7
      allowed[..., 0] = True
      mask = d.new(allowed)
    else:
      mask = d.take((q.dtype,), form, -3, 3)
  forms: dict[str, Any] = {"is_causal": d.choose(None, 0, 1), "scale": d.choose(None, 0.5),
                              "softcap": d.choose(None, None, 2.0)}
  if flat:
    forms |= {"q_num_heads": heads, "kv_num_heads": shared}
  return d.add(op, [q, k, v, mask], **forms)


def rotary(d: Draft, op: str) -> object:
  batch, heads, length, size = d.extent(1, 3), d.integer(1, 3), d.extent(1, 7), d.choose(4, 8)
  x = d.take(d.types(op), (batch, heads, length, size), -3, 3)
  partial = size // 2 if d.chance(0.3) else None
  half = (partial or size) // 2
  if d.chance(0.5):
    table: tuple[int, ...] = (length + 3, half)
    places = d.new(d.rng.integers(0, length + 3, (batch, length)))
  else:
    table, places = (batch, length, half), None
  cos, sin = (d.like(x, shape=table, low=-1, high=1) for _ in range(2))
  return d.add(op, [x, cos, sin, places], interleaved=d.choose(None, 0, 1),
               rotary_embedding_dim=partial, num_heads=heads if partial else None)


def linear_attention(d: Draft, op: str) -> object:
  batch, heads, length, size, size_v = (d.extent(1, 3), d.integer(1, 3), d.extent(1, 5),
                                        d.choose(2, 4), d.choose(2, 4))
  q = d.take(d.types(op), (batch, length, heads * size), -1, 1)
  k = d.like(q, shape=(batch, length, heads * size), low=-1, high=1)
  v = d.like(q, shape=(batch, length, heads * size_v), low=-1, high=1)
  return d.add(op, [q, k, v], 2, q_num_heads=heads, kv_num_heads=heads, update_rule="linear")


def swiglu(d: Draft, op: str) -> object:
  a = d.take(d.types(op), low=-9, high=9)
  return d.add(op, [a, d.like(a, shape=a.shape)], alpha=d.choose(None, 0.5, 1.702))


def causal_conv(d: Draft, op: str) -> object:
  batch, channels, length, kernel = d.extent(1, 3), d.extent(1, 8), d.extent(1, 9), d.integer(2, 4)
  x = d.take(d.types(op), (batch, channels, length), -3, 3)
  w = d.like(x, shape=(channels, 1, kernel), low=-2, high=2)
  bias = d.like(x, shape=(channels,)) if d.chance(0.5) else None
  past = d.like(x, shape=(batch, channels, kernel - 1)) if d.chance(0.5) else None
  return d.add(op, [x, w, bias, past], 2, activation=d.choose(None, "none", "silu"))


def by_hand(d: Draft, op: str) -> object:
  """Scaled products, softmax, product: what attention is exported as."""
  batch, heads, queries, keys, size = (d.extent(1, 3), d.integer(1, 3), d.extent(1, 9),
                                       d.extent(1, 9), d.choose(4, 8))
  q = d.take(("float32",), (batch, heads, queries, size), -3, 3)
  if d.chance(0.5):
    k = d.take(("float32",), (batch, heads, keys, size), -3, 3)
    (k,) = d.add("Transpose", [k], exact=True, perm=[0, 1, 3, 2])
  else:
    k = d.take(("float32",), (batch, heads, size, keys), -3, 3)
  v = d.take(("float32",), (batch, heads, keys, size), -3, 3)
  (scores,) = d.add("MatMul", [q, k])
  if d.chance(0.7):
    factor = d.constant(np.sqrt(size), "float32")
    (scores,) = d.add(d.choose("Div", "Mul"), [scores, factor])
  if d.chance(0.5):
    form = d.choose((queries, keys), (batch, 1, 1, keys), (1, 1, queries, keys))
    (scores,) = d.add("Add", [scores, d.take(("float32",), form)])
  (weights,) = d.add("Softmax", [scores], axis=-1)
  return d.add("MatMul", [weights, v])


ROWS = [
  Row("Attention", attention, 2),
  Row("RotaryEmbedding", rotary),
  Row("LinearAttention", linear_attention),
  Row("SwiGLU", swiglu),
  Row("CausalConvWithState", causal_conv),
  Row("Softmax", by_hand, 1.5),
]
