"""Computes where to cut the gradients of a backward pass, from the times when they are ready and
the cost of the link (stretto/comm/tuning/segment.h): caps for DistributedDataParallel's own
buckets, and segments that attach() sends before their bucket is full."""

from __future__ import annotations

import statistics
import time
import weakref
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from stretto import _stretto
from stretto._checks import expected
from stretto._errors import InvalidArgumentError, UnsupportedError

PROBE_BYTES = (64 << 10, 512 << 10, 2 << 20, 8 << 20)
PROBES = 4
# The engine learns what a round costs from these, which Python is too slow to time.
SHORT_BYTES, SHORT_PROBES = 1 << 10, 12
MIB = 1 << 20


@dataclass(frozen=True)
class Link:
  """What an all-reduce costs: alpha_s + beta_s_per_byte x bytes.

  Attributes:
    alpha_s: seconds for the smallest one.
    beta_s_per_byte: seconds per byte.
  """
  alpha_s: float
  beta_s_per_byte: float


@dataclass(frozen=True)
class BucketPlan:
  """Caps for DistributedDataParallel's buckets. `print(plan)` shows the buckets and their times.

  Attributes:
    bucket_cap_mb: DistributedDataParallel's argument of this name, in MiB.
    first_bucket_mb: torch.distributed._DEFAULT_FIRST_BUCKET_BYTES in MiB; 1 is torch's own value.
    tail_s: seconds of communication that are left when the backward pass is over.
    default_tail_s: the same with torch's default caps.
    text: the plan in words.
  """
  bucket_cap_mb: float
  first_bucket_mb: float
  tail_s: float
  default_tail_s: float
  text: str = field(repr=False, default="")

  def __str__(self) -> str:
    return self.text


