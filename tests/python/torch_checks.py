"""The checks of test_comm_torch.py on the c10d backend (comm_job.py runs them)."""

from datetime import timedelta

import comm_job
import numpy as np
import stretto.torch
import torch
import torch.distributed as dist
from stretto.torch import SyncBatchNorm
from torch import nn

SEED = 5


def value(rank, shape=(3, 4), dtype=torch.float32):
  """Small integers: sums are exact in every type."""
  count = int(np.prod(shape))
  return (torch.arange(count) % 7 + rank).reshape(shape).to(dtype)


def total(size, shape=(3, 4), dtype=torch.float32):
  return sum(value(r, shape, torch.float64) for r in range(size)).to(dtype)


def same(got, want):
  torch.testing.assert_close(got, want, rtol=0, atol=0)


def check_all_reduce_types(rank, size):
  for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
                torch.uint8, torch.int16, torch.int32, torch.int64):
    x = value(rank, dtype=dtype)
    dist.all_reduce(x)
    same(x, total(size, dtype=dtype))


def check_all_reduce_operations(rank, size):
  for op, combine in ((dist.ReduceOp.MIN, torch.minimum), (dist.ReduceOp.MAX, torch.maximum),
                      (dist.ReduceOp.PRODUCT, torch.mul)):
    x = value(rank)
    dist.all_reduce(x, op)
    want = value(0)
    for r in range(1, size):
      want = combine(want, value(r))
    same(x, want)
  x = value(rank)
  dist.all_reduce(x, dist.ReduceOp.AVG)
  torch.testing.assert_close(x, total(size) / size)
  for op, combine in ((dist.ReduceOp.BAND, torch.bitwise_and),
                      (dist.ReduceOp.BOR, torch.bitwise_or)):
    x = value(rank, dtype=torch.int32)
    dist.all_reduce(x, op)
    want = value(0, dtype=torch.int32)
    for r in range(1, size):
      want = combine(want, value(r, dtype=torch.int32))
    same(x, want)


