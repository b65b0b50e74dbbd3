"""In the shape of PyTorch's examples for MNIST, on scikit-learn's digits: DistributedSampler, a
model under FullyShardedDataParallel whose whole parameters are collected, and
ZeroRedundancyOptimizer whose state rank 0 collects."""

import torch
import torch.distributed as dist
from job import main, say
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def data(rank, size):
  images, labels = load_digits(return_X_y=True)
  dataset = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
  sampler = DistributedSampler(dataset, num_replicas=size, rank=rank, shuffle=True)
  return sampler, DataLoader(dataset, batch_size=64, sampler=sampler)


def network():
  torch.manual_seed(3)
  return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def train(model, loader, sampler, optimizer, epochs):
  for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for x, y in loader:
      optimizer.zero_grad()
      nn.functional.cross_entropy(model(x), y).backward()
      optimizer.step()


def test(model, loader):
  """Loss and accuracy over all ranks."""
  found = torch.zeros(3)
  with torch.no_grad():
    for x, y in loader:
      output = model(x)
      found[0] += nn.functional.cross_entropy(output, y, reduction="sum")
      found[1] += (output.argmax(1) == y).sum()
      found[2] += len(y)
  dist.all_reduce(found, op=dist.ReduceOp.SUM)
  assert found[1] / found[2] > 0.8  # three epochs reach 0.88
  return [found[0] / found[2], found[1] / found[2]]


def run(rank, size):
  sampler, loader = data(rank, size)
  model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
  train(model, loader, sampler, torch.optim.Adam(model.parameters(), lr=0.003), 3)
  with FullyShardedDataParallel.summon_full_params(model, writeback=False):
    say(rank, "fsdp state", [parameter.detach().abs().sum() for parameter in model.parameters()])
  say(rank, "fsdp", test(model, loader))

  model = DistributedDataParallel(network())
  optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam,
                                      lr=0.003)
  train(model, loader, sampler, optimizer, 3)
  say(rank, "zero", test(model, loader))
  optimizer.consolidate_state_dict(to=0)
  if rank == 0:
    assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))


if __name__ == "__main__":
  main(run)
