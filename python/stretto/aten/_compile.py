"""torch.compile(module, backend="stretto").

PyTorch finds `backend` by an entry point of the package. It gives a program of tensors; what the
table knows becomes models of Stretto, and PyTorch runs the rest.
"""

from __future__ import annotations

import logging
import operator
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from stretto import _stretto
from stretto._errors import CommError, Error, InvalidArgumentError, UnsupportedError
from stretto.aten._causal import leave_out_of_compiled
from stretto.aten._model import array, run
from stretto.aten._places import place
from stretto.aten._state import shared, write_back
from stretto.aten._traced import Traced, open_sizes
from stretto.aten._translate import Translation, is_random, translate, why_not

LOG = logging.getLogger("stretto")

# After so many models of one program it runs in PyTorch, because making them takes longer than they
# save. Other sizes of open dimensions do not count: they share weights and measurements.
_MOST = 8
# Shapes that are kept: those used last. If so many calls in a row bring twice as many new shapes as
# that, PyTorch runs other new ones.
_KEPT, _CALLS = 16, 64

# A buffer that changed so often, while no parameter did, is an input from then on.
_CHANGES = 2

_OPTIONS = ("level", "accuracy", "threads", "tuning", "tuning_cache", "verify")

# What PyTorch must not try again: a rank that is lost, and memory that is full.
_NOT_OURS = (CommError, MemoryError)

leave_out_of_compiled()
# PyTorch's own backend gains nothing from recurrent layers, so they are left out of programs unless
# this is set; there is no such switch for one backend.
torch._dynamo.config.allow_rnn = True


def backend(program: GraphModule, example_inputs: Sequence[Any], *,
            options: Mapping[str, Any] | None = None, **_: Any) -> Callable[..., Any]:
  """What torch.compile calls with a program.

  Args:
    program: it may hold any operator.
    example_inputs: they say which dimensions are open; models are made when the program is called.
    options: those of `torch.compile`: `level`, `accuracy`, `threads`, `tuning`, `tuning_cache` and
      `verify`, as in `stretto.optimize`.

  Returns:
    A function of the program's inputs.
  """
  return Compiled(program, example_inputs, checked(options))


def checked(options: Mapping[str, Any] | None) -> dict[str, Any]:
  chosen = dict(options or {})
  for name in chosen:
    if name not in _OPTIONS:
      raise InvalidArgumentError(f"options: {name} is unknown; expected {', '.join(_OPTIONS)}")
  _set(_stretto.Options(), chosen)
  return chosen