def check_shapes(rank, size):
  transposed = value(rank, (5, 6)).t()
  dist.all_reduce(transposed)
  same(transposed, total(size, (5, 6)).t())
  strided = torch.zeros(10)
  strided[::2] = value(rank, (5,))
  dist.all_reduce(strided[::2])
  same(strided[::2], total(size, (5,)))
  same(strided[1::2], torch.zeros(5))
  empty = torch.empty(0)
  dist.all_reduce(empty)
  scalar = torch.tensor(float(rank))
  dist.all_reduce(scalar)
  same(scalar, torch.tensor(float(size * (size - 1) // 2)))
  complex_ = torch.full((4,), complex(rank, 1))
  dist.all_reduce(complex_)
  same(complex_, torch.full((4,), complex(size * (size - 1) / 2, size)))
  negated = torch.tensor([complex(0, -rank)]).conj().imag  # a view whose memory holds -rank
  assert negated.is_neg() and negated.is_contiguous()
  dist.all_reduce(negated, dist.ReduceOp.MAX)
  same(negated, torch.tensor([size - 1.0]))


def check_large_and_many(rank, size):
  big = value(rank, (300_001,))
  works = [dist.all_reduce(big, async_op=True)]
  small = [value(rank, (n % 13,)) for n in range(100)]
  works += [dist.all_reduce(t, async_op=True) for t in small]
  for work in works:
    work.wait()
  same(big, total(size, (300_001,)))
  for n, t in enumerate(small):
    same(t, total(size, (n % 13,)))


def check_broadcast_and_reduce(rank, size):
  for root in range(size):
    x = value(rank)
    dist.broadcast(x, root)
    same(x, value(root))
    x = value(rank, (4, 3)).t()
    dist.broadcast(x, root)
    same(x, value(root, (4, 3)).t())
    x = value(rank)
    dist.reduce(x, root)
    same(x, total(size) if rank == root else value(rank))


def check_gathers(rank, size):
  outputs = [torch.empty(3, 4) for _ in range(size)]
  dist.all_gather(outputs, value(rank))
  for r, output in enumerate(outputs):
    same(output, value(r))
  flat = torch.empty(3 * size, 4)
  dist.all_gather_into_tensor(flat, value(rank))
  same(flat, torch.cat([value(r) for r in range(size)]))
  ragged = [torch.empty(r + 1) for r in range(size)]
  dist.all_gather(ragged, value(rank, (rank + 1,)))
  for r, output in enumerate(ragged):
    same(output, value(r, (r + 1,)))
  for root in range(size):
    outputs = [torch.empty(3, 4) for _ in range(size)] if rank == root else None
    dist.gather(value(rank), outputs, root)
    for r, output in enumerate(outputs or []):
      same(output, value(r))


def check_scatters(rank, size):
  for root in range(size):
    output = torch.empty(3, 4)
    dist.scatter(output, [value(r + root) for r in range(size)] if rank == root else None, root)
    same(output, value(rank + root))
  output = torch.empty(3, 4)
  dist.reduce_scatter(output, [value(rank + part) for part in range(size)])
  same(output, sum(value(r + rank) for r in range(size)))
  dist.reduce_scatter_tensor(output, torch.cat([value(rank + part) for part in range(size)]))
  same(output, sum(value(r + rank) for r in range(size)))


def check_all_to_all(rank, size):
  output = torch.empty(size, 4)
  dist.all_to_all_single(output, torch.stack([value(10 * rank + r, (4,)) for r in range(size)]))
  same(output, torch.stack([value(10 * r + rank, (4,)) for r in range(size)]))
  # Rank r sends r + 1 rows to everyone.
  output = torch.empty(size * (size + 1) // 2, 2)
  dist.all_to_all_single(output, torch.full(((rank + 1) * size, 2), float(rank)),
                         [r + 1 for r in range(size)], [rank + 1] * size)
  same(output, torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)]))
  outputs = [torch.empty(r + 1) for r in range(size)]
  dist.all_to_all(outputs, [value(rank, (rank + 1,)) for _ in range(size)])
  for r, got in enumerate(outputs):
    same(got, value(r, (r + 1,)))


def check_autograd_functions(rank, size):
  """torch.distributed.nn: collectives through which gradients flow."""
  from torch.distributed.nn import functional
  x = value(rank).requires_grad_()
  reduced = functional.all_reduce(x)
  (reduced * (rank + 1)).sum().backward()
  same(reduced.detach(), total(size))
  same(x.grad, torch.full((3, 4), float(size * (size + 1) // 2)))
  # Rank r sends r + 1 rows to everyone; the gradient of a row comes back from where it went.
  x = torch.full(((rank + 1) * size, 2), float(rank), requires_grad=True)
  output = functional.all_to_all_single(torch.empty(size * (size + 1) // 2, 2), x,
                                        [r + 1 for r in range(size)], [rank + 1] * size)
  (output * (rank + 1)).sum().backward()
  same(output.detach(), torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)]))
  same(x.grad, torch.cat([torch.full((rank + 1, 2), r + 1.0) for r in range(size)]))
  x = value(rank).requires_grad_()
  gathered = functional.all_gather(x)
  sum((r + 1) * (rank + 1) * part.sum() for r, part in enumerate(gathered)).backward()
  for r, part in enumerate(gathered):
    same(part.detach(), value(r))
  same(x.grad, torch.full((3, 4), (rank + 1.0) * (size * (size + 1) // 2)))
  x = torch.cat([value(rank + part) for part in range(size)]).requires_grad_()
  output = functional.reduce_scatter(torch.empty(3, 4), list(x.chunk(size)))
  (output * (rank + 1)).sum().backward()
  same(output.detach(), sum(value(r + rank) for r in range(size)))
  same(x.grad, torch.cat([torch.full((3, 4), r + 1.0) for r in range(size)]))


def check_point_to_point(rank, size):
  after, before = (rank + 1) % size, (rank - 1) % size
  got = torch.empty(3, 4)
  works = [dist.isend(value(rank), after), dist.irecv(got, before)]
  for work in works:
    work.wait()
  same(got, value(before))
  two = [torch.empty(2), torch.empty(2)]
  works = [dist.isend(torch.full((2,), 1.0), after, tag=1),
           dist.isend(torch.full((2,), 2.0), after, tag=2),
           dist.irecv(two[1], before, tag=2), dist.irecv(two[0], before, tag=1)]
  for work in works:
    work.wait()
  same(two[0], torch.full((2,), 1.0))
  same(two[1], torch.full((2,), 2.0))


def check_recv_from_anyone_says_from_whom(rank, size):
  got = torch.zeros(3)
  if rank:
    dist.send(torch.full((3,), 100.0 + rank), 0, tag=9)
  else:
    sources = set()
    for _ in range(size - 1):
      source = dist.recv(got, tag=9)
      assert (got == 100 + source).all(), (got, source)
      sources.add(source)
    assert sources == set(range(1, size)), sources
  group = dist.new_group([size - 2, size - 1])  # torch wants the rank of the job, not the group's
  if rank == size - 1:
    dist.send(torch.full((3,), 7.0), size - 2, group=group)
  elif rank == size - 2:
    assert dist.recv(got, group=group) == size - 1 and (got == 7).all()
  dist.barrier()


def check_objects(rank, size):
  gathered = [None] * size
  dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank * 100})
  assert [g["rank"] for g in gathered] == list(range(size))
  shared = [{"from": rank}, rank]
  dist.broadcast_object_list(shared, src=size - 1)
  assert shared == [{"from": size - 1}, size - 1]
  got = [None]
  dist.scatter_object_list(got, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0)
  assert got == [f"for {rank}"]


def check_powersgd_hook_of_torch(rank, size):
  from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
  model = nn.parallel.DistributedDataParallel(network())
  model.register_comm_hook(
      powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2),
      powerSGD_hook.powerSGD_hook)
  parameters = train(model, rank, size)
  for parameter in parameters:
    first = parameter.clone()
    dist.broadcast(first, 0)
    same(parameter, first)


def check_groups(rank, size):
  pair = dist.new_group([0, 1])
  x = value(rank)
  if rank < 2:
    dist.all_reduce(x, group=pair)
    same(x, total(2))
    assert dist.get_world_size(pair) == 2
  turned = dist.new_group(list(range(size)))
  x = value(rank)
  dist.broadcast(x, size - 1, group=turned)
  same(x, value(size - 1))
  dist.barrier()


def check_coalesced(rank, size):
  with dist._coalescing_manager(group=dist.group.WORLD, async_ops=False):
    a, b = value(rank), value(rank, (7,))
    dist.all_reduce(a)
    dist.all_reduce(b)
  same(a, total(size))
  same(b, total(size, (7,)))
  a, b = value(rank), value(rank, (7,))
  gathered = [[torch.empty(3, 4), torch.empty(7)] for _ in range(size)]
  dist.all_gather_coalesced(gathered, [a, b])
  for r, (first, second) in enumerate(gathered):
    same(first, value(r))
    same(second, value(r, (7,)))


def network():
  torch.manual_seed(SEED)
  return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(),
                       nn.Linear(16, 3))


def batch(step, rank, size, rows=4):
  """This rank's rows of the step's batch, and the whole of it."""
  generator = comm_job.generator(100 + step)
  x, y = torch.randn(rows * size, 6, generator=generator), None
  y = x[:, :3].sin()
  mine = slice(rank * rows, (rank + 1) * rows)
  return (x[mine], y[mine]), (x, y)


def train(model, rank, size, steps=4, whole=False, optimizer=None):
  optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
  for step in range(steps):
    mine, everything = batch(step, rank, size)
    x, y = everything if whole else mine
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
  return [p.detach().clone() for p in model.parameters()]


def close(got, want, tolerance=1e-5):
  """Sums in another order: a few roundings of fp32, grown over four steps."""
  for a, b in zip(got, want):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def check_ddp(rank, size):
  want = train(network(), rank, size, whole=True)
  for options in ({}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 0.0005},
                  {"find_unused_parameters": True}):
    model = nn.parallel.DistributedDataParallel(network(), **options)
    close(train(model, rank, size), want)


