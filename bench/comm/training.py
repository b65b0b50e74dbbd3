"""Training steps: DistributedDataParallel over a driver's backend."""

from __future__ import annotations

import copy
import math
import os

SEED = int(os.environ.get("STRETTO_BENCH_SEED", 0))
LEARNING_RATE = 0.02
# Steps in which the learning rate rises to that of larger batches (Goyal et al., "Accurate, large
# minibatch SGD", 2017).
RATE_WARM_UP = 40


def resnet50_shapes() -> list[tuple[int, ...]]:
  """Parameters of ResNet-50 in order of registration: 161 tensors, 25.6 million values."""
  shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
  inputs = 64
  for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
    for block in range(blocks):
      for shape in ((width, inputs, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)):
        shapes += [shape, (shape[0],), (shape[0],)]
      if block == 0:
        shapes += [(4 * width, inputs, 1, 1), (4 * width,), (4 * width,)]
      inputs = 4 * width
  return shapes + [(1000, 2048), (1000,)]


def resnet50_sized():
  """A model whose gradients are as many and as large as ResNet-50's and cost next to nothing to
  compute, so that the step is communication."""
  import torch

  class Sum(torch.nn.Module):

    def __init__(self):
      super().__init__()
      self.values = torch.nn.ParameterList(
          torch.nn.Parameter(torch.full(shape, 0.01)) for shape in resnet50_shapes())

    def forward(self, x):
      total = x.sum()
      for value in self.values:
        total = total + (value * total.detach()).mean()
      return total

  return Sum()


def digits_net():
  """A small convolutional network, 1.1 million values, for 8 x 8 images in ten classes."""
  import torch
  from torch import nn
  torch.manual_seed(SEED)
  return nn.Sequential(
      nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 16, 1024), nn.ReLU(), nn.Linear(1024, 10))


def digits_mlp():
  """A multilayer perceptron, 6.4 million values. All but its last layers are in one bucket of DDP's
  default size, which is full at the end of backward."""
  import torch
  from torch import nn
  torch.manual_seed(SEED)
  layers: list[nn.Module] = [nn.Flatten(), nn.Linear(64, 1024), nn.ReLU()]
  for _ in range(6):
    layers += [nn.Linear(1024, 1024), nn.ReLU()]
  return nn.Sequential(*layers, nn.Linear(1024, 10))


# By name: what makes the model, and the images of a step; 0: it needs no data.
MODELS = {"resnet50-sized": (resnet50_sized, 0), "digits": (digits_net, 32),
          "digits-mlp": (digits_mlp, 256)}


def digits(rank: int, size: int):
  """This rank's share of scikit-learn's digits."""
  import torch
  from sklearn.datasets import load_digits
  images, labels = load_digits(return_X_y=True)
  x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
  return x[rank::size], torch.tensor(labels)[rank::size]


class Reductions:
  """Steps that are all-reduces and nothing else: `4 x 8388608` is four of 8 MiB each."""

  def __init__(self, driver, model: str, wire: str, rank: int, size: int):
    del wire
    count, size_bytes = (int(word) for word in model.split(" x "))
    self._driver, self._rank, self._size = driver, rank, size
    self._buffers = driver.buffers(size_bytes, count)
    self._correct = True

  def run(self, steps: int) -> None:
    for _ in range(steps):
      for array in self._buffers:
        array[:] = self._rank + 1
      self._driver.burst(self._buffers)
      self._driver.step()
      expected = self._size * (self._size + 1) // 2
      self._correct &= all(bool((array == expected).all()) for array in self._buffers)

  def verdict(self, last: bool = False) -> dict:
    del last
    return {"correct": self._correct}


def make(driver, model: str, wire: str, rank: int, size: int):
  kind = Reductions if " x " in model else Trainer
  return kind(driver, model, wire, rank, size)


class Trainer:

  def __init__(self, driver, model: str, wire: str, rank: int, size: int):
    import torch
    self._torch, self._driver, self._step = torch, driver, 0
    make_network, self._batch = MODELS[model]
    network = make_network()
    self._wire = wire
    self._data = digits(rank, size) if self._batch else None
    self._model = driver.wrap(network, wire)
    factor = float(os.environ.get("STRETTO_BENCH_RATE_FACTOR", 1))
    self._optimizer = torch.optim.SGD(self._model.parameters(),
                                      lr=factor * LEARNING_RATE if self._data else 0.0,
                                      momentum=0.9 if self._data else 0)
    self._rate = torch.optim.lr_scheduler.LinearLR(
        self._optimizer, 1 / factor, total_iters=RATE_WARM_UP) if factor > 1 else None
    self.run(2)  # DDP forms its final buckets in the second step

  def run(self, steps: int) -> None:
    for _ in range(steps):
      self._optimizer.zero_grad(set_to_none=False)
      loss = self.loss()
      loss.backward()
      self._optimizer.step()
      if self._rate:
        self._rate.step()
      self._step += 1

  def loss(self, model=None):
    model = model or self._model
    if self._data is None:
      return model(self._torch.ones(1))
    x, y = self._data
    first = self._step * self._batch % (len(x) - self._batch)
    chosen = slice(first, first + self._batch)
    return self._torch.nn.functional.cross_entropy(model(x[chosen]), y[chosen])

  def mean_error(self) -> float:
    """How far the averaged gradients of one more step are from the exact averages: the norm of the
    difference over the mean norm of what ranks contribute, the largest of all tensors. The wrapper
    is a new one, so that its codec has nothing to send from earlier steps."""
    dist = self._torch.distributed
    model = self._driver.wrap(copy.deepcopy(self._model.module), self._wire)
    with model.no_sync():
      self.loss(model).backward()
    # No codec encodes fp64.
    own = [parameter.grad.double() for parameter in model.parameters()]
    model.zero_grad()
    self.loss(model).backward()
    worst = 0.0
    for parameter, exact in zip(model.parameters(), own):
      norm = exact.norm()
      for value in (exact, norm):
        dist.all_reduce(value)
        value /= dist.get_world_size()
      if norm > 0:
        worst = max(worst, float((parameter.grad - exact).norm() / norm))
    return worst

  def verdict(self, last: bool = False) -> dict:
    """A step counts as correct when every parameter and gradient is finite; the checksum has to
    agree on all ranks. The loss is that of all images. `last`: training is over, and ranks with a
    step policy average their parameters, as the documentation says for an evaluation."""
    if last:
      self._driver.synchronize()
    values = [v for p in self._model.parameters() for v in (p.detach(), p.grad) if v is not None]
    checksum = sum(float(v.double().abs().sum()) for v in values)
    verdict = {"correct": math.isfinite(checksum), "checksum": checksum}
    if self._data is not None:
      x, y = digits(0, 1)
      with self._torch.no_grad():
        loss = self._torch.nn.functional.cross_entropy(self._model.module(x), y)
      verdict["loss"] = float(loss)
    return verdict
