"""A model that grows node by node. Every node is computed by a peer at once, so that later nodes
can be given what they take: shapes, ranges, numbers that round nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from differential import element_types as types
from differential.divergences import IN_FLOAT32, ORT, REFERENCE, Form, diverges
from differential.element_types import Array
from differential.peer import IR_VERSION, CannotRun, NodeRunner

LARGEST_TENSOR = 6000  # elements
_PARTS = ("Gelu", "If", "Loop", "Scan")
_LARGEST = {"float16": 1e3, "bfloat16": 1e4}  # numbers; others: 1e5
_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 0)
_EXTENT_WEIGHTS = (5, 5, 6, 4, 4, 3, 2, 2, 2, 2, 1, 1)
_RANK_WEIGHTS = (2, 5, 8, 7, 6, 2)
Shape = Sequence[int | None]


class Unfit(Exception):
  """A drawn node cannot be used: no peer computes it, or its numbers are too large."""


@dataclass(eq=False)
class Value:
  """A tensor of the model.

  Attributes:
    name: its name in the model.
    array: what a peer says it is for the inputs that were drawn.
    exact: whether every engine has to give these very numbers.
    kind: "input", "constant" or "node".
    coarseness: the largest step of the float types that it was rounded to, 0 if it is exact.
  """
  name: str
  array: Array
  exact: bool = True
  kind: str = "node"
  coarseness: float = 0.0

  @property
  def shape(self) -> tuple[int, ...]:
    return self.array.shape

  @property
  def rank(self) -> int:
    return self.array.ndim

  @property
  def dtype(self) -> str:
    return self.array.dtype.name


@dataclass(eq=False)
class Step:
  """A node, with what it reads and makes."""
  proto: onnx.NodeProto
  inputs: list[Value]  # also those that its graphs read
  outputs: list[Value]
  runner: NodeRunner
  op: str


@dataclass
class Draft:
  """The model so far.

  Attributes:
    straight: whether what decides shapes and ways is a constant wherever a table asks known().
    open: whether the dimensions of inputs have names instead of numbers; those that are 0 stay,
      as open dimensions begin at 1.
  """
  rng: np.random.Generator
  opset: int
  straight: bool = True
  open: bool = False
  values: list[Value] = field(default_factory=list)
  steps: list[Step] = field(default_factory=list)
  names: int = 0  # how many were given to values

  def _next_name(self) -> int:
    self.names += 1
    return self.names

  # Random choices.
  def chance(self, probability: float) -> bool:
    return bool(self.rng.random() < probability)

  def known(self) -> bool:
    """Whether a value that decides a shape, or a way to go, is a constant of the model."""
    return self.straight or self.chance(0.5)

  def choose(self, *choices: Any) -> Any:
    return choices[int(self.rng.integers(len(choices)))]

  def integer(self, low: int, high: int) -> int:
    """From low to high, both included."""
    return int(self.rng.integers(low, high + 1))

  def extent(self, low: int = 0, high: int = 33) -> int:
    weights = [w if low <= e <= high else 0 for e, w in zip(_EXTENTS, _EXTENT_WEIGHTS)]
    total = sum(weights)
    return int(self.rng.choice(_EXTENTS, p=[w / total for w in weights]))

  def shape(self, rank: int | None = None, low: int = 0) -> tuple[int, ...]:
    if rank is None:
      weights = np.array(_RANK_WEIGHTS)
      rank = int(self.rng.choice(len(weights), p=weights / weights.sum()))
    while True:
      shape = tuple(self.extent(low, 33 if rank < 4 else 9) for _ in range(rank))
      if np.prod(shape, dtype=np.int64) <= LARGEST_TENSOR // 4:
        return shape

  def some(self, items: Sequence[Any], least: int = 1) -> list[Any]:
    """A part of them, in their order."""
    count = self.integer(least, len(items))
    return [items[i] for i in sorted(self.rng.permutation(len(items))[:count])]

  def schema(self, op: str, domain: str = "") -> defs.OpSchema:
    if not defs.has(op, domain):
      raise Unfit(f"onnx has no {op}")
    version = self.opset if not domain else defs.get_schema(op, domain).since_version
    try:
      schema = defs.get_schema(op, version, domain)
    except defs.SchemaError:
      raise Unfit(f"{op} came after opset {version}") from None
    if schema.deprecated:
      raise Unfit(f"{op} was gone in opset {version}")
    return schema

  def has_attribute(self, op: str, name: str) -> bool:
    return name in self.schema(op).attributes

  def types(self, op: str, port: int = 0, domain: str = "") -> tuple[str, ...]:
    """The types that an operator's input may have, of those that the fuzzer knows."""
    schema = self.schema(op, domain)
    port = min(port, len(schema.inputs) - 1)
    known = types.ALL + types.STORED
    return tuple(name for name in map(types.schema_type, sorted(schema.inputs[port].types))
                 if name in known)

  # Values.
  def numbers(self, dtype: str, shape: Sequence[int], low: float | None = None,
              high: float | None = None, exact: bool | None = None) -> Array:
    """An array: integers, quarters, or any floats; without bounds also extreme integers."""
    numpy_type, shape = types.numpy_type(dtype), tuple(shape)
    if dtype == "bool":
      return self.rng.integers(0, 2, shape).astype(np.bool_)
    if dtype in types.INTEGERS or dtype in ("int4", "uint4"):
      bits = int(dtype.removeprefix("u").removeprefix("int"))
      unsigned = dtype.startswith("u")
      least, most = (0, 2**bits - 1) if unsigned else (-2**(bits - 1), 2**(bits - 1) - 1)
      if low is None and high is None and self.chance(0.1) and bits > 4:
        return self.rng.integers(least, most, shape, numpy_type, endpoint=True)
      first = max(least, -9 if low is None else int(np.ceil(low)))
      last = min(most, 9 if high is None else int(np.floor(high)))
      return self.rng.integers(first, last + 1, shape).astype(numpy_type)
    low, high = -4 if low is None else low, 4 if high is None else high
    if exact or (exact is None and self.chance(0.4)):
      first, last = int(np.ceil(max(low, -8) * 4)), int(np.floor(min(high, 8) * 4))
      if first <= last:
        return np.asarray(self.rng.integers(first, last + 1, shape) / 4).astype(numpy_type)
    return np.asarray(self.rng.uniform(low, high, shape)).astype(numpy_type)

  def new(self, array: Array, constant: bool | None = None) -> Value:
    """Makes an array an input or a constant of the model."""
    if constant is None:
      constant = self.chance(0.35)
    array = np.ascontiguousarray(array).reshape(array.shape)
    grid = types.on_grid(array)
    value = Value(f"{'c' if constant else 'x'}{self._next_name()}", array, grid,
                  "constant" if constant else "input", 0 if grid else types.step(array))
    self.values.append(value)
    return value

  def constant(self, numbers: Any, dtype: str = "int64") -> Value:
    """A constant, such as the axes of an operator."""
    return self.new(np.array(numbers, types.numpy_type(dtype)), True)

  def take(self, dtypes: Sequence[str], shape: Shape | None = None, low: float | None = None,
           high: float | None = None, exact: bool | None = None, constant: bool | None = None,
           fits: Callable[[Array], bool] | None = None, nonzero: bool = False, least: int = 0,
           reuse: float = 0.75) -> Value:
    """A value of the model, or a new input or constant.

    Args:
      dtypes: the types that it may have.
      shape: its shape; None stands for any extent, or any shape.
      low: its least number.
      high: its greatest number.
      exact: True: only numbers on which arithmetic rounds nothing.
      constant: whether it has to be a constant, or must not be one.
      fits: what else must hold.
      nonzero: whether no number may be 0 or close to it.
      least: the least extent where any is allowed.
      reuse: how often a value that is there is taken.
    """
    def usable(value: Value) -> bool:
      array = value.array
      if value.dtype not in dtypes or (exact and not (value.exact and types.on_grid(array))):
        return False
      if constant is not None and (value.kind == "constant") != constant:
        return False
      if shape is not None and (len(shape) != array.ndim or not all(
          b >= least if a is None else a == b for a, b in zip(shape, array.shape))):
        return False
      if shape is None and least and min(array.shape, default=least) < least:
        return False
      if array.size and array.dtype != np.bool_ and not (low is None and high is None):
        wide = array.astype(np.float64)
        if (low is not None and wide.min() < low) or (high is not None and wide.max() > high):
          return False
      if nonzero and not nonzero_places(array).all():
        return False
      return fits is None or fits(array)

    if self.chance(reuse):
      found = [value for value in self.values if usable(value)]
      if found:  # the newest are the likeliest
        return found[max(self.integer(0, len(found) - 1) for _ in range(3))]
    if not dtypes:
      raise Unfit("no type that the fuzzer knows")
    weights = np.array([8 if name == "float32" else 1 for name in dtypes], float)
    dtype = str(self.rng.choice(list(dtypes), p=weights / weights.sum()))
    for _ in range(10):
      wanted = self.shape(low=least) if shape is None else tuple(
        self.extent(least, 17) if extent is None else extent for extent in shape)
      if np.prod(wanted, dtype=np.int64) > LARGEST_TENSOR:
        raise Unfit("too large")
      array = self.numbers(dtype, wanted, low, high, exact)
      if nonzero:
        array = np.where(nonzero_places(array), array, np.ones_like(array))
      if fits is None or fits(array):
        return self.new(array, constant)
    raise Unfit("the numbers do not fit")

  def like(self, value: Value, **limits: Any) -> Value:
    """A value of the same type."""
    return self.take((value.dtype,), **limits)

  # Nodes.
  def add(self, op: str, inputs: Sequence[Value | None], outputs: int = 1, exact: bool = False,
          domain: str = "", captured: Sequence[Value] = (), **attributes: Any) -> list[Value]:
    """Adds a node.

    Args:
      op: the operator.
      inputs: what it reads; None: an input that is left out.
      outputs: how many outputs it has.
      exact: whether it gives the same numbers in every engine if its inputs are exact.
      domain: the operator's domain.
      captured: what its graphs read besides.
      **attributes: its attributes; those that are None are left out.

    Raises:
      Unfit: the node cannot be used.
    """
    schema = self.schema(op, domain)
    given = list(inputs)
    while given and given[-1] is None:
      given.pop()
    names = [f"y{self._next_name()}" for _ in range(outputs)]
    proto = helper.make_node(op, ["" if v is None else v.name for v in given], names,
                             f"{op.lower()}_{len(self.steps)}", domain=domain)
    proto.attribute.extend(
      helper.make_attribute(k, v, attr_type=onnx.AttributeProto.INTS if v == [] else None)
      for k, v in attributes.items() if v is not None)
    read = list(dict.fromkeys([*(v for v in given if v is not None), *captured]))
    constants = [v.name for v in read if v.kind == "constant"]
    arrays = {v.name: v.array for v in read}
    form = Form({k: v for k, v in attributes.items() if v is not None},
                [None if v is None else v.array for v in given], outputs,
                self.opsets(domain)[domain])
    avoid = [peer for peer in (ORT, REFERENCE) if diverges(peer, op, form)]
    runner = NodeRunner(proto, arrays, constants, self.opsets(domain), avoid)
    try:
      results = runner.run({v.name: v.array for v in read if v.kind != "constant"})
    except CannotRun as error:
      raise Unfit(f"no peer computes {op}: {error}") from None
    results = [typed_as_declared(schema, i, array, given) for i, array in enumerate(results)]
    least = 2.0**-23 if op in IN_FLOAT32.get(runner.peer, ()) else 0.0
    before = max((v.coarseness for v in read), default=0.0)
    # x * (1 + erf(x / sqrt(2))) is small where its parts are not; neither are they in graphs.
    parts = max((types.largest(v.array) for v in read), default=0.0) if op in _PARTS else 0.0
    made = []
    for name, array in zip(names, results):
      limit = _LARGEST.get(array.dtype.name, 1e5)
      if array.size > LARGEST_TENSOR or array.dtype == object:
        raise Unfit("too large")
      if types.is_float(array) and array.size and not np.abs(
          array.astype(np.float64)).max() <= limit:
        raise Unfit("not finite, or too large")
      same = exact and all(v.exact for v in read) and types.on_grid(array)
      if not types.is_float(array):
        same = all(v.exact for v in read) or exact
      coarseness = 0 if same else max(before, least, types.step(array))
      if parts and coarseness and array.size:
        scale = types.scale(array)
        if scale == 0:
          raise Unfit("the parts cancel")
        coarseness *= max(1.0, parts / scale)
      made.append(Value(name, array, same, "node", coarseness))
    self.values += made
    self.steps.append(Step(proto, read, made, runner, f"{domain}.{op}" if domain else op))
    return made

  def opsets(self, *domains: str) -> dict[str, int]:
    versions = {"": self.opset}
    for domain in domains:
      if domain:
        versions[domain] = {"ai.onnx.ml": 5}.get(domain, 1)
    return versions


