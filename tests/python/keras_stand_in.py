"""As much of TensorFlow and Keras as stretto.tensorflow.callbacks uses, as their documentation has
it, for versions that are not installed and for what fit() does not show. keras_fit_checks.py and
tensorflow_checks.py have the real ones."""

import sys
import types

import numpy as np


class Variable:
  """Also stands for a tensor."""

  def __init__(self, value):
    self.value = np.array(value)

  @property
  def shape(self):
    return self.value.shape

  @property
  def dtype(self):
    return self.value.dtype

  def numpy(self):
    return self.value

  def assign(self, value):
    self.value = np.array(getattr(value, "value", value), self.value.dtype)


class Callback:
  """keras.callbacks.Callback: batches of training call the older names without `train`."""

  def __init__(self):
    self.params, self.model = {}, None

  def set_params(self, params):
    self.params = params

  def set_model(self, model):
    self.model = model

  def on_train_batch_begin(self, batch, logs=None):
    self.on_batch_begin(batch, logs)

  def on_train_batch_end(self, batch, logs=None):
    self.on_batch_end(batch, logs)

  def nothing(self, number, logs=None):
    pass

  on_batch_begin = on_batch_end = on_epoch_begin = on_epoch_end = nothing

  def on_train_begin(self, logs=None):
    pass


class Optimizer:

  def __init__(self, rate, momentum=None):
    self.learning_rate = Variable(np.float32(rate)) if isinstance(rate, float) else rate
    self.variables = [Variable(np.zeros(3, np.float32))]
    if momentum is not None:
      self.momentum = momentum


class Model:
  """`step(batch)` is what a batch does; `metrics()` what an epoch is said to have brought."""

  def __init__(self, optimizer, step=lambda batch: None, metrics=dict):
    self.optimizer, self.step, self.metrics = optimizer, step, metrics
    self.variables = [Variable(np.zeros((2, 2), np.float32)), Variable(np.int64(0))]
    self.weights = self.variables

  def fit(self, epochs, steps, callbacks, known=True):
    """Returns the logs of each epoch, as the callbacks have left them."""
    history = []
    for callback in callbacks:
      callback.set_params({"epochs": epochs, "steps": steps if known else None, "verbose": 0})
      callback.set_model(self)
      callback.on_train_begin()
    for epoch in range(epochs):
      logs = self.metrics()
      for callback in callbacks:
        callback.on_epoch_begin(epoch)
      for batch in range(steps):
        for callback in callbacks:
          callback.on_train_batch_begin(batch)
        self.step(batch)
        for callback in callbacks:
          callback.on_train_batch_end(batch)
      for callback in callbacks:
        callback.on_epoch_end(epoch, logs)
      history.append(logs)
    return history


def install():
  tf = types.ModuleType("tensorflow")
  tf.Variable = tf.Tensor = Variable
  tf.convert_to_tensor = lambda value: value if isinstance(value, Variable) else Variable(value)
  tf.executing_eagerly = lambda: True
  sys.modules["tensorflow"] = tf
  sys.modules["keras"] = tf.keras = types.ModuleType("keras")
  sys.modules["keras.callbacks"] = tf.keras.callbacks = types.ModuleType("keras.callbacks")
  tf.keras.callbacks.Callback = Callback
