"""The checks of test_frameworks.py on stretto.tensorflow."""

import numpy as np
import ranks
import stretto.tensorflow as hvd
import tensorflow as tf

import stretto


def value(rank, shape=(7,)):
  return tf.reshape(tf.range(float(np.prod(shape))), shape) + float(rank)


def total(size, shape=(7,)):
  return sum(value(r, shape) for r in range(size))


def same(got, want):
  np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def check_all_reduce(rank, size):
  same(hvd.allreduce(value(rank), op=hvd.Sum), total(size))
  np.testing.assert_allclose(hvd.allreduce(value(rank)), total(size) / size, rtol=1e-6)
  same(hvd.allreduce(tf.constant([rank, 5]), op=hvd.Max), [size - 1, 5])
  same(hvd.allreduce(tf.constant(2.5), average=False), 2.5 * size)
  a, b = hvd.grouped_allreduce([value(rank), value(rank, (2, 2))], op=hvd.Sum, name="group")
  same(a, total(size))
  same(b, total(size, (2, 2)))


def check_inside_a_function(rank, size):

  @tf.function
  def both(x):
    y = hvd.allreduce(x * 2, op=hvd.Sum)
    z = hvd.allreduce(y)
    tf.debugging.assert_equal(tf.shape(y), tf.shape(x))
    return y + 1, z

  for step in range(3):
    a, b = both(value(rank) + step)
    same(a, 2 * (total(size) + size * step) + 1)
    same(b, 2 * (total(size) + size * step))


def check_moves(rank, size):
  same(hvd.broadcast(value(rank), 1), value(1))
  got = hvd.allgather(value(rank, (rank + 1, 2)))
  same(got, tf.concat([value(r, (r + 1, 2)) for r in range(size)], 0))
  variables = [tf.Variable(value(rank)), tf.Variable(tf.fill([2], rank))]
  hvd.broadcast_variables(variables, root_rank=1)
  same(variables[0], value(1))
  same(variables[1], [1, 1])


def check_gradient(rank, size):
  x = tf.fill([3], float(rank))
  with tf.GradientTape() as tape:
    tape.watch(x)
    loss = tf.reduce_sum(hvd.allreduce(x, op=hvd.Sum) * (rank + 1.0))
  same(tape.gradient(loss, x), tf.fill([3], size * (size + 1) / 2))


def problem(step, rank, size):
  x = np.random.default_rng(step).standard_normal((8 * size, 40)).astype(np.float32)
  y = np.sin(x[:, :3])
  mine = slice(rank * 8, (rank + 1) * 8)
  return (x[mine], y[mine]), (x, y)


def network():
  generator = np.random.default_rng(0)
  return [tf.Variable((0.2 * generator.standard_normal(shape)).astype(np.float32), name=name)
          for name, shape in (("w", (40, 64)), ("v", (64, 3)), ("b", (3,)))]


def train(variables, batches, wrap):

  @tf.function
  def step(x, y):
    with wrap(tf.GradientTape()) as tape:
      w, v, b = variables
      loss = tf.reduce_mean((tf.tanh(x @ w) @ v + b - y) ** 2)
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
      variable.assign_sub(0.2 * gradient)
    return loss

  return [float(step(tf.constant(x), tf.constant(y))) for x, y in batches]


def check_training(rank, size):
  """What one process gets that has the whole batch; and with a codec."""
  mine, whole = zip(*(problem(step, rank, size) for step in range(60)))
  want, got, less = network(), network(), network()
  train(want, whole, lambda tape: tape)
  train(got, mine, hvd.DistributedGradientTape)
  losses = train(less, mine, lambda tape: hvd.DistributedGradientTape(
      tape, compression=hvd.Compression.int8))
  for a, b, c in zip(want, got, less):
    # Sums in another order, over 60 steps.
    np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)
    # Within the error of int8 with feedback; without training they are further than 0.1 apart.
    np.testing.assert_allclose(c, a, atol=0.02)
    same(hvd.broadcast(c, 0), c)
  assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def check_embeddings(rank, size):
  for dense in (False, True):
    table = tf.Variable(tf.ones([10, 4]))
    words = tf.constant([rank, 2 * rank, 7])
    with hvd.DistributedGradientTape(tf.GradientTape(), sparse_as_dense=dense) as tape:
      loss = tf.reduce_sum(tf.gather(table, words))
    gradient = tf.convert_to_tensor(tape.gradient(loss, table))
    want = np.zeros((10, 4), np.float32)
    for r in range(size):
      for word in (r, 2 * r, 7):
        want[word] += 1 / size
    np.testing.assert_allclose(gradient, want, rtol=1e-6)


