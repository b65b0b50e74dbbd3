"""The checks of test_comm_torch.py on DistributedOptimizer of the Horovod-shaped API: part of
the job of horovod_checks.py."""

import gradient_checks
import stretto.horovod as hvd
import torch
import torch.distributed as dist
from horovod_checks import adasum_of
from torch import nn
from torch_checks import batch, close, network, train


def check_sparse_gradients(rank, size):
  def model():
    torch.manual_seed(3)
    return nn.Embedding(10, 4, sparse=True)

  whole = model()
  reference = torch.optim.SGD(whole.parameters(), lr=0.5)
  words = [torch.tensor([r, 2 * r, 7]) for r in range(size)]
  for _ in range(3):
    reference.zero_grad()
    (sum(whole(w).square().sum() for w in words) / size).backward()
    reference.step()
  for options in ({}, {"sparse_as_dense": True}):
    mine = model()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(mine.parameters(), lr=0.5),
                                         named_parameters=mine.named_parameters(), **options)
    for _ in range(3):
      optimizer.zero_grad()
      mine(words[rank]).square().sum().backward()
      optimizer.step()
    # Sums of the same terms in another order.
    torch.testing.assert_close(mine.weight, whole.weight, rtol=1e-5, atol=1e-6)


def check_optimizer(rank, size):
  want = train(network(), rank, size, whole=True)
  for compression in (hvd.Compression.none, hvd.Compression.fp16):
    model = network()
    if rank:
      for p in model.parameters():
        nn.init.zeros_(p)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         compression=compression)
    assert isinstance(optimizer, torch.optim.SGD)
    tolerance = 1e-5 if compression is hvd.Compression.none else 1e-2
    close(train(model, rank, size, optimizer=optimizer), want, tolerance)
  for options in ({"gradient_predivide_factor": 4.0}, {"op": hvd.Sum}):
    model = network()
    rate = 0.1 / (size if "op" in options else 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9), model.named_parameters(),
        **options)
    close(train(model, rank, size, optimizer=optimizer), want)


def check_adasum_optimizer(rank, size):
  """Ranks step by themselves, and what the steps have changed is combined."""
  models = [network() for _ in range(size + 1)]
  start = [p.detach().clone() for p in models[0].parameters()]
  optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in models]
  mine = hvd.DistributedOptimizer(optimizers.pop(), models[-1].named_parameters(), op=hvd.Adasum)
  assert isinstance(mine, torch.optim.SGD)
  for r in range(size):
    (x, y), _ = batch(0, r, size)
    nn.functional.mse_loss(models[r](x), y).backward()
    optimizers[r].step()
  (x, y), _ = batch(0, rank, size)
  nn.functional.mse_loss(models[-1](x), y).backward()
  mine.step()
  each = zip(*(m.parameters() for m in models[:-1]))
  for got, begun, stepped in zip(models[-1].parameters(), start, each):
    want = begun.double() + adasum_of([p.detach() - begun for p in stepped])
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
  try:
    with mine.skip_synchronize():
      pass
  except AssertionError as error:
    assert "Adasum" in str(error)
  else:
    raise AssertionError("no error")


def check_adasum_learns(rank, size):
  model = gradient_checks.network()
  optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                       model.named_parameters(), op=hvd.Adasum)
  gradient_checks.falls(gradient_checks.train(model, rank, size, 60, optimizer=optimizer))
  assert gradient_checks.spread(model, size) == 0


def check_optimizer_with_codecs(rank, size):
  """As check_codecs does for DDP: learnt all the same, and no rank differs from another."""
  group = hvd._state.job().everyone.group
  for compression in (hvd.Compression.int8, hvd.Compression.bf16, hvd.Compression.topk,
                      hvd.Compression.powersgd, hvd.Compression.mixed, hvd.Compression.none):
    # As if the whole job had STRETTO_CODEC: what a script without a compression gets.
    group.codec = "int8" if compression is hvd.Compression.none else "none"
    model = gradient_checks.network()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters(),
        compression=compression)
    assert optimizer._gradients.codec == (compression.codec or "int8")
    gradient_checks.falls(gradient_checks.train(model, rank, size, 60, optimizer=optimizer))
    assert gradient_checks.spread(model, size) == 0, compression
  group.codec = "none"


