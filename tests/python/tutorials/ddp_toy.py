"""In the shape of "Getting started with Distributed Data Parallel": a toy model, and a checkpoint
that one rank saves and all ranks load."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from job import main, say
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class ToyModel(nn.Module):

  def __init__(self):
    super().__init__()
    self.net1 = nn.Linear(10, 10)
    self.relu = nn.ReLU()
    self.net2 = nn.Linear(10, 5)

  def forward(self, x):
    return self.net2(self.relu(self.net1(x)))


def step(model, optimizer, rank):
  generator = torch.Generator().manual_seed(10 + rank)
  optimizer.zero_grad()
  outputs = model(torch.randn(20, 10, generator=generator))
  loss = nn.MSELoss()(outputs, torch.randn(20, 5, generator=generator))
  loss.backward()
  optimizer.step()


def sums(model):
  return [parameter.detach().abs().sum() for parameter in model.parameters()]


def demo_basic(rank):
  torch.manual_seed(rank)  # DDP takes the parameters of rank 0
  model = DistributedDataParallel(ToyModel())
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  for _ in range(3):
    step(model, optimizer, rank)
  say(rank, "basic", sums(model))


def demo_checkpoint(rank):
  folder = [tempfile.mkdtemp() if rank == 0 else ""]
  dist.broadcast_object_list(folder)
  path = Path(folder[0], "model.checkpoint")
  torch.manual_seed(7 + rank)
  model = DistributedDataParallel(ToyModel())
  if rank == 0:
    torch.save(model.state_dict(), path)
  dist.barrier()  # nobody loads before it is saved
  with torch.no_grad():
    for parameter in model.parameters():
      parameter.zero_()
  model.load_state_dict(torch.load(path, map_location={"cpu": "cpu"}, weights_only=True))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
  step(model, optimizer, rank)
  dist.barrier()  # nobody reads the file any more
  if rank == 0:
    path.unlink()
    path.parent.rmdir()
  say(rank, "checkpoint", sums(model))


def run(rank, size):
  demo_basic(rank)
  demo_checkpoint(rank)


if __name__ == "__main__":
  main(run)
