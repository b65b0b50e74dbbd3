"""The checks of test_frameworks.py on stretto.keras with Keras 3, on the backend KERAS_BACKEND."""

import os
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras  # noqa: E402
import numpy as np  # noqa: E402
import ranks  # noqa: E402
import stretto.keras as hvd  # noqa: E402

import stretto  # noqa: E402

BACKEND = keras.backend.backend()
ROWS = 8  # of a rank's batch


def same(got, want):
  np.testing.assert_array_equal(keras.ops.convert_to_numpy(got), keras.ops.convert_to_numpy(want))


def network(seed=0):
  keras.utils.set_random_seed(seed)
  return keras.Sequential([keras.Input((20,)), keras.layers.Dense(16, "tanh"),
                           keras.layers.Dense(3)])


def data(size):
  """Batches of all ranks, one after another, and in them the ranks' shares."""
  x = np.random.default_rng(7).standard_normal((10 * size * ROWS, 20)).astype(np.float32)
  return x, np.sin(x[:, :3])


def share(array, rank, size):
  return array.reshape(-1, size, ROWS, array.shape[1])[:, rank].reshape(-1, array.shape[1])


def fit(model, optimizer, x, y, batch, callbacks=(), **options):
  model.compile(optimizer=optimizer, loss="mse", **options)
  return model.fit(x, y, batch_size=batch, epochs=2, shuffle=False, verbose=0,
                   callbacks=list(callbacks)).history["loss"]


def compare_with_one_process(rank, size, make, atol=1e-5, compression="", **options):
  """What one process gets that has the whole batch."""
  x, y = data(size)
  want, got = network(), network()
  alone = make()
  fit(want, alone, x, y, size * ROWS, **options)
  before = [w.numpy() for w in network().weights]
  optimizer = hvd.DistributedOptimizer(make(), compression=compression)
  fit(got, optimizer, share(x, rank, size), share(y, rank, size), ROWS, **options)
  moved = 0.0
  for a, b, first in zip(want.weights, got.weights, before):
    # Sums in another order; Adam divides by roots of small numbers.
    np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-3, atol=atol)
    moved = max(moved, np.abs(first - b.numpy()).max())
    same(hvd.broadcast(b, 0), b)
  assert moved > 10 * atol, moved
  assert float(optimizer.iterations.numpy()) == 20


def check_sgd(rank, size):
  compare_with_one_process(rank, size, lambda: keras.optimizers.SGD(0.1, momentum=0.9))


def check_adam_that_clips(rank, size):
  """Clipping sees the averages."""
  compare_with_one_process(rank, size, lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.1),
                           atol=1e-4)


def check_codecs(rank, size):
  for codec, atol in (("bf16", 2e-3), ("int8", 5e-3)):
    compare_with_one_process(rank, size, lambda: keras.optimizers.SGD(0.1, momentum=0.9), atol=atol,
                             compression=codec)


def check_loss_scale(rank, size):
  """A rank with a gradient that is not finite: all skip the step."""
  def make():
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=64.0)
  compare_with_one_process(rank, size, make)
  x, y = data(size)
  model = network()
  optimizer = hvd.DistributedOptimizer(make())
  x, y = share(x, rank, size)[:ROWS].copy(), share(y, rank, size)[:ROWS]
  x[0, 0] = np.inf if rank == 1 else x[0, 0]
  before = [w.numpy() for w in model.weights]
  model.compile(optimizer=optimizer, loss="mse")
  model.fit(x, y, batch_size=ROWS, verbose=0)
  for a, b in zip(before, model.weights):
    same(b, a)
  assert float(optimizer.dynamic_scale.numpy()) == 32.0


def check_own_loop(rank, size):
  """apply() and apply_gradients() with gradients of one's own."""
  for op, factor in ((hvd.Average, (size + 1) / 2), (hvd.Sum, size * (size + 1) / 2)):
    variables = [keras.Variable(np.zeros(3, np.float32)), keras.Variable(np.zeros((), np.float32))]
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), op=op)
    gradients = [keras.ops.ones((3,)) * (rank + 1), None]
    optimizer.apply_gradients(zip(gradients, variables))
    optimizer.apply(gradients, variables)
    np.testing.assert_allclose(variables[0].numpy(), -2 * factor)
    assert variables[1].numpy() == 0


