"""One module for inputs of different shapes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from stretto import _stretto
from stretto._errors import Error, InternalError, InvalidArgumentError, UnsupportedError
from stretto.aten._builder import engine_dtype, engine_shape
from stretto.aten._dimension_names import named
from stretto.aten._signature import Input, Output
from stretto.aten._sizes import bind, input_sizes, is_open, shape_texts, text
from stretto.aten._state import changed_state
from stretto.aten._template import Template, make_template
from stretto.aten._translate import translate_program

# Programs that are kept: those used last.
_KEPT = 16
# How far results of two programs may be from each other, relative to the largest.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Variant:
  """The module for inputs of one shape."""

  session: _stretto.Session
  inputs: list[Input]
  outputs: list[Output]

  @property
  def arguments(self) -> list[Input]:
    """The inputs but for tensors of the module."""
    return [spec for spec in self.inputs if spec.state is None]


class Variants:
  """Those of a program with symbolic sizes. The first is optimised, and the others share its
  weights."""

  def __init__(self, program: ExportedProgram, name: str, output_names: Sequence[str]) -> None:
    self._program = program
    self._name = name
    self._output_names = output_names
    self._first: Variant | None = None
    self._weights = _versions(program)
    self._known: OrderedDict[tuple[tuple[int, ...], ...], Variant] = OrderedDict()
    self._lock = threading.Lock()

  def begin(self, first: Variant) -> None:
    self._first = first
    shapes = tuple(tuple(spec.shape) for spec in first.arguments if spec.dtype is not None)
    self._known[shapes] = first

  def sizes(self) -> list[str | None]:
    """Per input the shapes that it takes, as text; None for a fixed one."""
    return [text(self._program, sizes) if is_open(sizes) else None
            for _, sizes in input_sizes(self._program)]

  def save(self, path: str) -> None:
    """Writes the artefact, with one graph for all shapes.

    Raises:
      UnsupportedError: there is none; the text says why.
    """
    assert self._first is not None
    _stretto.check_writable(path)
    with self._lock:
      changed = self._weights != _versions(self._program)
    if changed:
      raise UnsupportedError(f"save: the weights of {self._name} were changed after it was "
                             "optimised; optimise it again")
    try:
      session = self.open_session("; optimise the module with fixed shapes to save it")
    except UnsupportedError as error:
      raise UnsupportedError(f"save: {error}") from None
    session.save(path)

  def open_session(self, advice: str = "", template: Template | None = None) -> _stretto.Session:
    """One graph for all shapes, compared with those that are made for single ones where PyTorch's
    program is another one for some sizes.

    Args:
      advice: for the end of messages.
      template: what `make_template` returns for the program, where that is known already.

    Raises:
      UnsupportedError: there is none; the text says why.
    """
    assert self._first is not None
    shapes = [spec.shape for spec in self._first.arguments if spec.dtype is not None]
    try:
      with self._lock:
        template = template or make_template(self._program, self._name, self._output_names,
                                             bind(self._program, shapes))
        graph = template.written().graph
    except (InternalError, InvalidArgumentError, UnsupportedError) as error:
      raise UnsupportedError(f"{error}{advice}") from None
    ranges = shape_texts(self._program, self._first.inputs)
    session = self._first.session.with_open_graph(graph, list(ranges.items()),
                                                  template.trials)
    for values in template.doubtful:
      self._compare(session, values, advice)
    return session

  def _compare(self, session: _stretto.Session, values: Mapping[Any, int], advice: str) -> None:
    """Runs the graph for all shapes, and the program that is made for these sizes alone.

    Raises:
      UnsupportedError: they do not give the same.
    """
    assert self._first is not None
    made = translate_program(self._program, self._name, self._output_names, values)
    plain = self._first.session.with_other_shapes(made.graph)
    draw = np.random.default_rng(0)
    sizes = ", ".join(f"{named(self._program, symbol)} = {size}"
                      for symbol, size in values.items())
    learnt, reason = False, "all results are NaN"
    for positive in (False, True):
      inputs = [_drawn(draw, spec, positive) for spec in made.inputs if spec.dtype is not None]
      try:
        expected = plain.run(inputs)
      except Error as error:
        reason = str(error)  # these values may be none that the program takes
        continue
      try:
        got = session.run(inputs)
      except Error as error:
        raise UnsupportedError(f"{self._name}: the graph for all shapes fails with {sizes}: "
                               f"{error}{advice}") from None
      learnt = learnt or all(x.size == 0 or not np.isnan(x).all() for x in expected)
      if len(got) != len(expected) or not all(map(_alike, got, expected)):
        raise UnsupportedError(
          f"{self._name}: dynamic sizes decide which operators it has, and a graph for all of them "
          f"gives other results with {sizes}{advice}")
    if not learnt:
      raise UnsupportedError(f"{self._name}: the graph for all shapes could not be tried with "
                             f"{sizes}: {reason}{advice}")

  def of(self, leaves: Sequence[Any]) -> Variant:
    """The one for these arguments. What is no tensor is checked where the variant is run.

    Raises:
      InvalidArgumentError: the program does not allow these shapes; the text names the input.
    """
    assert self._first is not None
    arguments = self._first.arguments
    shapes = tuple(tuple(leaf.shape) for spec, leaf in zip(arguments, leaves)
                   if spec.dtype is not None and isinstance(leaf, (torch.Tensor, np.ndarray)))
    with self._lock:
      found = self._known.get(shapes)
      if found is not None:
        self._known.move_to_end(shapes)
        return found
      if len(shapes) < sum(spec.dtype is not None for spec in arguments):
        return self._first  # which names the argument that is no tensor
      made = translate_program(self._program, self._name, self._output_names,
                               bind(self._program, shapes))
      variant = Variant(self._first.session.with_other_shapes(made.graph), made.inputs,
                        made.outputs)
      self._known[shapes] = variant
      if len(self._known) > _KEPT:
        self._known.popitem(last=False)
      return variant


def _drawn(draw: np.random.Generator, spec: Input, positive: bool) -> np.ndarray[Any, Any]:
  """An array of this input as the engine takes it. Integers may be places in small tables."""
  assert spec.dtype is not None
  dtype, shape = engine_dtype(spec.dtype), engine_shape(spec.dtype, spec.shape)
  array: np.ndarray[Any, Any]
  if dtype.startswith("float"):
    array = draw.uniform(0.1, 1, shape) if positive else draw.standard_normal(shape)
  else:
    array = np.zeros(shape) if positive else draw.integers(0, 2, shape)
  return array.astype(dtype)


def _alike(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
  """Whether they are but for rounding."""
  if got.shape != expected.shape or got.dtype.kind != "f":
    return np.array_equal(got, expected)
  finite = np.isfinite(expected)
  if not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
    return False
  wanted = expected[finite]
  most = np.abs(got[finite] - wanted).max(initial=0)
  return bool(most <= _ROUNDING * np.abs(wanted).max(initial=0))


def _versions(program: ExportedProgram) -> list[int]:
  """PyTorch's count of the changes of every weight; none of what the module itself changes."""
  state = set(changed_state(program))
  tensors = [tensor for held in (program.state_dict, program.constants)
             for path, tensor in held.items() if path not in state]
  return [tensor._version for tensor in tensors
          if isinstance(tensor, torch.Tensor) and not tensor.is_inference()]
