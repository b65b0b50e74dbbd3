"""From a program of ATen operators to a graph of the engine, node by node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import is_concrete_int

from stretto import _stretto
from stretto._errors import InternalError, InvalidArgumentError, UnsupportedError
from stretto.aten import _complex, _random
from stretto.aten._builder import (
  COMPLEX,
  DTYPES,
  HALF,
  Builder,
  Value,
  engine_dtype,
  engine_shape,
)
from stretto.aten._checks import is_check
from stretto.aten._places import label, place
from stretto.aten._signature import Input, Output
from stretto.aten._sizes import fixed
from stretto.aten._state import changed_state, changes
from stretto.aten._table import OF_SIZES, TABLE

# A result of so few elements that only depends on constants is computed by PyTorch at once. Larger
# ones are left to the engine, which may not need them.
_SMALL = 1 << 16

# Arguments that say what PyTorch's description of the result says too, or where it lies.
_IMPLIED = ("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking")


@dataclass(frozen=True)
class OpenSizes:
  """How a program is translated whose sizes stay open (`_template.py`).

  Attributes:
    nodes: names of those whose results depend on sizes: nothing is computed of them beforehand.
    builder: makes what the functions of the table build the graph with.
  """

  nodes: AbstractSet[str]
  builder: Callable[[_stretto.GraphBuilder], Builder]


@dataclass(frozen=True)
class Translation:
  """A finished graph, how the module's arguments and results belong to it, and PyTorch's names of
  the operators that it has, in order."""

  graph: _stretto.GraphBuilder
  inputs: list[Input]
  outputs: list[Output]
  operators: list[str]


def translate_program(program: ExportedProgram, name: str, output_names: Sequence[str],
                      values: Mapping[Any, int] | None = None,
                      open_sizes: OpenSizes | None = None) -> Translation:
  """Raises UnsupportedError with every operator that is missing.

  Args:
    program: its nodes have been through `decomposed`.
    name: of the model.
    output_names: one per result, without what the module changes.
    values: what symbolic sizes stand for (`_sizes.bind`).
    open_sizes: for a graph that may stand for other values, too.
  """
  state = set(changed_state(program))
  inputs: dict[str, str] = {}
  known: dict[str, tuple[str, torch.Tensor]] = {}
  constants: dict[str, Any] = {}
  for spec in program.graph_signature.input_specs:
    if spec.kind == InputKind.USER_INPUT:
      if isinstance(spec.arg, ConstantArgument):
        constants[spec.arg.name] = spec.arg.value
    elif spec.target in state:
      inputs[spec.arg.name] = spec.target
    elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
      held = program.state_dict
      tensor = held[spec.target] if spec.target in held else program.constants[spec.target]
      known[spec.arg.name] = (spec.target, tensor)
    else:
      if spec.kind == InputKind.TOKEN:
        raise UnsupportedError(f"{name}: the module does more than give results, such as to print "
                               "something; run that part in PyTorch")
      raise UnsupportedError(f"{name}: {spec.target}: objects in a program are not supported")
  graph = fixed(program.graph, values) if values else program.graph
  targets = changes(program, name)
  # Of the state it becomes a pair that a context knows (runtime/state_pairs.h), but of no argument,
  # which the caller has.
  names = [f"{target}_out" if of_state else f"{target}_changed" for of_state, target in targets]
  names += output_names
  made = translate(graph, known, constants, name, names, open_sizes, inputs)
  places = {(spec.state is not None, spec.state or spec.name): i
            for i, spec in enumerate(made.inputs)}
  for i, target in enumerate(targets):
    made.outputs[i] = replace(made.outputs[i], becomes=places[target])
  return made


def translate(program: torch.fx.Graph, known: Mapping[str, tuple[str, torch.Tensor]],
              constants: Mapping[str, Any], name: str, output_names: Sequence[str],
              open_sizes: OpenSizes | None = None,
              state: Mapping[str, str] | None = None) -> Translation:
  """The same for a bare program.

  Args:
    program: its nodes have been through `decomposed`.
    known: placeholders that are weights: their names for people, and their content.
    constants: those that are no tensors.
    name: of the model.
    output_names: one per result.
    open_sizes: as for `translate_program`.
    state: placeholders that are tensors of the module and inputs of the graph: their paths.
  """
  for path, tensor in known.values():
    if tensor.layout != torch.strided or tensor.is_quantized:
      raise UnsupportedError(f"{name}: {path}: only dense tensors are supported, not "
                             f"{tensor.layout} or quantised ones")
  graph = _stretto.GraphBuilder(name, "pytorch", f"pytorch {torch.__version__}")
  walk = _Walk(graph, known, constants, name, open_sizes, state or {})
  walk.check_operators(program)
  for node in program.nodes:
    walk.visit(node)
  outputs = walk.finish(output_names)
  return Translation(graph, walk.inputs, outputs, walk.operators)


class _Walk:
  """What the nodes so far have become."""

  def __init__(self, graph: _stretto.GraphBuilder, known: Mapping[str, tuple[str, torch.Tensor]],
               constants: Mapping[str, Any], name: str, open_sizes: OpenSizes | None,
               state: Mapping[str, str]) -> None:
    self.name = name
    self._state = state
    self._open: AbstractSet[str] = open_sizes.nodes if open_sizes else frozenset()
    self.inputs: list[Input] = []
    self.operators: list[str] = []
    self._weights = known
    self._constants = constants
    self._graph = graph
    self._builder = (open_sizes.builder if open_sizes else Builder)(graph)
    # A Value, a tensor that is known and may never be needed, or a list of them.
    self._results: dict[Node, Any] = {}
    self._labels: dict[Node, str] = {}  # of parameters and buffers
    self._unfolded: set[Node] = set()
    self._output: Node | None = None

  def check_operators(self, program: torch.fx.Graph) -> None:
    """Raises one error for all operators that are neither in the table nor computed beforehand."""
    known: set[Node] = set()
    of_sizes: set[Node] = set()  # and of nothing else
    missing: dict[str, list[Node]] = {}
    for node in program.nodes:
      if node.op == "placeholder":
        if node.name in self._weights:
          known.add(node)
      elif _is_number(node):
        known.add(node)
      elif node.op == "call_function":
        constant = (all(n in known for n in node.all_input_nodes) and _is_pure(node)
                    and node.name not in self._open)
        if node.name in self._open and _is_pure(node) and all(
            n in known or n in of_sizes for n in node.all_input_nodes):
          of_sizes.add(node)
        if constant:
          known.add(node)
        elif node.target is not operator.getitem and self._function(node) is None:
          missing.setdefault(str(node.target), []).append(node)
      elif node.op == "get_attr":
        missing.setdefault("a graph as attribute", []).append(node)
    if not missing:
      return
    lines = []
    # Sizes that depend on values, and checks of them, are not told: only what gives them is. Nor
    # are graphs in the graph: the operator that takes them is.
    told = {name: nodes for name, nodes in missing.items()
            if not _is_of_sizes(nodes[0]) and nodes[0].op != "get_attr"}
    missing = told or missing
    for name, nodes in sorted(missing.items()):
      places = ", ".join(place(node) for node in nodes[:3])
      more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
      lines.append(f"{name} at {places}{more}")
    if all(nodes[0] in of_sizes for nodes in missing.values()):
      raise UnsupportedError(
        f"{self.name}: PyTorch computes what depends on nothing but dynamic sizes with operators "
        f"that Stretto lacks: {'; '.join(lines)}")
    raise UnsupportedError(
      f"{self.name}: Stretto lacks {len(missing)} of the module's operators: {'; '.join(lines)}. "
      "Rewrite these parts with other operators, or optimise the parts around them as modules of "
      "their own")

  def visit(self, node: Node) -> None:
    if node.op == "placeholder":
      self._placeholder(node)
    elif node.op == "output":
      self._output = node
    elif node.target is operator.getitem:
      results, index = self._results[node.args[0]], node.args[1]
      if index >= len(results):
        raise UnsupportedError(f"{self.name}: {place(node.args[0])}: result {index} of "
                               f"{node.args[0].target} is not supported")
      self._results[node] = results[index]
    elif _is_number(node):
      self._results[node] = node.meta["val"]
      if str(node.target) == "aten._local_scalar_dense.default":
        for symbol in node.meta.get("unbacked_bindings") or {}:
          self._builder.count_is(symbol, self._value(node.args[0]), node.meta["val"])
    elif not is_check(node):
      self._results[node] = self._call(node)

  def finish(self, names: Sequence[str]) -> list[Output]:
    assert self._output is not None
    outputs: list[Output] = []
    values: list[tuple[int, str]] = []
    flat = self._output.args[0]
    for name, result in zip(names, flat):
      if not isinstance(result, Node):
        outputs.append(Output(None, constant=result))
        continue
      described = _description(result.meta["val"])
      if described is None:
        raise UnsupportedError(f"{self.name}: the module returns a size that is open; take it from "
                               "the shape of a result instead")
      values.append((self._value(result).id, name))
      outputs.append(Output(*described))
    if not values:
      raise UnsupportedError(f"{self.name}: the module returns no tensor")
    dtypes = {i.dtype for i in self.inputs} | {o.dtype for o in outputs}
    dtypes |= {tensor.dtype for _, tensor in self._weights.values()}
    for half in HALF:
      if half in dtypes:
        self._graph.note(f"{str(half).removeprefix('torch.')} tensors are computed in float32")
    self._graph.finish(values)
    return outputs

  def _placeholder(self, node: Node) -> None:
    if node.name in self._weights:
      self._labels[node], self._results[node] = self._weights[node.name]
      return
    fake = node.meta.get("val")
    if node.name in self._constants or not isinstance(fake, torch.Tensor):
      value = self._constants.get(node.name, fake)
      self.inputs.append(Input(node.name, None, constant=value))
      return
    shape = _sizes(fake)
    if shape is None:
      raise UnsupportedError(f"{self.name}: input {node.name}: its shape {tuple(fake.shape)} is "
                             "not fixed; export the module without dynamic shapes")
    path = self._state.get(node.name)
    name = node.name if path is None else f"{path}_in"
    self.inputs.append(Input(name, fake.dtype, shape, state=path))
    self._results[node] = self._builder.input(name, fake.dtype, shape)

  def _value(self, node: Node) -> Any:
    """The node's result as a value of the graph."""
    def value(result: Any) -> Any:
      if isinstance(result, torch.Tensor):
        return self._builder.tensor(result, self._labels.get(node, node.name))
      return [value(r) for r in result] if isinstance(result, (list, tuple)) else result
    return value(self._results[node])

  def _call(self, node: Node) -> Any:
    function = self._function(node)
    if self._is_known(node) and (function is None or _size(node) <= _SMALL):
      arguments = _mapped(node, self._tensor)
      with torch.no_grad():
        return node.target(*arguments[0], **arguments[1])
    assert function is not None
    self.operators.append(str(node.target))
    b = self._builder
    b.name = label(node)
    if self._of_sizes(node):
      self._unfolded.add(node)
      b.name += ".of_sizes"  # the other nodes keep the names that they have without this one
    fakes = node.meta["val"]
    fakes = list(fakes) if isinstance(fakes, (list, tuple)) else [fakes]
    b.counts = list(node.meta.get("unbacked_bindings") or {})
    b.memory = _memory(node) if node.target is torch.ops.aten.as_strided.default else None
    try:
      b.results = [_description(f) for f in fakes]
      args, kwargs = _mapped(node, self._value)
      kwargs = {key: value for key, value in kwargs.items() if key not in _IMPLIED}
      found = function(b, *args, **kwargs)
      if isinstance(found, list):
        found = [self._checked(x, r) for x, r in zip(found, b.results)] + found[len(b.results):]
      else:
        found = self._checked(found, b.results[0])
    except (UnsupportedError, InvalidArgumentError, InternalError) as error:
      raise type(error)(f"{self.name}: {node.target} at {place(node)}: {error}") from None
    except TypeError as error:
      raise UnsupportedError(f"{self.name}: {node.target} at {place(node)}: these arguments are "
                             f"not supported: {error}") from error
    return found

  def _checked(self, value: Value, result: tuple[torch.dtype, tuple[int, ...]] | None) -> Value:
    """What was built must be what PyTorch says it is."""
    if result is None:
      return value
    expected = (engine_dtype(result[0]), engine_shape(*result))
    if (value.dtype, value.shape) != expected:
      raise InternalError(f"expected {expected[0]}{list(expected[1])}, built {value.dtype}"
                          f"{list(value.shape)}; please report this")
    if value.torch_dtype == result[0]:
      return value
    # The same numbers may stand for another type elsewhere.
    return Value(value.id, value.dtype, value.shape, result[0])

  def _is_known(self, node: Node) -> bool:
    return (node.name not in self._open and _is_pure(node)
            and all(_known(self._results.get(n)) for n in node.all_input_nodes))

  def _of_sizes(self, node: Node) -> bool:
    """Whether only open sizes keep the result from being known."""
    return node.name in self._open and _is_pure(node) and all(
      n in self._unfolded or _known(self._results.get(n)) for n in node.all_input_nodes)

  def _function(self, node: Node) -> Callable[..., Any] | None:
    found = _function(node)
    if found is None and node.name in self._open:
      return OF_SIZES.get(str(node.target).removeprefix("aten."))
    return found

  def _tensor(self, node: Node) -> Any:
    """The content of a known result."""
    def content(result: Any) -> Any:
      if isinstance(result, Value):
        return result.tensor
      return [content(r) for r in result] if isinstance(result, (list, tuple)) else result
    return content(self._results[node])


