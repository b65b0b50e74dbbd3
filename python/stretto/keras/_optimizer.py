"""Optimizers that average gradients over ranks before they apply them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from stretto._checks import expected
from stretto._comm_arguments import check_codec
from stretto._errors import InvalidArgumentError
from stretto._named_job import Compression
from stretto.keras._collectives import Average, Sum
from stretto.keras._gradients import combine

NUMBERS = itertools.count()  # of optimizers, the same on all ranks


def DistributedOptimizer(optimizer: Any, name: str | None = None,  # noqa: N802
                         device_dense: str = "", device_sparse: str = "",
                         compression: str = Compression.none,
                         sparse_as_dense: bool = False, op: str = Average) -> Any:
  """Makes a Keras optimizer average gradients over ranks before it clips and applies them.

  Every way to train calls it: `model.fit()`, `train_on_batch()`, and `apply()` or
  `apply_gradients()` of a loop of one's own. All ranks wrap their optimizers in the same order.

  Args:
    optimizer: of Keras 3. It is changed in place, so that what it has learnt stays; files of
      `model.save()` name its own class. A `LossScaleOptimizer` is wrapped as a whole, not what is
      inside it: all ranks then skip the same steps.
    name: Horovod's; not used.
    device_dense: Horovod's; not used, since all tensors go through the host.
    device_sparse: as `device_dense`.
    compression: how gradients cross the wire, a value of `Compression`. What it loses is kept for
      the variable and added in the next step.
    sparse_as_dense: make tf.IndexedSlices (of embeddings) dense before they are sent.
    op: `Average` or `Sum`.

  Returns:
    The optimizer.

  Raises:
    InvalidArgumentError: `optimizer` is no optimizer of Keras 3 or averages already, there is no
      such compression, or `op` is something else.

  Examples:
    ```python
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size()),
                                         compression=hvd.Compression.bf16)
    ```
  """
  del name, device_dense, device_sparse
  if op not in (Average, Sum):
    raise InvalidArgumentError(f"DistributedOptimizer: op is Average or Sum, not {op}")
  check_codec("DistributedOptimizer", compression)
  if not hasattr(optimizer, "stateless_apply"):
    raise expected("DistributedOptimizer: optimizer", "an optimizer of Keras 3", optimizer)
  for inner in (optimizer, getattr(optimizer, "inner_optimizer", None)):
    if isinstance(inner, Averaging):
      raise InvalidArgumentError("DistributedOptimizer: the optimizer averages over ranks already")
  kind = type(optimizer)
  # Under the names of its class, by which Keras saves it.
  optimizer.__class__ = type(kind.__name__, (Averaging, kind),
                             {"__module__": kind.__module__, "__qualname__": kind.__qualname__,
                              "__doc__": kind.__doc__})
  vars(optimizer)["_stretto"] = {"codec": compression, "op": op, "sparse_as_dense": sparse_as_dense,
                                 "number": next(NUMBERS), "inside": False}
  return optimizer


class Averaging:
  """Stands before the class of an optimizer."""

  def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
    averages = self._averages(grads, trainable_variables)
    super().apply(averages, trainable_variables)  # type: ignore[misc]

  def stateless_apply(self, optimizer_variables, grads, trainable_variables):
    averages = self._averages(grads, None)
    ours = vars(self)["_stretto"]
    ours["inside"] = True  # it may call apply()
    try:
      return super().stateless_apply(optimizer_variables, averages,  # type: ignore[misc]
                                     trainable_variables)
    finally:
      ours["inside"] = False

  def _averages(self, grads: Sequence[Any], variables: Sequence[Any] | None) -> Sequence[Any]:
    ours = vars(self)["_stretto"]
    if ours["inside"]:
      return grads
    if variables is None:
      variables = self._trainable_variables  # type: ignore[attr-defined]
    names = [f"{variable.path} (gradient {i} of optimizer {ours['number']})"
             for i, variable in enumerate(variables)]
    return combine(grads, names, ours["codec"], ours["op"], ours["sparse_as_dense"])

  def __setattr__(self, name: str, value: Any) -> None:
    # A LossScaleOptimizer sets it to None in what it wraps, compile() in an optimizer under the
    # policy mixed_float16. A rank whose gradients are not finite would skip the averages. On
    # TensorFlow a property would not see it, since assigning what is there already does nothing.
    if name == "loss_scale_factor" and value is None:
      raise InvalidArgumentError(
          "LossScaleOptimizer: it cannot stand around a DistributedOptimizer; write "
          "DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))")
    super().__setattr__(name, value)


def load_model(filepath: str, custom_optimizers: Sequence[type] | None = None,
               custom_objects: dict[str, Any] | None = None,
               compression: str = Compression.none) -> Any:
  """Loads a model as `keras.models.load_model` does; its optimizer averages gradients.

  Args:
    filepath: of a model that was saved with its optimizer.
    custom_optimizers: classes of optimizers that are not Keras's own.
    custom_objects: as in `keras.models.load_model`.
    compression: as in `DistributedOptimizer`.

  Returns:
    The model, ready to be trained.

  Raises:
    InvalidArgumentError: the file has no optimizer.
  """
  from keras.models import load_model as load

  objects = {kind.__name__: kind for kind in custom_optimizers or ()} | (custom_objects or {})
  model = load(filepath, custom_objects=objects)
  if getattr(model, "optimizer", None) is None:
    raise InvalidArgumentError(f"load_model: {filepath} has no optimizer; call "
                               "keras.models.load_model() and compile()")
  DistributedOptimizer(model.optimizer, compression=compression)
  return model
