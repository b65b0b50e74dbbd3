"""Data parallel training on chips of unlike speed: who gets how many samples of a global batch."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from stretto._checks import expected, is_count, is_number
from stretto._errors import InvalidArgumentError
from stretto.torch._balance import Balance
from stretto.torch._own_time import OwnTime
from stretto.torch._split import offsets, split_batch, split_by_tables

LOG = logging.getLogger("stretto")


class Shares:
  """Divides every global batch among ranks by their speed.

  The global batch stays the same, and so do the learning rate and the order of samples. Each rank
  computes the mean loss of its own samples; `weight` is what to multiply it by, so that the mean
  over ranks that DistributedDataParallel forms is the mean over all samples of the global batch.

  Every rank makes one, with the same arguments but for `speed`. Without a process group all samples
  are this process's.

  Args:
    batch: samples of the global batch.
    speed: this rank's samples per second: a number, or what `probe` returned. None: all ranks get
      equally many, as long as nothing is rebalanced.
    module: the module that is trained. If given, ranks measure their own time in each step, and
      samples move to faster ranks when one takes longer. None: shares stay.
    least: samples that each rank gets at least. With 0 a slow rank may get none.
    drift: how much longer than the mean of the ranks one takes before shares change.
    interval: batches between two moments at which ranks compare their times.
    group: the process group; None: all ranks.

  Attributes:
    samples: how many of the present batch are this rank's.
    total: how many samples the present batch has on all ranks.
    history: a dictionary for each change: "batch", the number of the first with these shares,
      "shares", "speeds" (samples per second of each rank), and "reason".

  Raises:
    InvalidArgumentError: an argument is wrong or differs between ranks, or the batch is smaller
      than `least` samples for each rank.

  Examples:
    ```python
    shares = stretto.torch.Shares(256, speed, module=ddp)
    sampler = stretto.torch.ShareSampler(train, shares)
    loader = DataLoader(train, batch_sampler=sampler)
    for epoch in range(epochs):
      sampler.set_epoch(epoch)
      for x, y in shares.batches(loader):
        optimizer.zero_grad()
        (loss_of(ddp(x), y) * shares.weight).backward()
        optimizer.step()
    ```
  """

  def __init__(self, batch: int, speed: float | Mapping[int, float] | None = None, *,
               module: torch.nn.Module | None = None, least: int = 1, drift: float = 0.10,
               interval: int = 20, group: dist.ProcessGroup | None = None) -> None:
    check(batch, speed, module, least, drift, interval)
    self._group = group
    joined = dist.is_initialized()
    self._rank = dist.get_rank(group) if joined else 0
    self._world = dist.get_world_size(group) if joined else 1
    if self._rank < 0:
      raise InvalidArgumentError("Shares: group: this rank is not a member; make Shares on the "
                                 "group's ranks only")
    self.batch, self._interval = batch, interval
    speeds = self._agree({"batch": batch, "least": least, "drift": drift, "interval": interval,
                          "module is given": module is not None}, speed)
    shares = first_shares(batch, speeds, least)
    self.samples = self.total = 0
    shown = [] if speeds[0] is None else [
        one if is_number(one) else max(one.values()) for one in speeds]
    self.history: list[dict[str, Any]] = [
        {"batch": 0, "shares": shares, "speeds": shown,
         "reason": "measured speeds" if shown else "equal shares"}]
    self._balance = Balance(batch, least, drift)
    self._clock = OwnTime(module) if module is not None and self._world > 1 else None
    self._given = 0  # batches that the training took, on all ranks the same
    self._drawn = 0  # those that this rank's sampler drew; loaders draw ahead
    self._window = 0  # the number of the first batch of the window
    self._ahead: deque[tuple[int, int]] = deque()  # samples and total of batches drawn, not taken
    self._sampler: object = None
    self._made = 0  # batches behind those drawn that the sampler divides already
    self._changed: Callable[[], None] | None = None  # tells the sampler of new shares
    self._show()

  @property
  def shares(self) -> list[int]:
    """Samples of each rank in the next batch, if it is a full one."""
    return self._shares_of(self._given)

  @property
  def weight(self) -> float:
    """What the mean loss over this rank's samples of the present batch is multiplied by: its share
    of the batch times the number of ranks. 0 where the rank has none."""
    if self.total == 0:
      raise InvalidArgumentError("Shares: weight: there is no batch yet; it is that of the batch "
                                 "that `for batch in shares.batches(loader)` gave last")
    return self.samples * self._world / self.total

  def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
    """The batches of a loader, while ranks compare their times and shares may change.

    Args:
      loader: a torch DataLoader with `batch_sampler=ShareSampler(...)` of these shares, or a
        `stretto.data.ImageLoader` with `shares`.

    Returns:
      An iterator over the batches. At each, `samples`, `total` and `weight` are those of the batch.

    Raises:
      InvalidArgumentError: the loader draws its batches in another way.
      CommError: a rank was lost.
    """
    if self._clock is not None:
      self._clock.pause()  # what came before, such as an evaluation, is no part of a step
    for item in loader:
      if not self._ahead:
        raise InvalidArgumentError("Shares: batches: the loader does not divide batches by these "
                                   "shares; make it with batch_sampler=stretto.torch.ShareSampler("
                                   "dataset, shares), or stretto.data.ImageLoader with shares")
      self.samples, self.total = self._ahead.popleft()
      self._given += 1
      yield item
      if self._clock is not None:
        self._clock.end_batch(self.samples)
        if self._given == self._window:
          self._clock.take()  # what came before had other shares
        elif self._given - self._window >= self._interval:
          self._compare(self._clock)

  def report(self) -> str:
    """One line for each change of the shares.

    Returns:
      Lines such as "from batch 120: shares 224, 32 (rank 1 took 23 % longer than the mean of the
      ranks)".
    """
    return "\n".join(line_of(entry) for entry in self.history)

  def state_dict(self) -> dict[str, Any]:
    """What a checkpoint needs to go on with these shares. It is the same on every rank.

    Returns:
      Plain data.
    """
    return {"given": self._given, "history": [dict(entry) for entry in self.history]}

  def load_state_dict(self, state: Mapping[str, Any]) -> None:
    """Goes on with the shares of a checkpoint. Every rank calls it, before the first batch.

    Args:
      state: what `state_dict` returned.

    Raises:
      InvalidArgumentError: the state is of another number of ranks or another batch.
    """
    if not is_count(state.get("given")) or not state.get("history"):
      raise InvalidArgumentError('Shares: this is no state of Shares: it needs "given" and '
                                 '"history"')
    shares = list(state["history"][-1]["shares"])
    if len(shares) != self._world or sum(shares) != self.batch:
      raise InvalidArgumentError(f"Shares: the state divides {sum(shares)} samples among "
                                 f"{len(shares)} ranks, and this job {self.batch} among "
                                 f"{self._world}; leave it out, and ranks are measured afresh")
    self.history = [dict(entry) for entry in state["history"]]
    self._given = self._drawn = int(state["given"])
    self._window = max(self._given, self.history[-1]["batch"])
    self._ahead.clear()
    self._show()

  # What the sampler calls.

  def _begin(self, sampler: object, made: int = 0,
             changed: Callable[[], None] | None = None) -> None:
    """A sampler begins an epoch. What another one drew, and nobody took, is forgotten. `made`:
    batches behind those drawn that it divides already; `changed` is called for new shares."""
    self._sampler, self._drawn = sampler, self._given
    self._made, self._changed = made, changed
    self._ahead.clear()

  def _parts(self) -> list[tuple[int, int, int]]:
    """From which batch on, counted from the one that is drawn next, this rank's samples are from
    where to where."""
    changes = [entry["batch"] for entry in self.history if entry["batch"] > self._drawn]
    rows = []
    for number in [self._drawn, *changes]:
      ends = offsets(self._shares_of(number), self.batch, self.batch)
      rows.append((number - self._drawn, ends[self._rank], ends[self._rank + 1]))
    return rows

  def _draw(self, sampler: object, total: int) -> tuple[int, int]:
    """From where to where this rank's samples are in the next batch of `total`."""
    if sampler is not self._sampler:
      raise InvalidArgumentError("ShareSampler: another pass over samples of the same Shares has "
                                 "begun; one pass at a time, and its own Shares for another loader")
    ends = offsets(self._shares_of(self._drawn), total, self.batch)
    begin, end = ends[self._rank], ends[self._rank + 1]
    self._ahead.append((end - begin, total))
    self._drawn += 1
    return begin, end

  def _shares_of(self, number: int) -> list[int]:
    """In a batch, by its number."""
    return next(list(entry["shares"]) for entry in reversed(self.history)
                if entry["batch"] <= number)

  # What ranks agree on.

  def _agree(self, settings: dict[str, Any], speed: Any) -> list[Any]:
    """The speeds of all ranks, which have the same settings."""
    mine = (settings, dict(speed) if isinstance(speed, Mapping) else speed)
    ranks: list[Any] = [mine]
    if self._world > 1:
      ranks = [None] * self._world
      dist.all_gather_object(ranks, mine, group=self._group)
    for name, value in ranks[0][0].items():
      for rank, (other, _) in enumerate(ranks):
        if other[name] != value:
          raise InvalidArgumentError(f"Shares: {name}: rank 0 has {value} and rank {rank} "
                                     f"{other[name]}; give the same on every rank")
    speeds = [speed for _, speed in ranks]
    without = [rank for rank, one in enumerate(speeds) if one is None]
    if 0 < len(without) < len(speeds):
      raise InvalidArgumentError(f"Shares: speed: rank {without[0]} has none, and others have one; "
                                 "give it on every rank, or on none")
    return speeds

  def _compare(self, clock: OwnTime) -> None:
    samples, seconds = clock.take()
    device = "cuda" if dist.get_backend(self._group) == "nccl" else "cpu"
    mine = torch.tensor([samples, seconds, self._drawn + self._made], dtype=torch.float64,
                        device=device)
    ranks = [torch.empty_like(mine) for _ in range(self._world)]
    dist.all_gather(ranks, mine, group=self._group)
    table = [one.tolist() for one in ranks]
    self._window = self._given
    new = self._balance.observe(self.shares, [row[0] for row in table], [row[1] for row in table])
    if new is None:
      return
    # Loaders have drawn ahead, each rank's as far as it likes.
    begin = int(max(row[2] for row in table))
    self._window = begin
    self.history.append({"batch": begin, "shares": new, "speeds": self._balance.speeds,
                         "reason": self._balance.reason})
    if self._changed is not None:
      self._changed()
    if self._rank == 0:
      LOG.info("unlike chips: %s", line_of(self.history[-1]))
    self._show()

  def _show(self) -> None:
    """For `stretto run --report`."""
    engine = getattr(self._group or (dist.group.WORLD if self._world > 1 else None), "engine", None)
    if engine is not None:
      engine.shares = self.history