def _sizes(fake: torch.Tensor) -> tuple[int, ...] | None:
  """The shape in plain integers; None where it depends on values."""
  if not all(is_concrete_int(size) for size in fake.shape):
    return None
  return tuple(int(size) for size in fake.shape)


def _description(fake: Any) -> tuple[torch.dtype, tuple[int, ...]] | None:
  """Element type and shape of a result; None for one that is absent."""
  if not isinstance(fake, torch.Tensor):
    return None
  shape = _sizes(fake)
  if shape is None:
    raise UnsupportedError(f"its result has the shape {tuple(fake.shape)}, which depends on the "
                           "values of tensors")
  return fake.dtype, shape


def _memory(node: Node) -> tuple[tuple[int, ...], int] | None:
  """Strides and offset of the first argument that is a tensor; None: there is none."""
  for argument in node.all_input_nodes:
    fake = argument.meta.get("val")
    if isinstance(fake, torch.Tensor):
      return tuple(fake.stride()), int(fake.storage_offset())
  return None


def _is_number(node: Node) -> bool:
  """A size, or what is computed from sizes."""
  return isinstance(node.meta.get("val"), (bool, int, float))


def _known(result: Any) -> bool:
  if isinstance(result, (list, tuple)):
    return all(_known(r) for r in result)
  if isinstance(result, (bool, int, float)):
    return True
  return isinstance(result, torch.Tensor) or (isinstance(result, Value)
                                              and result.tensor is not None)


