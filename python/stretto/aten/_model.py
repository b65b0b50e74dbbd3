"""What an optimised module is called with."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from stretto import _stretto
from stretto._errors import InvalidArgumentError
from stretto._model import Model
from stretto._paths import path_text
from stretto.aten._builder import COMPLEX, HALF
from stretto.aten._results import Objects
from stretto.aten._signature import Input, Output
from stretto.aten._state import State, check_writable, shared, write_back
from stretto.aten._variants import Variant, Variants

if TYPE_CHECKING:
  from stretto.aten._staged import StagedSizes


class OptimizedModule(Model):
  """An optimised PyTorch module, made by `stretto.optimize`.

  It is called like the module, with tensors where the module takes tensors, and returns tensors in
  the same containers and objects as the module. The other arguments have to be those that the
  module was optimised with. Besides that it is a `stretto.Model`, with its report and `save`; `run`
  takes and returns NumPy arrays by name.

  What the module changes when it runs, a call changes too: buffers of the module and arguments.
  Threads that call it take turns then. To `run`, to files and to C++ such a buffer is an input
  `PATH_in` and an output `PATH_out`, which a `Context` carries on from call to call.
  """

  def __init__(self, first: Variant, variants: Variants | StagedSizes | None,
               in_spec: pytree.TreeSpec, out_spec: pytree.TreeSpec, objects: Objects,
               forward: Callable[..., Any] | None, state: State) -> None:
    super().__init__(first.session)
    self._first = first
    self._variants = variants
    self._state = state
    self._changed = [o.becomes for o in first.outputs if o.becomes is not None]
    self._arguments = first.arguments
    if variants is not None:
      rest = len(self.inputs) - len(variants.sizes())  # the module's own, of fixed sizes
      self.inputs[rest:] = [replace(spec, sizes=sizes)
                            for spec, sizes in zip(self.inputs[rest:], variants.sizes())]
    self._in_spec = in_spec
    self._out_spec = out_spec
    self._objects = objects
    self._signature = _signature(forward)
    # Nothing but tensors in order: needs no search through containers.
    positional, keywords = children(in_spec)
    self._flat = (not children(keywords)
                  and all(child.is_leaf() for child in children(positional))
                  and all(i.dtype is not None for i in self._arguments))
    self._single = out_spec.is_leaf()

  def __call__(self, *args: Any, **kwargs: Any) -> Any:
    """Runs the model on the module's arguments.

    Args:
      *args: the module's arguments. Tensors must have the shapes and element types of those that
        the module was optimised with, or shapes that its `dynamic_shapes` allow, and lie in main
        memory. Dense row-major ones are read where they are. NumPy arrays are taken too.
      **kwargs: likewise.

    Returns:
      What the module returns: new tensors in the same containers, and in objects of the same
      classes.

    Raises:
      InvalidArgumentError: an argument is missing, or has the wrong type or shape, or requires
        gradients while they are recorded; the text names it.
    """
    if self._flat and not kwargs and len(args) == len(self._arguments):
      leaves = args
    else:
      leaves = self._leaves(args, kwargs)
    variant = self._first if self._variants is None else self._variants.of(leaves)
    if self._changed:
      with self._state.turn:
        flat = self._changing(variant, [*self._state.tensors(), *leaves])
    else:
      flat = run(variant.session, variant.inputs, variant.outputs, leaves)
    if self._single:
      return flat[0]
    return self._objects.whole(pytree.tree_unflatten(flat, self._out_spec))

  def _changing(self, variant: Variant, leaves: Sequence[Any]) -> list[Any]:
    """Runs the model, and changes what the module would change of these."""
    names = [spec.state or spec.name for spec in variant.inputs]
    tensors = dense_tensors(variant.inputs, leaves)
    for i in self._changed:
      check_writable(f"{self.name}: {names[i]}", leaves[i])
    both = shared(leaves, self._changed)
    if both is not None:
      raise InvalidArgumentError(f"{self.name}: {names[both[0]]}, which the module changes, "
                                 f"and {names[both[1]]} share memory; pass a copy of one of them")
    flat = run_dense(variant.session, tensors, variant.outputs)
    write_back([leaves[i] for i in self._changed], flat)
    return flat[len(self._changed):]

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes the artefact, as `stretto.Model.save` does. With dynamic shapes it holds one graph
    for all of them.

    Raises:
      UnsupportedError: there is no such graph, or weights were changed; the text says more.
    """
    if self._variants is None:
      super().save(path)
    else:
      self._variants.save(path_text("path", path))

  def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments without their containers."""
    names = children(self._in_spec)[1].context or []
    if set(names) == set(kwargs):
      kwargs = {name: kwargs[name] for name in names}
    leaves, spec = pytree.tree_flatten((args, kwargs))
    if spec == self._in_spec:
      return leaves
    bound = self._bound(args, kwargs)
    if bound is not None:
      leaves, spec = pytree.tree_flatten(bound)
      if spec == self._in_spec:
        return leaves
    raise InvalidArgumentError(f"{self.name}: expected arguments as the module was optimised "
                               f"with, {_described(self._in_spec)}, got {_described(spec)}")

  def _bound(self, args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The same arguments, by position and by name as the module was optimised with."""
    if self._signature is None:
      return None
    positional, keywords = children(self._in_spec)
    try:
      given = self._signature.bind(*args, **kwargs).arguments
    except TypeError as error:
      raise InvalidArgumentError(f"{self.name}: {error}") from None
    names = list(self._signature.parameters)[:len(children(positional))]
    wanted = [*names, *(keywords.context or [])]
    if set(wanted) != set(given):
      return None
    return (tuple(given[n] for n in names),
            {name: given[name] for name in keywords.context or []})