def check_nothing_to_send(rank, size):
  """A variable that the loss does not depend on."""
  used, unused = tf.Variable(1.0), tf.Variable(1.0)
  with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
    loss = used * (rank + 1.0)
  gradients = tape.gradient(loss, [used, unused])
  assert gradients[1] is None
  same(gradients[0], (size + 1) / 2)
  with tf.GradientTape() as tape:
    loss = used * (rank + 1.0)
  same(hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, used), size * (size + 1) / 2)


def check_bad_words(rank, size):
  x = value(rank)
  for call, words in (
      (lambda: hvd.allreduce(x, op="median"), "allreduce: op: expected one of sum, average"),
      (lambda: hvd.allreduce(object()), "allreduce: tensor: expected a tensor, got object"),
      (lambda: hvd.grouped_allreduce(5), "allreduce: tensors: expected a list of tensors, got 5"),
      (lambda: hvd.allgather(object()), "allgather: tensor: expected a tensor, got object"),
      (lambda: hvd.broadcast(object(), 0), "broadcast: tensor: expected a tensor, got object"),
      (lambda: hvd.broadcast(x, "first"), f"expected a root from 0 to {size - 1}, got 'first'"),
      (lambda: hvd.broadcast_variables([x]), "broadcast_variables: variables: expected a list of"),
      (lambda: hvd.DistributedGradientTape(5), "gradtape: expected a tf.GradientTape, got 5"),
      (lambda: hvd.DistributedGradientTape(tf.GradientTape(), compression="zip"),
       "codec: expected one of none, fp16")):
    try:
      call()
    except stretto.InvalidArgumentError as error:
      assert words in str(error), error
    else:
      raise AssertionError(f"no error with '{words}'")


class Averaging(tf.keras.Model):
  """fit() averages gradients over ranks."""

  def __init__(self, rank):
    super().__init__()
    self.layer = tf.keras.layers.Dense(1, kernel_initializer=tf.keras.initializers.Constant(rank))

  def call(self, x):
    return self.layer(x)

  def train_step(self, data):
    x, y = data
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
      loss = self.compute_loss(x, y, self(x, training=True))
    gradients = tape.gradient(loss, self.trainable_variables)
    self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
    for metric in self.metrics:
      if metric.name == "loss":
        metric.update_state(loss)
    return {metric.name: metric.result() for metric in self.metrics}


def check_keras_callbacks(rank, size):
  """On the real fit(); keras_checks.py looks at what each one does with a stand-in."""
  from stretto.tensorflow import callbacks

  class State:
    epoch, batch, commits = 0, 0, 0

    def commit(self):
      self.commits += 1

  state, model = State(), Averaging(rank)
  model.compile(optimizer=tf.keras.optimizers.SGD(0.5, momentum=0.9), loss="mse")
  x = np.random.default_rng(rank).standard_normal((32, 4)).astype(np.float32)
  y = x.sum(axis=1, keepdims=True) * 2
  history = model.fit(x, y, batch_size=8, epochs=3, verbose=0, shuffle=False, callbacks=[
      callbacks.BroadcastGlobalVariablesCallback(0), callbacks.MetricAverageCallback(),
      callbacks.LearningRateWarmupCallback(0.02 * size, warmup_epochs=2),
      callbacks.UpdateBatchStateCallback(state), callbacks.UpdateEpochStateCallback(state),
      callbacks.CommitStateCallback(state, batches_per_commit=2)]).history
  for variable in (*model.variables, *model.optimizer.variables):
    same(hvd.broadcast(variable, 0), variable)
  same(hvd.broadcast(tf.constant(history["loss"], tf.float64), 0), history["loss"])
  assert history["loss"][-1] < history["loss"][0]
  # The rate at the end of each epoch, half way up and at the top.
  np.testing.assert_allclose(history["lr"], [0.01 * (size + 1), 0.02 * size, 0.02 * size],
                             rtol=1e-6)
  assert (state.epoch, state.batch, state.commits) == (3, 0, 3 * (2 + 1))


if __name__ == "__main__":
  ranks.named_main(globals(), hvd)