def typed_as_declared(schema: defs.OpSchema, output: int, array: Array,
                      inputs: Sequence[Value | None]) -> Array:
  """An output in the type of the inputs that it has to share one with: onnx's reference computes
  some operators in a wider one."""
  wanted = schema.outputs[min(output, len(schema.outputs) - 1)].type_str
  for i, value in enumerate(inputs):
    port = schema.inputs[min(i, len(schema.inputs) - 1)]
    if value is not None and port.type_str == wanted and not wanted.startswith("tensor"):
      if port.is_homogeneous or schema.domain:
        return array.astype(value.array.dtype, copy=False)
  return array


def nonzero_places(array: Array) -> Array:
  """Where numbers are not 0 or close to it."""
  return np.asarray(np.abs(array.astype(np.float64)) >= 0.125)


def build_model(draft: Draft, steps: Sequence[Step], outputs: Sequence[Value],
                inputs: Sequence[Value] = ()) -> tuple[onnx.ModelProto, dict[str, Array]]:
  """The model of some steps and what to feed it.

  Args:
    draft: what the steps are of.
    steps: the nodes, in order.
    outputs: its outputs.
    inputs: values that are made by other steps and become inputs.
  """
  read = {v: None for step in steps for v in step.inputs}
  read |= {v: None for v in outputs}
  fed = [v for v in read if v.kind == "input" or v in inputs]
  stored = [v for v in read if v.kind == "constant" and v not in fed]
  def info(value: Value) -> onnx.ValueInfoProto:
    shape = [f"{value.name}_{axis}" if draft.open and extent else extent
             for axis, extent in enumerate(value.shape)]
    return helper.make_tensor_value_info(value.name, types.onnx_type(value.array), shape)

  infos, results = [info(v) for v in fed], [info(v) for v in outputs]
  graph = helper.make_graph([s.proto for s in steps], "drawn", infos, results,
                            [numpy_helper.from_array(v.array, v.name) for v in stored])
  opsets = draft.opsets(*(step.proto.domain for step in steps))
  imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
  model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
  return model, {v.name: v.array for v in fed}


def feeds_of(draft: Mapping[str, Array]) -> dict[str, Array]:
  """Copies, which a run may not change."""
  return {name: array.copy() for name, array in draft.items()}
