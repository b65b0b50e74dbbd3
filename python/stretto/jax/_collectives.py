"""Collectives on pytrees of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from stretto._checks import expected
from stretto._comm_arguments import check_codec
from stretto._errors import InvalidArgumentError
from stretto._named_job import check_op, job


def call(function: Callable, arrays: Sequence[jax.Array]) -> list[jax.Array]:
  """Calls function(NumPy arrays) -> arrays of the same shapes and types: now, or, while a program
  is traced, when the program runs."""
  if any(isinstance(a, jax.core.Tracer) for a in arrays):
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    return io_callback(lambda *values: function([np.asarray(v) for v in values]), shapes, *arrays,
                       ordered=True)
  return [jnp.asarray(a) for a in function([np.asarray(a) for a in arrays])]


def leaves_of(tree, operation: str, name: str | None):
  """Returns the leaves, their names (the same on all ranks), and a function that makes the tree."""
  flat, structure = jax.tree_util.tree_flatten_with_path(tree)
  base = job().name(operation, name)
  names = [f"{base}{jax.tree_util.keystr(path)}" for path, _ in flat]
  leaves = [as_array(f"{operation}: leaf {jax.tree_util.keystr(path)}", leaf)
            for path, leaf in flat]
  return leaves, names, partial(jax.tree_util.tree_unflatten, structure)


def as_array(argument: str, value: Any) -> jax.Array:
  try:
    return jnp.asarray(value)
  except (TypeError, ValueError):
    raise expected(argument, "an array", value) from None


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def reduced(op: str, names: tuple[str, ...], arrays: list[jax.Array]) -> list[jax.Array]:
  return call(lambda values: job().all_reduce(values, names, op), arrays)


def reduced_forward(op, names, arrays):
  return reduced(op, names, arrays), None


def reduced_backward(op, names, _, cotangents):
  if op not in ("sum", "average"):
    raise InvalidArgumentError(f"all_reduce: '{op}' has no gradient; sum and average have")
  return (reduced(op, tuple(f"{name}, backward" for name in names), cotangents),)


reduced.defvjp(reduced_forward, reduced_backward)


def all_reduce(tree: Any, op: str = "average", name: str | None = None) -> Any:
  """Combines the arrays of all ranks, element by element. Works inside jit and can be
  differentiated: the gradient of a sum over ranks is the sum of their gradients.

  Args:
    tree: a pytree of arrays, of the same shapes and types on every rank.
    op: "average", "sum", "product", "min" or "max". Only the first two have a gradient.
    name: tells which calls belong together where ranks call in different orders. None: the n-th
      call of one rank goes with the n-th call of the others.

  Returns:
    A pytree of the same structure.

  Raises:
    InvalidArgumentError: the operation is unknown, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.

  Examples:
    ```python
    loss = stretto.jax.all_reduce(loss)
    ```
  """
  check_op("all_reduce", op)
  arrays, names, tree_of = leaves_of(tree, "all_reduce", name)
  return tree_of(reduced(op, tuple(names), arrays))


def average_gradients(tree: Any, codec: str = "", name: str = "gradients") -> Any:
  """Averages a pytree of gradients over ranks. Works inside jit.

  Args:
    tree: the gradients, of the same shapes and types on every rank.
    codec: how they cross the wire, any value of `STRETTO_CODEC`; empty: that variable's value. What
      a lossy codec loses is kept for each leaf and added in the next step.
    name: tells the leaves of several models apart.

  Returns:
    The averages, a pytree of the same structure.

  Raises:
    InvalidArgumentError: the codec is unknown, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.

  Examples:
    ```python
    grads = stretto.jax.average_gradients(grads, codec="bf16")
    ```
  """
  check_codec("average_gradients", codec)
  arrays, names, tree_of = leaves_of(tree, "average", name)
  return tree_of(call(lambda values: job().average_gradients(values, names, codec), arrays))


def broadcast(tree: Any, root: int = 0, name: str | None = None) -> Any:
  """Gives every rank the arrays of one rank. Works inside jit.

  Args:
    tree: a pytree of arrays, of the same shapes and types on every rank.
    root: the rank whose values the others get.
    name: as in `all_reduce`.

  Returns:
    A pytree of the same structure.

  Raises:
    InvalidArgumentError: there is no such rank, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.
  """
  job().check_root(root)
  arrays, names, tree_of = leaves_of(tree, "broadcast", name)
  return tree_of(call(
      lambda values: [job().broadcast(v, root, n) for v, n in zip(values, names)], arrays))


def all_gather(array: jax.Array, name: str | None = None) -> jax.Array:
  """Collects the rows of all ranks on every rank.

  Args:
    array: at least one dimension. Outside jit ranks may differ in the first one; inside, where
      shapes are fixed, they may not.
    name: as in `all_reduce`.

  Returns:
    The rows, one rank after another.

  Raises:
    InvalidArgumentError: `array` is a scalar, or ranks disagree on types or on other dimensions.
    CommError: a rank or a link is lost.
  """
  array = as_array("all_gather: array", array)
  if array.ndim == 0:
    raise InvalidArgumentError("all_gather: array: a scalar has no rows; use array[None]")
  name = job().name("all_gather", name)
  if not isinstance(array, jax.core.Tracer):
    return jnp.asarray(job().all_gather(np.asarray(array), name))
  shape = jax.ShapeDtypeStruct((job().place.size * array.shape[0], *array.shape[1:]), array.dtype)
  return io_callback(lambda value: job().all_gather(np.asarray(value), name), shape, array,
                     ordered=True)


def barrier() -> None:
  """Waits until every rank has called it. Not for use inside jit.

  Raises:
    CommError: a rank or a link is lost.
  """
  job().barrier()
