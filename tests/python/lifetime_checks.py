"""The checks of test_comm_lifetime.py: the c10d backend at its edges. Each check has a process
group of its own (ranks.py says how checks run)."""

import contextlib
import gc
import itertools
import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import ranks
import stretto.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stretto

FOLDER, RANK, SIZE = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

# Guards against hanging for ever, not statements about speed.
LONG_S = 60


@contextlib.contextmanager
def job(name, timeout_s=120):
  dist.init_process_group("stretto", init_method=f"file://{FOLDER}/{name}", rank=RANK,
                          world_size=SIZE, timeout=timedelta(seconds=timeout_s))
  try:
    yield dist.group.WORLD
  finally:
    if dist.is_initialized():
      dist.destroy_process_group()


def network():
  torch.manual_seed(1)
  return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))


def train(model):
  model(torch.randn(4, 6)).sum().backward()


def resources():
  """Descriptors and threads of this process. Linux lists a thread for a moment after it has been
  joined, so the least count of some looks is taken."""
  looks = []
  for _ in range(20):
    looks.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
    time.sleep(0.001)
  return min(fds for fds, _ in looks), min(threads for _, threads in looks)


def rss_bytes():
  return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def outcome_of(call):
  """Runs it on a thread. A function that waits for its end and returns the error, or None."""
  result = []

  def run():
    try:
      call()
      result.append(None)
    except Exception as error:
      result.append(error)

  thread = threading.Thread(target=run, daemon=True)
  thread.start()

  def end():
    thread.join(LONG_S)
    assert not thread.is_alive(), "the thread hangs"
    return result[0]

  return end


def check_destroying_leaves_no_descriptors_and_threads(rank, size):
  kept, counts = [], []
  for cycle in range(20):
    with job(f"cycle {cycle}") as group:
      model = DistributedDataParallel(network())
      if cycle % 2:
        stretto.torch.attach(model)
      train(model)
      work = dist.all_reduce(torch.ones(4), async_op=True)
      kept += [group, model, work]
    counts.append(resources())
  assert counts[-1] == counts[1], counts


def check_destroying_wakes_threads_that_wait(rank, size):
  for how in ("wait", "future"):
    with job(f"waiters {how}") as group:
      store = dist.distributed_c10d._get_default_store()
      dist.monitored_barrier()  # nobody is in a collective when a rank goes
      if rank == 0:
        work = dist.irecv(torch.zeros(4), src=1, tag=5)  # nobody sends
        ends = [outcome_of(work.wait)]
        if how == "wait":
          work = group.allreduce([torch.zeros(4)])  # the others do not come
          ends += [outcome_of(work.wait), outcome_of(work.wait)]
        else:
          future = group.allreduce([torch.zeros(4)]).get_future()
          ends.append(outcome_of(future.wait))
        dist.destroy_process_group()
        for end in ends:
          assert isinstance(end(), stretto.CommError), end()
        store.set("woken", "1")
      else:
        store.wait(["woken"])


def check_destroying_in_a_signal_handler(rank, size):
  with job("signal") as group:
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
      signal.signal(signal.SIGALRM, lambda *_: dist.destroy_process_group())
      other = outcome_of(lambda: group.allreduce([torch.zeros(4)]).wait())
      signal.setitimer(signal.ITIMER_REAL, 0.2)
      try:
        group.allreduce([torch.zeros(4)]).wait()  # the others do not come
      except stretto.CommError as error:
        assert "closed" in str(error), error
      else:
        raise AssertionError("the wait came back")
      assert isinstance(other(), stretto.CommError)
      assert not dist.is_initialized()
      store.set("signal came", "1")
    else:
      store.wait(["signal came"])


def check_destroying_before_horovod_shuts_down(rank, size):
  import stretto.horovod as hvd
  with job("horovod"):
    hvd.init()
    hvd.allreduce(torch.ones(3))
    dist.monitored_barrier()  # without the engine, which the first rank that goes ends
    dist.destroy_process_group()
    hvd.shutdown()
    assert not hvd.is_initialized()


def check_two_threads_wait_for_one_work(rank, size):
  with job("two waiters"):
    for _ in range(50):
      tensor = torch.full((1000,), float(rank))
      work = dist.all_reduce(tensor, async_op=True)
      ends = [outcome_of(work.wait) for _ in range(3)]
      ends.append(outcome_of(lambda: work.get_future().wait()))  # noqa: B023
      for end in ends:
        assert end() is None, end()
      assert (tensor == size * (size - 1) / 2).all()


