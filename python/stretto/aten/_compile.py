"""torch.compile(module, backend="stretto").

PyTorch finds `backend` by an entry point of the package. It gives a program of tensors; what the
table knows becomes models of Stretto, and PyTorch runs the rest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from stretto import _stretto
from stretto._errors import Error, InvalidArgumentError, UnsupportedError
from stretto.aten._export import decomposed
from stretto.aten._model import run
from stretto.aten._translate import Translation, is_supported, translate

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
  chosen = dict(options or {})
  for name in chosen:
    if name not in _OPTIONS:
      raise InvalidArgumentError(f"options: {name} is unknown; expected {', '.join(_OPTIONS)}")
  return _Compiled(program, chosen)


class _Compiled:
  """A program that becomes a model for every set of shapes it is called with."""

  def __init__(self, program: GraphModule, options: dict[str, Any]) -> None:
    self._program = program
    self._options = options
    self._made: dict[Any, _Made | None] = {}  # None: PyTorch runs it
    self._count = 0
    self._lock = threading.Lock()

  def __call__(self, *inputs: Any) -> Any:
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad
                                       for x in inputs):
      return self._program(*inputs)
    key = tuple((x.dtype, x.shape) if isinstance(x, torch.Tensor) else x for x in inputs)
    made = self._made.get(key, self)
    if made is self or (made is not None and not made.fits(inputs)):
      with self._lock:
        made = self._made[key] = self._make(inputs)
    return self._program(*inputs) if made is None else made(inputs)

  @torch.compiler.disable
  def _make(self, inputs: tuple[Any, ...]) -> _Made | None:
    self._count += 1
    if self._count > _MOST:
      if self._count == _MOST + 1:
        LOG.warning("torch.compile: a program was made %d times, because shapes or weights change; "
                    "PyTorch runs it from now on", _MOST)
      return None
    try:
      return _make(self._program, inputs, self._options)
    except Error as error:
      LOG.info("torch.compile: PyTorch runs a program: %s", error)
      return None


class _Made:
  """A program with models in it, for some shapes and weights."""

  def __init__(self, function: Callable[..., Any], weights: dict[int, torch.Tensor]) -> None:
    self._function = function
    self._weights = {i: _state(x) for i, x in weights.items()}

  def fits(self, inputs: Sequence[Any]) -> bool:
    return all(_state(inputs[i]) == state for i, state in self._weights.items())

  def __call__(self, inputs: Sequence[Any]) -> Any:
    with torch.no_grad():
      return self._function(inputs)


def _state(x: torch.Tensor) -> tuple[int, int]:
  """It changes when somebody writes to the tensor."""
  return x.data_ptr(), x._version


def _is_weight(x: Any) -> bool:
  """A parameter or a buffer, whose changes are noticed."""
  if not isinstance(x, torch.Tensor) or x.is_inference():
    return False
  return (isinstance(x, torch.nn.Parameter)
          or getattr(x, "_dynamo_static_input_type", None) is not None)


def _make(program: GraphModule, inputs: tuple[Any, ...], options: dict[str, Any]) -> _Made:
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
    return _Made(lambda xs: tuple(model(*(xs[i] for i in rest))), weights)
  except UnsupportedError as error:
    LOG.info("torch.compile: %s", error)
  mixed = _partitioned(graph, known, options)
  order = [(x, None) if x is not None else (None, given.index(node))
           for node in places for x in (held.get(node.name),)]
  return _Made(lambda xs: mixed(*(x if i is None else xs[i] for x, i in order)), weights)


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
        x = x.detach().resolve_neg()
        x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        arrays[spec.name] = x.contiguous().numpy()
    self._session = _stretto.optimize_graph(made.graph, chosen, arrays, None)
    self._inputs, self._outputs = made.inputs, made.outputs
    self.single = False

  def forward(self, *inputs: Any) -> Any:
    results = run(self._session, self._inputs, self._outputs, inputs)
    return results[0] if self.single else results


class _Supported(OperatorSupportBase):
  def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
    return is_supported(node)


def _partitioned(graph: GraphModule, known: Mapping[str, tuple[str, torch.Tensor]],
                 options: dict[str, Any]) -> GraphModule:
  """The program with its supported parts replaced by models."""
  parts = CapabilityBasedPartitioner(graph, _Supported(), allows_single_node_partition=False)
  mixed = parts.partition_and_fuse(prefix="stretto_")
  count = 0
  for node in list(mixed.graph.nodes):
    if node.op != "call_module" or not str(node.target).startswith("stretto_"):
      continue
    part = mixed.get_submodule(node.target)
    inner = [n for n in part.graph.nodes if n.op == "placeholder"]
    mine = {place.name: known[outer.name] for place, outer in zip(inner, node.args)
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
      part.graph.output_node().args = (result,)
      continue
    model.single = single
    count += 1
    mixed.delete_submodule(node.target)
    mixed.add_submodule(node.target, model)
    node.args = tuple(outer for place, outer in zip(inner, node.args) if place.name not in mine)
  if count == 0:
    raise UnsupportedError("Stretto lacks all of its operators")
  mixed.recompile()
  return mixed
