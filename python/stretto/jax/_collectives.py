"""Collectives on pytrees of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from stretto._named_job import job


def call(function: Callable, arrays: Sequence[jax.Array]) -> list[jax.Array]:
  """function(NumPy arrays) -> arrays of the same shapes and types, now or when the program that is
  being traced comes to it."""
  if any(isinstance(a, jax.core.Tracer) for a in arrays):
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    return io_callback(lambda *values: function([np.asarray(v) for v in values]), shapes, *arrays,
                       ordered=True)
  return [jnp.asarray(a) for a in function([np.asarray(a) for a in arrays])]


def leaves_of(tree, operation: str, name: str | None):
  """Arrays, the names that they have on all ranks, and what makes a tree of them again."""
  flat, structure = jax.tree_util.tree_flatten_with_path(tree)
  base = job().name(operation, name)
  names = [f"{base}{jax.tree_util.keystr(path)}" for path, _ in flat]
  return [jnp.asarray(leaf) for _, leaf in flat], names, \
      partial(jax.tree_util.tree_unflatten, structure)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def reduced(op: str, names: tuple[str, ...], arrays: list[jax.Array]) -> list[jax.Array]:
  return call(lambda values: job().all_reduce(values, names, op), arrays)


def reduced_forward(op, names, arrays):
  return reduced(op, names, arrays), None


def reduced_backward(op, names, _, cotangents):
  if op not in ("sum", "average"):
    raise ValueError(f"all_reduce: '{op}' has no gradient; sum and average have")
  return (reduced(op, tuple(f"{name}, backward" for name in names), cotangents),)


reduced.defvjp(reduced_forward, reduced_backward)


def all_reduce(tree, op: str = "average", name: str | None = None):
  """The leaves of all ranks combined: op is average, sum, product, min or max. The gradient of a
  sum over ranks is the sum of their gradients. `name` tells what belongs together where ranks
  differ in order; without it the n-th call of one rank goes with the n-th of the others."""
  arrays, names, tree_of = leaves_of(tree, "all_reduce", name)
  return tree_of(reduced(op, tuple(names), arrays))


def average_gradients(tree, codec: str = "", name: str = "gradients"):
  """The mean over ranks of a pytree of gradients. codec: any value of STRETTO_CODEC; empty: that.
  What a codec loses is kept for the leaf (by `name` and path) and added in the next step."""
  arrays, names, tree_of = leaves_of(tree, "average", name)
  return tree_of(call(lambda values: job().average_gradients(values, names, codec), arrays))


def broadcast(tree, root: int = 0, name: str | None = None):
  """What rank `root` has."""
  arrays, names, tree_of = leaves_of(tree, "broadcast", name)
  return tree_of(call(
      lambda values: [job().broadcast(v, root, n) for v, n in zip(values, names)], arrays))


def all_gather(array, name: str | None = None) -> jax.Array:
  """The rows of all ranks. Outside jit ranks may differ in how many they have; inside, where shapes
  are fixed, they may not."""
  array = jnp.asarray(array)
  name = job().name("all_gather", name)
  if not isinstance(array, jax.core.Tracer):
    return jnp.asarray(job().all_gather(np.asarray(array), name))
  shape = jax.ShapeDtypeStruct((job().place.size * array.shape[0], *array.shape[1:]), array.dtype)
  return io_callback(lambda value: job().all_gather(np.asarray(value), name), shape, array,
                     ordered=True)


def barrier() -> None:
  """Outside jit."""
  job().barrier()
