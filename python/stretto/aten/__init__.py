"""PyTorch modules made into optimised models, without a file in between.

`stretto.optimize` comes here with a module. The module is traced by torch.export, its operators are
looked up in one table (`_table.py`), and the graph that they build is optimised like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from stretto import _stretto
from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto.aten._dimension_names import keep_names
from stretto.aten._export import decomposed, export
from stretto.aten._model import OptimizedModule, array, children
from stretto.aten._open_graph import open_graph
from stretto.aten._results import Objects, plain_results
from stretto.aten._sizes import bind, is_symbolic, run_sizes
from stretto.aten._staged import StagedSizes, optimize_staged
from stretto.aten._state import State, changed_state
from stretto.aten._translate import translate_program
from stretto.aten._variants import Variant, Variants

__all__ = ["OptimizedModule", "graph_of_module", "is_module", "optimize_module"]


def is_module(source: Any) -> bool:
  return isinstance(source, (torch.nn.Module, ExportedProgram))


def optimize_module(source: torch.nn.Module | ExportedProgram, inputs: Any,
                    kwargs: Mapping[str, Any] | None, dynamic_shapes: Any,
                    options: _stretto.Options, tell: Any) -> OptimizedModule:
  """What `stretto.optimize` does for a module."""
  args, keywords, name, forward, program, objects = _traced_module(source, inputs, kwargs,
                                                                   dynamic_shapes)
  in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
  if tell is not None:
    tell("import", 0.0)
  leaves = _leaves(program, args, keywords)
  output_names = _output_names(out_spec)
  state = State(source, changed_state(program), name)
  variants: Variants | StagedSizes | None = None
  if run_sizes(program):
    first = optimize_staged(program, name, output_names, state, leaves, options, tell)
    variants = StagedSizes(program, first) if is_symbolic(program) else None
    return OptimizedModule(first, variants, in_spec, out_spec, objects, forward, state)
  values = None
  if is_symbolic(program):
    variants = Variants(program, name, output_names)
    values = bind(program, [leaf.shape for leaf in leaves if isinstance(leaf, torch.Tensor)])
  made = translate_program(program, name, output_names, values)
  for spec, tensor in zip(made.inputs, state.tensors()):
    if tensor.count_nonzero():
      made.graph.note(f"{spec.state} is not all zeros: a context of a saved file begins with zeros")
  arrays = {}
  for spec, leaf in zip(made.inputs, [*state.tensors(), *leaves]):
    if spec.dtype is None:
      continue
    arrays[spec.name] = array(leaf)
  session = _stretto.optimize_graph(made.graph, options, arrays, tell, variants is not None)
  first = Variant(session, made.inputs, made.outputs)
  if isinstance(variants, Variants):
    variants.begin(first)
  return OptimizedModule(first, variants, in_spec, out_spec, objects, forward, state)


def graph_of_module(source: torch.nn.Module | ExportedProgram, inputs: Any,
                    kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
                    ) -> tuple[_stretto.GraphBuilder, dict[str, str], list[str], str | None]:
  """The finished graph of a module; the shapes of its inputs, by name, and of its outputs, as text,
  where any is open; and why dimensions that an exported program leaves open are fixed, if so."""
  args, keywords, name, _, program, _ = _traced_module(source, inputs, kwargs, dynamic_shapes)
  output_names, values, why = _output_names(program.call_spec.out_spec), None, None
  if run_sizes(program) or is_symbolic(program):
    leaves = _leaves(program, args, keywords)
    state = State(source, changed_state(program), name).tensors()
    try:
      return *open_graph(program, name, output_names, state, leaves), None
    except UnsupportedError as error:
      if not isinstance(source, ExportedProgram) or run_sizes(program):
        raise
      why = str(error)
    values = bind(program, [leaf.shape for leaf in leaves if isinstance(leaf, torch.Tensor)])
  made = translate_program(program, name, output_names, values)
  return made.graph, {}, [], why


def _traced_module(source: torch.nn.Module | ExportedProgram, inputs: Any,
            kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
            ) -> tuple[tuple[Any, ...], dict[str, Any], str, Any, ExportedProgram, Objects]:
  """Arguments by position and by name, the module's name and its function, its program, and the
  objects in its result."""
  args, keywords = _arguments(source, inputs, kwargs)
  for leaf in pytree.tree_leaves((args, keywords)):
    if isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu":
      raise InvalidArgumentError(f"inputs: expected tensors in main memory, got one on "
                                 f"{leaf.device}; move it with .cpu()")
  if isinstance(source, ExportedProgram):
    if dynamic_shapes is not None:
      raise InvalidArgumentError("dynamic_shapes: an exported program has its dynamic shapes; give "
                                 "them to torch.export.export")
    name, forward = type(source.graph_module).__name__, None
    program, objects = decomposed(source), Objects()
    name = "model" if name == "GraphModule" else name
  else:
    name, forward = type(source).__name__, source.forward
    with plain_results(source) as objects:
      program = export(source, args, keywords, name, dynamic_shapes)
    keep_names(program, forward, args, keywords, _leaves(program, args, keywords), dynamic_shapes)
  return args, keywords, name, forward, program, objects


def _leaves(program: ExportedProgram, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
  """The arguments without their containers, in the program's order."""
  names = children(program.call_spec.in_spec)[1].context or []
  return pytree.tree_leaves((args, {name: keywords[name] for name in names}))


def _arguments(source: torch.nn.Module | ExportedProgram, inputs: Any,
               kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
  """What the module is called with, by position and by name."""
  if isinstance(source, ExportedProgram) and inputs is None and not kwargs:
    if source.example_inputs is None:
      raise InvalidArgumentError("inputs: the program holds no example inputs; give some")
    args, keywords = source.example_inputs
    return tuple(args), dict(keywords)
  if inputs is None and not kwargs:
    raise InvalidArgumentError("inputs: a PyTorch module is traced with example inputs: give a "
                               "tensor, a tuple of positional arguments, or a dictionary of "
                               "keyword arguments")
  if isinstance(inputs, Mapping):
    if kwargs:
      raise InvalidArgumentError("inputs: a dictionary holds keyword arguments, and kwargs does "
                                 "too; give positional arguments as a tuple")
    return (), dict(inputs)
  if inputs is None:
    inputs = ()
  args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
  return args, dict(kwargs or {})


def _output_names(spec: pytree.TreeSpec) -> list[str]:
  """A name for every leaf: the keys that lead to it."""
  leaves = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
  names = []
  for path, _ in pytree.tree_flatten_with_path(leaves)[0]:
    words = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
             for key in path]
    text = ".".join(words)
    names.append("output" if not text else f"output.{text}" if text[0].isdigit() else text)
  return names
