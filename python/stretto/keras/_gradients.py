"""Averages of gradients in a step of each of Keras's backends: now or, where the backend compiles
the step, whenever it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stretto._errors import UnsupportedError
from stretto._named_job import job

# All take gradients without None and their names.
Reduce = Callable[[Sequence[Any], list[str], str], list[Any]]


def combine(gradients: Sequence[Any], names: list[str], codec: str, op: str,
            sparse_as_dense: bool) -> list[Any]:
  """The gradients of all ranks in the same places; None stays, on all ranks in the same places."""
  import keras

  backend = keras.backend.backend()
  if backend == "tensorflow":
    from stretto.tensorflow._tape import combine as with_slices
    return with_slices(list(gradients), names, codec, op, sparse_as_dense)
  if backend not in BACKENDS:
    raise UnsupportedError(f"DistributedOptimizer: Keras runs on '{backend}', which trains nothing "
                           f"here; set KERAS_BACKEND to tensorflow, {' or '.join(BACKENDS)}")
  results = list(gradients)
  places = [i for i, gradient in enumerate(results) if gradient is not None]
  averages = BACKENDS[backend]([results[i] for i in places], [names[i] for i in places], codec)
  for i, average in zip(places, averages):
    results[i] = average if op == "average" else average * job().place.size
  return results


def on_torch(gradients: Sequence[Any], names: list[str], codec: str) -> list[Any]:
  import torch
  from keras import ops

  @torch.compiler.disable  # addresses of memory mean nothing to a step that is traced
  def run() -> list[Any]:
    arrays: list[np.ndarray] = [ops.convert_to_numpy(gradient) for gradient in gradients]
    return [ops.convert_to_tensor(result, dtype=gradient.dtype).to(gradient.device)
            for result, gradient in zip(job().average_gradients(arrays, names, codec), gradients)]

  return run()


def on_jax(gradients: Sequence[Any], names: list[str], codec: str) -> list[Any]:
  from stretto.jax._collectives import call

  return call(lambda arrays: job().average_gradients(arrays, names, codec), gradients)


BACKENDS: dict[str, Reduce] = {"torch": on_torch, "jax": on_jax}