def check_ddp_hooks(rank, size):
  from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
  want = train(network(), rank, size, whole=True)
  model = nn.parallel.DistributedDataParallel(network())
  model.register_comm_hook(None, default_hooks.fp16_compress_hook)
  close(train(model, rank, size), want, 1e-2)  # fp16 gradients
  model = nn.parallel.DistributedDataParallel(network())
  stretto.torch.attach(model)
  close(train(model, rank, size), want)


def check_compiled(rank, size):
  """DDP broadcasts buffers in compiled forward passes: C++ calls the group amid torch.compile."""
  want = train(network(), rank, size, whole=True)
  model = nn.parallel.DistributedDataParallel(network())
  close(train(torch.compile(model, backend="eager"), rank, size), want)
  model = nn.parallel.DistributedDataParallel(nn.Sequential(network(), nn.BatchNorm1d(3)))
  for _ in range(2):
    torch.compile(model, backend="eager")(batch(0, rank, size)[0][0]).sum().backward()


def check_codec(rank, size):
  want = train(network(), rank, size, whole=True)
  model = nn.parallel.DistributedDataParallel(network())
  stretto.torch.attach(model, codec="fp16")
  close(train(model, rank, size), want, 1e-2)


def check_dropped_work(rank, size):
  """Nobody waits for it, and it is done all the same."""
  x = torch.zeros(8)
  dist.all_reduce(x[::2].add_(rank + 1), async_op=True)
  y = torch.full((10, 10), float(rank)).t()
  dist.all_reduce(y, async_op=True)
  dist.barrier()
  while not torch.equal(y, torch.full((10, 10), float(size * (size - 1) // 2))):
    pass  # the check's own time limit


def check_zero_redundancy(rank, size):
  from torch.distributed.optim import ZeroRedundancyOptimizer
  want = train(network(), rank, size, whole=True)
  model = nn.parallel.DistributedDataParallel(network())
  optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
  close(train(model, rank, size, optimizer=optimizer), want)


def check_fsdp(rank, size):
  from torch.distributed.fsdp import FullyShardedDataParallel
  want = train(network(), rank, size, whole=True)
  model = FullyShardedDataParallel(network(), device_id=torch.get_default_device())
  train(model, rank, size)
  with FullyShardedDataParallel.summon_full_params(model):
    close([p.detach().clone() for p in model.parameters()],
          [torch.cat([w.flatten() for w in want])] if len(list(model.parameters())) == 1 else want)


def check_fsdp2(rank, size):
  from torch.distributed.device_mesh import init_device_mesh
  try:
    from torch.distributed.fsdp import fully_shard
  except ImportError:
    return
  want = train(network(), rank, size, whole=True)
  model = network()
  fully_shard(model, mesh=init_device_mesh(torch.get_default_device().type, (size,)))
  train(model, rank, size)
  close([p.full_tensor() for p in model.parameters()], want)


def check_dtensor(rank, size):
  from torch.distributed.device_mesh import init_device_mesh
  from torch.distributed.tensor import Replicate, Shard, distribute_tensor
  mesh = init_device_mesh(torch.get_default_device().type, (size,))
  whole = value(0, (2 * size, 3))
  sharded = distribute_tensor(whole, mesh, [Shard(0)])
  same(sharded.to_local(), whole.chunk(size)[rank])
  same(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)


def check_sync_batch_norm(rank, size):
  torch.manual_seed(SEED)
  whole = torch.randn(6 * size, 5, 4, 4)
  reference = nn.BatchNorm2d(5)
  synced = SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(5)))
  assert isinstance(synced[0], SyncBatchNorm)
  mine = whole[6 * rank:6 * rank + 6].clone().requires_grad_()
  everything = whole.clone().requires_grad_()
  weights = torch.linspace(1, 2, everything.numel()).reshape(everything.shape)
  want = reference(everything)
  (want * weights).sum().backward()
  got = synced(mine)
  (got * weights[6 * rank:6 * rank + 6]).sum().backward()
  part = slice(6 * rank, 6 * rank + 6)
  close([got, mine.grad, synced[0].running_mean, synced[0].running_var],
        [want[part], everything.grad[part], reference.running_mean, reference.running_var], 1e-4)
  grads = [p.grad.clone() for p in synced.parameters()]
  for grad in grads:
    dist.all_reduce(grad)
  close(grads, [p.grad for p in reference.parameters()], 1e-3)


def check_bad_calls(rank, size):
  for call, words in (
      (lambda: dist.all_gather_into_tensor(torch.empty(5), torch.empty(3)), "do not make"),
      (lambda: dist.all_reduce(torch.eye(3).to_sparse()), "sparse"),
      (lambda: dist.all_reduce(torch.ones(2), dist._make_nccl_premul_sum(2.0)), "PREMUL_SUM"),
      (lambda: dist.all_gather([torch.empty(3)] * size, torch.empty(2)), "has 3 torch.float32"),
      (lambda: dist.reduce_scatter(torch.empty(2), [torch.empty(3)] * size),
       "has 3 torch.float32"),
      (lambda: dist.reduce_scatter_tensor(torch.empty(2),
                                          torch.empty(2 * size, dtype=torch.float64)),
       "the input is of torch.float64")):
    try:
      call()
    except (ValueError, RuntimeError, TypeError) as error:
      assert words in str(error) or size == 1, error
    else:
      raise AssertionError(f"no error with '{words}'")
  dist.barrier()


def check_lists_of_the_root_are_checked(rank, size):
  """Each rank alone, in a group of its own: the others have nothing to say about it."""
  alone = [dist.new_group([r]) for r in range(size)][rank]
  for call, words in (
      (lambda: dist.scatter(torch.empty(2), [torch.empty(3)], rank, alone), "has 3 torch.float32"),
      (lambda: dist.scatter(torch.empty(2), [torch.empty(2)] * 2, rank, alone),
       "2 inputs for 1 ranks"),
      (lambda: dist.gather(torch.empty(2), [torch.empty(3)], rank, alone), "has 3 torch.float32"),
      (lambda: dist.gather(torch.empty(2), [torch.empty(2)] * 2, rank, alone),
       "2 outputs for 1 ranks")):
    try:
      call()
    except ValueError as error:
      assert words in str(error), error
    else:
      raise AssertionError(f"no error with '{words}'")


def check_statistics(rank, size):
  assert stretto.torch.statistics()["operations"] > 100


# Ends the job's engine, so it comes last.
def check_zz_timeout(rank, size):
  job = dist.group.WORLD
  if rank == 0:
    x = torch.zeros(4)
    work = dist.irecv(x, src=1, tag=77)  # nobody sends
    try:
      work.wait(timedelta(seconds=1))
    except stretto.torch.CommError as error:
      assert str(error) == ("rank 0: recv in group 'world' did not finish within 1 s; "
                            "it waits for rank 1"), error
    else:
      raise AssertionError("the wait came back")
  else:
    try:
      dist.all_reduce(torch.zeros(3))
    except stretto.torch.CommError:
      pass
    else:
      raise AssertionError("the job went on")
  del job


if __name__ == "__main__":
  import future_checks  # these import this file, as a module
  import nan_checks
  import segment_checks
  import wait_checks
  comm_job.main(vars(future_checks) | vars(nan_checks) | vars(segment_checks) |
                vars(wait_checks) | globals())
