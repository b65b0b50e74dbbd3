"""The samples of a rank whose share of each global batch may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from typing import Any

import torch
from torch.utils.data import Sampler

from stretto._checks import expected, is_count
from stretto._errors import InvalidArgumentError
from stretto.torch._shares import Shares


class ShareSampler(Sampler[list[int]]):
  """Draws this rank's part of each global batch, for `DataLoader(batch_sampler=...)`.

  The order of all samples is a function of seed and epoch. A global batch is the next `batch` of
  them, and ranks take their shares of it one after another. So every sample comes once in an epoch,
  global batches have the same samples however they are divided, and every rank has as many batches.

  A rank that has no samples of a batch, as in a short last one, gets one sample of another rank,
  with the weight 0: it has to take part in the backward pass.

  Args:
    dataset: what has a length, or the number of samples.
    shares: how batches are divided.
    seed: another one gives another order.
    shuffle: False: samples come in the order of the dataset.
    drop_last: leave out the samples that do not fill the last global batch.

  Raises:
    InvalidArgumentError: an argument is of a wrong type.

  Examples:
    ```python
    loader = DataLoader(train, batch_sampler=stretto.torch.ShareSampler(train, shares))
    ```
  """

  def __init__(self, dataset: Sized | int, shares: Shares, *, seed: int = 0, shuffle: bool = True,
               drop_last: bool = False) -> None:
    if not is_count(dataset) and not hasattr(dataset, "__len__"):
      raise expected("ShareSampler: dataset", "a dataset with a length, or a number of samples",
                     dataset)
    if not isinstance(shares, Shares):
      raise expected("ShareSampler: shares", "stretto.torch.Shares", shares)
    if not is_count(seed):
      raise expected("ShareSampler: seed", "an integer from 0 on", seed)
    self._dataset, self._shares, self._seed = dataset, shares, seed
    self._shuffle, self._drop_last = shuffle, drop_last
    self.epoch = 0
    self._begin = 0  # the batch with which the next pass begins
    self._origin: int | None = None  # what the shares had given when batch 0 of the pass was

  def _size(self) -> int:
    return self._dataset if isinstance(self._dataset, int) else len(self._dataset)

  def __len__(self) -> int:
    """Batches of an epoch."""
    full, rest = divmod(self._size(), self._shares.batch)
    return full + (rest > 0 and not self._drop_last)

  def set_epoch(self, epoch: int) -> None:
    """The epoch of the next pass, as of torch's DistributedSampler: without it, every pass has the
    same order.

    Args:
      epoch: its number.
    """
    if not is_count(epoch):
      raise expected("ShareSampler: epoch", "an integer from 0 on", epoch)
    if epoch != self.epoch:
      self._begin, self._origin = 0, None
    self.epoch = epoch

  def __iter__(self) -> Iterator[list[int]]:
    shares, size, first = self._shares, self._size(), self._begin
    me = object()
    shares._begin(me)
    self._origin, self._begin = shares._given - first, 0
    order = list(range(size))
    if self._shuffle:
      generator = torch.Generator()
      generator.manual_seed(self._seed + self.epoch)
      order = torch.randperm(size, generator=generator).tolist()
    for number in range(first, len(self)):
      batch = order[number * shares.batch:(number + 1) * shares.batch]
      begin, end = shares._draw(me, len(batch))
      yield batch[begin:end] or batch[:1]

  def state_dict(self) -> dict[str, Any]:
    """Where the training is: the epoch, and how many of its batches were taken.

    Returns:
      Plain data, the same on every rank.
    """
    taken = self._begin if self._origin is None else self._shares._given - self._origin
    return {"epoch": self.epoch, "batch": taken}

  def load_state_dict(self, state: Mapping[str, Any]) -> None:
    """Goes on where a checkpoint was made, after `load_state_dict` of the shares.

    Args:
      state: what `state_dict` returned.

    Raises:
      InvalidArgumentError: the state is of no such sampler.
    """
    epoch, batch = state.get("epoch", -1), state.get("batch", -1)
    if not is_count(epoch) or not is_count(batch):
      raise InvalidArgumentError("ShareSampler: this is no state of a ShareSampler: it needs "
                                 '"epoch" and "batch"')
    self.epoch, self._begin, self._origin = int(epoch), int(batch), None
