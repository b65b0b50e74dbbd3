"""The checks of test_comm_torch.py on gradient codecs and step policies (comm_job.py runs them)."""

import gc

import comm_job
import stretto.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SEED = 11
STAGED = ("topk", "powersgd", "mixed")
CODECS = ("none", "fp16", "bf16", "int8", *STAGED)


def network():
  """Two matrices that are worth a codec, one that is not, and vectors."""
  torch.manual_seed(SEED)
  return nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                       nn.Linear(64, 3))


def batch(step, rank, size, rows=8):
  """This rank's rows of the step's batch, and the whole of it."""
  generator = comm_job.generator(100 + step)
  x = torch.randn(rows * size, 40, generator=generator)
  y = x[:, :3].sin()
  mine = slice(rank * rows, (rank + 1) * rows)
  return (x[mine], y[mine]), (x, y)


def train(model, rank, size, steps, scaler=None, optimizer=None, first=0):
  """Returns the losses."""
  optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
  losses = []
  for step in range(first, first + steps):
    (x, y), _ = batch(step, rank, size)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    if scaler is None:
      loss.backward()
      optimizer.step()
    else:
      scaler.scale(loss).backward()
      scaler.step(optimizer)
      scaler.update()
    losses.append(loss.item())
  return losses


def parameters(model):
  return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def spread(model, size):
  """How far the ranks' parameters are from one another."""
  mine = parameters(model)
  everyone = [torch.empty_like(mine) for _ in range(size)]
  dist.all_gather(everyone, mine)
  return max((other - mine).abs().max().item() for other in everyone)


def falls(losses):
  """Noise from batch to batch is a few per cent; the problem is learnt to less than half."""
  first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
  assert last < 0.6 * first, (first, last)


def group_with(codec):
  """A group with an option as a whole job would have it."""
  return dist.new_group(pg_options=stretto.torch.GroupOptions(codec=codec))


def check_codecs(rank, size):
  for codec in CODECS:
    model = DistributedDataParallel(network(), bucket_cap_mb=0.01)
    stretto.torch.attach(model, codec=codec)
    falls(train(model, rank, size, 60))
    assert spread(model, size) == 0, codec


def check_codecs_by_option(rank, size):
  """Without a line in the script."""
  for codec in ("int8", "powersgd"):
    model = DistributedDataParallel(network(), process_group=group_with(codec))
    falls(train(model, rank, size, 60))
    assert spread(model, size) == 0, codec
    [(hook, state)] = model._comm_hooks
    assert stretto.torch.attach.__module__ in (type(hook).__module__, type(state).__module__)


def check_a_hook_of_the_script_is_kept(rank, size):
  from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
  model = DistributedDataParallel(network(), process_group=group_with("powersgd"))
  model.register_comm_hook(None, default_hooks.allreduce_hook)
  train(model, rank, size, 3)
  assert len(model._comm_hooks) == 1
  assert spread(model, size) == 0


def check_other_types(rank, size):
  """Codecs are for fp32; gradients of another type are averaged as they are."""
  model = DistributedDataParallel(network().double())
  stretto.torch.attach(model, codec="mixed")
  x, y = (t.double() for t in batch(0, rank, size)[0])
  nn.functional.mse_loss(model(x), y).backward()
  whole = network().double()
  x, y = (t.double() for t in batch(0, rank, size)[1])
  nn.functional.mse_loss(whole(x), y).backward()
  for got, want in zip(model.parameters(), whole.parameters()):
    torch.testing.assert_close(got.grad, want.grad)


def check_loss_scaler(rank, size):
  """The scale doubles every fifth step and is halved when one rank overflows."""
  for codec in ("int8", "powersgd", "topk"):
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=5)
    model = DistributedDataParallel(network())
    state = stretto.torch.attach(model, codec=codec, scaler=scaler)
    losses = train(model, rank, size, 40, scaler)
    assert scaler.get_scale() == 2.0**18, scaler.get_scale()
    broken = []
    model.module[2].weight.register_hook(
        lambda g: g * float("inf") if state.step == 41 and rank == 0 else g)  # noqa: B023
    before = parameters(model)
    train(model, rank, size, 1, scaler, first=40)
    assert torch.equal(before, parameters(model)), codec
    assert scaler.get_scale() == 2.0**17, scaler.get_scale()
    losses += train(model, rank, size, 40, scaler, first=41)
    falls(losses)
    assert spread(model, size) == 0, codec
    del broken


