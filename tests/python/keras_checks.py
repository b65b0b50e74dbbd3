"""The checks of test_frameworks.py on stretto.tensorflow.callbacks, with a stand-in for Keras."""

import keras_stand_in

keras_stand_in.install()

import numpy as np  # noqa: E402
import ranks  # noqa: E402
import stretto.tensorflow as hvd  # noqa: E402
from keras_stand_in import Model, Optimizer, Variable  # noqa: E402
from stretto.tensorflow import callbacks  # noqa: E402


class State:

  def __init__(self, **values):
    self.__dict__ |= values
    self.commits = []

  def commit(self):
    self.commits.append((getattr(self, "epoch", None), getattr(self, "batch", None)))


class Rates(keras_stand_in.Callback):
  """Stands last, and notes what each batch is done with."""

  def __init__(self):
    super().__init__()
    self.rates, self.momenta = [], []

  def on_batch_begin(self, batch, logs=None):
    optimizer = self.model.optimizer
    self.rates.append(float(optimizer.learning_rate.numpy()))
    if hasattr(optimizer, "momentum"):
      momentum = optimizer.momentum
      self.momenta.append(float(momentum.numpy() if isinstance(momentum, Variable) else momentum))


def raises(text, function):
  try:
    function()
  except ValueError as error:
    assert text in str(error), error
  else:
    raise AssertionError("no error")


def check_broadcast(rank, size):
  model = Model(Optimizer(0.1))
  seen = []

  def step(batch):
    seen.append(model.variables[0].numpy()[0, 0])
    for variable in (*model.variables, *model.optimizer.variables):
      variable.assign(variable.numpy() + rank + 1)

  model.step = step
  model.fit(1, 3, [callbacks.BroadcastGlobalVariablesCallback(1)])
  # After the first batch all have what rank 1 has, and then go their own ways.
  assert seen == [0, 2, 2 + rank + 1], seen
  assert model.variables[1].numpy() == 2 + 2 * (rank + 1)
  np.testing.assert_array_equal(model.optimizer.variables[0].numpy(), 2.0 + 2 * (rank + 1))


def check_broadcast_before_keras_3(rank, size):
  """The variables of an optimizer came from a method."""
  model = Model(Optimizer(0.1))
  variables = model.optimizer.variables
  model.optimizer.variables = lambda: variables
  model.step = lambda batch: variables[0].assign(variables[0].numpy() + rank)
  model.fit(1, 1, [callbacks.BroadcastGlobalVariablesCallback(1)])
  np.testing.assert_array_equal(variables[0].numpy(), 1.0)


def check_metrics(rank, size):
  mean = (size - 1) / 2

  def metrics():
    # Ranks may have them in another order.
    return dict(sorted({"loss": 1.0 + rank, "accuracy": 10.0 * rank}.items(), reverse=rank == 1))

  for logs in Model(Optimizer(0.1), metrics=metrics).fit(2, 1, [callbacks.MetricAverageCallback()]):
    assert logs == {"loss": 1 + mean, "accuracy": 10 * mean}
  Model(Optimizer(0.1)).fit(1, 1, [callbacks.MetricAverageCallback()])  # no metrics


def check_schedule(rank, size):
  def rates(epochs, steps, *args, **options):
    seen = Rates()
    logs = Model(Optimizer(0.5)).fit(
        epochs, steps, [callbacks.LearningRateScheduleCallback(*args, **options), seen])
    assert [round(x["lr"], 6) for x in logs] == [round(r, 6) for r in seen.rates[steps - 1::steps]]
    return seen.rates

  np.testing.assert_allclose(rates(4, 2, 0.1, lambda epoch: 2.0 ** -epoch, 1, 3),
                             [0.5, 0.5, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025])
  np.testing.assert_allclose(rates(3, 1, 0.1, 0.5), [0.1, 0.05, 0.025])
  np.testing.assert_allclose(rates(2, 2, 0.1, lambda epoch: 1 + epoch, staircase=False),
                             [0.1, 0.15, 0.2, 0.25])


