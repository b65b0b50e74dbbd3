"""What torch.compile gives, traced once for all the sizes that PyTorch leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.export import Dim
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from stretto._errors import UnsupportedError
from stretto.aten._export import decomposed
from stretto.aten._sizes import bind, fixed
from stretto.aten._state import shared


def open_sizes(program: GraphModule, examples: Sequence[Any]) -> list[dict[int | None, Any]]:
  """Per input its open sizes as expressions: of a tensor by dimension, of a number under None."""
  found: list[dict[int | None, Any]] = []
  places = [node for node in program.graph.nodes if node.op == "placeholder"]
  for node, example in zip(places, examples):
    x = node.meta.get("example_value", example)  # with symbols where the example has numbers
    sizes = enumerate(x.shape) if isinstance(x, torch.Tensor) else [(None, x)]
    found.append({d: size.node.expr for d, size in sizes if isinstance(size, torch.SymInt)
                  and not size.node.expr.is_Integer})
  return found


class Traced:
  """A program in core operators.

  Attributes:
    signature: PyTorch's, of the inputs and the state.
    state: the tensors that the program holds, by the names of their placeholders.
    numbers: inputs that hold a number of Python as a tensor, such as the epsilon of a norm, and
      what it was. The program is for these.
    changed: inputs that the program changes. Its first results are what they become.
    same: results, counted without those, that are an input itself, and which.
  """

  def __init__(self, program: GraphModule, inputs: Sequence[Any],
               sizes: Sequence[dict[int | None, Any]]) -> None:
    """
    Args:
      program: what torch.compile gives.
      inputs: of a call.
      sizes: from `open_sizes`; empty where all are those of `inputs`.

    Raises:
      UnsupportedError: PyTorch cannot trace the program.
    """
    given = program
    self._open = any(sizes)
    self.numbers: dict[int, float] = {}
    dynamic = None
    if self._open:
      program = _without_numbers(program, inputs, sizes, self.numbers)
      dynamic = tuple({d: Dim.AUTO for d in open_} if isinstance(x, torch.Tensor) else None
                      for x, open_ in zip(inputs, sizes))
    with torch.no_grad():
      try:
        self._exported = decomposed(torch.export.export(program, tuple(inputs), strict=False,
                                                        dynamic_shapes=dynamic))
      except Exception as error:
        raise UnsupportedError(f"torch.export cannot trace it: {error}") from error
    self.signature = signature = self._exported.graph_signature
    if signature.buffers_to_mutate:
      raise UnsupportedError("it changes tensors that it holds")
    places = list(signature.user_inputs)
    self.changed = [places.index(name) for name in signature.user_inputs_to_mutate.values()]
    self.same = _same_results(given, inputs, self.changed)
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers,
               **signature.inputs_to_lifted_tensor_constants}
    tensors = {**self._exported.constants, **self._exported.state_dict}
    self.state = {name: tensors[target] for name, target in targets.items()}

  def of(self, inputs: Sequence[Any]) -> GraphModule:
    """The program for inputs of these shapes, with plain numbers for sizes. It is the caller's.

    Raises:
      InvalidArgumentError: it was traced for other shapes.
    """
    module = self._exported.graph_module
    if not self._open:
      return module
    shapes = [x.shape for x in inputs if isinstance(x, torch.Tensor)]
    graph = fixed(module.graph, bind(self._exported, shapes))
    _insert_numbers(graph)
    return GraphModule(module, graph)


def _without_numbers(program: GraphModule, inputs: Sequence[Any],
                     sizes: Sequence[dict[int | None, Any]],
                     numbers: dict[int, float]) -> GraphModule:
  """A copy that asks its tensors for sizes that are given as numbers, so that these stay open, and
  has the other numbers in it, which are added to `numbers`."""
  graph = Graph()
  copies: dict[Node, Node] = {}
  graph.output(graph.graph_copy(program.graph, copies))
  places = [copies[node] for node in program.graph.nodes if node.op == "placeholder"]
  for i, (place, x, open_) in enumerate(zip(places, inputs, sizes)):
    if None in open_ and place.users:
      where = _who_has(open_[None], places, sizes)
      with graph.inserting_after(places[-1]):
        size = graph.call_function(torch.ops.aten.sym_size.int, where)
      place.replace_all_uses_with(size)
    reads = [node for node in place.users if node.op == "call_method" and node.target == "item"]
    if reads and len(reads) == len(place.users) and isinstance(x, torch.Tensor):
      numbers[i] = x.item()
      _insert(graph, {node: numbers[i] for node in reads})
  return GraphModule(program, graph)


def _who_has(size: Any, places: Sequence[Node],
             sizes: Sequence[dict[int | None, Any]]) -> tuple[Node, int]:
  """A tensor and the dimension of it that has this size."""
  for place, open_ in zip(places, sizes):
    for d, other in open_.items():
      if d is not None and other == size:
        return place, d
  raise UnsupportedError(f"no tensor has the size {size}")


def _insert_numbers(graph: Graph) -> None:
  """Puts numbers in the place of nodes that compute them."""
  _insert(graph, {node: node.meta["val"] for node in graph.nodes if node.op == "call_function"
                  and isinstance(node.meta.get("val"), (bool, int, float))})


def _insert(graph: Graph, numbers: Mapping[Node, Any]) -> None:
  """Puts these numbers in the place of nodes."""
  for node in graph.nodes:
    if node not in numbers:
      node.args = map_arg(node.args, lambda n: numbers.get(n, n))
      node.kwargs = map_arg(node.kwargs, lambda n: numbers.get(n, n))
  for node in reversed(list(numbers)):
    graph.erase_node(node)


def _tried(program: GraphModule, inputs: Sequence[Any],
           changed: Sequence[int]) -> tuple[list[Any], Any]:
  """Inputs and results of a run: without numbers, because what PyTorch runs may send or draw some,
  and with them only where the program asks for one."""
  with torch.no_grad():
    try:
      with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        made_up = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in inputs]
        return made_up, program(*made_up)
    except DataDependentOutputException:
      copies = [x.clone() if i in changed else x for i, x in enumerate(inputs)]
      return copies, program(*copies)


def _same_results(program: GraphModule, inputs: Sequence[Any],
                  changed: Sequence[int]) -> dict[int, int]:
  """Which results are an input itself.

  Raises:
    UnsupportedError: one shares memory in another way, and has to go on sharing it.
  """
  if shared(inputs, changed) is not None:
    raise UnsupportedError("it changes one of its inputs that share memory")
  inputs, results = _tried(program, inputs, changed)
  results = results if isinstance(results, (list, tuple)) else [results]
  places = {id(x): i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)}
  same = {k: places[id(x)] for k, x in enumerate(results) if id(x) in places}
  memory = {x.untyped_storage()._cdata for x in inputs if isinstance(x, torch.Tensor)}
  for k, result in enumerate(results):
    if k not in same and isinstance(result, torch.Tensor) and result.numel():
      at = result.untyped_storage()._cdata
      if at in memory:
        raise UnsupportedError("its results share memory with its inputs or with each other")
      memory.add(at)
  return same