def check_nan_names_the_parameter(rank, size):
  for codec in STAGED:
    model = DistributedDataParallel(network())
    stretto.torch.attach(model, codec=codec)
    train(model, rank, size, 2)
    if rank == size - 1:
      place = (torch.tensor([3, 3]), torch.tensor([1, 2]))
      model.module[2].weight.register_hook(
          lambda grad: grad.index_put(place, torch.tensor(float("nan"))))  # noqa: B023
    (x, y), _ = batch(0, rank, size)
    nn.functional.mse_loss(model(x), y).backward()
    dist.barrier()
    reports = dist.group.WORLD.engine.non_finite()
    mine = [r for r in reports if r["name"] == "2.weight at step 3"]
    assert bool(mine) == (rank == size - 1), reports
    if mine:
      assert mine[-1]["count"] == 2 and mine[-1]["first_offset"] == 3 * 64 + 1, mine
    # A loss scaler has to see it.
    assert not all(p.grad.isfinite().all() for p in model.parameters()), codec


def check_accumulate(rank, size):
  """One step of the optimizer for k of the script, with the mean of their gradients."""
  for k, options in ((1, {}), (2, {}), (3, {"gradient_as_bucket_view": True})):
    model = DistributedDataParallel(network(), bucket_cap_mb=0.01, **options)
    stretto.torch.attach(model, step_policy=f"accumulate:{k}")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, rank, size, 4 * k, optimizer=optimizer)
    whole = network()
    optimizer = torch.optim.Adam(whole.parameters(), lr=0.01)
    for step in range(4):
      optimizer.zero_grad()
      for micro in range(k):
        x, y = batch(step * k + micro, rank, size)[1]
        (nn.functional.mse_loss(whole(x), y) / k).backward()
      optimizer.step()
    # Sums in another order: roundings of fp32, which Adam's division can make much of.
    torch.testing.assert_close(parameters(model), parameters(whole), rtol=1e-3, atol=1e-4)
    assert spread(model, size) == 0


def check_accumulate_with_a_loss_scaler(rank, size):
  scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)
  model = DistributedDataParallel(network())
  stretto.torch.attach(model, scaler=scaler, step_policy="accumulate:4")
  optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
  train(model, rank, size, 8, scaler, optimizer)
  whole = network()
  optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
  for step in range(2):
    optimizer.zero_grad()
    for micro in range(4):
      x, y = batch(step * 4 + micro, rank, size)[1]
      (nn.functional.mse_loss(whole(x), y) / 4).backward()
    optimizer.step()
  torch.testing.assert_close(parameters(model), parameters(whole), rtol=1e-4, atol=1e-5)


def check_local(rank, size):
  model = DistributedDataParallel(network())
  state = stretto.torch.attach(model, step_policy="local:4")
  sent = dist.group.WORLD.engine.statistics()["operations"]
  optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
  losses = train(model, rank, size, 4, optimizer=optimizer)
  assert dist.group.WORLD.engine.statistics()["operations"] == sent
  assert spread(model, size) > 0
  mine = parameters(model)
  mean = mine.clone()
  dist.all_reduce(mean)
  mean /= size
  model(batch(0, rank, size)[0][0])  # the fifth forward pass exchanges first
  torch.testing.assert_close(parameters(model), mean)
  assert spread(model, size) == 0
  losses += train(model, rank, size, 56, optimizer=optimizer, first=4)
  falls(losses)
  state.synchronize()
  assert spread(model, size) == 0


def check_gossip(rank, size):
  model = DistributedDataParallel(network())
  state = stretto.torch.attach(model, step_policy="gossip:8")
  optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
  losses = train(model, rank, size, 8, optimizer=optimizer)
  apart = spread(model, size)
  assert apart > 0
  mean = parameters(model).clone()
  dist.all_reduce(mean)
  mean /= size
  model(batch(0, rank, size)[0][0])  # the ninth forward pass begins with the full average
  assert spread(model, size) == 0
  torch.testing.assert_close(parameters(model), mean)
  # With a partner: closer, and the mean stays.
  train(model, rank, size, 1, optimizer=optimizer, first=8)
  apart = spread(model, size)
  mean = parameters(model).clone()
  dist.all_reduce(mean)
  model(batch(0, rank, size)[0][0])
  after = parameters(model).clone()
  dist.all_reduce(after)
  torch.testing.assert_close(after, mean)
  assert spread(model, size) < apart
  losses += train(model, rank, size, 50, optimizer=optimizer, first=9)
  falls(losses)
  state.synchronize()
  assert spread(model, size) == 0