def _set(options: _stretto.Options, chosen: Mapping[str, Any]) -> None:
  for name, value in chosen.items():
    try:
      setattr(options, name, str(value) if name == "tuning" else value)
    except (TypeError, ValueError) as error:
      raise InvalidArgumentError(f"options: {name}: {error}") from error


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

  def __init__(self, program: GraphModule, examples: Sequence[Any],
               options: dict[str, Any]) -> None:
    self.program = program
    self.made: list[str] = []
    self.current: Made | None = None
    self._options = options
    self._sizes = open_sizes(program, examples)
    self._traced: Traced | None = None  # for all sizes, if some are open
    self._first: Made | None = None  # with which other sizes share
    self._known: OrderedDict[Any, Made] = OrderedDict()
    self._told = False  # that PyTorch runs what is new
    self._changes = Counter[int]()  # of buffers, by input
    self._anew = 0  # how often it was made with weights and measurements of its own
    self._calls, self._misses = 0, deque[int](maxlen=2 * _KEPT)
    self._lock = threading.Lock()
    self._turn = threading.Lock()  # held by a call that changes its inputs

  def __call__(self, *inputs: Any) -> Any:
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad
                                       for x in inputs):
      self.current = None
      return self.program(*inputs)
    self._calls += 1
    made = self.current
    if made is None or not made.takes(inputs):
      made = self.current = self._find(inputs)
    if made.function is None or made.shares(inputs):
      return self.program(*inputs)
    try:
      if not made.changed:
        return made(inputs)
      with self._turn:
        return made(inputs)
    except Error as error:
      # No input is changed yet. But what PyTorch runs between models may have had effects.
      if made.left or isinstance(error, CommError):
        raise
      LOG.info("torch.compile: PyTorch runs a call: %s", error)
    return self.program(*inputs)

  def _find(self, inputs: tuple[Any, ...]) -> Made:
    key = tuple((x.dtype, x.shape) if isinstance(x, torch.Tensor) else x for x in inputs)
    with self._lock:
      made = self._known.get(key)
      if made is not None and made.takes(inputs):
        self._known.move_to_end(key)
        return made
      old = made if self._first is None else self._first
      if old is not None and old.has_weights(inputs):
        old = None
      new = self._make(inputs, old)
      self._known[key] = new
      if len(self._known) > _KEPT:
        self._known.popitem(last=False)
      return new

  @torch.compiler.disable
  def _make(self, inputs: tuple[Any, ...], old: Made | None) -> Made:
    """
    Args:
      inputs: of a call.
      old: what was made for other weights, if it was.
    """
    if old is not None:
      self._first = self._traced = None
      moved = old.moved(inputs)
      if not any(isinstance(inputs[i], torch.nn.Parameter) for i in moved):
        self._changes.update(moved)
    first = self._first
    if first is None:
      if self._anew == _MOST:
        return self._left_to_pytorch(inputs, f"it was made {_MOST} times already, because shapes "
                                             "or weights change")
      self._anew += 1
    else:
      full = len(self._misses) == 2 * _KEPT
      if full and self._calls - self._misses[0] < _CALLS:
        return self._left_to_pytorch(inputs, "most calls bring new shapes")
      self._misses.append(self._calls)
    state = {i for i, count in self._changes.items() if count >= _CHANGES}
    self.made.append("changed weights" if old is not None
                     else "new shapes" if self.made else "first call")
    try:
      if any(self._sizes):
        try:
          if self._traced is None:
            self._traced = Traced(self.program, inputs, self._sizes)
          made = _make(self._traced, inputs, self._options, state, True, first)
          self._first = first or made
          return made
        except _NOT_OURS:
          raise
        except Exception as error:
          LOG.info("torch.compile: not for open sizes: %s", error)
          self._sizes, self._first = [], None
      return _make(Traced(self.program, inputs, []), inputs, self._options, state)
    except _NOT_OURS:
      raise
    except Exception as error:  # whatever it is, PyTorch can run the program
      LOG.info("torch.compile: PyTorch runs a program: %s", error)
      return Made(None, inputs, [], [], [], str(error))

  def _left_to_pytorch(self, inputs: tuple[Any, ...], reason: str) -> Made:
    if not self._told:
      self._told = True
      LOG.warning("torch.compile: PyTorch runs a program from now on: %s", reason)
    return Made(None, inputs, [], [], [], reason)


class Made:
  """A program with models in it, for some shapes and weights.

  Attributes:
    function: of the program's inputs; None where PyTorch runs all of it.
    parts: its models.
    left: what PyTorch runs between them.
    reason: why PyTorch runs all of it, where it does.
    changed: inputs that a call changes; the function returns what they become first.
  """

  def __init__(self, function: Callable[..., Any] | None, inputs: Sequence[Any],
               weights: Sequence[int], parts: list[_Part], left: list[Left],
               reason: str | None = None, traced: Traced | None = None) -> None:
    self.function = function
    self.parts, self.left, self.reason = parts, left, reason
    rest = [i for i in range(len(inputs)) if i not in set(weights)]
    self._tensors = [(i, inputs[i].dtype, inputs[i].shape) for i in rest
                     if isinstance(inputs[i], torch.Tensor)]
    self._others = [(i, inputs[i]) for i in rest if not isinstance(inputs[i], torch.Tensor)]
    self.changed = traced.changed if traced is not None else []
    self._same = traced.same if traced is not None else {}
    # What it changes first, and whose memory may be another one at each call.
    self._given = [*self.changed, *(i for i in rest if isinstance(inputs[i], torch.Tensor)
                                    and i not in self.changed)]
    self._memory = {inputs[i].untyped_storage().data_ptr() for i in weights if self.changed}
    self._numbers = traced.numbers if traced is not None else {}
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
    return self.has_weights(inputs)

  def shares(self, inputs: Sequence[Any]) -> bool:
    """Whether what it would change is seen in another input, too."""
    if not self.changed:
      return False
    if any(inputs[i].untyped_storage().data_ptr() in self._memory for i in self.changed):
      return True
    return shared([inputs[i] for i in self._given], range(len(self.changed))) is not None

  def has_weights(self, inputs: Sequence[Any]) -> bool:
    """Whether weights and numbers are still those that it was made with."""
    if any(inputs[i].item() != number for i, number in self._numbers.items()):
      return False
    return _state([inputs[i] for i in self._weights]) == self._state

  def moved(self, inputs: Sequence[Any]) -> list[int]:
    """Weights that are other ones now, by input."""
    now = zip(*_state([inputs[i] for i in self._weights]))
    return [i for i, a, b in zip(self._weights, now, zip(*self._state)) if a != b]

  def __call__(self, inputs: Sequence[Any]) -> Any:
    assert self.function is not None
    with torch.no_grad():
      results = self.function(inputs)
    if not self.changed and not self._same:
      return results
    write_back([inputs[i] for i in self.changed], results)
    rest = list(results[len(self.changed):])
    for k, i in self._same.items():
      rest[k] = inputs[i]
    return tuple(rest)


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