def run(session: _stretto.Session, inputs: Sequence[Input], outputs: Sequence[Output],
        leaves: Sequence[Any]) -> list[Any]:
  """Results without their containers, from arguments without theirs."""
  return run_dense(session, dense_tensors(inputs, leaves), outputs)


def dense_tensors(inputs: Sequence[Input], leaves: Sequence[Any]) -> list[torch.Tensor]:
  """What the engine reads of arguments without their containers."""
  return [dense(spec, leaf) for spec, leaf in zip(inputs, leaves)
          if spec.dtype is not None or _same(spec, leaf)]


def run_dense(session: _stretto.Session, tensors: Sequence[torch.Tensor],
              outputs: Sequence[Output]) -> list[Any]:
  """Results without their containers, from tensors of `dense`."""
  if any(o.shape is None for o in outputs):
    return _of_any_size(session, tensors, outputs)
  results = [torch.empty(o.shape or (), dtype=torch.float32 if o.dtype in HALF else o.dtype)
             for o in outputs if o.dtype is not None]
  session.run_at([t.data_ptr() for t in tensors], [r.data_ptr() for r in results])
  computed = iter(results)
  flat = [o.constant if o.dtype is None else next(computed) for o in outputs]
  return [r.to(o.dtype) if o.dtype in HALF else r for o, r in zip(outputs, flat)]


def _of_any_size(session: _stretto.Session, tensors: Sequence[torch.Tensor],
                 outputs: Sequence[Output]) -> list[Any]:
  """The same where only the run tells the sizes of results."""
  found = iter(session.run([array(x) for x in tensors]))
  flat = []
  for o in outputs:
    if o.dtype is None:
      flat.append(o.constant)
      continue
    x = torch.from_numpy(next(found))
    flat.append(torch.view_as_complex(x) if o.dtype in COMPLEX else x.to(o.dtype))
  return flat


def _same(spec: Input, leaf: Any) -> bool:
  """Refuses another value of an argument that is no tensor; False, for there is no input."""
  if isinstance(leaf, torch.Tensor) or leaf is not spec.constant and leaf != spec.constant:
    raise InvalidArgumentError(f"argument {spec.name}: the module was optimised with "
                               f"{spec.constant!r}, got {leaf!r}; optimise it again")
  return False


def dense(spec: Input, x: Any) -> torch.Tensor:
  """A dense tensor in main memory that the engine can read, of the input's type and shape."""
  if isinstance(x, np.ndarray):
    array = x if x.flags.c_contiguous and x.flags.writeable else np.array(x, order="C")
    try:
      x = torch.from_numpy(array)
    except (TypeError, ValueError) as error:  # PyTorch has no such element type
      raise InvalidArgumentError(f"input {spec.name}: {error}") from None
  if not isinstance(x, torch.Tensor):
    raise InvalidArgumentError(f"input {spec.name}: expected a tensor, got {type(x).__name__}")
  if x.dtype != spec.dtype:
    raise InvalidArgumentError(f"input {spec.name}: expected {spec.dtype}, got {x.dtype}; convert "
                               f"it with .to({spec.dtype})")
  if x.shape != spec.shape:
    raise InvalidArgumentError(f"input {spec.name}: expected shape {list(spec.shape)}, got "
                               f"{list(x.shape)}; the module was optimised for this shape only")
  if x.device.type != "cpu" or x.layout != torch.strided:
    raise InvalidArgumentError(f"input {spec.name}: expected a dense tensor in main memory, got "
                               f"{x.layout} on {x.device}")
  if x.requires_grad and torch.is_grad_enabled():
    raise InvalidArgumentError(f"input {spec.name} requires gradients, and an optimised model has "
                               "none; call it under torch.no_grad(), or pass the input's "
                               ".detach()")
  if x.is_neg() or x.is_conj():
    x = x.resolve_conj().resolve_neg()
  if spec.dtype in HALF:
    x = x.float()
  return x if x.is_contiguous() else x.contiguous()


def array(x: torch.Tensor) -> np.ndarray[Any, Any]:
  """A tensor as the engine reads it."""
  x = x.detach().resolve_conj().resolve_neg()
  if x.dtype in HALF:
    x = x.float()
  elif x.dtype in COMPLEX:
    x = torch.view_as_real(x)
  return x.contiguous().numpy()


def _signature(forward: Callable[..., Any] | None) -> inspect.Signature | None:
  try:
    signature = inspect.signature(forward) if forward is not None else None
  except (TypeError, ValueError):
    return None
  kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
  if signature is None or any(p.kind in kinds for p in signature.parameters.values()):
    return None
  return signature


def children(spec: pytree.TreeSpec) -> list[pytree.TreeSpec]:
  """What a container holds; PyTorch 2.10 renamed it."""
  return list(spec.children() if hasattr(spec, "children") else spec.children_specs)


def _described(spec: pytree.TreeSpec) -> str:
  """Containers with a star for every leaf, as in (*, {"mask": *})."""
  if spec.is_leaf():
    return "*"
  parts = [_described(child) for child in children(spec)]
  if spec.type is dict:
    return "{" + ", ".join(f"{k!r}: {c}" for k, c in zip(spec.context, parts)) + "}"
  if spec.type is list:
    return "[" + ", ".join(parts) + "]"
  name = "" if spec.type is tuple else getattr(spec.type, "__name__", str(spec.type))
  return f"{name}({', '.join(parts)})"
