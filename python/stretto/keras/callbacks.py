"""Callbacks for `model.fit()`, as `horovod.keras.callbacks` has them, with those of its `.elastic`.

```python
from stretto.keras import callbacks           # was: from horovod.keras import callbacks

model.fit(..., callbacks=[
    callbacks.BroadcastGlobalVariablesCallback(0),
    callbacks.MetricAverageCallback(),
    callbacks.LearningRateWarmupCallback(initial_lr=0.1 * hvd.size(), warmup_epochs=5),
])
```

`DistributedOptimizer` averages the gradients.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from stretto._checks import expected, is_count, is_number
from stretto._errors import InvalidArgumentError
from stretto._named_job import job
from stretto.keras._collectives import broadcast_variables

__all__ = ["BroadcastGlobalVariablesCallback", "CommitStateCallback",
           "LearningRateScheduleCallback", "LearningRateWarmupCallback", "MetricAverageCallback",
           "UpdateBatchStateCallback", "UpdateEpochStateCallback"]

if os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):  # tf.keras is this package then
  from tf_keras.callbacks import Callback
else:
  from keras.callbacks import Callback

LOG = logging.getLogger("stretto")


class BroadcastGlobalVariablesCallback(Callback):
  """Gives all ranks the variables of one rank, of the model and of its optimizer, after the first
  batch, when all of them exist.

  Args:
    root_rank: the rank whose variables the others get.
    device: Horovod's; not used.
  """

  def __init__(self, root_rank: int = 0, device: str = "") -> None:
    super().__init__()
    del device
    self.root_rank, self.broadcast_done = root_rank, False

  def on_batch_end(self, batch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      batch: number of the batch.
      logs: Keras's.
    """
    del batch, logs
    if not self.broadcast_done:
      of_optimizer = self.model.optimizer.variables  # a method before Keras 3
      # Not `variables`, which since Keras 3 have the seeds of dropout too: ranks would draw alike.
      broadcast_variables([*self.model.weights,
                           *(of_optimizer() if callable(of_optimizer) else of_optimizer)],
                          self.root_rank)
      self.broadcast_done = True


