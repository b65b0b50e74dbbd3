"""The shape of a script written for Horovod; only its import has changed.

  stretto run -n 2 examples/python/train_digits_horovod.py
"""

from __future__ import annotations

import stretto.horovod as hvd  # was: import horovod.torch as hvd
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):

  def __init__(self):
    super().__init__()
    self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
    self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
    self.fc1 = nn.Linear(32 * 4, 64)
    self.fc2 = nn.Linear(64, 10)

  def forward(self, x):
    x = F.relu(F.max_pool2d(self.conv1(x), 2))
    x = F.relu(F.max_pool2d(self.conv2(x), 2))
    return self.fc2(F.relu(self.fc1(x.flatten(1))))


def average(value: float, name: str) -> float:
  return float(hvd.allreduce(torch.tensor(value), name=name))


def main() -> None:
  hvd.init()
  torch.manual_seed(42)
  images, labels = load_digits(return_X_y=True)
  x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
  train = TensorDataset(x[:1500], torch.tensor(labels[:1500]))
  test_x, test_y = x[1500:], torch.tensor(labels[1500:])
  sampler = DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
  loader = DataLoader(train, batch_size=32, sampler=sampler)

  model = Net()
  optimizer = optim.SGD(model.parameters(), lr=0.02 * hvd.size(), momentum=0.9)
  hvd.broadcast_parameters(model.state_dict(), root_rank=0)
  hvd.broadcast_optimizer_state(optimizer, root_rank=0)
  optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                       compression=hvd.Compression.fp16)

  for epoch in range(1, 9):
    model.train()
    sampler.set_epoch(epoch)
    for data, target in loader:
      optimizer.zero_grad()
      loss = F.cross_entropy(model(data), target)
      loss.backward()
      optimizer.step()
    model.eval()
    with torch.no_grad():
      output = model(test_x)
    loss = average(float(F.cross_entropy(output, test_y)), "avg_loss")
    correct = average(float((output.argmax(1) == test_y).float().mean()), "avg_accuracy")
    if hvd.rank() == 0:
      print(f"epoch {epoch}  test loss {loss:.4f}  accuracy {correct:.4f}", flush=True)
  hvd.shutdown()


if __name__ == "__main__":
  main()
