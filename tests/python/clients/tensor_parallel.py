"""Layers that are divided among two ranks, by columns and by rows. With four ranks two such pairs
see other data, and FSDP2 shards what each rank has. The script never makes a process group: its
mesh does."""

import os

import stretto.torch
import torch
import torch.distributed as dist
from data import line, report, same_bits
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
  ColwiseParallel,
  PrepareModuleInput,
  RowwiseParallel,
  SequenceParallel,
  parallelize_module,
)

NAMES = "data", "model"


class Network(nn.Module):

  def __init__(self):
    super().__init__()
    self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 8)
    self.norm, self.last = nn.LayerNorm(8), nn.Linear(8, 1)

  def forward(self, x):
    return self.last(self.norm(self.second(self.first(x).relu())))


# Rows stay divided from the second layer to the last, as sequences do in sequence parallelism.
PLAN = {
  "first": ColwiseParallel(),
  "second": RowwiseParallel(output_layouts=Shard(0)),
  "norm": SequenceParallel(sequence_dim=0),
  "last": PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate(),
                             use_local_output=True),
}


def over_gloo():
  """The same mesh with groups of Gloo."""
  ranks = torch.arange(dist.get_world_size()).reshape(-1, 2)
  mine = []
  for lines in (ranks.T.tolist(), ranks.tolist()):
    groups = [dist.new_group(line, backend="gloo") for line in lines]  # every rank makes every one
    mine += [group for line, group in zip(lines, groups) if dist.get_rank() in line]
  return DeviceMesh.from_group(mine, "cpu", mesh=ranks, mesh_dim_names=NAMES)


def train(mesh):
  torch.manual_seed(0)
  model = parallelize_module(Network(), mesh["model"], PLAN)
  pairs, pair = mesh["data"].size(), mesh["data"].get_local_rank()
  if pairs > 1:
    fully_shard(model, mesh=mesh["data"])
  optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
  x, y = (t.chunk(pairs)[pair] for t in line())
  losses = []
  for _ in range(40):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
  return losses


mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]) // 2, 2), mesh_dim_names=NAMES)
losses = train(mesh)
same_bits(losses, train(over_gloo()))
report(dist.get_rank(), dist.get_backend(mesh["model"].get_group()), losses,
       stretto.torch.statistics()["operations"])
dist.destroy_process_group()