def check_local_and_gossip_with_codecs(rank, size):
  """Ranks agree to the last bit, on what is as good as the mean, and send less: of 8 bytes per
  value, fp32 is two thirds. mixed sends that, because all ranks are on one host."""
  for codec, share, close in (("fp16", 0.5, 1e-3), ("bf16", 0.5, 1e-2), ("int8", 0.3, 2e-2),
                              ("mixed", 0.7, 2e-2), ("powersgd", 0.9, None)):
    model = DistributedDataParallel(network())
    state = stretto.torch.attach(model, codec=codec, step_policy="local:4")
    engine = model.process_group.engine
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    before = parameters(model)
    losses = train(model, rank, size, 4, optimizer=optimizer)
    mean = parameters(model).clone()
    dist.all_reduce(mean)
    mean /= size
    sent = engine.statistics()["payload_bytes"]
    model(batch(0, rank, size)[0][0])
    sent = engine.statistics()["payload_bytes"] - sent
    assert size == 1 or 0 < sent < share * 8 * len(before), (codec, sent)
    assert spread(model, size) == 0
    if close:
      error = (parameters(model) - mean).norm() / (mean - before).norm()
      assert error < close, (codec, error)
    losses += train(model, rank, size, 56, optimizer=optimizer, first=4)
    falls(losses)
    state.synchronize()
    assert spread(model, size) == 0
  for codec in ("fp16", "bf16"):
    model = DistributedDataParallel(network())
    state = stretto.torch.attach(model, codec=codec, step_policy="gossip:8")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    losses = train(model, rank, size, 3, optimizer=optimizer)
    mean = parameters(model).clone()
    dist.all_reduce(mean)
    model(batch(0, rank, size)[0][0])  # mixes with a partner
    after = parameters(model).clone()
    dist.all_reduce(after)
    torch.testing.assert_close(after, mean)
    losses += train(model, rank, size, 57, optimizer=optimizer, first=3)
    falls(losses)
    state.synchronize()
    assert spread(model, size) == 0


def check_overlap_takes_the_mean_one_step_late(rank, size):
  for policy in ("local:4:overlap", "gossip:4:overlap", "local:1:overlap"):
    model = DistributedDataParallel(network())
    state = stretto.torch.attach(model, step_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = train(model, rank, size, 4, optimizer=optimizer)
    if policy == "local:4:overlap":
      mine = parameters(model)
      mean = mine.clone()
      dist.all_reduce(mean)
      mean /= size
      losses += train(model, rank, size, 1, optimizer=optimizer, first=4)
      moved = parameters(model) - mine  # in the step during which the mean was computed
      assert spread(model, size) > 0
      model(batch(0, rank, size)[0][0])  # the sixth forward pass adds what came
      torch.testing.assert_close(parameters(model), mean + moved)
    losses += train(model, rank, size, 56, optimizer=optimizer, first=5)
    falls(losses)
    state.synchronize()
    assert spread(model, size) == 0
  # What is under way does not need the module.
  model = DistributedDataParallel(network())
  state = stretto.torch.attach(model, step_policy="local:2:overlap")
  train(model, rank, size, 3, optimizer=torch.optim.SGD(model.parameters(), lr=0.2))
  del model, state
  gc.collect()
  dist.barrier()


def check_bad_words(rank, size):
  model = DistributedDataParallel(network())
  for words in ({"codec": "zip"}, {"step_policy": "local:0"}, {"step_policy": "sometimes"},
                {"step_policy": "accumulate:2:overlap"},
                {"step_policy": "gossip:4", "codec": "topk"}):
    try:
      stretto.torch.attach(model, **words)
    except ValueError:
      pass
    else:
      raise AssertionError(f"no error for {words}")
  dist.barrier()


if __name__ == "__main__":
  comm_job.main(globals())
