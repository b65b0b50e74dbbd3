"""Gradients that are averaged over ranks."""

from __future__ import annotations

import tensorflow as tf

from stretto.named_job import job
from stretto.tensorflow.collectives import Average, allreduce, call


class DistributedGradientTape:
  """Wraps a tf.GradientTape: gradient() gives the mean over ranks, of dense gradients in one go.

  codec: how they cross the wire, any value of STRETTO_CODEC; empty: that. What a codec loses is
  kept for the variable and added in the next step.
  sparse_as_dense: IndexedSlices (of embeddings) are made dense first, which takes fewer bytes when
  most rows occur."""

  def __init__(self, gradtape: tf.GradientTape, codec: str = "", sparse_as_dense: bool = False):
    self.tape_, self.codec_, self.sparse_as_dense_ = gradtape, codec, sparse_as_dense

  def __enter__(self):
    self.tape_.__enter__()
    return self

  def __exit__(self, *what):
    return self.tape_.__exit__(*what)

  def __getattr__(self, name: str):
    return getattr(self.tape_, name)

  def gradient(self, target, sources, output_gradients=None, **options):
    gradients = self.tape_.gradient(target, sources, output_gradients, **options)
    flat = tf.nest.flatten(gradients)
    variables = tf.nest.flatten(sources)
    names = [f"gradient {i}, {label(v)}" for i, v in enumerate(variables)]
    if self.sparse_as_dense_:
      flat = [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in flat]
    dense = [i for i, g in enumerate(flat)
             if g is not None and not isinstance(g, tf.IndexedSlices)]
    dense_names = [names[i] for i in dense]
    averages = call(lambda arrays: job().average_gradients(arrays, dense_names, self.codec_),
                    [flat[i] for i in dense], [flat[i].shape for i in dense]) if dense else []
    for i, average in zip(dense, averages):
      flat[i] = average
    for i, gradient in enumerate(flat):
      if isinstance(gradient, tf.IndexedSlices):
        flat[i] = allreduce(gradient, op=Average, name=names[i])
    return tf.nest.pack_sequence_as(gradients, flat)


def label(variable) -> str:
  return getattr(variable, "path", None) or getattr(variable, "name", "tensor")
