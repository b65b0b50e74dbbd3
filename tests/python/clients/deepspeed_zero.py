"""DeepSpeed's ZeRO on CPUs: `deepspeed_zero.py STAGE`."""

import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import stretto.torch
import torch
import torch.distributed as dist
from data import line, report

deepspeed.init_distributed(dist_backend="stretto")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 64 // size,
    "optimizer": {"type": "Adam", "params": {"lr": 0.02, "torch_adam": True}},
    "zero_optimization": {"stage": int(sys.argv[1])}, "zero_force_ds_cpu_optimizer": False})
x, y = (t.chunk(size)[rank] for t in line())
losses = []
for _ in range(40):
  loss = torch.nn.functional.mse_loss(engine(x), y)
  engine.backward(loss)
  engine.step()
  losses.append(loss.item())
report(rank, dist.get_backend(), losses, stretto.torch.statistics()["operations"])
