"""What the functions of the table build the graph with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from stretto import _stretto
from stretto._errors import UnsupportedError

# PyTorch's element types and those of the engine. The engine computes in float32 what is in half
# precision: the caller's tensors are converted on their way in and out.
DTYPES = {
  torch.float32: "float32", torch.float64: "float64", torch.float16: "float32",
  torch.bfloat16: "float32", torch.int8: "int8", torch.int16: "int16", torch.int32: "int32",
  torch.int64: "int64", torch.uint8: "uint8", torch.uint16: "uint16", torch.uint32: "uint32",
  torch.uint64: "uint64", torch.bool: "bool",
}
HALF = (torch.float16, torch.bfloat16)
# Their tensors have one more axis, of real and imaginary parts.
COMPLEX = {torch.complex64: "float32", torch.complex128: "float64"}
# What a tensor of the engine's type is in PyTorch.
_TORCH = {name: dtype for dtype, name in reversed(DTYPES.items())}


def engine_dtype(dtype: torch.dtype) -> str:
  found = DTYPES.get(dtype) or COMPLEX.get(dtype)
  if found is None:
    raise UnsupportedError(f"element type {dtype} is not supported")
  return found


def engine_shape(dtype: torch.dtype, shape: Sequence[int]) -> tuple[int, ...]:
  return (*shape, 2) if dtype in COMPLEX else tuple(shape)


class Value:
  """A tensor of the graph.

  Attributes:
    id: its number in the graph.
    dtype: the engine's name of its element type.
    shape: its sizes; of complex numbers with the axis of their parts.
    torch_dtype: the type that PyTorch gives it, where it stands for a tensor of the program.
    tensor: its content, where that is known already.
  """

  __slots__ = ("dtype", "id", "shape", "tensor", "torch_dtype")

  def __init__(self, id: int, dtype: str, shape: Sequence[int],
               torch_dtype: torch.dtype | None = None, tensor: torch.Tensor | None = None) -> None:
    self.id = id
    self.dtype = dtype
    self.shape = tuple(shape)
    self.torch_dtype = torch_dtype or _TORCH[dtype]
    self.tensor = tensor

  @property
  def rank(self) -> int:
    return len(self.shape)

  def axis(self, dim: int) -> int:
    """`dim` counted from the front; 0 for a scalar, as PyTorch allows."""
    return dim % max(self.rank, 1)


Operand = Value | int | float | bool


class Builder:
  """A graph that grows node by node, and what is known about the node of PyTorch in work.

  Attributes:
    name: the name that its nodes get.
    results: element type and shape of each of its results; none where PyTorch does not say.
    memory: strides and offset, in elements, of its first tensor argument, as PyTorch lays it.
    counts: symbols of the sizes of its results that only a run tells, if no node before has them.
  """

  def __init__(self, graph: _stretto.GraphBuilder) -> None:
    self.graph = graph
    self.name = ""
    self.results: list[tuple[torch.dtype, tuple[int, ...]] | None] = []
    self.memory: tuple[tuple[int, ...], int] | None = None
    self.counts: Sequence[Any] = ()
    self._constants: dict[Any, Value] = {}

  # What PyTorch says about the node's first result.
  @property
  def torch_dtype(self) -> torch.dtype:
    result = self.results[0]
    assert result is not None
    return result[0]

  @property
  def dtype(self) -> str:
    return engine_dtype(self.torch_dtype)

  @property
  def shape(self) -> tuple[int, ...]:
    result = self.results[0]
    assert result is not None
    return engine_shape(*result)

  def counted(self, op: str, inputs: Sequence[Value | None],
              outputs: Sequence[tuple[str, tuple[int, ...]]], along: int,
              **attributes: Any) -> list[Value]:
    """A node whose sizes only a run tells.

    Args:
      outputs: element types and shapes with the size that is assumed.
      along: the axis of the first output that has this size.
    """
    raise UnsupportedError("the size of its result depends on the values of tensors")

  def count_is(self, symbol: Any, value: Value, number: int) -> None:
    """A size is the number in a tensor, which is assumed to be this one."""

  def input(self, name: str, dtype: torch.dtype, shape: Sequence[int]) -> Value:
    engine, shape = engine_dtype(dtype), engine_shape(dtype, shape)
    return Value(self.graph.input(name, engine, list(shape)), engine, shape, dtype)

  def nodes(self, op: str, inputs: Sequence[Value | None], outputs: int,
            **attributes: Any) -> list[Value]:
    """Adds a node of the engine."""
    ids = self.graph.node(op, [None if x is None else x.id for x in inputs], attributes, outputs,
                          self.name)
    return [Value(id, *self.graph.spec(id)) for id in ids]

  def node(self, op: str, *inputs: Value | None, **attributes: Any) -> Value:
    """The same of a node with one output."""
    return self.nodes(op, inputs, 1, **attributes)[0]

  def tensor(self, tensor: torch.Tensor, name: str = "") -> Value:
    """A constant. Equal views of the same memory become one."""
    key = (tensor.data_ptr(), tensor.storage_offset(), tuple(tensor.shape), tensor.stride(),
           tensor.dtype)
    if tensor.numel() > 0 and key in self._constants:
      return self._constants[key]
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype in COMPLEX:
      plain = torch.view_as_real(plain)
    if plain.dtype in HALF:
      plain = plain.float()
    engine = engine_dtype(plain.dtype)
    plain = plain.contiguous()
    value = Value(self.graph.constant(plain, name or self.name), engine, plain.shape,
                  tensor.dtype, tensor)
    self._constants[key] = value  # whose tensor keeps the memory, and so the key, alive
    return value

  def scalar(self, number: float | bool, dtype: str) -> Value:
    """A constant of one number."""
    key = (number, type(number), dtype)
    if key not in self._constants:
      self._constants[key] = self.tensor(torch.tensor(number, dtype=_TORCH[dtype]),
                                         f"{number}")
    return self._constants[key]

  def ints(self, values: Iterable[int]) -> Value:
    """A list of integers as the engine's operators take it: as a constant."""
    values = tuple(values)
    key = (values, "ints")
    if key not in self._constants:
      self._constants[key] = self.tensor(torch.tensor(values, dtype=torch.int64),
                                         f"{self.name}.sizes")
    return self._constants[key]

  def causal(self, rows: int, columns: int) -> Value:
    """Truth values: every row sees the columns up to its own."""
    return self.tensor(torch.ones(rows, columns, dtype=torch.bool).tril())

  def cast(self, x: Operand, dtype: str) -> Value:
    """`x` with another element type, or a number as a constant of it."""
    if not isinstance(x, Value):
      return self.scalar(x, dtype)
    return x if x.dtype == dtype else self.node("Cast", x, to=dtype)

  def operands(self, *inputs: Operand, dtype: str | None = None) -> list[Value]:
    """Inputs in the element type of the result, as PyTorch promotes them."""
    return [self.cast(x, dtype or self.dtype) for x in inputs]

  def promoted(self, *inputs: Operand) -> list[Value]:
    """Inputs in the type that PyTorch compares them in."""
    known = [torch.empty((1,) * x.rank, dtype=x.torch_dtype) if isinstance(x, Value) else x
             for x in inputs]
    return self.operands(*inputs, dtype=engine_dtype(torch.result_type(*known)))

  def reshape(self, x: Value, shape: Sequence[int]) -> Value:
    if x.shape == tuple(shape):
      return x
    # Unless told otherwise, a size of 0 means that of the input.
    zeros = {"allowzero": 1} if 0 in shape else {}
    return self.node("Reshape", x, self.ints(shape), **zeros)

  def transpose(self, x: Value, order: Sequence[int]) -> Value:
    if list(order) == list(range(x.rank)):
      return x
    return self.node("Transpose", x, perm=list(order))

  def expand(self, x: Value, shape: Sequence[int]) -> Value:
    if x.shape == tuple(shape):
      return x
    return self.node("Expand", x, self.ints(shape))

  def unsqueeze(self, x: Value, *axes: int) -> Value:
    return self.node("Unsqueeze", x, self.ints(axes))

  def squeeze(self, x: Value, *axes: int) -> Value:
    return self.node("Squeeze", x, self.ints(axes))

  def slice(self, x: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    return self.node("Slice", x, self.ints([start]), self.ints([end]), self.ints([axis]),
                     self.ints([step]))

  def concat(self, parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else self.nodes("Concat", parts, 1, axis=axis)[0]
