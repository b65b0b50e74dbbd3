"""The graph of a module for all of its sizes, to be written as ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from stretto import _stretto
from stretto._errors import InternalError, InvalidArgumentError, UnsupportedError
from stretto.aten._model import array
from stretto.aten._sizes import bind, expression_of, run_sizes, shape_texts, text
from stretto.aten._staged import sizes_at_first
from stretto.aten._template import Template, make_template
from stretto.aten._translate import translate_program
from stretto.aten._variants import Variant, Variants


def open_graph(program: ExportedProgram, name: str, output_names: Sequence[str],
               state: Sequence[torch.Tensor], leaves: Sequence[Any]
               ) -> tuple[_stretto.GraphBuilder, dict[str, str], list[str]]:
  """The finished graph, and the shapes of its inputs, by name, and of its outputs, as text.

  Args:
    program: its nodes have been through `decomposed`; some of its sizes are symbols.
    name: of the model.
    output_names: one per result, without what the module changes.
    state: tensors that the module changes.
    leaves: its arguments without their containers.

  Raises:
    UnsupportedError: there is no graph for all sizes; the text says why.
  """
  shapes = [leaf.shape for leaf in leaves if isinstance(leaf, torch.Tensor)]
  try:
    template = make_template(program, name, output_names, sizes_at_first(program, shapes))
    if template.doubtful:
      _compare(program, name, output_names, state, leaves, template)
    made = template.written()
  except (InternalError, InvalidArgumentError, UnsupportedError) as error:
    unknown = ", ".join(map(str, run_sizes(program)))
    advice = (f"some of its sizes depend on the values of tensors ({unknown}), so it needs a graph "
              "for all sizes" if unknown else "convert the module with fixed shapes")
    raise UnsupportedError(f"{error}; {advice}") from None
  return made.graph, shape_texts(program, made.inputs), _outputs(program)


def _outputs(program: ExportedProgram) -> list[str]:
  """Sizes that are computed from others have no name."""
  shapes = []
  for node in program.graph.find_nodes(op="output")[0].args[0]:
    described = node.meta["val"] if isinstance(node, torch.fx.Node) else None
    if isinstance(described, torch.Tensor):
      sizes = [expression_of(size) for size in described.shape]
      words = [text(program, [size]) if isinstance(size, int) or size.is_Symbol else "0.."
               for size in sizes]
      words += ["2"] * described.dtype.is_complex
      shapes.append("x".join(words) or "scalar")
  return shapes


def _compare(program: ExportedProgram, name: str, output_names: Sequence[str],
             state: Sequence[torch.Tensor], leaves: Sequence[Any], template: Template) -> None:
  """Runs the graph for all sizes, and graphs for sizes at which PyTorch's program is another one.

  Raises:
    UnsupportedError: they do not give the same.
  """
  values = bind(program, [leaf.shape for leaf in leaves if isinstance(leaf, torch.Tensor)])
  made = translate_program(program, name, output_names, values)
  arrays = {spec.name: array(leaf) for spec, leaf in zip(made.inputs, [*state, *leaves])
            if spec.dtype is not None}
  options = _stretto.Options()
  options.tuning, options.tuning_cache = "off", "none"
  options.verify = options.profile = False
  session = _stretto.optimize_graph(made.graph, options, arrays, None, True)
  variants = Variants(program, name, output_names)
  variants.begin(Variant(session, made.inputs, made.outputs))
  variants.open_session(template=template)
