"""Accelerate knows gloo and nccl only. With an argument, one line of this script replaces them;
without one, stretto run does."""

import sys

import stretto.torch

if len(sys.argv) > 1:
  stretto.torch.replace_backend()

import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import gather_object
from data import line, report
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(8, 1)
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.05),
    DataLoader(TensorDataset(*line()), batch_size=8))
losses = []
for _ in range(6):
  for x, y in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 10.0)
    optimizer.step()
    losses.append(accelerator.gather_for_metrics(loss.detach().reshape(1)).mean().item())
assert gather_object([accelerator.process_index]) == [0, 1]
accelerator.wait_for_everyone()
report(accelerator.process_index, dist.get_backend(), losses,
       stretto.torch.statistics()["operations"])
accelerator.end_training()