def check_momentum_is_corrected_for_the_batch_of_a_change(rank, size):
  """With the rate, as the paper on large batches asks; only where it is a variable."""
  for momentum, expected in ((Variable(np.float32(0.8)), [0.4, 0.8, 0.4, 0.8]),
                             (0.8, [0.8] * 4)):
    seen = Rates()
    optimizer = Optimizer(0.2, momentum)
    Model(optimizer).fit(2, 2, [callbacks.LearningRateScheduleCallback(0.1, 0.5), seen])
    np.testing.assert_allclose(seen.momenta, expected, rtol=1e-6)
  seen = Rates()
  Model(Optimizer(0.2, Variable(np.float32(0.8)))).fit(2, 2, [
      callbacks.LearningRateScheduleCallback(0.1, 0.5, momentum_correction=False), seen])
  np.testing.assert_allclose(seen.momenta, 0.8, rtol=1e-6)


def check_warmup(rank, size):
  seen = Rates()
  Model(Optimizer(0.5)).fit(3, 2, [
      callbacks.LearningRateWarmupCallback(0.6, warmup_epochs=2, verbose=1), seen])
  start = 0.6 / size
  np.testing.assert_allclose(
      seen.rates, [*(start + (0.6 - start) * k / 4 for k in (1, 2, 3, 4)), 0.6, 0.6], rtol=1e-6)
  seen = Rates()
  Model(Optimizer(0.5)).fit(1, 2, [callbacks.LearningRateWarmupCallback(
      0.6, warmup_epochs=1, steps_per_epoch=2), seen], known=False)
  np.testing.assert_allclose(seen.rates[-1], 0.6, rtol=1e-6)


def check_what_cannot_be_done_is_said(rank, size):
  raises("LearningRateScheduleCallback: initial_lr is needed",
         lambda: callbacks.LearningRateScheduleCallback(None, 1.0))
  for message, call in (
      ("LearningRateScheduleCallback: initial_lr: expected a number, got 'x'",
       lambda: callbacks.LearningRateScheduleCallback("x", 1.0)),
      ("multiplier: expected a function of the epoch, or a number, got 'x'",
       lambda: callbacks.LearningRateScheduleCallback(0.1, "x")),
      ("LearningRateWarmupCallback: warmup_epochs: expected a number of epochs, got None",
       lambda: callbacks.LearningRateWarmupCallback(0.1, None)),
      ("CommitStateCallback: state: expected an object with commit(), got 3",
       lambda: callbacks.CommitStateCallback(3)),
      ("CommitStateCallback: batches_per_commit: expected a number from 1 on, got 0",
       lambda: callbacks.CommitStateCallback(State(), 0))):
    raises(message, call)
  raises("LearningRateWarmupCallback: Keras does not know the number of batches; give "
         "steps_per_epoch", lambda: Model(Optimizer(0.1)).fit(
             1, 1, [callbacks.LearningRateWarmupCallback(0.1)], known=False))
  raises("the optimizer has a schedule of its own", lambda: Model(Optimizer(object())).fit(
      1, 1, [callbacks.LearningRateScheduleCallback(0.1, 0.5)]))


def check_state(rank, size):
  state = State(epoch=5, batch=0)
  Model(Optimizer(0.1)).fit(2, 3, [callbacks.UpdateBatchStateCallback(state),
                                   callbacks.UpdateEpochStateCallback(state),
                                   callbacks.CommitStateCallback(state, batches_per_commit=2)])
  # Every second batch, and after each epoch.
  assert state.commits == [(5, 1), (6, 0), (6, 0), (6, 2), (7, 0)], state.commits
  Model(Optimizer(0.1)).fit(1, 1, [callbacks.UpdateEpochStateCallback(state)])
  assert state.epoch == 8
  each = State()
  callback = callbacks.CommitStateCallback(each)
  Model(Optimizer(0.1)).fit(1, 3, [callback])
  assert len(each.commits) == 4


def check_state_counts_from_the_start_of_each_fit(rank, size):
  """A rank that was interrupted between two commits counts as the new ones do."""
  state = State()
  callback = callbacks.CommitStateCallback(state, batches_per_commit=2)
  Model(Optimizer(0.1)).fit(1, 3, [callback])
  state.commits.clear()
  Model(Optimizer(0.1)).fit(1, 2, [callback])
  assert len(state.commits) == 2


if __name__ == "__main__":
  ranks.named_main(globals(), hvd)
