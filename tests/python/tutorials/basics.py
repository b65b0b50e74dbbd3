"""In the shape of "Writing Distributed Applications with PyTorch": messages, collectives of a part
of the ranks, and training whose gradients the script averages itself."""

import torch
import torch.distributed as dist
from job import main, say
from torch import nn


def blocking(rank, size):
  tensor = torch.zeros(1)
  if rank == 0:
    tensor += 1
    dist.send(tensor=tensor, dst=1)
  elif rank == 1:
    dist.recv(tensor=tensor, src=0)
  assert tensor[0] == (rank < 2)


def immediate(rank, size):
  tensor, request = torch.zeros(1), None
  if rank == 0:
    tensor += 1
    request = dist.isend(tensor=tensor, dst=1)
  elif rank == 1:
    request = dist.irecv(tensor=tensor, src=0)
  if request:
    request.wait()
  assert tensor[0] == (rank < 2)


def part(rank, size):
  group = dist.new_group([0, 1])
  tensor = torch.ones(1)
  if rank < 2:
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
  assert tensor[0] == (2 if rank < 2 else 1)


def collectives(rank, size):
  pieces = [torch.full((2,), float(r)) for r in range(size)] if rank == 0 else None
  mine = torch.zeros(2)
  dist.scatter(mine, pieces, src=0)
  assert (mine == rank).all()
  gathered = [torch.zeros(2) for _ in range(size)] if rank == 0 else None
  dist.gather(mine + 1, gathered, dst=0)
  if rank == 0:
    assert [float(t[0]) for t in gathered] == [r + 1.0 for r in range(size)]
  everyone = [torch.zeros(2) for _ in range(size)]
  dist.all_gather(everyone, mine)
  dist.reduce(mine, dst=0, op=dist.ReduceOp.SUM)
  value = torch.full((3,), float(rank))
  dist.broadcast(value, src=size - 1)
  assert (value == size - 1).all()
  say(rank, "collectives", [*(t[0] for t in everyone), mine[0]])


def average_gradients(model):
  size = float(dist.get_world_size())
  for parameter in model.parameters():
    dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
    parameter.grad /= size


def training(rank, size):
  torch.manual_seed(1234)
  x = torch.randn(96, 6)
  y = x[:, :3].sin()
  mine = torch.randperm(96, generator=torch.Generator().manual_seed(1)).chunk(size)[rank]
  model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.0), nn.Linear(16, 3))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
  losses = []
  for _ in range(10):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x[mine]), y[mine])
    losses.append(loss.item())
    loss.backward()
    average_gradients(model)
    optimizer.step()
  assert losses[-1] < losses[0]
  say(rank, "training", losses)


def run(rank, size):
  for function in (blocking, immediate, part, collectives, training):
    function(rank, size)


if __name__ == "__main__":
  main(run)