def check_garbage_collection_while_an_operation_is_queued(rank, size):
  """A Work that dies in the middle of `_queue`, which has a lock, has operations to hand over."""
  with job("garbage") as group:
    gc.disable()
    try:
      target = torch.full((10, 10), float(rank)).t()
      cycle = [dist.all_reduce(target, async_op=True)]
      cycle.append(cycle)
      del cycle
      tensor = torch.ones(4)
      seen = threading.Event()

      def submit():
        gc.collect()
        return group.engine.native.submit(group.group, stretto.comm.ALL_REDUCE, "float32", 0, 4,
                                          tensor.data_ptr(), tensor.data_ptr(), queue=True)

      end = outcome_of(lambda: group.engine._queue(submit, lambda *_: seen.set()))
      assert end() is None, end()
      assert seen.wait(LONG_S)
      dist.barrier()
      while not torch.equal(target, torch.full((10, 10), float(size * (size - 1) // 2))):
        pass  # the results of the dropped Work arrive all the same
    finally:
      gc.enable()


def check_a_forked_child_says_so(rank, size):
  """Forked while the completion thread is busy and operations are under way."""
  with job("fork") as group:
    model = DistributedDataParallel(network())
    attached = stretto.torch.attach(model)
    stop = threading.Event()

    def traffic():
      while True:
        futures = [group.allreduce([torch.ones(200)]).get_future() for _ in range(20)]
        torch.futures.wait_all(futures)
        stops = torch.tensor(float(stop.is_set()))
        dist.all_reduce(stops)
        if stops > 0:
          return

    pair = dist.new_group(list(range(size)))
    busy = outcome_of(traffic)
    waiting = dist.irecv(torch.zeros(4), src=(rank + 1) % size, tag=5, group=pair)
    with_handle = pair.allreduce([torch.ones(4)])
    entries = {
        "collective": lambda: dist.all_reduce(torch.ones(4)),
        "other group": lambda: dist.barrier(group=pair),
        "wait for a recv": waiting.wait,
        "wait for a handle": with_handle.wait,
        "future": with_handle.get_future,
        "new group": lambda: dist.new_group(list(range(size))),
        "statistics": stretto.torch.statistics,
        "NaN": group.engine.non_finite,
        "gradients": lambda: attached.gradients.submit(print, [], "float32", 0, 1),
        "engine": lambda: group.engine.add_group("x", [rank]),
        "abort": group.abort,
        "monitored barrier": lambda: dist.monitored_barrier(timeout=timedelta(seconds=30)),
    }
    for name, call in entries.items():
      answer = ranks.in_child(call)
      assert "before fork()" in answer, f"{name}: {answer}"
    for _ in range(6):  # and nothing to wait for
      assert ranks.in_child(dist.destroy_process_group) == "returned"
    assert dist.is_initialized()
    with_handle.wait()
    stop.set()
    assert busy() is None
    dist.isend(torch.zeros(4), (rank - 1) % size, tag=5, group=pair).wait()
    waiting.wait()


def check_a_group_is_made_again(rank, size):
  with job("again") as group:
    everyone = list(range(size))
    for round_ in range(5):  # the same name each time
      other = dist.new_group(everyone, use_local_synchronization=True)
      tensor = torch.full((10,), float(rank))
      dist.all_reduce(tensor, group=other)
      assert (tensor == size * (size - 1) / 2).all()
      under_way = dist.all_reduce(torch.ones(1000), group=other, async_op=True)
      dist.destroy_process_group(other)
      if round_ % 2:
        under_way.wait()
      try:
        other.allreduce([tensor])
      except stretto.InvalidArgumentError as error:
        assert "destroyed" in str(error), error
      else:
        raise AssertionError("a destroyed group can be used")
    dist.barrier()
    assert group.job._users == {0}
    dist.new_group(everyone)  # removes those whose operations were under way
    assert not group.job._leaving


def check_groups_come_and_go(rank, size):
  """Memory and descriptors do not grow with the number of groups that there have been. With many
  more cycles this is a part of bench.comm.soak."""
  with job("groups"):
    cycles, warm = int(os.environ.get("GROUP_CYCLES", "400")), 100

    def cycle():
      group = dist.new_group(list(range(size)), use_local_synchronization=True)
      tensor = torch.ones(10)
      dist.all_reduce(tensor, group=group)
      dist.destroy_process_group(group)

    def held():
      descriptors, threads = resources()
      return {"descriptors": descriptors, "threads": threads, "memory_kib": rss_bytes() // 1024}

    for _ in range(warm):
      cycle()
    gc.collect()
    began, before, sizes = time.monotonic(), held(), [rss_bytes()]
    for _ in range(3):
      for _ in range(cycles // 3):
        cycle()
      gc.collect()
      sizes.append(rss_bytes())
    # A leak is in every third. The allocator takes some megabytes once, whenever it likes.
    each = min(after - before for before, after in itertools.pairwise(sizes)) / (cycles // 3)
    print(json.dumps({"before": before, "after": held(), "bytes_per_group": round(each),
                      "seconds": round(time.monotonic() - began, 1)}), flush=True)
    end = time.monotonic() + LONG_S  # a store's file may be open for a moment
    while any(held()[name] > before[name] for name in ("descriptors", "threads")):
      assert time.monotonic() < end, (before, held())
    # torch itself keeps about 1 KB per group; a page more or less is noise.
    assert each < 4000, each


def failing_backward(rank, model):
  """Trains until the job fails, which rank 1 does in the third step."""
  for step in range(20):
    if step == 2 and rank == 1:
      dist.group.WORLD.abort()
      return
    try:
      train(model)
    except stretto.CommError as error:
      assert "aborted by rank 1" in str(error), error
      return
  raise AssertionError("the job went on")


def check_backward_raises_the_error_of_the_job(rank, size):
  from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
  for name in ("plain", "attached", "hook"):
    with job(f"backward {name}"):
      model = DistributedDataParallel(network())
      if name == "attached":
        stretto.torch.attach(model)
      elif name == "hook":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
      failing_backward(rank, model)


def check_an_error_of_the_script_stays_what_it_is(rank, size):
  class Broken(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x):
      return x.clone()

    @staticmethod
    def backward(ctx, grad):
      raise RuntimeError("mine")

  with job("own error"):
    try:
      Broken.apply(torch.ones(3, requires_grad=True)).sum().backward()
    except stretto.Error as error:
      raise AssertionError from error
    except RuntimeError as error:
      assert str(error) == "mine"
    dist.barrier()


def check_monitored_barrier(rank, size):
  with job("monitored") as group:
    pair = dist.new_group(list(range(size)))
    for _ in range(3):
      dist.monitored_barrier()
      dist.monitored_barrier(pair, timeout=timedelta(seconds=LONG_S), wait_all_ranks=True)
    last = f"rank {size - 1} did not come" if size == 2 else "ranks 1, 2 did not come"
    for everyone in (False, True):
      if rank == 0:
        try:
          dist.monitored_barrier(timeout=timedelta(seconds=0.3), wait_all_ranks=everyone)
        except stretto.CommError as error:
          assert (last if everyone else "rank 1 did not come") in str(error), error
          assert error.rank == 1
        else:
          raise AssertionError("the others have not come")
    dist.all_reduce(torch.ones(3))  # the group goes on
    if rank > 0:
      try:
        group.monitored_barrier(timedelta(seconds=0.3))  # rank 0 is elsewhere
      except stretto.CommError as error:
        assert "rank 0" in str(error) and error.rank == 0, error
      else:
        raise AssertionError("rank 0 has not come")
    dist.barrier()


def check_debug_detail_reports_a_mismatch(rank, size):
  os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
  dist.set_debug_level_from_env()
  try:
    with job("detail"):
      model = DistributedDataParallel(network())
      train(model)
      dist.new_group(list(range(size)))
      dist.monitored_barrier()  # nobody is in backward when two ranks end the job
      try:
        dist.all_reduce(torch.ones(4 + rank))
      except stretto.CommError as error:
        text = str(error)
        assert "different operations" in text, text
        assert "all_reduce of 4 float32" in text or "all_reduce of 5 float32" in text, text
      else:
        raise AssertionError("shapes differ")
    with job("detail, other operation"):
      try:
        if rank == 0:
          dist.all_reduce(torch.ones(4))
        else:
          dist.broadcast(torch.ones(4), 0)
      except stretto.CommError as error:
        assert "all_reduce of 4" in str(error) and "broadcast of 4" in str(error), error
      else:
        raise AssertionError("operations differ")
  finally:
    del os.environ["TORCH_DISTRIBUTED_DEBUG"]
    dist.set_debug_level_from_env()


def check_the_group_answers_like_one_of_torch(rank, size):
  from torch.distributed import distributed_c10d as c10d
  with job("answers") as group:
    cpu = torch.device("cpu")
    assert group._get_backend(cpu).name() == "stretto"
    try:
      group._get_backend(torch.device("meta"))
    except RuntimeError as error:
      assert "No backend type associated with device type meta" in str(error)
    else:
      raise AssertionError("a backend for meta tensors")
    assert cpu in group._device_types
    assert c10d._get_object_coll_device(group) == "cpu"
    assert "cpu" in c10d._device_capability(group)
    assert dist.get_backend(group) == "stretto"
    assert dist.get_backend_config(group) == "cpu:stretto,cuda:stretto"
    assert dist.get_pg_count() == 1
    assert group.bound_device_id is None
    assert group._get_backend(cpu).options._timeout == timedelta(seconds=120)
    c10d._set_pg_timeout(timedelta(seconds=77), group)
    assert group.timeout_s == 77
    assert group.options._timeout == timedelta(seconds=77)
    c10d._add_ephemeral_timeout_for_all_pgs(timedelta(seconds=1))
    assert c10d._get_process_group_uid(group) == -1
    assert not group._get_backend(cpu).supports_splitting
    work = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, torch.full((2,), float(rank)), (rank + 1) % size),
        dist.P2POp(dist.irecv, got := torch.zeros(2), (rank - 1) % size)])
    for each in work:
      each.wait()
    assert (got == (rank - 1) % size).all()


if __name__ == "__main__":
  torch.set_num_threads(1)
  ranks.run_checks(globals(), FOLDER, RANK, SIZE, sys.argv[4:])
