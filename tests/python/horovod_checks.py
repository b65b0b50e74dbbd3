"""The checks of test_comm_torch.py on the Horovod-shaped API (comm_job.py runs them)."""

import random

import comm_job
import stretto.horovod as hvd
import torch
from torch import nn
from torch_checks import batch, close, network, same, total, train, value


def check_aa_init(rank, size):
  hvd.init()
  assert hvd.is_initialized()
  assert (hvd.rank(), hvd.size()) == (rank, size)
  # One host here, unless an environment variable says otherwise.
  assert (hvd.local_rank(), hvd.local_size()) == (rank, size)
  assert (hvd.cross_rank(), hvd.cross_size()) == (0, 1)


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
  for i in range(rank + 1):  # rank 0 has the least to do
    got = hvd.allreduce(torch.ones(4), name=f"uneven {i}", op=hvd.Sum)
    same(got, torch.full((4,), float(size - i)))
  hvd.join()
  same(hvd.allreduce(value(rank), name="after join", op=hvd.Sum), total(size))


def check_zz_shutdown(rank, size):
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
