"""The checks of test_comm_torch.py on the Horovod-shaped API (comm_job.py runs them)."""

import logging
import os
import random
import sys
import threading
import time

import comm_job
import ranks
import stretto.horovod as hvd
import stretto.torch
import torch
from torch import nn
from torch_checks import same, total, value

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
  in_place = hvd.allreduce_async_(torch.ones(3), name="forked in place")
  for call in (lambda: hvd.synchronize(in_place), lambda: hvd.poll(in_place),
               lambda: hvd.allreduce_async_(torch.ones(3), name="in the child"),
               lambda: hvd.allreduce(torch.ones(3)), hvd.barrier, hvd.join,
               lambda: hvd.synchronize(waiting), lambda: hvd.poll(waiting), hvd.shutdown):
    answer = ranks.in_child(call)
    assert "before fork()" in answer, answer
  assert ranks.in_child(hvd._state.at_exit) == "returned"  # a child that ends like a script
  assert torch.equal(hvd.synchronize(waiting), torch.ones(3))
  assert torch.equal(hvd.synchronize(in_place), torch.ones(3))


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


class Marked(torch.Tensor):
  """A subclass, whose memory the engine must not take for granted."""


def check_in_place_again_and_again(rank, size):
  """Tensors in place have a way of their own from the second time on; results are the same."""
  def tensors():
    yield value(rank, (3, 4))
    yield value(rank, ())
    yield torch.empty(0)
    yield value(rank, (3, 4)).bfloat16()
    yield value(rank, (3, 4)).to(torch.int64)
    yield nn.Parameter(value(rank, (3, 4)), requires_grad=False)
    yield value(rank, (4, 3)).t()  # not contiguous
    yield torch._neg_view(-value(rank, (3, 4)))
    yield value(rank, (3, 4)).as_subclass(Marked)

  for _ in range(3):
    for i, tensor in enumerate(tensors()):
      want = hvd.allreduce(tensor.clone(), name=f"apart {i}", op=hvd.Sum)
      handle = hvd.allreduce_async_(tensor, name=f"again {i}", op=hvd.Sum)
      assert hvd.synchronize(handle) is tensor
      same(tensor, want)
  # Another reduction and another shape under the same name.
  for shape, op in (((5,), hvd.Max), ((5,), hvd.Sum), ((2, 5), hvd.Sum)):
    x = torch.full(shape, float(rank))
    hvd.synchronize(hvd.allreduce_async_(x, name="changes", op=op))
    same(x, torch.full(shape, float(size - 1 if op is hvd.Max else sum(range(size)))))
  x = value(rank)
  hvd.synchronize(hvd.allreduce_async_(x, name=7, op=hvd.Sum))  # a name that is not text
  same(x, total(size))


def check_handles_of_tensors_in_place(rank, size):
  hvd.allreduce_(value(rank), name="warm", op=hvd.Sum)
  for round_ in range(20):  # two threads and one handle
    x = value(rank)
    handle = hvd.allreduce_async_(x, name=f"shared {round_}", op=hvd.Sum)
    results = []
    threads = [threading.Thread(target=lambda h=handle, r=results: r.append(h.wait()))
               for _ in range(2)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    assert len(results) == 2 and all(r is x for r in results), results
    same(x, total(size))
    assert hvd.poll(handle)
  x = value(rank)
  hvd.allreduce_async_(x, name="nobody waits", op=hvd.Sum)
  hvd.barrier()
  end = time.monotonic() + 10
  while not torch.equal(x, total(size)):
    assert time.monotonic() < end, x
    time.sleep(0.01)
  handle = hvd.allreduce_async_(torch.ones(3, dtype=torch.float32 if rank else torch.float64),
                                name="differs", op=hvd.Sum)
  for _ in range(2):  # each time
    raises("'allreduce.differs' differs between ranks", handle.wait)
  assert hvd.poll(handle)


def check_every_thread_that_waits_gets_the_result_or_the_error(rank, size):
  """While others ask whether it is there."""

  def outcome_of(call, handle):
    try:
      return call(handle)
    except Exception as error:
      return str(error)

  def ask(handle):
    while not hvd.poll(handle):
      pass
    return "done"

  usual = sys.getswitchinterval()
  sys.setswitchinterval(1e-6)
  try:
    for round_ in range(120):
      submit = (hvd.allreduce_async, hvd.allreduce_async_)[round_ % 2]
      differs = round_ % 3 == 2
      x = value(rank, (rank + 3,) if differs else (3, 4))
      if rank == 0:  # so that all threads are waiting by then
        time.sleep(0.002)
      handle = submit(x, name=f"crowd {round_}", op=hvd.Sum)
      outcomes = []

      def run(call, handle=handle, outcomes=outcomes):
        outcomes.append(outcome_of(call, handle))

      threads = [threading.Thread(target=run, args=(call,))
                 for call in (ask, hvd.synchronize, hvd.synchronize, ask, hvd.synchronize)]
      for thread in threads:
        thread.start()
      for thread in threads:
        thread.join()
      waited = [o for o in outcomes if not isinstance(o, str) or o != "done"]
      assert len(waited) == 3, (round_, outcomes)
      if differs:
        assert waited[0] == waited[1] == waited[2] and "differs between" in waited[0], waited
      else:
        assert waited[0] is waited[1] is waited[2], (round_, waited)
        same(waited[0], total(size))
  finally:
    sys.setswitchinterval(usual)


def check_operations_that_nobody_waits_for_do_not_pile_up(rank, size):
  abandoned = hvd._state.job().everyone.abandoned
  hvd.barrier()
  for i in range(1000):
    submit = (hvd.allreduce_async, hvd.allreduce_async_)[i % 2]
    submit(value(rank), name=f"left {i % 100}", op=hvd.Sum)
    if i % 50 == 49:
      hvd.barrier()
  assert len(abandoned) < 300, len(abandoned)


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


def check_join(rank, size):
  for _ in range(2):
    for i in range(rank + 1):  # rank 0 has the least to do
      got = hvd.allreduce(torch.ones(4), name=f"uneven {i}", op=hvd.Sum)
      same(got, torch.full((4,), float(size - i)))
    assert hvd.join() == size - 1
    same(hvd.allreduce(value(rank), name="after join", op=hvd.Sum), total(size))


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
  import horovod_optimizer_checks  # it imports this file, as a module
  comm_job.main(vars(horovod_optimizer_checks) | globals())
