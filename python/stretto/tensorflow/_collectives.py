"""Named collectives on tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from stretto._checks import expected
from stretto._errors import InvalidArgumentError
from stretto._named_job import check_op, job, listed_variables

Average, Sum, Product, Min, Max = "average", "sum", "product", "min", "max"


def as_tensor(argument: str, value: Any) -> tf.Tensor:
  try:
    return tf.convert_to_tensor(value)
  except (TypeError, ValueError):
    raise expected(argument, "a tensor", value) from None


def call(function: Callable, tensors: Sequence[tf.Tensor], shapes: Sequence) -> list[tf.Tensor]:
  """Calls function(NumPy arrays) -> arrays of the same types: now, or when the graph runs. A graph
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
        raise InvalidArgumentError(f"allreduce: '{op}' has no gradient; Sum and Average have")
      return reduce_all([tf.convert_to_tensor(g) for g in gradients],
                        [f"{name}, backward" for name in names], op)

    return results, backward

  return list(reduced(*tensors))


def grouped_allreduce(tensors: Sequence, average: bool | None = None, name: str | None = None,
                      op: str | None = None) -> list[tf.Tensor]:
  """Combines tensors of all ranks in one go, element by element. Works inside tf.function and can
  be differentiated: the gradient of a sum over ranks is the sum of their gradients.

  Args:
    tensors: of the same shapes and types on every rank.
    average: Horovod's older way to say it: True is `Average`, False is `Sum`.
    name: tells which calls belong together where ranks call in different orders. None: the n-th
      call of one rank goes with the n-th call of the others.
    op: `Average` (the default), `Sum`, `Product`, `Min` or `Max`.

  Returns:
    New tensors, in the order given.

  Raises:
    InvalidArgumentError: both `op` and `average` are given, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.
  """
  if average is not None and op is not None:
    raise InvalidArgumentError("allreduce: give `op` or `average`, not both")
  op = op or (Sum if average is False else Average)
  check_op("allreduce", op)
  if not isinstance(tensors, Iterable):
    raise expected("allreduce: tensors", "a list of tensors", tensors)
  base = job().name("allreduce", name)
  tensors = [as_tensor("allreduce: tensor", t) for t in tensors]
  return reduce_all(tensors, [f"{base}.{i}" for i in range(len(tensors))], op)


def allreduce(tensor, average: bool | None = None, name: str | None = None,
              op: str | None = None):
  """Combines a tensor of all ranks, element by element.

  Args:
    tensor: a tensor, or tf.IndexedSlices: then the slices of all ranks are joined one after
      another, which means their sum.
    average: as in `grouped_allreduce`.
    name: as in `grouped_allreduce`.
    op: as in `grouped_allreduce`; `Average` is the default.

  Returns:
    A new tensor, or tf.IndexedSlices.

  Raises:
    InvalidArgumentError: as in `grouped_allreduce`.
    CommError: a rank or a link is lost.
  """
  if isinstance(tensor, tf.IndexedSlices):
    name = job().name("allreduce", name)
    values, indices = (allgather(part, f"{name}, {what}") for part, what
                       in ((tensor.values, "values"), (tensor.indices, "indices")))
    if op not in (None, Sum, Average):
      raise InvalidArgumentError(f"allreduce: IndexedSlices have Sum and Average, not {op}")
    if op == Average or (op is None and average is not False):
      values = values / tf.cast(job().place.size, values.dtype)
    return tf.IndexedSlices(values, indices, tensor.dense_shape)
  return grouped_allreduce([tensor], average, name, op)[0]


def allgather(tensor, name: str | None = None) -> tf.Tensor:
  """Collects the rows of all ranks on every rank.

  Args:
    tensor: at least one dimension; ranks may differ in the first one.
    name: as in `grouped_allreduce`.

  Returns:
    The rows, one rank after another.

  Raises:
    InvalidArgumentError: ranks disagree on types or on other dimensions.
    CommError: a rank or a link is lost.
  """
  tensor = as_tensor("allgather: tensor", tensor)
  name = job().name("allgather", name)
  return call(lambda arrays: [job().all_gather(arrays[0], name)], [tensor],
              [[None, *tensor.shape[1:]]])[0]


def broadcast(tensor, root_rank: int, name: str | None = None) -> tf.Tensor:
  """Gives every rank the tensor of one rank.

  Args:
    tensor: of the same shape and type on every rank.
    root_rank: the rank whose values the others get.
    name: as in `grouped_allreduce`.

  Returns:
    A new tensor.

  Raises:
    InvalidArgumentError: there is no such rank, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.
  """
  tensor = as_tensor("broadcast: tensor", tensor)
  job().check_root(root_rank)
  name = job().name("broadcast", name)
  return call(lambda arrays: [job().broadcast(arrays[0], root_rank, name)], [tensor],
              [tensor.shape])[0]


def broadcast_variables(variables: Sequence, root_rank: int = 0) -> None:
  """Gives variables of a model or an optimizer the values that one rank has, in place.

  Args:
    variables: in the same order on every rank.
    root_rank: the rank whose values the others get.

  Raises:
    InvalidArgumentError: there is no such rank, or ranks disagree on shapes or types.
    CommError: a rank or a link is lost.

  Examples:
    ```python
    hvd.broadcast_variables(model.variables, root_rank=0)
    ```
  """
  for i, variable in enumerate(listed_variables(variables, "a list of tf.Variable")):
    variable.assign(broadcast(variable, root_rank, f"variable {i}"))
