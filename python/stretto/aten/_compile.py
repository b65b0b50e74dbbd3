"""torch.compile(module, backend="stretto").

PyTorch finds `backend` by an entry point of the package. It gives a program of tensors; what the
table knows becomes models of Stretto, and PyTorch runs the rest.
"""

from __future__ import annotations

import logging
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from stretto import _stretto
from stretto._errors import Error, InvalidArgumentError, UnsupportedError
from stretto.aten._export import decomposed
from stretto.aten._model import array, run
from stretto.aten._translate import Translation, place, translate, why_not

LOG = logging.getLogger("stretto")

# Programs are made for fixed shapes and weights. After so many of one program it runs in PyTorch,
# because making them takes longer than they save.
_MOST = 8

_OPTIONS = ("level", "accuracy", "threads", "tuning", "tuning_cache", "verify")


def backend(program: GraphModule, example_inputs: Sequence[Any], *,
            options: Mapping[str, Any] | None = None, **_: Any) -> Callable[..., Any]:
  """What torch.compile calls with a program.

  Args:
    program: it may hold any operator.
    example_inputs: not used, the program is made when it is called with tensors.
    options: those of `torch.compile`: `level`, `accuracy`, `threads`, `tuning`, `tuning_cache` and
      `verify`, as in `stretto.optimize`.

  Returns:
    A function of the program's inputs.
  """
  return Compiled(program, checked(options))


def checked(options: Mapping[str, Any] | None) -> dict[str, Any]:
  chosen = dict(options or {})
  for name in chosen:
    if name not in _OPTIONS:
      raise InvalidArgumentError(f"options: {name} is unknown; expected {', '.join(_OPTIONS)}")
  return chosen


@dataclass(frozen=True)
class Left:
  """An operator that PyTorch runs.

  Attributes:
    operator: PyTorch's name of it.
    place: the module's path and the line of code.
    reason: why Stretto does not run it.
  """

  operator: str
  place: str
  reason: str


class Compiled:
  """A program that becomes a model for every set of shapes it is called with.

  Attributes:
    program: what PyTorch gave.
    made: why it was made each time: "first call", "new shapes" or "changed weights".
    current: what ran at the last call; None where gradients are recorded.
  """

  def __init__(self, program: GraphModule, options: dict[str, Any]) -> None:
    self.program = program
    self.made: list[str] = []
    self.current: Made | None = None
    self._options = options
    self._made: dict[Any, Made] = {}
    self._lock = threading.Lock()

  def __call__(self, *inputs: Any) -> Any:
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad
                                       for x in inputs):
      self.current = None
      return self.program(*inputs)
    made = self.current
    if made is None or not made.takes(inputs):
      made = self.current = self._find(inputs)
    return self.program(*inputs) if made.function is None else made(inputs)

  def _find(self, inputs: tuple[Any, ...]) -> Made:
    key = tuple((x.dtype, x.shape) if isinstance(x, torch.Tensor) else x for x in inputs)
    made = self._made.get(key)
    if made is None or not made.takes(inputs):
      with self._lock:
        self.made.append("changed weights" if made is not None else
                         "new shapes" if self._made else "first call")
        made = self._made[key] = self._make(inputs)
    return made

  @torch.compiler.disable
  def _make(self, inputs: tuple[Any, ...]) -> Made:
    if len(self.made) > _MOST:
      if len(self.made) == _MOST + 1:
        LOG.warning("torch.compile: a program was made %d times, because shapes or weights change; "
                    "PyTorch runs it from now on", _MOST)
      return Made(None, inputs, [], [], [], f"it was made {_MOST} times already, because shapes or "
                                            "weights change")
    try:
      return _make(self.program, inputs, self._options)
    except Error as error:
      LOG.info("torch.compile: PyTorch runs a program: %s", error)
      return Made(None, inputs, [], [], [], str(error))


