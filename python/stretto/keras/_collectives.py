"""Collectives on values and variables, outside of compiled steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stretto._checks import expected
from stretto._errors import InvalidArgumentError
from stretto._named_job import check_op, job, listed_variables

Average, Sum, Product, Min, Max = "average", "sum", "product", "min", "max"


def as_array(argument: str, value: Any) -> np.ndarray:
  """`value` may be a tensor or a variable of the backend."""
  from keras import ops

  try:
    array = ops.convert_to_numpy(value)
  except (TypeError, ValueError):
    array = np.array(None)
  if array.dtype == object or array.dtype.kind in "SUMm":
    raise expected(argument, "a tensor, an array or a number", value)
  return array


def allreduce(value: Any, name: str | None = None, average: bool | None = None,
              op: str | None = None) -> np.ndarray:
  """Combines a value of all ranks, element by element.

  Args:
    value: a tensor, an array or a number, of the same shape and type on every rank.
    name: tells which calls belong together where ranks call in different orders. None: the n-th
      call of one rank goes with the n-th call of the others.
    average: Horovod's older way to say it: True is `Average`, False is `Sum`.
    op: `Average` (the default), `Sum`, `Product`, `Min` or `Max`.

  Returns:
    A new array.

  Raises:
    InvalidArgumentError: both `op` and `average` are given, or ranks disagree on shape or type.
    CommError: a rank or a link is lost.

  Examples:
    ```python
    score = hvd.allreduce(model.evaluate(x, y))
    ```
  """
  if average is not None and op is not None:
    raise InvalidArgumentError("allreduce: give `op` or `average`, not both")
  op = op or (Sum if average is False else Average)
  check_op("allreduce", op)
  array = as_array("allreduce: value", value)
  return job().all_reduce([array], [job().name("allreduce", name)], op)[0]


def allgather(value: Any, name: str | None = None) -> np.ndarray:
  """Collects the rows of all ranks on every rank.

  Args:
    value: at least one dimension; ranks may differ in the first one.
    name: as in `allreduce`.

  Returns:
    The rows, one rank after another.

  Raises:
    InvalidArgumentError: `value` has no rows, or ranks disagree on types or on other dimensions.
    CommError: a rank or a link is lost.
  """
  array = as_array("allgather: value", value)
  if array.ndim == 0:
    raise InvalidArgumentError("allgather: value: a number has no rows; give a list of it")
  return job().all_gather(array, job().name("allgather", name))


def broadcast(value: Any, root_rank: int, name: str | None = None) -> np.ndarray:
  """Gives every rank the value of one rank.

  Args:
    value: as in `allreduce`.
    root_rank: the rank whose value the others get.
    name: as in `allreduce`.

  Returns:
    A new array.

  Raises:
    InvalidArgumentError: there is no such rank, or ranks disagree on shape or type.
    CommError: a rank or a link is lost.
  """
  array = as_array("broadcast: value", value)
  return job().broadcast(array, root_rank, job().name("broadcast", name))


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
    hvd.broadcast_variables(model.weights, root_rank=0)
    ```
  """
  for i, variable in enumerate(listed_variables(variables, "a list of variables")):
    variable.assign(job().broadcast(variable.numpy(), root_rank, f"variable {i}"))
