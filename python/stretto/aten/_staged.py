"""Modules of which only a run tells some sizes, and which run in stages for that reason."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from stretto import _stretto
from stretto._errors import InternalError, InvalidArgumentError, UnsupportedError
from stretto.aten._model import array
from stretto.aten._sizes import (
  bind,
  input_sizes,
  is_open,
  run_sizes,
  shape_texts,
  size_ranges,
  text,
)
from stretto.aten._state import State
from stretto.aten._template import make_template
from stretto.aten._variants import Variant

# What is assumed of a size at first; its programs are made when it is known.
_ASSUMED = 17


def optimize_staged(program: ExportedProgram, name: str, output_names: Sequence[str],
                    state: State, leaves: Sequence[Any], options: _stretto.Options,
                    tell: Any) -> Variant:
  """The module for all sizes.

  Args:
    program: its nodes have been through `decomposed`.
    name: of the model.
    output_names: one per result, without what the module changes.
    state: tensors that the module changes.
    leaves: its arguments without their containers.
  """
  shapes = [leaf.shape for leaf in leaves if isinstance(leaf, torch.Tensor)]
  try:
    made = make_template(program, name, output_names, sizes_at_first(program, shapes)).written()
  except (InternalError, InvalidArgumentError, UnsupportedError) as error:
    raise UnsupportedError(f"{error}; some of its sizes depend on the values of tensors "
                           f"({', '.join(map(str, run_sizes(program)))}), so it needs a graph for "
                           "all sizes") from None
  held = state.tensors()
  inputs = [spec if spec.dtype is None else replace(spec, shape=tuple(leaf.shape))
            for spec, leaf in zip(made.inputs, [*held, *leaves])]
  arrays = {spec.name: array(leaf) for spec, leaf in zip(inputs, [*held, *leaves])
            if spec.dtype is not None}
  session = _stretto.optimize_open_graph(made.graph, options, arrays, tell,
                                        shape_texts(program, inputs))
  outputs = [replace(spec, shape=None) for spec in made.outputs]
  return Variant(session, inputs, outputs)


def sizes_at_first(program: ExportedProgram,
                   shapes: Sequence[Sequence[int]]) -> dict[Any, int]:
  """What symbols stand for when the inputs have these shapes, and what is assumed of others."""
  values = bind(program, shapes)
  ranges = size_ranges(program, dict.fromkeys(run_sizes(program), 0))
  values.update({symbol: max(least, min(_ASSUMED, _ASSUMED if most is None else most))
                 for symbol, (least, most) in ranges.items()})
  return values


class StagedSizes:
  """What `Variants` is to other modules: here one session takes all sizes of the inputs."""

  def __init__(self, program: ExportedProgram, first: Variant) -> None:
    self._program = program
    self._first = first

  def sizes(self) -> list[str | None]:
    return [text(self._program, sizes) if is_open(sizes) else None
            for _, sizes in input_sizes(self._program)]

  def of(self, leaves: Sequence[Any]) -> Variant:
    given = [leaf.shape for spec, leaf in zip(self._first.arguments, leaves)
             if spec.dtype is not None and isinstance(leaf, (torch.Tensor, np.ndarray))]
    if len(given) < sum(spec.dtype is not None for spec in self._first.arguments):
      return self._first  # which names the argument that is no tensor
    bind(self._program, given)
    shapes = iter(given)
    inputs = [spec if spec.dtype is None or spec.state is not None
              else replace(spec, shape=tuple(next(shapes))) for spec in self._first.inputs]
    return Variant(self._first.session, inputs, self._first.outputs)

  def save(self, path: str | os.PathLike[str]) -> None:
    self._first.session.save(str(path))