def _make(traced: Traced, inputs: tuple[Any, ...], options: dict[str, Any],
          state: AbstractSet[int], is_open: bool = False, first: Made | None = None) -> Made:
  """A program for inputs of these shapes, of which those in `state` are no weights. If it is open,
  others can share the weights of its models; it shares those of `first`."""
  if not any(isinstance(x, torch.Tensor) for x in inputs):
    raise UnsupportedError("the program has no tensors")
  graph = traced.of(inputs)
  held = traced.state
  places = [node for node in graph.graph.nodes if node.op == "placeholder"]
  given = [node for node in places if node.name not in held]
  if len(given) != len(inputs):
    raise UnsupportedError("it takes containers")
  weights = {i: x for i, x in enumerate(inputs)
             if _is_weight(x) and i not in traced.changed and i not in state}
  constant = {**weights, **{i: inputs[i] for i in traced.numbers}}
  known = {given[i].name: (given[i].name, x.detach()) for i, x in constant.items()}
  known |= {name: (name, x) for name, x in held.items()}
  constants = {node.name: x for node, x in zip(given, inputs) if not isinstance(x, torch.Tensor)}
  examples = dict(zip((node.name for node in given), inputs))
  outputs = list(graph.graph.output_node().args[0])
  for k in traced.same:
    outputs[len(traced.changed) + k] = None
  graph.graph.output_node().args = (tuple(outputs),)
  making = _Making(options, is_open, list(first.parts) if first is not None else [])
  try:
    if drawing := next(filter(is_random, graph.graph.nodes), None):
      raise UnsupportedError(f"{drawing.target}: {why_not(drawing)}")
    made = translate(graph.graph, known, constants, "compiled",
                     [f"output.{i}" for i in range(len(outputs))])
    model = _Part(made, making, examples)
    rest = [i for i, node in enumerate(given) if node.name not in known]
    return Made(lambda xs: tuple(model(*(xs[i] for i in rest))), inputs, list(weights), [model], [],
                traced=traced)
  except _NOT_OURS:
    raise
  except Exception as error:
    LOG.info("torch.compile: %s", error)
  mixed, parts, left = _partitioned(graph, known, making)
  order = [(x, None) if x is not None else (None, given.index(node))
           for node in places for x in (held.get(node.name),)]
  return Made(lambda xs: mixed(*(x if i is None else xs[i] for x, i in order)), inputs,
              list(weights), parts, left, traced=traced)


@dataclass
class _Making:
  """How models are made.

  Attributes:
    options: of `torch.compile`.
    is_open: models for other shapes will share their weights.
    others: those of the same program for other shapes, which are shared with, in order.
  """

  options: dict[str, Any]
  is_open: bool
  others: list[_Part]

  def session(self, made: Translation, arrays: Mapping[str, Any]) -> _stretto.Session:
    if self.others:
      other = self.others.pop(0)
      if other.operators == made.operators:
        return other.session.with_other_shapes(made.graph)
    chosen = _stretto.Options()
    _set(chosen, self.options)
    chosen.profile = False
    return _stretto.optimize_graph(made.graph, chosen, dict(arrays), None, self.is_open)


class _Part(torch.nn.Module):
  """A model in place of some nodes."""

  def __init__(self, made: Translation, making: _Making, examples: Mapping[str, Any]) -> None:
    super().__init__()
    arrays = {}
    for spec in made.inputs:
      x = examples.get(spec.name)
      if spec.dtype is not None and isinstance(x, torch.Tensor):
        arrays[spec.name] = array(x)
    self.session = making.session(made, arrays)
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
                 making: _Making) -> tuple[GraphModule, list[_Part], list[Left]]:
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
      model = _Part(made, making, {})
    except _NOT_OURS:
      raise
    except Exception as error:
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
