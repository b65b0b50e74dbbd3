"""Products of matrices, and attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from stretto.aten._builder import Builder, Value


def linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
  """x W^T + bias."""
  if x.rank == 2 and weight.rank == 2:
    return b.node("Gemm", x, weight, bias, transB=1)
  y = b.node("MatMul", x, b.transpose(weight, [1, 0]) if weight.rank == 2 else weight)
  return y if bias is None else b.node("Add", y, bias)


def matmul(b: Builder, x: Value, y: Value) -> Value:
  dtype = b.dtype
  if dtype in ("float32", "float64", "int32", "int64"):
    return b.node("MatMul", *b.operands(x, y))
  return b.cast(b.node("MatMul", *b.operands(x, y, dtype="int64")), dtype)


def integer_matmul(b: Builder, x: Value, y: Value) -> Value:
  """Of int8, with sums in int32."""
  return b.node("MatMul", *b.operands(x, y))


def determinant(b: Builder, x: Value) -> list[Value]:
  """The first of three results, and the only one that torch.linalg.det gives."""
  return [b.node("Det", x)]


def _scaled(b: Builder, x: Value, factor: float) -> Value:
  return x if factor == 1 else b.node("Mul", x, b.scalar(factor, x.dtype))


def addmm(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1,
          alpha: float = 1) -> Value:
  """beta bias + alpha x y, of matrices and of stacks of matrices."""
  if x.rank == 2 and x.dtype.startswith("float"):
    return b.node("Gemm", x, y, bias if beta != 0 else None, alpha=alpha, beta=beta)
  product = _scaled(b, matmul(b, x, y), alpha)
  return product if beta == 0 else b.node("Add", product, _scaled(b, bias, beta))


def trilinear(b: Builder, x: Value, y: Value, z: Value, expand1: Sequence[int],
              expand2: Sequence[int], expand3: Sequence[int], sumdim: Sequence[int],
              _: int = 1) -> Value:
  """The sum over some axes of x y z, each of which lacks the axes that it expands along."""
  rank = x.rank + len(expand1)
  axes = [[a for a in range(rank) if a not in missing] for missing in (expand1, expand2, expand3)]

  def text(names: Iterable[int]) -> str:
    return "".join(chr(ord("a") + a) for a in names)

  # What z does not have can be summed over before it comes in.
  both = sorted({*axes[0], *axes[1]} - {a for a in sumdim if a not in axes[2]})
  first = b.node("Einsum", x, y, equation=f"{text(axes[0])},{text(axes[1])}->{text(both)}")
  kept = [a for a in range(rank) if a not in sumdim]
  return b.node("Einsum", first, z, equation=f"{text(both)},{text(axes[2])}->{text(kept)}")


def attention(b: Builder, query: Value, key: Value, value: Value, attn_mask: Value | None = None,
              dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None,
              enable_gqa: bool = False) -> Value:
  """softmax(q k^T scale + mask) v."""
  if enable_gqa and key.shape[-3] != query.shape[-3]:
    key, value = (_repeat_heads(b, x, query.shape[-3]) for x in (key, value))
  if scale is None:
    scale = 1 / math.sqrt(query.shape[-1])
  order = list(range(key.rank))
  order[-2:] = order[-1], order[-2]
  scores = _scaled(b, b.node("MatMul", query, b.transpose(key, order)), scale)
  if is_causal:
    attn_mask = b.causal(query.shape[-2], key.shape[-2])
  seen = None  # rows that may look at something
  blind = None  # those that may not, where only scores tell
  if attn_mask is not None and attn_mask.dtype == "bool":
    if not is_causal and (attn_mask.tensor is None
                          or not bool(attn_mask.tensor.any(-1).all())):
      seen = b.node("ReduceMax", attn_mask, b.ints([attn_mask.rank - 1]), keepdims=1)
    scores = b.node("Where", attn_mask, scores, b.scalar(-math.inf, scores.dtype))
  elif attn_mask is not None:
    if attn_mask.tensor is not None and attn_mask.rank > 0:
      sees = (attn_mask.tensor > -math.inf).any(-1, keepdim=True)
      seen = None if bool(sees.all()) else b.tensor(sees)
    scores = b.node("Add", scores, b.cast(attn_mask, scores.dtype))
    if attn_mask.tensor is None:
      top = b.node("ReduceMax", scores, b.ints([scores.rank - 1]), keepdims=1)
      blind = b.node("Equal", top, b.scalar(-math.inf, scores.dtype))
  weights = b.node("Softmax", scores, axis=-1)
  if blind is not None:
    weights = b.node("Where", blind, b.scalar(0.0, weights.dtype), weights)
  y = b.node("MatMul", weights, value)
  # The others give zeros in PyTorch, where a softmax of nothing but -inf gives NaN.
  return y if seen is None else b.node("Where", seen, y, b.scalar(0.0, y.dtype))


def _repeat_heads(b: Builder, x: Value, heads: int) -> Value:
  """Every head as often as query heads share it."""
  times = heads // x.shape[-3]
  x = b.unsqueeze(x, x.rank - 2)
  wide = list(x.shape)
  wide[-3] = times
  x = b.expand(x, wide)
  return b.reshape(x, (*x.shape[:-4], heads, *x.shape[-2:]))


def _heads(b: Builder, x: Value, heads: int) -> Value:
  """[batch, length, width] to [batch, heads, length, width / heads]."""
  batch, length, width = x.shape
  return b.transpose(b.reshape(x, (batch, length, heads, width // heads)), [0, 2, 1, 3])


# The type of a mask of [batch, keys] in PyTorch's fused operators. Those of other types broadcast
# to [batch, heads, queries, keys] as they are.
_OF_KEYS = 1


def _hidden(b: Builder, mask: Value, mask_type: int | None) -> Value:
  """True where a query must not see a key, for scores of [batch, heads, queries, keys]."""
  mask = b.cast(mask, "bool")  # as PyTorch does: any number but 0 hides, -inf among them
  if mask_type == _OF_KEYS:
    return b.unsqueeze(mask, 1, 2)
  return mask


def multi_head_attention(b: Builder, query: Value, key: Value, value: Value, width: int, heads: int,
                         qkv_weight: Value, qkv_bias: Value, weight: Value, bias: Value,
                         mask: Value | None = None, need_weights: bool = True,
                         average_attn_weights: bool = True,
                         mask_type: int | None = None) -> list[Value]:
  """What nn.MultiheadAttention is in evaluation; without `need_weights` only the first result."""
  parts = [(i * width, (i + 1) * width) for i in range(3)]
  if query.id == key.id == value.id:
    joined = linear(b, query, qkv_weight, qkv_bias)
    projected = [b.slice(joined, 2, *part) for part in parts]
  else:
    projected = [linear(b, x, b.slice(qkv_weight, 0, *part), b.slice(qkv_bias, 0, *part))
                 for x, part in zip((query, key, value), parts)]
  q, k, v = (_heads(b, x, heads) for x in projected)
  scores = _scaled(b, b.node("MatMul", q, b.transpose(k, [0, 1, 3, 2])),
                   1 / math.sqrt(width // heads))
  if mask is not None:
    scores = b.node("Where", _hidden(b, mask, mask_type), b.scalar(-math.inf, scores.dtype), scores)
  weights = b.node("Softmax", scores, axis=-1)
  y = b.transpose(b.node("MatMul", weights, v), [0, 2, 1, 3])
  results = [linear(b, b.reshape(y, query.shape), weight, bias)]
  if need_weights:
    results.append(b.node("ReduceMean", weights, b.ints([1]), keepdims=0) if average_attn_weights
                   else weights)
  return results


def encoder_layer(b: Builder, x: Value, width: int, heads: int, qkv_weight: Value, qkv_bias: Value,
                  weight: Value, bias: Value, gelu: bool, norm_first: bool, epsilon: float,
                  scale_1: Value, shift_1: Value, scale_2: Value, shift_2: Value,
                  weight_1: Value, bias_1: Value, weight_2: Value, bias_2: Value,
                  mask: Value | None = None, mask_type: int | None = None) -> Value:
  """What nn.TransformerEncoderLayer is in evaluation."""
  def norm(x: Value, scale: Value, shift: Value) -> Value:
    return b.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

  y = norm(x, scale_1, shift_1) if norm_first else x
  attended = multi_head_attention(b, y, y, y, width, heads, qkv_weight, qkv_bias, weight, bias,
                                  mask, need_weights=False, mask_type=mask_type)
  y = b.node("Add", x, attended[0])
  x = y if norm_first else norm(y, scale_1, shift_1)
  y = norm(x, scale_2, shift_2) if norm_first else x
  y = linear(b, y, weight_1, bias_1)
  y = b.node("Gelu", y, approximate="none") if gelu else b.node("Relu", y)
  y = b.node("Add", x, linear(b, y, weight_2, bias_2))
  return y if norm_first else norm(y, scale_2, shift_2)
