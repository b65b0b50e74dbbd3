"""The checks of test_comm_torch.py on an ImageLoader that follows shares: part of the job of
share_checks.py."""

import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from data_pictures import write_folder
from share_checks import FEATURES, model
from stretto.torch import Shares
from torch.nn.parallel import DistributedDataParallel

import stretto
from stretto.data import ImageLoader

GLOBAL = 12
PICTURES = 5 * GLOBAL + 5


def pictures() -> str:
  """A folder, the same on all ranks."""
  folder = [None]
  if dist.get_rank() == 0:
    folder[0] = tempfile.mkdtemp()
    write_folder(Path(folder[0]), PICTURES)
  dist.broadcast_object_list(folder)
  return folder[0]


def loader(folder, shares, **more):
  return ImageLoader(folder, GLOBAL, 16, threads=1, framework="torch", seed=4, shares=shares,
                     **more)


def alone(folder, epochs, **more):
  """Samples and pictures of whole batches."""
  with ImageLoader(folder, GLOBAL, 16, threads=1, seed=4, rank=0, world=1, **more) as whole:
    return [(whole.samples.tolist(), np.array(images)) for _ in range(epochs)
            for images, _labels in whole]


def gathered(mine):
  """Per batch samples and pictures of all ranks, one rank after the other."""
  ranks = [None] * dist.get_world_size()
  dist.all_gather_object(ranks, mine)
  return [(sum((one[0] for one in parts), []), np.concatenate([one[1] for one in parts]))
          for parts in zip(*ranks)]


def taken(shares, given):
  """This rank's part of a batch, without the sample that stands for none."""
  images, _labels, samples = given
  assert len(images) == max(shares.samples, 1) and shares.total == GLOBAL
  return samples[:shares.samples], images[:shares.samples].numpy().copy()


def same(batches, expected):
  assert [samples for samples, _ in batches] == [samples for samples, _ in expected]
  for (_, mine), (_, theirs) in zip(batches, expected):
    np.testing.assert_array_equal(mine, theirs)


def train_pass(shares, batches):
  return [taken(shares, (images, labels, batches.samples.tolist()))
          for images, labels in shares.batches(batches)]


def check_ranks_together_load_the_batches_of_one(rank, size):
  folder = pictures()
  for last in ("drop", "wrap"):
    # With least=0 the slowest rank has no samples.
    shares = Shares(GLOBAL, [4.0, 1.0, 1e-6][rank] if size == 3 else [9.0, 2.0][rank], least=0)
    with loader(folder, shares, last=last) as batches:
      given = [batch for _ in range(2) for batch in train_pass(shares, batches)]
      assert (batches.rank, batches.world) == (rank, size)
      own = [sample for samples, _ in given[:len(batches)] for sample in samples]
      if shares.samples:
        assert batches.indices(0).tolist() == own
    same(gathered(given), alone(folder, 2, last=last))


def check_pictures_keep_their_batches_while_shares_move(rank, size):
  """Rank 1 is slow. The loader has batches ready when shares change."""
  folder = pictures()
  net = DistributedDataParallel(model())
  shares = Shares(GLOBAL, module=net, interval=4)
  optimizer = torch.optim.SGD(net.parameters(), lr=0.25)
  seen = []
  with loader(folder, shares) as batches:
    for _epoch in range(8):
      for images, labels in shares.batches(batches):
        time.sleep(shares.samples * (6e-3 if rank == 1 else 5e-4))
        net(torch.ones(1, FEATURES)).sum().backward()
        optimizer.step()
        seen.append(taken(shares, (images, labels, batches.samples.tolist())))
  assert len(shares.history) > 1, shares.report()
  assert shares.shares[1] < GLOBAL / size, shares.report()
  same(gathered(seen), alone(folder, 8))


def check_a_loader_goes_on_with_the_shares_of_a_checkpoint(rank, size):
  folder = pictures()
  shares = Shares(GLOBAL, 1.0 + rank)
  first, states = [], None
  with loader(folder, shares) as batches:
    for number, (images, labels) in enumerate(shares.batches(batches)):
      first.append(taken(shares, (images, labels, batches.samples.tolist())))
      if number == 2:
        states = shares.state_dict(), batches.state_dict()
        break
  other = Shares(GLOBAL, 5.0 - rank)  # another division, until the state says which
  with loader(folder, other) as batches:
    other.load_state_dict(states[0])
    batches.load_state_dict(states[1])
    rest = train_pass(other, batches)
  assert other.shares == shares.shares
  same(gathered(first + rest), alone(folder, 1))
  # Another division goes on with the same samples.
  other = Shares(GLOBAL, 5.0 - rank)
  with loader(folder, other) as batches:
    batches.load_state_dict(states[1])
    same(gathered(first + train_pass(other, batches)), alone(folder, 1))


def check_loaders_that_cannot_follow_shares_are_refused(rank, size):
  folder = pictures()
  shares = Shares(GLOBAL)
  wrong = stretto.InvalidArgumentError
  for more, text in (({"last": "pad"}, "last="), ({"share": "host"}, 'share="host"'),
                     ({"rank": rank + 1}, "the shares have"), ({"transforms": "mixup(0.2)"}, "mix"),
                     ({"train": False}, "last="),
                     ({"phases": [{"epoch": 1, "batch": GLOBAL + 1}]}, "the shares have 12")):
    with pytest.raises(wrong, match=text):
      loader(folder, shares, **more)
  with pytest.raises(wrong, match="the shares have 12"):
    ImageLoader(folder, GLOBAL + 1, 16, shares=shares)
  with pytest.raises(wrong, match="shares: expected stretto.torch.Shares or None"):
    ImageLoader(folder, GLOBAL, 16, shares=3)