class Fixed(nn.Module):
  """A gradient that is the same in every step, and another on every rank."""

  def __init__(self, rank):
    super().__init__()
    self.weight = nn.Parameter(torch.zeros(64, 64))
    generator = torch.Generator().manual_seed(rank)
    self.direction = torch.randn(64, 64, generator=generator)

  def forward(self):
    return (self.weight * self.direction).sum()


def check_error_feedback(rank, size):
  """What int8 loses in a step comes with the next: after n steps the sum of what arrived is n means
  of fp32, but for what one step can lose. Without feedback the same error comes n times."""
  steps = 50
  mean = sum(Fixed(r).direction for r in range(size)) / size
  model = Fixed(rank)
  optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0),
                                       model.named_parameters(), hvd.Compression.int8)
  errors = []
  for step in range(1, steps + 1):
    optimizer.zero_grad()
    model().backward()
    optimizer.step()
    errors.append((model.weight + step * mean).abs().max().item())
  # A block's greatest value is about 4 here, so a step of int8 is about 4 / 127, and every rank and
  # the encoding of the sum may owe half of one.
  assert 0 < errors[0] <= 2 * 4.5 / 127, errors[0]
  assert errors[-1] <= 2 * 4.5 / 127, errors
  without = Fixed(rank).direction.clone()
  lost = torch.zeros_like(mean)
  for _ in range(steps):
    lost += hvd.allreduce(without, compression=hvd.Compression.int8) - mean
  assert lost.abs().max().item() > 3 * errors[-1], (lost.abs().max(), errors[-1])


def check_loss_scaler_with_a_codec(rank, size):
  scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=5)
  model = gradient_checks.network()
  optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                                       model.named_parameters(), hvd.Compression.int8,
                                       scaler=scaler)
  losses = []
  for step in range(60):
    (x, y), _ = gradient_checks.batch(step, rank, size)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    with optimizer.skip_synchronize():
      scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
  gradient_checks.falls(losses)
  assert scaler.get_scale() == 2.0**22
  assert gradient_checks.spread(model, size) == 0


def check_nan_names_the_parameter(rank, size):
  model = gradient_checks.network()
  optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                       model.named_parameters(), hvd.Compression.int8)
  if rank == 1:
    model[2].weight.register_hook(lambda g: g.index_put((torch.tensor(3), torch.tensor(1)),
                                                        torch.tensor(float("nan"))))
  (x, y), _ = gradient_checks.batch(0, rank, size)
  nn.functional.mse_loss(model(x), y).backward()
  optimizer.synchronize()
  reports = [r for r in dist.group.WORLD.engine.non_finite() if r["name"] == "2.weight at step 1"]
  assert len(reports) == (rank == 1), reports
  assert not model[2].weight.grad.isfinite().all()


def check_optimizer_accumulates(rank, size):
  models = [network(), network()]
  single = torch.optim.SGD(models[0].parameters(), lr=0.1)
  several = hvd.DistributedOptimizer(torch.optim.SGD(models[1].parameters(), lr=0.1),
                                     named_parameters=[(f"a.{n}", p) for n, p
                                                       in models[1].named_parameters()],
                                     backward_passes_per_step=2)
  for step in range(2):
    single.zero_grad()
    several.zero_grad()
    for part in range(2):
      (x, y), (all_x, all_y) = batch(2 * step + part, rank, size)
      nn.functional.mse_loss(models[0](all_x), all_y).backward()
      nn.functional.mse_loss(models[1](x), y).backward()
    several.synchronize()
    nn.utils.clip_grad_norm_(models[1].parameters(), 1e9)
    with several.skip_synchronize():
      several.step()
    single.step()
  close(list(models[1].parameters()), list(models[0].parameters()))


def check_join_with_a_codec(rank, size):
  """Ranks have different numbers of batches; those that are through contribute zeros."""
  model = gradient_checks.network()
  optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                       model.named_parameters(), hvd.Compression.topk)
  for epoch in range(2):
    gradient_checks.train(model, rank, size, 3 + rank, optimizer=optimizer, first=10 * epoch)
    assert hvd.join() == size - 1
    hvd.broadcast_parameters(model.state_dict(), root_rank=size - 1)
  assert gradient_checks.spread(model, size) == 0