def check(batch: Any, speed: Any, module: Any, least: Any, drift: Any, interval: Any) -> None:
  for name, value, low in (("batch", batch, 1), ("least", least, 0), ("interval", interval, 2)):
    if not is_count(value) or value < low:
      raise expected(f"Shares: {name}", f"an integer from {low} on", value)
  if not is_number(drift) or not 0 < drift < 1:
    raise expected("Shares: drift", "a share between 0 and 1, such as 0.1", drift)
  if module is not None and not isinstance(module, torch.nn.Module):
    raise expected("Shares: module", "a torch.nn.Module or None", module)
  if speed is None:
    return
  speeds = list(speed.values()) if isinstance(speed, Mapping) else [speed]
  batches = list(speed) if isinstance(speed, Mapping) else [1]
  if not speeds or not all(is_count(one) and one > 0 for one in batches) or not all(
      is_number(one) and 0 < one < float("inf") for one in speeds):
    raise expected("Shares: speed", "samples per second, or what stretto.torch.probe returned",
                   speed)


def first_shares(batch: int, speeds: list[Any], least: int) -> list[int]:
  if speeds[0] is None:
    return split_batch(batch, [1.0] * len(speeds), least)
  tables = [one if isinstance(one, Mapping) else {batch: float(one)} for one in speeds]
  return split_by_tables(batch, tables, least)


def line_of(entry: dict[str, Any]) -> str:
  return (f"from batch {entry['batch']}: shares {', '.join(map(str, entry['shares']))} "
          f"({entry['reason']})")
