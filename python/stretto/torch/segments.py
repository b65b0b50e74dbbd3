"""Where to cut the gradients of a backward pass, from when they are ready and what the link costs
(stretto/comm/segment.h): a plan for DistributedDataParallel's own buckets, and segments that
attach() sends before their bucket is full."""

from __future__ import annotations

import statistics
import time
import weakref
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from stretto import _stretto

kProbeBytes = (64 << 10, 512 << 10, 2 << 20, 8 << 20)
kProbes = 4
kMiB = 1 << 20


@dataclass(frozen=True)
class Link:
  """What a segment costs: alpha_s however small, and beta_s_per_byte for its bytes."""
  alpha_s: float
  beta_s_per_byte: float


@dataclass(frozen=True)
class BucketPlan:
  """Caps for DistributedDataParallel. `print(plan)` shows buckets and what is expected of them."""
  bucket_cap_mb: float
  first_bucket_mb: float  # 1: torch's own. torch.distributed._DEFAULT_FIRST_BUCKET_BYTES in MiB
  tail_s: float  # communication that is left when backward is over
  default_tail_s: float  # the same with torch's default caps
  text: str = field(repr=False, default="")

  def __str__(self) -> str:
    return self.text


def measure_link(group=None) -> Link:
  """Times all-reduces of a few sizes; all members of the group call it. The slowest rank counts."""
  rows = []
  for size in kProbeBytes:
    data = torch.zeros(size // 4)
    times = []
    for _ in range(kProbes):
      dist.barrier(group=group)
      start = time.perf_counter()
      dist.all_reduce(data, group=group)
      times.append(time.perf_counter() - start)
    rows.append(statistics.median(times))
  slowest = torch.tensor(rows, dtype=torch.float64)
  dist.all_reduce(slowest, dist.ReduceOp.MAX, group=group)
  return Link(*_stretto.comm_fit_link(list(zip(map(float, kProbeBytes), slowest.tolist()))))


class GradientTimes:
  """Notes when gradients are ready, while a model is trained:

    with stretto.torch.GradientTimes(model) as times:
      for x, y in first_batches: ...
    print(stretto.torch.plan_buckets(times))
  """

  def __init__(self, model):
    self.model_ = getattr(model, "module", model) \
        if isinstance(model, torch.nn.parallel.DistributedDataParallel) else model
    self.names = {p: n for n, p in self.model_.named_parameters() if p.requires_grad}
    self.ready_: dict[torch.nn.Parameter, list[float]] = {p: [] for p in self.names}
    self.handles_: list = []
    self.began_ = 0.0

  def __enter__(self) -> GradientTimes:
    self.handles_ = [p.register_post_accumulate_grad_hook(self.note) for p in self.names]
    self.handles_.append(self.model_.register_forward_hook(self.begin))
    return self

  def __exit__(self, *_) -> None:
    for handle in self.handles_:
      handle.remove()

  def begin(self, *_) -> None:
    self.began_ = time.perf_counter()

  def note(self, parameter) -> None:
    self.ready_[parameter].append(time.perf_counter() - self.began_)

  def rows(self, group=None) -> list[tuple[str, int, float]]:
    """(name, bytes, seconds) in the order of readiness, the same on all ranks of the group."""
    used = [p for p in self.names if self.ready_[p]]
    if not used:
      raise ValueError("plan_buckets: no backward pass was seen; train some steps inside "
                       "`with GradientTimes(model)`")
    # The first pass warms up.
    times = torch.tensor([statistics.median(self.ready_[p][1:] or self.ready_[p]) for p in used],
                         dtype=torch.float64)
    if dist.is_initialized() and dist.get_world_size(group) > 1:
      dist.all_reduce(times, dist.ReduceOp.MAX, group=group)
    rows = [(self.names[p], p.numel() * p.element_size(), t) for p, t in zip(used, times.tolist())]
    return sorted(rows, key=lambda row: row[2])


def plan_buckets(times: GradientTimes, group=None, link: Link | None = None) -> BucketPlan:
  """The caps with which DDP's buckets leave the least communication after backward. All members of
  the group call it; the link is measured unless it is given."""
  link = link or measure_link(group)
  found = _stretto.comm_plan_buckets(times.rows(group), link.alpha_s, link.beta_s_per_byte)
  text = (f"link: {link.alpha_s * 1e6:.0f} us per all-reduce and "
          f"{link.beta_s_per_byte * kMiB * 1e3:.2f} ms/MiB\n{found['text']}")
  return BucketPlan(found["cap_mib"], found["first_cap_mib"], found["tail_s"],
                    found["default_tail_s"], text)


# Steps of attach(segments=True), from 1. DDP forms its final buckets in the second one.
kProfileFrom, kProfileTo = 3, 6
kTrialSteps = 5  # of a candidate, per turn; the first does not count
kTurns = 2
kCandidates = 3
kMaxSegments = 32
kMargin = 0.02  # a split has to make steps this much shorter


class Segments:
  """Cuts DDP's buckets for attach(). A gradient lies in its bucket when the next one gets ready, so
  parts of a bucket can go before all of it is there. Parts always go in the order of buckets and
  offsets, on every rank alike; only the moment differs. Where to cut is computed from some steps,
  and the best few ways are tried on real ones."""

  def __init__(self, ddp, send, wire_share: float = 1.0):
    """`send(part of a bucket's buffer, its parameters) -> future` averages it over the ranks.
    `wire_share`: bytes on the wire per byte of gradient."""
    # The module holds its hook, and the hook this object: no way back, or it would live for ever.
    self.ddp_ = weakref.ref(ddp)
    self.group_, self.wire_share_ = ddp.process_group, wire_share
    self.send_ = weakref.WeakMethod(send)
    self.times_ = GradientTimes(ddp)
    self.buckets_: dict[int, tuple[torch.Tensor, list]] = {}  # as last seen: buffer, parameters
    self.cuts_: dict[int, list[tuple[int, int]]] = {}  # by bucket: parts of its buffer
    self.place_: dict[torch.nn.Parameter, tuple[int, int]] = {}  # bucket and part
    self.candidates_: list[dict] = []
    self.history: list[dict] = []  # what was tried, for the report
    self.settled = False
    self.step_, self.began_ = 1, 0.0
    self.turn_, self.turn_steps_ = 0, 0
    self.stop_reason_ = ""
    self.reset()
    ready = weakref.WeakMethod(self.ready)
    self.handles_ = [p.register_post_accumulate_grad_hook(lambda p: (call := ready()) and call(p))
                     for p in self.times_.names]
    self.handles_.append(ddp.module.register_forward_hook(self.times_.begin))

  # During backward.

  def reset(self) -> None:
    self.fired_: set[torch.nn.Parameter] = set()
    self.last_ = None
    self.order_ = [(b, part) for b in sorted(self.cuts_) for part in range(len(self.cuts_[b]))]
    self.next_ = 0  # in order_
    self.left_ = dict.fromkeys(self.order_, 0)
    for place in self.place_.values():
      self.left_[place] += 1
    self.sent_: dict[int, list] = {b: [] for b in self.cuts_}
    self.futures_: list[torch.futures.Future] = []

  def ready(self, parameter) -> None:
    if not self.ddp_().require_backward_grad_sync:
      return  # no_sync(): nothing is sent
    if parameter in self.fired_:
      self.twice(parameter)
      return
    self.fired_.add(parameter)
    if not self.settled and kProfileFrom <= self.step_ < kProfileTo:
      self.times_.note(parameter)
    before, self.last_ = self.last_, parameter
    if before in self.place_:
      self.left_[self.place_[before]] -= 1
      while self.next_ < len(self.order_) and self.left_[self.order_[self.next_]] == 0:
        self.send_next()

  def send_next(self) -> None:
    bucket, part = self.order_[self.next_]
    self.next_ += 1
    begin, end = self.cuts_[bucket][part]
    parameters = [p for p in self.buckets_[bucket][1] if self.place_[p] == (bucket, part)]
    self.sent_[bucket].append(self.send_()(self.buckets_[bucket][0][begin:end], parameters))

  def twice(self, parameter) -> None:
    bucket, part = self.place_.get(parameter, (0, 0))
    if parameter in self.place_ and len(self.sent_[bucket]) > part:
      raise RuntimeError(f"attach: the gradient of {self.times_.names[parameter]} grew after it "
                         "had been sent; use attach(segments=False) for this model")
    self.stop_reason_ = "a gradient is accumulated more than once in a step"

  def reduce(self, bucket) -> torch.futures.Future:
    """What the communication hook does."""
    index, buffer = bucket.index(), bucket.buffer()
    known = self.buckets_.get(index)
    if known is not None and known[0].data_ptr() != buffer.data_ptr():
      self.stop("the buckets have moved")  # what was sent early is not read by anybody
    self.buckets_[index] = (buffer, bucket.parameters())
    if index in self.cuts_:
      while self.next_ < len(self.order_) and self.order_[self.next_][0] <= index:
        self.send_next()
      future = torch.futures.collect_all(self.sent_[index]).then(
          lambda done: [part.value() for part in done.value()] and buffer)
    else:
      future = self.send_()(buffer, bucket.parameters())
    self.futures_.append(future)
    if bucket.is_last():
      self.end_step()
    return future

  # Between steps. Every rank comes here after the same operations.

  def end_step(self) -> None:
    now = time.perf_counter()
    seconds, self.began_ = now - self.began_, now
    self.step_ += 1
    if self.stop_reason_:
      self.stop(self.stop_reason_)
    elif self.settled:
      pass
    elif self.step_ == kProfileTo:
      self.plan()
    elif self.step_ > kProfileTo:
      self.try_next(seconds)
    self.reset()

  def plan(self) -> None:
    rows = [(name, int(size * self.wire_share_), at)
            for name, size, at in self.times_.rows(self.group_)]
    torch.futures.wait_all(self.futures_)  # what is on the link now would be measured too
    link = measure_link(self.group_)
    self.candidates_ = [{"cuts": self.cut(rows, [len(rows)]), "times": []}]
    for ends, _, tail_s in _stretto.comm_best_splits(rows, link.alpha_s, link.beta_s_per_byte,
                                                     kCandidates, kMaxSegments):
      cuts = self.cut(rows, ends)
      if all(cuts != known["cuts"] for known in self.candidates_):
        self.candidates_.append({"cuts": cuts, "times": [], "tail_s": tail_s})
    if len(self.candidates_) == 1:
      self.stop("no cut is expected to help")
      return
    self.began_ = time.perf_counter()
    self.use(self.candidates_[0]["cuts"])

  def cut(self, rows, ends: list[int]) -> dict[int, list[tuple[int, int]]]:
    """The split of all gradients as parts of buckets."""
    segment_of, begin = {}, 0
    for segment, end in enumerate(ends):
      segment_of |= dict.fromkeys((name for name, _, _ in rows[begin:end]), segment)
      begin = end
    cuts = {}
    for bucket, (buffer, parameters) in self.buckets_.items():
      starts, offset, latest = [0], 0, None
      for parameter in parameters:
        segment = segment_of.get(self.times_.names.get(parameter), latest)
        if latest is not None and segment is not None and segment > latest:
          starts.append(offset)
        latest = segment if latest is None else max(latest, segment)
        offset += parameter.numel()
      cuts[bucket] = list(zip(starts, [*starts[1:], buffer.numel()]))
    return cuts

  def use(self, cuts: dict[int, list[tuple[int, int]]]) -> None:
    self.cuts_, self.place_ = cuts, {}
    for bucket, (_, parameters) in self.buckets_.items():
      offset = 0
      for parameter in parameters:
        part = sum(begin <= offset for begin, _ in cuts[bucket]) - 1
        self.place_[parameter] = (bucket, part)
        offset += parameter.numel()

  def try_next(self, seconds: float) -> None:
    self.turn_steps_ += 1
    if self.turn_steps_ > 1:
      self.candidates_[self.turn_ % len(self.candidates_)]["times"].append(seconds)
    if self.turn_steps_ < kTrialSteps:
      return
    self.turn_steps_ = 0
    self.turn_ += 1
    if self.turn_ < kTurns * len(self.candidates_):
      self.use(self.candidates_[self.turn_ % len(self.candidates_)]["cuts"])
    else:
      self.decide()

  def decide(self) -> None:
    times = torch.tensor([statistics.median(c["times"]) for c in self.candidates_],
                         dtype=torch.float64)
    dist.all_reduce(times, dist.ReduceOp.MAX, group=self.group_)
    seconds = times.tolist()
    best = min(range(len(seconds)), key=seconds.__getitem__)
    if seconds[best] > seconds[0] * (1 - kMargin):
      best = 0
    for number, candidate in enumerate(self.candidates_):
      self.history.append({"parts": sum(map(len, candidate["cuts"].values())),
                           "step_s": seconds[number], "expected_tail_s": candidate.get("tail_s"),
                           "chosen": number == best})
    if best == 0:
      self.stop("whole buckets are as fast")
      return
    self.settled = True
    self.use(self.candidates_[best]["cuts"])

  def stop(self, reason: str) -> None:
    self.history.append({"whole_buckets": reason})
    self.stop_reason_ = ""
    self.settled, self.cuts_, self.place_ = True, {}, {}
    for handle in self.handles_:
      handle.remove()
    self.reset()
