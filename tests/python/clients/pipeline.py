"""A network whose layers lie on two ranks: `pipeline.py SCHEDULE`. Activations and their gradients
travel while other micro-batches are computed."""

import sys

import stretto.torch
import torch
import torch.distributed as dist
from data import line, report, same_bits
from torch import nn
from torch.distributed import pipelining

dist.init_process_group()
RANK, SIZE = dist.get_rank(), dist.get_world_size()
SCHEDULE = getattr(pipelining, sys.argv[1])
STAGES = SIZE * (2 if issubclass(SCHEDULE, pipelining.schedules.PipelineScheduleMulti) else 1)


def layers():
  torch.manual_seed(0)
  return [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(STAGES - 1)] + [nn.Linear(8, 1)]


def train(group):
  mine = [(i, layer) for i, layer in enumerate(layers()) if i % SIZE == RANK]
  stages = [pipelining.PipelineStage(layer, i, STAGES, torch.device("cpu"), group=group)
            for i, layer in mine]
  schedule = SCHEDULE(stages if STAGES > SIZE else stages[0], n_microbatches=4,
                      loss_fn=nn.functional.mse_loss)
  optimizer = torch.optim.Adam([p for _, layer in mine for p in layer.parameters()], lr=0.05)
  x, y = line()
  losses = []
  for _ in range(40):
    optimizer.zero_grad()
    parts = []  # the losses of micro-batches, on the rank with the last stage
    schedule.step(*([x] if RANK == 0 else []),
                  **({"target": y, "losses": parts} if RANK == SIZE - 1 else {}))
    optimizer.step()
    loss = torch.stack(parts).mean() if parts else torch.zeros(())
    dist.broadcast(loss, SIZE - 1, group=group)
    losses.append(loss.item())
  return losses


losses = train(dist.group.WORLD)
same_bits(losses, train(dist.new_group(backend="gloo")))
report(RANK, dist.get_backend(), losses, stretto.torch.statistics()["operations"])
dist.destroy_process_group()
