"""Named collectives on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from stretto._named_job import job

Average, Sum, Product, Min, Max = "average", "sum", "product", "min", "max"


def call(function: Callable, tensors: Sequence[tf.Tensor], shapes: Sequence) -> list[tf.Tensor]:
  """function(NumPy arrays) -> arrays of the same types, now or when the graph comes to it. A graph
  keeps such calls in the order of the program, because they are stateful."""
  if tf.executing_eagerly():
    return [tf.convert_to_tensor(a) for a in function([t.numpy() for t in tensors])]
  results = tf.numpy_function(lambda *arrays: function(list(arrays)), list(tensors),
                              [t.dtype for t in tensors])
  results = results if isinstance(results, (list, tuple)) else [results]
  for result, shape in zip(results, shapes):
    result.set_shape(shape)
  return list(results)


def reduce_all(tensors: list[tf.Tensor], names: list[str], op: str) -> list[tf.Tensor]:

  @tf.custom_gradient
  def reduced(*values):
    results = call(lambda arrays: job().all_reduce(arrays, names, op), values,
                   [v.shape for v in values])

    def backward(*gradients):
      if op not in (Sum, Average):
        raise ValueError(f"allreduce: '{op}' has no gradient; Sum and Average have")
      return reduce_all([tf.convert_to_tensor(g) for g in gradients],
                        [f"{name}, backward" for name in names], op)

    return results, backward

  return list(reduced(*tensors))


def grouped_allreduce(tensors: Sequence, average: bool | None = None, name: str | None = None,
                      op: str | None = None) -> list[tf.Tensor]:
  """The gradient of a sum over ranks is the sum of their gradients."""
  if average is not None and op is not None:
    raise ValueError("allreduce: give `op` or `average`, not both")
  op = op or (Sum if average is False else Average)
  base = job().name("allreduce", name)
  return reduce_all([tf.convert_to_tensor(t) for t in tensors],
                    [f"{base}.{i}" for i in range(len(tensors))], op)


def allreduce(tensor, average: bool | None = None, name: str | None = None,
              op: str | None = None):
  """Of IndexedSlices: those of all ranks one after another, which means the same as their sum."""
  if isinstance(tensor, tf.IndexedSlices):
    name = job().name("allreduce", name)
    values, indices = (allgather(part, f"{name}, {what}") for part, what
                       in ((tensor.values, "values"), (tensor.indices, "indices")))
    if op not in (None, Sum, Average):
      raise ValueError(f"allreduce: IndexedSlices have Sum and Average, not {op}")
    if op == Average or (op is None and average is not False):
      values = values / tf.cast(job().place.size, values.dtype)
    return tf.IndexedSlices(values, indices, tensor.dense_shape)
  return grouped_allreduce([tensor], average, name, op)[0]


def allgather(tensor, name: str | None = None) -> tf.Tensor:
  """The rows of all ranks, who may differ in how many they have."""
  tensor = tf.convert_to_tensor(tensor)
  name = job().name("allgather", name)
  return call(lambda arrays: [job().all_gather(arrays[0], name)], [tensor],
              [[None, *tensor.shape[1:]]])[0]


def broadcast(tensor, root_rank: int, name: str | None = None) -> tf.Tensor:
  tensor = tf.convert_to_tensor(tensor)
  name = job().name("broadcast", name)
  return call(lambda arrays: [job().broadcast(arrays[0], root_rank, name)], [tensor],
              [tensor.shape])[0]


def broadcast_variables(variables: Sequence, root_rank: int = 0) -> None:
  """Gives the variables (of a model, of an optimizer) the values that rank `root_rank` has."""
  for i, variable in enumerate(variables):
    variable.assign(broadcast(variable, root_rank, f"variable {i}"))