def measure_link(group=None) -> Link:
  """Runs and times all-reduces of a few sizes. All members of the group call it.

  Over the "stretto" backend the engine learns from them, and the result is what it has learned.

  Args:
    group: the process group; None: all ranks.

  Returns:
    The cost of an all-reduce on the slowest rank.
  """
  for _ in range(SHORT_PROBES if has_engine(group) else 0):
    dist.barrier(group=group)
    dist.all_reduce(torch.zeros(SHORT_BYTES // 4, device="cpu"), group=group)
  rows = []
  for size in PROBE_BYTES:
    data = torch.zeros(size // 4, device="cpu")
    times = []
    for _ in range(PROBES):
      dist.barrier(group=group)
      start = time.perf_counter()
      dist.all_reduce(data, group=group)
      times.append(time.perf_counter() - start)
    rows.append(statistics.median(times))
  slowest = torch.tensor(rows, dtype=torch.float64, device="cpu")
  dist.all_reduce(slowest, dist.ReduceOp.MAX, group=group)
  timed = Link(*_stretto.comm_fit_link(list(zip(map(float, PROBE_BYTES), slowest.tolist()))))
  return known_link(group) or timed


def has_engine(group) -> bool:
  return hasattr(dist.group.WORLD if group is None else group, "average_bucket")


def known_link(group=None) -> Link | None:
  """What the engine knows, the slowest rank's; None: a rank does not know it, or the backend has no
  engine. All members of the group call it."""
  if not has_engine(group):
    return None
  used = dist.group.WORLD if group is None else group
  mine = used.engine.link_model(used.group)
  costs = torch.tensor([float(not mine["measured"]), mine["alpha_s"], mine["beta_s_per_byte"]],
                       dtype=torch.float64, device="cpu")
  dist.all_reduce(costs, dist.ReduceOp.MAX, group=group)
  unknown, *slowest = costs.tolist()
  return None if unknown else Link(*slowest)


class GradientTimes:
  """Records when gradients become ready in the backward passes of a model.

  Args:
    model: a module, or a DistributedDataParallel module.

  Attributes:
    names: name of every parameter that has a gradient.

  Raises:
    InvalidArgumentError: `model` is no module.

  Examples:
    ```python
    with stretto.torch.GradientTimes(model) as times:
      for x, y in first_batches:
        loss_of(model(x), y).backward()
    print(stretto.torch.plan_buckets(times))
    ```
  """

  def __init__(self, model):
    if not isinstance(model, torch.nn.Module):
      raise expected("GradientTimes: model", "a torch.nn.Module", model)
    self._model = getattr(model, "module", model) \
        if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
    self.names = {p: n for n, p in self._model.named_parameters() if p.requires_grad}
    self._ready: dict[torch.nn.Parameter, list[float]] = {p: [] for p in self.names}
    self._handles: list = []
    self._began = 0.0

  def __enter__(self) -> GradientTimes:
    self._handles = [p.register_post_accumulate_grad_hook(self._note) for p in self.names]
    self._handles.append(self._model.register_forward_hook(self._begin))
    return self

  def __exit__(self, *_) -> None:
    for handle in self._handles:
      handle.remove()

  def _begin(self, *_) -> None:
    self._began = time.perf_counter()

  def _note(self, parameter) -> None:
    self._ready[parameter].append(time.perf_counter() - self._began)

  def rows(self, group=None) -> list[tuple[str, int, float]]:
    """The gradients in the order they are ready, the same on all ranks of the group.

    Args:
      group: the process group; None: all ranks.

    Returns:
      (name, bytes, seconds since the forward pass ended) per gradient.

    Raises:
      InvalidArgumentError: no backward pass was seen.
    """
    used = [p for p in self.names if self._ready[p]]
    if not used:
      raise InvalidArgumentError(
          "plan_buckets: no backward pass was measured; train some steps inside "
          "`with GradientTimes(model)`")
    # The first pass warms up.
    times = torch.tensor([statistics.median(self._ready[p][1:] or self._ready[p]) for p in used],
                         dtype=torch.float64, device="cpu")
    if dist.is_initialized() and dist.get_world_size(group) > 1:
      dist.all_reduce(times, dist.ReduceOp.MAX, group=group)
    rows = [(self.names[p], p.numel() * p.element_size(), t) for p, t in zip(used, times.tolist())]
    return sorted(rows, key=lambda row: row[2])


def plan_buckets(times: GradientTimes, group=None, link: Link | None = None) -> BucketPlan:
  """Finds the bucket caps that leave the least communication after the backward pass.

  All members of the group call it.

  Args:
    times: when gradients are ready.
    group: the process group; None: all ranks.
    link: what an all-reduce costs; None: what the engine knows, or else it is measured.

  Returns:
    Caps for DistributedDataParallel.

  Raises:
    InvalidArgumentError: `times` has seen no backward pass.
  """
  if not isinstance(times, GradientTimes):
    raise expected("plan_buckets: times", "GradientTimes", times)
  if link is not None and not isinstance(link, Link):
    raise expected("plan_buckets: link", "what measure_link() returned, or None", link)
  link = link or known_link(group) or measure_link(group)
  found = _stretto.comm_plan_buckets(times.rows(group), link.alpha_s, link.beta_s_per_byte)
  text = (f"link: {link.alpha_s * 1e6:.0f} us per all-reduce and "
          f"{link.beta_s_per_byte * MIB * 1e3:.2f} ms/MiB\n{found['text']}")
  return BucketPlan(found["cap_mib"], found["first_cap_mib"], found["tail_s"],
                    found["default_tail_s"], text)


# Steps of attach(segments=True), from 1. DDP forms its final buckets in the second one.
PROFILE_FROM, PROFILE_TO = 3, 6
TRIAL_STEPS = 5  # of a candidate in a round; the first does not count
ROUNDS = 2
CANDIDATES = 3
MAX_SEGMENTS = 32
MARGIN = 0.02  # a split must make steps shorter by this share, in every round


class Segments:
  """Cuts DDP's buckets for attach(). When a gradient becomes ready, the one before it is in its
  bucket, so parts of a bucket can be sent before it is full. All ranks send parts in one order, by
  bucket and offset; only the times differ. Where to cut is computed from a few steps, and the
  best cuts are tried on real steps."""

  def __init__(self, ddp, send, wire_share: float = 1.0):
    """`send(part of a bucket's buffer, its parameters) -> future` averages it over the ranks.
    `wire_share`: bytes on the wire per byte of gradient."""
    # The module owns its hook, and the hook this object, so references back to them are weak.
    self._ddp = weakref.ref(ddp)
    self._group, self._wire_share = ddp.process_group, wire_share
    self._send = weakref.WeakMethod(send)
    self._times = GradientTimes(ddp)
    self._buckets: dict[int, tuple[torch.Tensor, list]] = {}  # as last seen: buffer, parameters
    self._cuts: dict[int, list[tuple[int, int]]] = {}  # by bucket: parts of its buffer
    self._place: dict[torch.nn.Parameter, tuple[int, int]] = {}  # bucket and part
    self._candidates: list[dict] = []
    self.history: list[dict] = []  # what was tried, for the report
    self.settled = False
    self._step, self._began = 1, 0.0
    self._trial: list[float] = []  # seconds of the steps of the trial under way
    self._trials = 0
    self._stop_reason = ""
    self.reset()
    ready = weakref.WeakMethod(self.ready)
    self._handles = [p.register_post_accumulate_grad_hook(lambda p: (call := ready()) and call(p))
                     for p in self._times.names]
    self._handles.append(ddp.module.register_forward_hook(self._times._begin))

  # During backward.

  def reset(self) -> None:
    self._fired: set[torch.nn.Parameter] = set()
    self._last = None
    self._order = [(b, part) for b in sorted(self._cuts) for part in range(len(self._cuts[b]))]
    self._next = 0  # in order_
    self._left = dict.fromkeys(self._order, 0)
    for place in self._place.values():
      self._left[place] += 1
    self._sent: dict[int, list] = {b: [] for b in self._cuts}
    self._futures: list[torch.futures.Future] = []

  def ready(self, parameter) -> None:
    if not self._ddp().require_backward_grad_sync:
      return  # no_sync(): nothing is sent
    if parameter in self._fired:
      self.twice(parameter)
      return
    self._fired.add(parameter)
    if not self.settled and PROFILE_FROM <= self._step < PROFILE_TO:
      self._times._note(parameter)
    before, self._last = self._last, parameter
    if before in self._place:
      self._left[self._place[before]] -= 1
      while self._next < len(self._order) and self._left[self._order[self._next]] == 0:
        self.send_next()

  def send_next(self) -> None:
    bucket, part = self._order[self._next]
    self._next += 1
    begin, end = self._cuts[bucket][part]
    parameters = [p for p in self._buckets[bucket][1] if self._place[p] == (bucket, part)]
    self._sent[bucket].append(self._send()(self._buckets[bucket][0][begin:end], parameters))

  def twice(self, parameter) -> None:
    bucket, part = self._place.get(parameter, (0, 0))
    if parameter in self._place and len(self._sent[bucket]) > part:
      raise UnsupportedError(
          f"attach: the gradient of {self._times.names[parameter]} grew after "
          "it had been sent; use attach(segments=False) for this model")
    self._stop_reason = "a gradient is accumulated more than once in a step"

  def reduce(self, bucket) -> torch.futures.Future:
    """Does the work of the communication hook."""
    index, buffer = bucket.index(), bucket.buffer()
    # In the second step DDP forms other buckets, before any is cut.
    if index in self._cuts and self._buckets[index][0].data_ptr() != buffer.data_ptr():
      self.stop("the buckets have moved")  # results of parts that were sent are not used
    self._buckets[index] = (buffer, bucket.parameters())
    if index in self._cuts:
      while self._next < len(self._order) and self._order[self._next][0] <= index:
        self.send_next()
      future = torch.futures.collect_all(self._sent[index]).then(
          lambda done: [part.value() for part in done.value()] and buffer)
    else:
      future = self._send()(buffer, bucket.parameters())
    self._futures.append(future)
    if bucket.is_last():
      self.end_step()
    return future

  # Between steps. All ranks call this after the same operations.

  def end_step(self) -> None:
    now = time.perf_counter()
    seconds, self._began = now - self._began, now
    self._step += 1
    if self._stop_reason:
      self.stop(self._stop_reason)
    elif self.settled:
      pass
    elif self._step == PROFILE_TO:
      self.plan()
    elif self._step > PROFILE_TO:
      self.try_next(seconds)
    self.reset()

  def plan(self) -> None:
    rows = [(name, int(size * self._wire_share), at)
            for name, size, at in self._times.rows(self._group)]
    torch.futures.wait_all(self._futures)  # so that the link is idle if it has to be measured
    link = known_link(self._group) or measure_link(self._group)
    self._candidates = [{"cuts": self.cut(rows, [len(rows)]), "rounds": []}]
    for ends, _, tail_s in _stretto.comm_best_splits(rows, link.alpha_s, link.beta_s_per_byte,
                                                     CANDIDATES, MAX_SEGMENTS):
      cuts = self.cut(rows, ends)
      if all(cuts != known["cuts"] for known in self._candidates):
        self._candidates.append({"cuts": cuts, "rounds": [], "tail_s": tail_s})
    if len(self._candidates) == 1:
      self.stop("no cut is expected to help")
      return
    self._began = time.perf_counter()
    self.use(self._candidates[0]["cuts"])

  def cut(self, rows, ends: list[int]) -> dict[int, list[tuple[int, int]]]:
    """Turns a split of all gradients into parts of buckets."""
    segment_of, begin = {}, 0
    for segment, end in enumerate(ends):
      segment_of |= dict.fromkeys((name for name, _, _ in rows[begin:end]), segment)
      begin = end
    cuts = {}
    for bucket, (buffer, parameters) in self._buckets.items():
      starts, offset, latest = [0], 0, None
      for parameter in parameters:
        segment = segment_of.get(self._times.names.get(parameter), latest)
        if latest is not None and segment is not None and segment > latest:
          starts.append(offset)
        latest = segment if latest is None else max(latest, segment)
        offset += parameter.numel()
      cuts[bucket] = list(zip(starts, [*starts[1:], buffer.numel()]))
    return cuts

  def use(self, cuts: dict[int, list[tuple[int, int]]]) -> None:
    self._cuts, self._place = cuts, {}
    for bucket, (_, parameters) in self._buckets.items():
      offset = 0
      for parameter in parameters:
        part = sum(begin <= offset for begin, _ in cuts[bucket]) - 1
        self._place[parameter] = (bucket, part)
        offset += parameter.numel()

  def try_next(self, seconds: float) -> None:
    self._trial.append(seconds)
    if len(self._trial) < TRIAL_STEPS:
      return
    tried = self._candidates[self._trials % len(self._candidates)]
    tried["rounds"].append(statistics.median(self._trial[1:]))
    self._trial = []
    self._trials += 1
    if self._trials < ROUNDS * len(self._candidates):
      self.use(self._candidates[self._trials % len(self._candidates)]["cuts"])
    else:
      self.decide()

  def decide(self) -> None:
    rounds = torch.tensor([c["rounds"] for c in self._candidates], dtype=torch.float64,
                          device="cpu")
    dist.all_reduce(rounds, dist.ReduceOp.MAX, group=self._group)
    seconds = rounds.mean(1).tolist()
    best = min(range(len(seconds)), key=seconds.__getitem__)
    # Short steps vary by more than a split may gain, but seldom twice in its favour.
    if bool((rounds[best] > rounds[0] * (1 - MARGIN)).any()):
      best = 0
    for number, candidate in enumerate(self._candidates):
      self.history.append({"parts": sum(map(len, candidate["cuts"].values())),
                           "step_s": seconds[number], "expected_tail_s": candidate.get("tail_s"),
                           "chosen": number == best})
    if best == 0:
      self.stop("whole buckets are as fast")
      return
    self.settled = True
    self.use(self._candidates[best]["cuts"])

  def stop(self, reason: str) -> None:
    self.history.append({"whole_buckets": reason})
    self._stop_reason = ""
    self.settled, self._cuts, self._place = True, {}, {}
    for handle in self._handles:
      handle.remove()
    self.reset()