class Made:
  """A program with models in it, for some shapes and weights.

  Attributes:
    function: of the program's inputs; None where PyTorch runs all of it.
    parts: its models.
    left: what PyTorch runs between them.
    reason: why PyTorch runs all of it, where it does.
  """

  def __init__(self, function: Callable[..., Any] | None, inputs: Sequence[Any],
               weights: Sequence[int], parts: list[_Part], left: list[Left],
               reason: str | None = None) -> None:
    self.function = function
    self.parts, self.left, self.reason = parts, left, reason
    rest = [i for i in range(len(inputs)) if i not in set(weights)]
    self._tensors = [(i, inputs[i].dtype, inputs[i].shape) for i in rest
                     if isinstance(inputs[i], torch.Tensor)]
    self._others = [(i, inputs[i]) for i in rest if not isinstance(inputs[i], torch.Tensor)]
    self._weights = list(weights)
    self._state = _state([inputs[i] for i in weights])

  def takes(self, inputs: Sequence[Any]) -> bool:
    """Whether it was made for such inputs: called each time, so every microsecond counts."""
    for i, dtype, shape in self._tensors:
      x = inputs[i]
      if x.dtype is not dtype or x.shape != shape:
        return False
    for i, value in self._others:
      x = inputs[i]
      if x is not value and (type(x) is not type(value) or x != value):
        return False
    return _state([inputs[i] for i in self._weights]) == self._state

  def __call__(self, inputs: Sequence[Any]) -> Any:
    assert self.function is not None
    with torch.no_grad():
      return self.function(inputs)


# Of the tensors' class itself, so that no Python code runs per weight.
_PLACE = torch._C.TensorBase.data_ptr
_VERSION = torch._C.TensorBase._version.__get__
_SHAPE = torch._C.TensorBase.shape.__get__


def _state(weights: list[torch.Tensor]) -> tuple[list[Any], ...]:
  """It changes when somebody writes to one of them or replaces it."""
  return (list(map(_PLACE, weights)), list(map(_VERSION, weights)), list(map(_SHAPE, weights)))


def _is_weight(x: Any) -> bool:
  """A parameter or a buffer, whose changes are noticed."""
  if not isinstance(x, torch.Tensor) or x.is_inference():
    return False
  return (isinstance(x, torch.nn.Parameter)
          or getattr(x, "_dynamo_static_input_type", None) is not None)


def _make(program: GraphModule, inputs: tuple[Any, ...], options: dict[str, Any]) -> Made:
  if not any(isinstance(x, torch.Tensor) for x in inputs):
    raise UnsupportedError("the program has no tensors")
  with torch.no_grad():
    try:
      exported = decomposed(torch.export.export(program, inputs, strict=False))
    except Exception as error:
      raise UnsupportedError(f"torch.export cannot trace it: {error}") from error
  signature = exported.graph_signature
  if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
    raise UnsupportedError("it changes its inputs")
  _refuse_aliases(program, inputs)
  graph = exported.graph_module
  state = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
           **signature.inputs_to_lifted_tensor_constants}
  held = {name: exported.state_dict.get(target, exported.constants.get(target))
          for name, target in state.items()}
  places = [node for node in graph.graph.nodes if node.op == "placeholder"]
  given = [node for node in places if node.name not in held]
  if len(given) != len(inputs):
    raise UnsupportedError("it takes containers")
  weights = {i: x for i, x in enumerate(inputs) if _is_weight(x)}
  known = {given[i].name: (given[i].name, x.detach()) for i, x in weights.items()}
  known |= {name: (name, x) for name, x in held.items()}
  constants = {node.name: x for node, x in zip(given, inputs) if not isinstance(x, torch.Tensor)}
  examples = dict(zip((node.name for node in given), inputs))
  outputs = graph.graph.output_node().args[0]
  try:
    made = translate(graph.graph, known, constants, "compiled",
                     [f"output.{i}" for i in range(len(outputs))])
    model = _Part(made, options, examples)
    rest = [i for i, node in enumerate(given) if node.name not in known]
    return Made(lambda xs: tuple(model(*(xs[i] for i in rest))), inputs, list(weights), [model], [])
  except UnsupportedError as error:
    LOG.info("torch.compile: %s", error)
  mixed, parts, left = _partitioned(graph, known, options)
  order = [(x, None) if x is not None else (None, given.index(node))
           for node in places for x in (held.get(node.name),)]
  return Made(lambda xs: mixed(*(x if i is None else xs[i] for x, i in order)), inputs,
              list(weights), parts, left)


