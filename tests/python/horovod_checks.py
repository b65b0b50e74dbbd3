"""The checks of test_comm_torch.py on the Horovod-shaped API (comm_job.py runs them)."""

import logging
import os
import random
import time

import comm_job
import gradient_checks
import ranks
import stretto.horovod as hvd
import stretto.torch
import torch
import torch.distributed as dist
from torch import nn
from torch_checks import batch, close, network, same, total, train, value

STALL_S = 1.0
os.environ["STRETTO_STALL_WARNING"] = str(STALL_S)


def check_aa_init(rank, size):
  hvd.init()
  assert hvd.is_initialized()
  assert (hvd.rank(), hvd.size()) == (rank, size)
  # One host here, unless an environment variable says otherwise.
  assert (hvd.local_rank(), hvd.local_size()) == (rank, size)
  assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)


def check_forked_child_says_so(rank, size):
  waiting = hvd.allreduce_async(torch.ones(3), name="forked")
  for call in (lambda: hvd.allreduce(torch.ones(3)), hvd.barrier, hvd.join,
               lambda: hvd.synchronize(waiting), lambda: hvd.poll(waiting), hvd.shutdown):
    answer = ranks.in_child(call)
    assert "before fork()" in answer, answer
  assert ranks.in_child(hvd._state.at_exit) == "returned"  # a child that ends like a script
  assert torch.equal(hvd.synchronize(waiting), torch.ones(3))


def check_all_reduce(rank, size):
  x = value(rank)
  same(hvd.allreduce(x, op=hvd.Sum), total(size))
  same(x, value(rank))  # the caller's tensor stays as it was
  torch.testing.assert_close(hvd.allreduce(x, name="mean"), total(size) / size)
  hvd.allreduce_(x, op=hvd.Sum)
  same(x, total(size))
  half = hvd.allreduce(value(rank), op=hvd.Sum, compression=hvd.Compression.fp16)
  assert half.dtype == torch.float32
  same(half, total(size))
  a, b = hvd.grouped_allreduce([value(rank), value(rank, (5,))], op=hvd.Sum)
  same(a, total(size))
  same(b, total(size, (5,)))
  same(hvd.allreduce(value(rank), op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5),
       total(size))


def check_any_order(rank, size):
  names = [f"tensor {i}" for i in range(40)]
  order = list(range(40))
  random.Random(rank).shuffle(order)
  for _ in range(3):
    handles = {}
    for i in order:
      handles[i] = hvd.allreduce_async(value(rank, (i + 1,)), name=names[i], op=hvd.Sum)
    for i, handle in handles.items():
      same(hvd.synchronize(handle), total(size, (i + 1,)))
      assert hvd.poll(handle)


def check_gradient(rank, size):
  x = torch.full((3,), float(rank), requires_grad=True)
  (hvd.allreduce(x, op=hvd.Sum) * (rank + 1)).sum().backward()
  same(x.grad, torch.full((3,), size * (size + 1) / 2))


def check_gather_broadcast_alltoall(rank, size):
  got = hvd.allgather(value(rank, (rank + 1, 2)))
  same(got, torch.cat([value(r, (r + 1, 2)) for r in range(size)]))
  same(hvd.broadcast(value(rank), size - 1), value(size - 1))
  rows = torch.full(((rank + 1) * size, 2), float(rank))
  output, received = hvd.alltoall(rows, splits=torch.tensor([rank + 1] * size))
  same(output, torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)]))
  assert received.tolist() == [r + 1 for r in range(size)]
  hvd.barrier()
  assert hvd.broadcast_object({"from": rank}, 1) == {"from": 1}
  assert hvd.allgather_object([rank] * rank) == [[r] * r for r in range(size)]


def check_disagreement_is_named(rank, size):
  handle = hvd.allreduce_async(torch.zeros(3 + (rank == 1)), name="odd one")
  try:
    hvd.synchronize(handle)
  except ValueError as error:
    assert "'allreduce.odd one' differs between ranks" in str(error) and "rank 1" in str(error)
  else:
    raise AssertionError("no error")


def check_another_shape_in_the_next_step_is_fine(rank, size):
  for n in (3, 5, 3, 1000):
    same(hvd.allreduce(value(rank, (n,)), name="changes", op=hvd.Sum), total(size, (n,)))


def check_stalls_name_the_ranks(rank, size):
  """The rank that is missing does nothing meanwhile. The limit is set for the job, in main."""
  messages = []

  class Keep(logging.Handler):

    def emit(self, record):
      messages.append(record.getMessage())

  keep = Keep()
  logging.getLogger("stretto").addHandler(keep)
  if rank == 1:
    time.sleep(3 * STALL_S)
  hvd.allreduce(torch.ones(2), name="slow", op=hvd.Sum)
  logging.getLogger("stretto").removeHandler(keep)
  if rank == 0:
    assert any("'allreduce.slow' has been ready here" in m and "not on rank 1" in m
               for m in messages), messages