def _mapped(node: Node, value: Callable[[Node], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
  """The node's arguments, with `value` of every node in them."""
  def convert(argument: Any) -> Any:
    if isinstance(argument, Node):
      return value(argument)
    if isinstance(argument, (list, tuple)):
      return [convert(a) for a in argument]
    if isinstance(argument, Mapping):
      return {k: convert(v) for k, v in argument.items()}
    return argument
  return (tuple(convert(a) for a in node.args), {k: convert(v) for k, v in node.kwargs.items()})


def _function(node: Node) -> Callable[..., Any] | None:
  """Of the table; a function that builds nothing for what only checks."""
  target = node.target
  if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
    return None
  if is_check(node):
    return lambda *_: None
  name = str(target).removeprefix("aten.")
  table = _complex.TABLE if _has_complex(node) else TABLE
  return table.get(name)


def _has_complex(node: Node) -> bool:
  """Among its inputs or results."""
  for one in (node, *node.all_input_nodes):
    fakes = one.meta.get("val")
    for fake in fakes if isinstance(fakes, (list, tuple)) else [fakes]:
      if isinstance(fake, torch.Tensor) and fake.dtype in COMPLEX:
        return True
  return False


def is_random(node: Node) -> bool:
  return node.op == "call_function" and str(node.target).removeprefix("aten.") in _random.TABLE


def why_not(node: Node) -> str | None:
  """Why PyTorch runs the node where it can run some; None where `translate` takes it, as far as one
  can say without building it."""
  if node.op != "call_function":
    return "it is no operator"
  if node.target is operator.getitem:
    return why_not(node.args[0])
  if _function(node) is None:
    return "Stretto has no such operator"
  if is_random(node):
    return "it draws random numbers, which follow torch.manual_seed"
  fakes = node.meta.get("val")
  for fake in fakes if isinstance(fakes, (list, tuple)) else [fakes]:
    if not isinstance(fake, torch.Tensor):
      continue
    if fake.dtype not in DTYPES and fake.dtype not in COMPLEX:
      return f"its result is {fake.dtype}"
    if fake.device.type != "cpu":
      return f"its result is on {fake.device}"
    if _sizes(fake) is None:
      return "the shape of its result depends on the values of tensors"
  return None


def _is_of_sizes(node: Node) -> bool:
  """Whether its result is a size, or is computed of sizes."""
  return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymBool, torch.SymFloat))


def _is_pure(node: Node) -> bool:
  """False for what may give another result the next time."""
  target = node.target
  if target is operator.getitem:
    return True
  return (isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable
          and torch.Tag.nondeterministic_seeded not in target.tags
          and target.namespace in ("aten", "prims"))


def _size(node: Node) -> int:
  fakes = node.meta.get("val")
  fakes = fakes if isinstance(fakes, (list, tuple)) else [fakes]
  return sum(f.numel() for f in fakes if isinstance(f, torch.Tensor) and _sizes(f) is not None)
