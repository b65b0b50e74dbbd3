"""Gradients that are averaged over ranks."""

from __future__ import annotations

import tensorflow as tf

from stretto._checks import expected
from stretto._comm_arguments import check_codec
from stretto._errors import InvalidArgumentError
from stretto._named_job import Compression, job
from stretto.tensorflow._collectives import Average, Sum, allreduce, call


class DistributedGradientTape:
  """Wraps a tf.GradientTape so that gradient() returns gradients averaged over ranks.

  Args:
    gradtape: the tape to wrap.
    device_dense: Horovod's; not used, since all tensors go through the host.
    device_sparse: as `device_dense`.
    compression: how gradients cross the wire, a value of `Compression`. What it loses is kept for
      the variable and added in the next step.
    sparse_as_dense: make tf.IndexedSlices (of embeddings) dense before they are sent, which takes
      fewer bytes if most rows occur.
    op: `Average` or `Sum`.

  Raises:
    InvalidArgumentError: `gradtape` is no tape, there is no such compression, or `op` is something
      else.

  Examples:
    ```python
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
      loss = loss_of(model(x), y)
    gradients = tape.gradient(loss, model.trainable_variables)
    ```
  """

  def __init__(self, gradtape: tf.GradientTape, device_dense: str = "", device_sparse: str = "",
               compression: str = Compression.none, sparse_as_dense: bool = False,
               op: str = Average):
    del device_dense, device_sparse
    if op not in (Average, Sum):
      raise InvalidArgumentError(f"DistributedGradientTape: op is Average or Sum, not {op}")
    if not hasattr(gradtape, "gradient"):
      raise expected("DistributedGradientTape: gradtape", "a tf.GradientTape", gradtape)
    check_codec("DistributedGradientTape", compression)
    self._tape, self._codec, self._op = gradtape, compression, op
    self._sparse_as_dense = sparse_as_dense

  def __enter__(self):
    self._tape.__enter__()
    return self

  def __exit__(self, *what):
    return self._tape.__exit__(*what)

  def __getattr__(self, name: str):
    return getattr(self._tape, name)

  def gradient(self, target, sources, output_gradients=None, **options):
    """Computes gradients and combines them over ranks.

    Args:
      target: as in tf.GradientTape.gradient.
      sources: as there; in the same order on every rank.
      output_gradients: as there.
      **options: as there.

    Returns:
      Gradients in the structure of `sources`.

    Raises:
      InvalidArgumentError: ranks disagree on shapes or types.
      CommError: a rank or a link is lost.
    """
    gradients = self._tape.gradient(target, sources, output_gradients, **options)
    names = [f"gradient {i}, {label(v)}" for i, v in enumerate(tf.nest.flatten(sources))]
    flat = combine(tf.nest.flatten(gradients), names, self._codec, self._op, self._sparse_as_dense)
    return tf.nest.pack_sequence_as(gradients, flat)


def combine(gradients: list, names: list[str], codec: str, op: str, sparse_as_dense: bool) -> list:
  """Gradients of all ranks, where a gradient may be None or tf.IndexedSlices."""
  flat = [tf.convert_to_tensor(g) if sparse_as_dense and isinstance(g, tf.IndexedSlices) else g
          for g in gradients]
  dense = [i for i, g in enumerate(flat)
           if g is not None and not isinstance(g, tf.IndexedSlices)]
  dense_names = [names[i] for i in dense]
  averages = call(lambda arrays: job().average_gradients(arrays, dense_names, codec),
                  [flat[i] for i in dense], [flat[i].shape for i in dense]) if dense else []
  for i, average in zip(dense, averages):
    flat[i] = average if op == Average else average * job().place.size
  for i, gradient in enumerate(flat):
    if isinstance(gradient, tf.IndexedSlices):
      flat[i] = allreduce(gradient, op=op, name=names[i])
  return flat


def label(variable) -> str:
  return getattr(variable, "path", None) or getattr(variable, "name", "tensor")