def _refuse_aliases(program: GraphModule, inputs: tuple[Any, ...]) -> None:
  """A result that shares memory with an input or another result has to go on sharing it."""
  with torch.no_grad():
    results = program(*inputs)
  results = results if isinstance(results, (list, tuple)) else [results]
  memory = {x.untyped_storage().data_ptr() for x in inputs if isinstance(x, torch.Tensor)}
  for result in results:
    if isinstance(result, torch.Tensor) and result.numel():
      at = result.untyped_storage().data_ptr()
      if at in memory:
        raise UnsupportedError("its results share memory with its inputs or with each other")
      memory.add(at)


class _Part(torch.nn.Module):
  """A model in place of some nodes."""

  def __init__(self, made: Translation, options: dict[str, Any],
               examples: Mapping[str, Any]) -> None:
    super().__init__()
    chosen = _stretto.Options()
    for name, value in options.items():
      setattr(chosen, name, str(value) if name == "tuning" else value)
    chosen.profile = False
    arrays = {}
    for spec in made.inputs:
      x = examples.get(spec.name)
      if spec.dtype is not None and isinstance(x, torch.Tensor):
        arrays[spec.name] = array(x)
    self.session = _stretto.optimize_graph(made.graph, chosen, arrays, None)
    self.inputs, self.outputs = made.inputs, made.outputs
    self.operators = made.operators
    self.single = False

  def forward(self, *inputs: Any) -> Any:
    results = run(self.session, self.inputs, self.outputs, inputs)
    return results[0] if self.single else results


class _Supported(OperatorSupportBase):
  def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
    return why_not(node) is None


def _partitioned(graph: GraphModule, known: Mapping[str, tuple[str, torch.Tensor]],
                 options: dict[str, Any]) -> tuple[GraphModule, list[_Part], list[Left]]:
  """The program with its supported parts replaced by models, these, and what is left."""
  whole = CapabilityBasedPartitioner(graph, _Supported(), allows_single_node_partition=False)
  mixed = whole.partition_and_fuse(prefix="stretto_")
  parts: list[_Part] = []
  left: list[Left] = []
  for node in list(mixed.graph.nodes):
    if node.op != "call_module" or not str(node.target).startswith("stretto_"):
      if _is_work(node):
        reason = why_not(node) or "alone between operators that PyTorch runs"
        left.append(Left(str(node.target), place(node), reason))
      continue
    part = mixed.get_submodule(node.target)
    inner = [n for n in part.graph.nodes if n.op == "placeholder"]
    mine = {n.name: known[outer.name] for n, outer in zip(inner, node.args)
            if isinstance(outer, Node) and outer.name in known}
    result = part.graph.output_node().args[0]
    single = not isinstance(result, (list, tuple))
    if single:
      part.graph.output_node().args = ((result,),)
    flat = part.graph.output_node().args[0]
    try:
      made = translate(part.graph, mine, {}, node.target,
                       [f"output.{i}" for i in range(len(flat))])
      model = _Part(made, options, {})
    except Error as error:
      LOG.info("torch.compile: PyTorch runs a part: %s", error)
      left += [Left(str(n.target), place(n), f"its part was refused: {error}")
               for n in part.graph.nodes if _is_work(n)]
      part.graph.output_node().args = (result,)
      continue
    model.single = single
    parts.append(model)
    mixed.delete_submodule(node.target)
    mixed.add_submodule(node.target, model)
    node.args = tuple(outer for n, outer in zip(inner, node.args) if n.name not in mine)
  if not parts:
    raise UnsupportedError(f"no part of it is worth a model: {_counted(left)}")
  mixed.recompile()
  return mixed, parts, left


def _is_work(node: Node) -> bool:
  return node.op == "call_function" and node.target is not operator.getitem


def _counted(left: Sequence[Left]) -> str:
  """Operators and the reasons why PyTorch runs them, each once."""
  reasons = {f"{entry.operator} ({entry.reason})" for entry in left}
  return "; ".join(sorted(reasons)) or "it has no operators"
