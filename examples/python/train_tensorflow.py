"""Trains a small network on several ranks with TensorFlow, in the shape of a Horovod script.

  stretto run -n 2 examples/python/train_tensorflow.py
  stretto run -n 2 --codec int8 examples/python/train_tensorflow.py
"""

import numpy as np
import stretto.tensorflow as hvd  # was: import horovod.tensorflow as hvd
import tensorflow as tf


def data(seed: int, rows: int):
  """Which of three noisy waves is it?"""
  generator = np.random.default_rng(seed)
  labels = generator.integers(0, 3, rows)
  t = np.linspace(0, 1, 64) + generator.uniform(size=(rows, 1))
  waves = np.stack([np.sin(12 * t), np.sign(np.sin(12 * t)), np.abs(np.sin(6 * t))])
  x = waves[labels, np.arange(rows)] + 0.3 * generator.standard_normal(t.shape)
  return x.astype(np.float32), labels


def main() -> None:
  hvd.init()
  tf.random.set_seed(hvd.rank())
  model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(64, "relu"),
                               tf.keras.layers.Dense(3)])
  optimizer = tf.keras.optimizers.SGD(0.2, momentum=0.5)
  loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  optimizer.build(model.trainable_variables)
  hvd.broadcast_variables(model.variables, root_rank=0)
  hvd.broadcast_variables(optimizer.variables, root_rank=0)

  @tf.function
  def step(x, labels):
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
      loss = loss_of(labels, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

  x, labels = data(100 + hvd.rank(), 1200)  # every rank has its own
  test_x, test_labels = data(99, 600)
  for epoch in range(1, 13):
    for begin in range(0, len(x), 60):
      loss = step(x[begin:begin + 60], labels[begin:begin + 60])
    accuracy = np.mean(model(test_x).numpy().argmax(1) == test_labels)
    loss = hvd.allreduce(loss, name="loss")
    if hvd.rank() == 0:
      print(f"epoch {epoch}  loss {float(loss):.4f}  accuracy {accuracy:.4f}", flush=True)
  hvd.shutdown()


if __name__ == "__main__":
  main()
