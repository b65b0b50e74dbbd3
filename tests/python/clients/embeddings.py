"""Embedding tables that are spread over ranks, as TorchRec has them: ids go to the rank of their
table, vectors come back, with uneven splits, and gradients go the same way."""

import stretto.torch
import torch
import torch.distributed as dist
from data import report
from torch import nn

dist.init_process_group("stretto")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
IDS, WIDTH = 40, 4  # per rank


class Exchange(torch.autograd.Function):

  @staticmethod
  def forward(ctx, tensor, receives, sends):
    ctx.splits = sends, receives
    output = tensor.new_empty(sum(receives), *tensor.shape[1:])
    dist.all_to_all_single(output, tensor.contiguous(), receives, sends)
    return output

  @staticmethod
  def backward(ctx, grad):
    sends, receives = ctx.splits
    output = grad.new_empty(sum(sends), *grad.shape[1:])
    dist.all_to_all_single(output, grad.contiguous(), sends, receives)
    return output, None, None


torch.manual_seed(RANK)
table = nn.Embedding(IDS, WIDTH)  # ids RANK * IDS and following
dense = nn.parallel.DistributedDataParallel(nn.Linear(WIDTH, 1))
optimizer = torch.optim.SGD([*table.parameters(), *dense.parameters()], lr=0.5)
generator = torch.Generator().manual_seed(100 + RANK)
losses = []
for _ in range(120):
  ids = torch.randint(0, IDS * SIZE, (16 + 5 * RANK,), generator=generator).sort().values
  sends = torch.bincount(ids // IDS, minlength=SIZE)
  receives = torch.empty_like(sends)
  dist.all_to_all_single(receives, sends)
  wanted = Exchange.apply(ids, receives.tolist(), sends.tolist())
  assert (wanted // IDS == RANK).all()
  vectors = Exchange.apply(table(wanted - RANK * IDS), sends.tolist(), receives.tolist())
  loss = (dense(vectors).squeeze(1) - (ids % 3).float()).square().mean()
  optimizer.zero_grad()
  loss.backward()
  optimizer.step()
  losses.append(loss.item())
report(RANK, dist.get_backend(), [sum(losses[:5]), sum(losses[-5:])],
       stretto.torch.statistics()["operations"])
dist.destroy_process_group()