def check_reduce_scatter(rank, size):
  x = torch.arange(7.0 * 2).reshape(7, 2) + rank  # 7 rows do not come out even
  whole = sum(torch.arange(14.0).reshape(7, 2) + r for r in range(size))
  shares = [7 // size + (r < 7 % size) for r in range(size)]
  same(hvd.reducescatter(x, op=hvd.Sum), whole.split(shares)[rank])
  torch.testing.assert_close(hvd.reducescatter(x, name="mean"), whole.split(shares)[rank] / size)
  a, b = hvd.grouped_reducescatter([x, value(rank, (size,))], op=hvd.Sum)
  same(a, whole.split(shares)[rank])
  same(b, total(size, (size,))[rank:rank + 1])


def check_grouped_gather(rank, size):
  a, b = hvd.grouped_allgather([value(rank, (rank + 1,)), torch.full((2, 2), float(rank))])
  same(a, torch.cat([value(r, (r + 1,)) for r in range(size)]))
  same(b, torch.cat([torch.full((2, 2), float(r)) for r in range(size)]))
  same(hvd.allgather(torch.tensor(rank)), torch.arange(size))


def check_gradients_of_moves(rank, size):
  x = torch.full((rank + 1, 2), 1.0, requires_grad=True)
  gathered = hvd.allgather(x)
  (gathered * (rank + 1)).sum().backward()
  same(x.grad, torch.full_like(x, size * (size + 1) / 2))
  y = torch.ones(3, requires_grad=True)
  (hvd.broadcast(y, 1) * (rank + 1)).sum().backward()
  same(y.grad, torch.full((3,), size * (size + 1) / 2 if rank == 1 else 0.0))


def check_process_sets(rank, size):
  ranks, rest = ([0, 2], [1]) if size > 2 else ([1], [0])
  some = hvd.add_process_set(ranks)
  others = hvd.add_process_set(hvd.ProcessSet(rest))
  assert some.included() == (rank in ranks) and some.size() == len(ranks)
  assert some.rank() == (ranks.index(rank) if rank in ranks else -1)
  assert hvd.global_process_set.size() == size and hvd.global_process_set.included()
  if some.included():
    same(hvd.allreduce(value(rank), op=hvd.Sum, process_set=some), sum(map(value, ranks)))
    same(hvd.broadcast(value(rank), ranks[-1], process_set=some), value(ranks[-1]))
    same(hvd.allgather(torch.tensor([rank]), process_set=some), torch.tensor(ranks))
    assert hvd.allgather_object(rank, process_set=some) == ranks
    hvd.barrier(process_set=some)
  else:
    same(hvd.allreduce(value(rank), process_set=others), value(rank))
    raises(f"rank {rank} is not a member of ProcessSet({ranks}",
           lambda: hvd.allreduce(value(rank), process_set=some))
  same(hvd.allreduce(value(rank), op=hvd.Sum, process_set=hvd.global_process_set), total(size))
  raises("has these ranks already", lambda: hvd.add_process_set(ranks))
  assert len(hvd.process_set_ids()) == 3
  assert hvd.remove_process_set(some) and hvd.remove_process_set(others)
  assert not hvd.remove_process_set(some)
  raises("add_process_set() first", some.size)


def raises(text, function):
  try:
    function()
  except (ValueError, NotImplementedError) as error:
    assert text in str(error), error
  else:
    raise AssertionError("no error")


def check_what_is_missing_says_so(rank, size):
  raises("Adasum is for floating-point numbers", lambda: hvd.allreduce(
      torch.tensor([1]), op=hvd.Adasum))
  raises("Adasum is for allreduce only", lambda: hvd.reducescatter(value(rank), op=hvd.Adasum))
  raises("allreduce: op: expected one of ", lambda: hvd.allreduce(value(rank), op="median"))
  assert not (hvd.nccl_built() or hvd.mpi_built() or hvd.mpi_threads_supported())
  assert issubclass(hvd.SyncBatchNorm, nn.modules.batchnorm._BatchNorm)


def check_the_environment(rank, size):
  """Of initialise(), which this job does without."""
  kept = dict(os.environ)
  try:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "SLURM_PROCID"):
      os.environ.pop(name, None)
    os.environ |= {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
                   "HOROVOD_STALL_CHECK_TIME_SECONDS": "7"}
    raises("MASTER_ADDR, the host of rank 0, is not set", hvd._state.initialise)
    hvd._state.horovods_words()
    assert os.environ["STRETTO_STALL_WARNING"] == str(STALL_S), "its own word counts more"
  finally:
    os.environ.clear()
    os.environ |= kept


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