class MetricAverageCallback(Callback):
  """Averages the metrics of an epoch over ranks, for the callbacks after it in the list.

  Args:
    device: Horovod's; not used.
  """

  def __init__(self, device: str = "") -> None:
    super().__init__()
    del device

  def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      epoch: number of the epoch.
      logs: the metrics, which are changed in place; the same on all ranks.
    """
    del epoch
    names = sorted(logs or {})
    means = job().all_reduce([np.array([logs[name]], np.float64) for name in names],
                             [f"metric {name}" for name in names]) if names else []
    for name, mean in zip(names, means):
      logs[name] = float(mean[0])


class LearningRateScheduleCallback(Callback):
  """Sets the learning rate to `initial_lr * multiplier(epoch)`.

  Args:
    initial_lr: the learning rate that is multiplied.
    multiplier: a function of the epoch, or a number m, which means m ** epoch.
    start_epoch: the first epoch in which the rate is set.
    end_epoch: the first one after that in which it is not; None: there is none.
    staircase: True: once per epoch. False: for each batch, with a fraction for its epoch.
    momentum_correction: scale the optimizer's momentum for one batch as the rate changes, where the
      momentum is a variable. In Keras 3 it is a number that compiled steps do not read again.
    steps_per_epoch: batches per epoch; None: as Keras says.

  Raises:
    InvalidArgumentError: `initial_lr` is no number, or `multiplier` neither a function nor a
      number.
  """

  def __init__(self, initial_lr: float, multiplier: float | Callable[[float], float],
               start_epoch: int = 0, end_epoch: int | None = None, staircase: bool = True,
               momentum_correction: bool = True, steps_per_epoch: int | None = None) -> None:
    super().__init__()
    if initial_lr is None:
      raise InvalidArgumentError(f"{type(self).__name__}: initial_lr is needed")
    if not is_number(initial_lr):
      raise expected(f"{type(self).__name__}: initial_lr", "a number", initial_lr)
    if not callable(multiplier) and not is_number(multiplier):
      raise expected(f"{type(self).__name__}: multiplier", "a function of the epoch, or a number",
                     multiplier)
    self.initial_lr, self.start_epoch, self.end_epoch = initial_lr, start_epoch, end_epoch
    self.staircase, self.steps_per_epoch = staircase, steps_per_epoch
    self.multiplier = multiplier if callable(multiplier) else lambda epoch: multiplier ** epoch
    self.momentum_correction, self.current_epoch = momentum_correction, 0
    self._momentum: float | None = None  # to go back to

  def on_train_begin(self, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      logs: Keras's.

    Raises:
      InvalidArgumentError: the number of batches is unknown, or the optimizer has a schedule of its
        own.
    """
    del logs
    if not hasattr(self.model.optimizer.learning_rate, "assign"):
      raise InvalidArgumentError(f"{type(self).__name__}: the optimizer has a schedule of its own; "
                                 "give it a number as learning_rate")
    if not self.staircase and not self.steps_per_epoch:
      self.steps_per_epoch = self.params.get("steps")
      if not self.steps_per_epoch:
        raise InvalidArgumentError(f"{type(self).__name__}: Keras does not know the number of "
                                   "batches; give steps_per_epoch")

  def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      epoch: number of the epoch.
      logs: Keras's.
    """
    del logs
    self.current_epoch = epoch

  def on_batch_begin(self, batch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      batch: number of the batch in its epoch.
      logs: Keras's.
    """
    del logs
    epoch = self.current_epoch
    if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
      return
    if not self.staircase:
      self._set(epoch + batch / self.steps_per_epoch)
    elif batch == 0:
      self._set(epoch)

  def _set(self, epoch: float) -> None:
    optimizer = self.model.optimizer
    before, rate = rate_of(optimizer), self.initial_lr * self.multiplier(epoch)
    optimizer.learning_rate.assign(rate)
    momentum = getattr(optimizer, "momentum", None)
    if self.momentum_correction and hasattr(momentum, "assign") and before:
      self._momentum = float(momentum.numpy())
      momentum.assign(self._momentum * rate / before)

  def on_batch_end(self, batch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      batch: number of the batch.
      logs: Keras's.
    """
    del batch, logs
    if self._momentum is not None:
      self.model.optimizer.momentum.assign(self._momentum)
      self._momentum = None

  def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      epoch: number of the epoch.
      logs: gets the learning rate as `lr`.
    """
    del epoch
    if logs is not None:
      logs["lr"] = rate_of(self.model.optimizer)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
  """Raises the learning rate from `initial_lr / hvd.size()` to `initial_lr` with every batch of the
  first epochs (Goyal et al., "Accurate, Large Minibatch SGD", 2017).

  Args:
    initial_lr: the rate after the warm-up, for the batch of all ranks together.
    warmup_epochs: number of epochs in which it rises.
    momentum_correction: as in `LearningRateScheduleCallback`.
    steps_per_epoch: as in `LearningRateScheduleCallback`.
    verbose: 1: rank 0 logs when the warm-up is over.

  Raises:
    InvalidArgumentError: `initial_lr` or `warmup_epochs` is no number.
  """

  def __init__(self, initial_lr: float, warmup_epochs: int = 5, momentum_correction: bool = True,
               steps_per_epoch: int | None = None, verbose: int = 0) -> None:
    self.verbose = verbose
    if not is_number(warmup_epochs):
      raise expected(f"{type(self).__name__}: warmup_epochs", "a number of epochs", warmup_epochs)

    def multiplier(epoch: float) -> float:
      # The rate of a batch is that of its end, so that epochs end with round numbers.
      size, end = job().place.size, epoch + 1 / self.steps_per_epoch
      return (1 + (size - 1) * end / warmup_epochs) / size

    super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction,
                     steps_per_epoch)

  def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      epoch: number of the epoch.
      logs: as in `LearningRateScheduleCallback`.
    """
    super().on_epoch_end(epoch, logs)
    if self.verbose and epoch + 1 == self.end_epoch and job().place.rank == 0:
      LOG.info("epoch %d: the learning rate has reached %g", epoch + 1,
               rate_of(self.model.optimizer))


class CommitStateCallback(Callback):
  """Commits a state after some batches and after each epoch.

  Args:
    state: an object with `commit()`, for example one that writes a checkpoint.
    batches_per_commit: batches between two commits.

  Raises:
    InvalidArgumentError: `state` has no commit(), or `batches_per_commit` is no number from 1 on.
  """

  def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
    super().__init__()
    if not callable(getattr(state, "commit", None)):
      raise expected("CommitStateCallback: state", "an object with commit()", state)
    if not is_count(batches_per_commit) or batches_per_commit < 1:
      raise expected("CommitStateCallback: batches_per_commit", "a number from 1 on",
                     batches_per_commit)
    self.state, self.batches_per_commit = state, batches_per_commit
    self._left = batches_per_commit

  def on_train_begin(self, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      logs: Keras's.
    """
    del logs
    self._left = self.batches_per_commit  # on all ranks at the same batches

  def on_batch_end(self, batch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      batch: number of the batch.
      logs: Keras's.
    """
    del batch, logs
    self._left -= 1
    if self._left == 0:
      self._left = self.batches_per_commit
      self.state.commit()

  def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      epoch: number of the epoch.
      logs: Keras's.
    """
    del epoch, logs
    self.state.commit()


class UpdateBatchStateCallback(Callback):
  """Keeps the number of the batch that has just ended in `state.batch`, and 0 between epochs. It
  stands before `CommitStateCallback` in the list.

  Args:
    state: an object with the attribute `batch`.
  """

  def __init__(self, state: Any) -> None:
    super().__init__()
    self.state = state

  def on_batch_end(self, batch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      batch: number of the batch.
      logs: Keras's.
    """
    del logs
    self.state.batch = batch

  def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      epoch: number of the epoch.
      logs: Keras's.
    """
    del epoch, logs
    self.state.batch = 0


class UpdateEpochStateCallback(Callback):
  """Keeps the number of epochs that are over in `state.epoch`, counted on from its value when
  `fit()` begins. It stands before `CommitStateCallback` in the list.

  Args:
    state: an object with the attribute `epoch`.
  """

  def __init__(self, state: Any) -> None:
    super().__init__()
    self.state, self._first = state, state.epoch

  def on_train_begin(self, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      logs: Keras's.
    """
    del logs
    self._first = self.state.epoch

  def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
    """Called by Keras.

    Args:
      epoch: number of the epoch.
      logs: Keras's.
    """
    del logs
    self.state.epoch = self._first + epoch + 1


def rate_of(optimizer) -> float:
  return float(optimizer.learning_rate.numpy())
