"""The checks of test_comm_torch.py on attach(segments=True) and on plans of buckets: part of the
job of torch_checks.py."""

import numpy as np
import stretto.torch
import torch
import torch.distributed as dist
from stretto.torch import _segments
from torch import nn
from torch_checks import batch, network, same, train


def check_segments(rank, size):
  """Parts of a bucket that are sent early give the same bits as whole buckets."""
  for options in ({}, {"gradient_as_bucket_view": True}):
    # With a hook as well: DDP's own way divides before it adds, which rounds differently.
    whole = nn.parallel.DistributedDataParallel(network(), **options)
    stretto.torch.attach(whole)
    want = train(whole, rank, size, steps=70)
    model = nn.parallel.DistributedDataParallel(network(), **options)
    attached = stretto.torch.attach(model, segments=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(70):
      mine, _ = batch(step, rank, size)
      optimizer.zero_grad()
      nn.functional.mse_loss(model(mine[0]), mine[1]).backward()
      optimizer.step()
      if step == 6 and not attached.segments.settled:
        # From here on in as many parts as there are parameters.
        cuts = {b: list(zip(starts, [*starts[1:], buffer.numel()]))
                for b, (buffer, parameters) in attached.segments._buckets.items()
                for starts in [[0, *np.cumsum([p.numel() for p in parameters])[:-1]]]}
        for candidate in attached.segments._candidates[1:]:
          candidate["cuts"] = cuts
    same([p.detach() for p in model.parameters()], want)
    history = attached.segments.history
    assert attached.segments.settled and history
    assert not any("moved" in row.get("whole_buckets", "") for row in history), history


def check_segments_and_accumulation(rank, size):
  """no_sync() sends nothing, and what is accumulated is sent whole."""
  results = []
  for segments in (False, True):
    model = nn.parallel.DistributedDataParallel(network())
    stretto.torch.attach(model, segments=segments)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(60):
      (x, y), _ = batch(step, rank, size)
      optimizer.zero_grad()
      with model.no_sync():
        nn.functional.mse_loss(model(x), y).backward()
      nn.functional.mse_loss(model(x), y).backward()
      optimizer.step()
    results.append([p.detach().clone() for p in model.parameters()])
  same(*results)


def check_bucket_plan(rank, size):
  model = network()
  with stretto.torch.GradientTimes(model) as times:
    for step in range(3):
      (x, y), _ = batch(step, rank, size)
      nn.functional.mse_loss(model(x), y).backward()
  plan = stretto.torch.plan_buckets(times)
  assert plan.bucket_cap_mb > 0 and plan.tail_s <= plan.default_tail_s
  assert "DistributedDataParallel(model, bucket_cap_mb=" in str(plan)
  texts = [None] * size
  dist.all_gather_object(texts, str(plan))
  assert len(set(texts)) == 1, "every rank has the same plan"
  nn.parallel.DistributedDataParallel(model, bucket_cap_mb=plan.bucket_cap_mb)
  try:
    stretto.torch.plan_buckets(stretto.torch.GradientTimes(network()))
  except ValueError as error:
    assert "no backward pass" in str(error)
  else:
    raise AssertionError("a plan from nothing")


def check_segments_use_what_the_engine_knows(rank, size):
  """What all-reduces cost is timed only while the engine does not know it, and the engine learns
  from what is timed."""
  group = dist.new_group(backend="stretto")  # of the same ranks, which share what they observe
  measured = stretto.torch.measure_link(group)
  known = dist.group.WORLD.engine.link_model(dist.group.WORLD.group)
  assert known["measured"] and known["beta_s_per_byte"] > 0, known
  # Ranks see the same operations end at slightly different times.
  assert 0.5 < known["beta_s_per_byte"] / measured.beta_s_per_byte < 2, (known, measured)
  links = [None] * size
  dist.all_gather_object(links, measured)
  assert links == [measured] * size, "every rank has the same"

  original = _segments.measure_link
  _segments.measure_link = lambda group=None: 1 / 0
  try:
    model = network()
    with stretto.torch.GradientTimes(model) as times:
      for step in range(3):
        (x, y), _ = batch(step, rank, size)
        nn.functional.mse_loss(model(x), y).backward()
    stretto.torch.plan_buckets(times)
    ddp = nn.parallel.DistributedDataParallel(network())
    attached = stretto.torch.attach(ddp, segments=True)
    train(ddp, rank, size, steps=10)
    assert attached.segments.settled or attached.segments._candidates
  finally:
    _segments.measure_link = original