def adasum_reference(a, b):
  """The formula as published, in fp64."""
  both = (a * b).sum()
  return (1 - both / (2 * (a * a).sum())) * a + (1 - both / (2 * (b * b).sum())) * b


def adasum_of(values):
  """By rank: recursive doubling for two ranks; of three, the last one waits for a round."""
  values = [v.double() for v in values]
  while len(values) > 1:
    values = [adasum_reference(*values[i:i + 2]) if i + 1 < len(values) else values[i]
              for i in range(0, len(values), 2)]
  return values[0]


def random_values(rank, shape=(7, 3)):
  return torch.randn(shape, generator=torch.Generator().manual_seed(rank))


def check_adasum(rank, size):
  want = adasum_of([random_values(r) for r in range(size)])
  got = hvd.allreduce(random_values(rank), op=hvd.Adasum)
  # fp32 values, of about 3 at most, with coefficients rounded once.
  torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
  for r in range(size):
    same(hvd.broadcast(got, r), got)  # the same bits everywhere
  wide = hvd.allreduce(random_values(rank).double(), op=hvd.Adasum)
  torch.testing.assert_close(wide, want, rtol=1e-13, atol=1e-13)
  for dtype, tolerance in ((torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
    half = hvd.allreduce(random_values(rank).to(dtype), op=hvd.Adasum)
    assert half.dtype == dtype
    torch.testing.assert_close(half.double(), want, rtol=tolerance, atol=tolerance)
  packed = hvd.allreduce(random_values(rank), op=hvd.Adasum, compression=hvd.Compression.fp16)
  assert packed.dtype == torch.float32
  torch.testing.assert_close(packed.double(), want, rtol=4e-3, atol=4e-3)


def check_adasum_adds_what_differs_and_averages_what_is_alike(rank, size):
  alone = torch.zeros(5 * size)
  alone[5 * rank:5 * rank + 5] = 1.0 + rank
  same(hvd.allreduce(alone, op=hvd.Adasum), hvd.allreduce(alone, op=hvd.Sum))  # orthogonal
  alike = random_values(1)
  torch.testing.assert_close(hvd.allreduce(alike, op=hvd.Adasum), alike)  # parallel
  # Zeros are orthogonal to everything, and have no direction.
  mine = alike if rank == 0 else torch.zeros_like(alike)
  same(hvd.allreduce(mine, op=hvd.Adasum), alike)
  same(hvd.allreduce(torch.zeros(3), op=hvd.Adasum), torch.zeros(3))
  same(hvd.allreduce(torch.zeros(0), op=hvd.Adasum), torch.zeros(0))


def check_adasum_is_for_each_tensor_and_in_place(rank, size):
  first, second = random_values(rank), random_values(10 + rank, (1000,))
  handle = hvd.grouped_allreduce_async_([first, second], op=hvd.Adasum, name="pair",
                                        prescale_factor=2.0, postscale_factor=0.5)
  hvd.synchronize(handle)
  torch.testing.assert_close(first.double(), adasum_of([random_values(r) for r in range(size)]),
                             rtol=1e-5, atol=1e-6)
  torch.testing.assert_close(second.double(), adasum_of(
      [random_values(10 + r, (1000,)) for r in range(size)]), rtol=1e-5, atol=1e-6)
  keeps = random_values(rank)
  hvd.allreduce(keeps, op=hvd.Adasum, prescale_factor=3.0)
  same(keeps, random_values(rank))


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


def check_join(rank, size):
  for _ in range(2):
    for i in range(rank + 1):  # rank 0 has the least to do
      got = hvd.allreduce(torch.ones(4), name=f"uneven {i}", op=hvd.Sum)
      same(got, torch.full((4,), float(size - i)))
    assert hvd.join() == size - 1
    same(hvd.allreduce(value(rank), name="after join", op=hvd.Sum), total(size))


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


def check_zz_shutdown(rank, size):
  """Others may be busy when one goes; what would need it fails there, with its name."""
  handle = hvd.allreduce_async(value(rank), name="before the end", op=hvd.Sum)
  if rank == 0:
    hvd.shutdown()
  else:
    try:
      hvd.allreduce(value(rank), name="without rank 0")
    except stretto.torch.CommError as error:
      expected = "'allreduce.without rank 0' cannot be done: rank 0 has left the job"
      assert expected in str(error), error
      assert error.rank == 0
    else:
      raise AssertionError("no error")
    same(handle.wait(), total(size))
    hvd.shutdown()
  assert not hvd.is_initialized()
  try:
    hvd.rank()
  except ValueError as error:
    assert "hvd.init()" in str(error)
  else:
    raise AssertionError("no error")
  hvd.init()
  same(hvd.allreduce(value(rank), op=hvd.Sum), total(size))
  hvd.shutdown()


if __name__ == "__main__":
  comm_job.main(globals())
