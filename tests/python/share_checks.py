"""The checks of unlike chips in test_comm_torch.py: shares, weights and rebalancing."""

import contextlib
import time

import comm_job
import pytest
import stretto.torch
import torch
import torch.distributed as dist
from stretto.torch import Shares, ShareSampler
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import stretto

BATCH = 64  # a power of two: means of integers are exact
FEATURES = 5


def integers(count, seed=3):
  """Data on which no sum and no product is rounded."""
  generator = torch.Generator().manual_seed(seed)
  x = torch.randint(-4, 5, (count, FEATURES), generator=generator).float()
  return TensorDataset(x, torch.randint(-3, 4, (count,), generator=generator).float())


def model():
  linear = torch.nn.Linear(FEATURES, 1)
  torch.nn.init.zeros_(linear.weight)
  torch.nn.init.zeros_(linear.bias)
  return linear


def loss_of(net, x, y):
  return (net(x).squeeze(1) * y).mean()  # its gradient is a mean of products of integers


def alone(data, epochs, every=1):
  """What one process trains with whole batches. An optimizer's step for `every` batches."""
  net = model()
  optimizer = torch.optim.SGD(net.parameters(), lr=0.25)
  for epoch in range(epochs):
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch))
    for number, batch in enumerate(order.split(BATCH)):
      (loss_of(net, *data[batch]) / every).backward()
      if (number + 1) % every == 0:
        optimizer.step()
        optimizer.zero_grad()
  return net


def together(data, epochs, speed, every=1, workers=0):
  net = DistributedDataParallel(model())
  shares = Shares(BATCH, speed, module=net)
  sampler = ShareSampler(data, shares)
  loader = DataLoader(data, batch_sampler=sampler, num_workers=workers)
  optimizer = torch.optim.SGD(net.parameters(), lr=0.25)
  for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(shares.batches(loader)):
      assert len(x) == max(shares.samples, 1)
      last = (number + 1) % every == 0
      with contextlib.nullcontext() if last else net.no_sync():
        (loss_of(net, x, y) * shares.weight / every).backward()
      if last:
        optimizer.step()
        optimizer.zero_grad()
  return net.module, shares


def same(net, other):
  for mine, theirs in zip(net.parameters(), other.parameters()):
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


def check_weighted_steps_equal_those_of_one_process(rank, size):
  data = integers(3 * BATCH)
  net, shares = together(data, 2, [4.39, 0.62, 1.7][rank])
  assert sum(shares.shares) == BATCH and shares.shares[0] > shares.shares[1] >= 1
  same(net, alone(data, 2))


def check_weights_hold_while_gradients_are_accumulated(rank, size):
  data = integers(4 * BATCH)
  net, _ = together(data, 2, 1.0 + 3 * rank, every=2, workers=rank % 2)
  same(net, alone(data, 2, every=2))


def check_weights_hold_in_short_last_batches(rank, size):
  for rest in (BATCH // 4, 2, 1):  # with one sample some rank has none
    data = integers(BATCH + rest)
    net, shares = together(data, 2, 1.0 + 5 * rank)
    assert shares.total == rest
    same(net, alone(data, 2))


def check_batches_keep_their_samples_while_shares_move(rank, size):
  """Rank 1 is slow, and every rank's loader draws ahead as far as it likes."""
  count, batches = 40 * BATCH + 7, 41
  data = TensorDataset(torch.arange(count))
  net = DistributedDataParallel(model())
  shares = Shares(BATCH, module=net, interval=5)
  sampler = ShareSampler(data, shares, seed=9)
  ahead = {"num_workers": 1, "prefetch_factor": 2 * rank} if rank else {}
  loader = DataLoader(data, batch_sampler=sampler, **ahead)
  optimizer = torch.optim.SGD(net.parameters(), lr=0.25)
  seen = []
  for (indices,) in shares.batches(loader):
    time.sleep(shares.samples * (1e-3 if rank == 1 else 1e-4))
    net(torch.ones(1, FEATURES)).sum().backward()
    optimizer.step()
    seen.append(indices.tolist()[:shares.samples])
  assert len(seen) == batches == len(sampler)
  ranks = [None] * size
  dist.all_gather_object(ranks, (seen, shares.shares, shares.history))
  assert all(one[1:] == ranks[0][1:] for one in ranks)
  order = torch.randperm(count, generator=torch.Generator().manual_seed(9)).tolist()
  for number in range(batches):
    whole = [index for one in ranks for index in one[0][number]]
    assert whole == order[number * BATCH:(number + 1) * BATCH], number
  assert len(shares.history) > 1 and sum(shares.shares) == BATCH
  assert shares.shares[1] < min(shares.shares[:1] + shares.shares[2:]), shares.report()
  assert shares.history[1]["reason"].startswith("rank 1 took")
  # Ten times as slow: 6 of 64 samples on two ranks, 3 on three, but for other costs of a step.
  assert len(shares.report().splitlines()) == len(shares.history)


def check_what_differs_between_ranks_is_refused_on_all(rank, size):
  with pytest.raises(stretto.InvalidArgumentError, match="batch: rank 0 has 64 and rank 1 65"):
    Shares(BATCH + rank)
  with pytest.raises(stretto.InvalidArgumentError, match="speed: rank 0 has none"):
    Shares(BATCH, None if rank == 0 else 2.0)
  with pytest.raises(stretto.InvalidArgumentError, match="too few"):
    Shares(size, least=2)


def check_shares_are_in_the_account_for_the_report(rank, size):
  shares = Shares(BATCH, 1.0 + rank)
  assert dist.group.WORLD.engine.shares is shares.history


if __name__ == "__main__":
  import share_loader_checks  # imports this file, as a module
  comm_job.main(vars(share_loader_checks) | globals())