def check_callbacks(rank, size):
  x, y = data(size)
  model = network(seed=rank)
  model.add(keras.layers.Dropout(0.5, seed=rank))
  weights = set(map(id, model.weights))
  seeds = [v.numpy() for v in model.variables if id(v) not in weights]
  losses = fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), share(x, rank, size),
               share(y, rank, size), ROWS, [
                   hvd.callbacks.BroadcastGlobalVariablesCallback(0),
                   hvd.callbacks.MetricAverageCallback(),
                   hvd.callbacks.LearningRateWarmupCallback(0.01, warmup_epochs=1)])
  for variable in (*model.weights, *model.optimizer.variables):
    same(hvd.broadcast(variable, 0), variable)
  same(hvd.broadcast(losses, 0), losses)
  np.testing.assert_allclose(model.optimizer.learning_rate.numpy(), 0.01, rtol=1e-6)
  # Ranks drop different values.
  other = hvd.broadcast(seeds[0].view(np.int32), 1)
  assert rank == 1 or not np.array_equal(other, seeds[0].view(np.int32))


def check_saved_model(rank, size):
  """A file has the optimizer's own class, and what it has learnt is loaded."""
  x, y = data(size)
  x, y = share(x, rank, size), share(y, rank, size)
  model = network()
  fit(model, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), x, y, ROWS)
  path = Path(sys.argv[1]) / f"model{rank}.keras"
  model.save(path)
  plain = keras.models.load_model(path)
  assert type(plain.optimizer) is not type(model.optimizer)
  loaded = hvd.load_model(path, compression=hvd.Compression.bf16)
  for a, b in zip(model.optimizer.variables, loaded.optimizer.variables):
    same(a, b)
  loaded.fit(x * (1 + rank), y, batch_size=ROWS, verbose=0)
  for weight in loaded.weights:
    same(hvd.broadcast(weight, 0), weight)
  model = network()
  model.save(path)
  raises("has no optimizer", lambda: hvd.load_model(path))


def check_values(rank, size):
  same(hvd.allreduce(float(rank)), (size - 1) / 2)
  same(hvd.allreduce([rank, 1], op=hvd.Max), [size - 1, 1])
  same(hvd.allreduce(keras.ops.ones((2, 2)), average=False), np.full((2, 2), size))
  same(hvd.allgather([rank] * (rank + 1)), [r for r in range(size) for _ in range(r + 1)])
  same(hvd.broadcast(keras.ops.ones(2) * rank, 1), [1, 1])


def raises(text, call):
  try:
    call()
  except stretto.InvalidArgumentError as error:
    assert text in str(error), error
  else:
    raise AssertionError(f"no error with '{text}'")


def check_bad_words(rank, size):
  sgd = keras.optimizers.SGD
  distributed = hvd.DistributedOptimizer(sgd(0.1))
  for call, words in (
      (lambda: hvd.DistributedOptimizer(5), "optimizer: expected an optimizer of Keras 3, got 5"),
      (lambda: hvd.DistributedOptimizer(distributed), "averages over ranks already"),
      (lambda: hvd.DistributedOptimizer(sgd(0.1), op="median"), "op is Average or Sum, not median"),
      (lambda: hvd.DistributedOptimizer(sgd(0.1), compression="zip"),
       "codec: expected one of none, fp16"),
      (lambda: hvd.allreduce(object()), "value: expected a tensor, an array or a number"),
      (lambda: hvd.allgather(3), "a number has no rows"),
      (lambda: hvd.broadcast(1, 7), f"expected a root from 0 to {size - 1}, got 7"),
      (lambda: hvd.broadcast_variables([3]), "variables: expected a list of variables, got 3")):
    raises(words, call)
  raises("cannot stand around a DistributedOptimizer",
         lambda: keras.optimizers.LossScaleOptimizer(distributed))


if __name__ == "__main__":
  ranks.named_main(globals(), hvd)
