"""The checks of test_comm_torch.py on futures and their callbacks: part of the job of
torch_checks.py."""

import threading

import torch
import torch.distributed as dist
from torch_checks import same, total, value


def check_futures(rank, size):
  x = value(rank)
  future = dist.all_reduce(x, async_op=True).get_future()
  doubled = future.then(lambda done: done.value()[0] * 2)
  same(doubled.wait(), total(size) * 2)


def check_a_callback_waits_for_another_operation(rank, size):
  """As torch's PowerSGD and quantization hooks do."""
  def again(done):
    work = dist.all_reduce(done.value()[0], async_op=True)
    return work.get_future().wait()[0] + 1

  def over_work(done):
    work = dist.all_reduce(done.value()[0], async_op=True)
    work.get_future()
    work.wait()
    return work.result()[0] + 2

  x = value(rank)
  later = dist.all_reduce(value(rank), async_op=True).get_future()  # behind it
  for callback, more in ((again, 1), (over_work, 2)):
    future = dist.all_reduce(x.copy_(value(rank)), async_op=True).get_future()
    same(future.then(callback).wait(), size * total(size) + more)
  same(later.wait()[0], total(size))


def check_a_callback_waits_for_what_is_made_of_another_future(rank, size):
  """Gloo's second thread ends such an operation."""
  def start():
    return dist.all_reduce(value(rank), group=group, async_op=True).get_future()

  def child():
    return start().then(lambda done: done.value()[0] * 2).wait()

  def grandchild():
    first = start().then(lambda done: done.value()[0] * 3)
    return first.then(lambda done: done.value() - total(size)).wait()

  def collected():
    done = torch.futures.collect_all([start(), start()]).wait()
    return sum(future.value()[0] for future in done)

  def waited_for_all():
    return sum(values[0] for values in torch.futures.wait_all([start(), start()]))

  def set_by_another_callback():
    mine = torch.futures.Future()
    start().add_done_callback(lambda done: mine.set_result(done.value()[0] * 2))
    return mine.wait()

  for backend in ("gloo", "stretto"):
    if backend == "gloo" and torch.get_default_device().type != "cpu":
      continue
    group = dist.new_group(backend=backend)
    for wait in (child, grandchild, collected, waited_for_all, set_by_another_callback):
      same(start().then(lambda done, wait=wait: wait()).wait(), 2 * total(size))
    dist.destroy_process_group(group)
    # Here and not with the last callback: that one's thread is Gloo's, which would wait for itself.
    group = None


def check_a_callback_is_the_last_that_holds_its_group(rank, size):
  """Gloo ends the program then."""
  for _ in range(20):
    group = dist.new_group(backend="stretto")
    future = dist.all_reduce(value(rank), group=group, async_op=True).get_future()
    later = future.then(lambda done, group=group: done.value()[0] * group.size())
    dist.destroy_process_group(group)
    del group
    same(later.wait(), total(size) * size)


def check_callbacks_wait_in_callbacks_that_wait(rank, size):
  """To any depth, which Gloo's two threads do not."""
  def deeper(levels):
    def callback(done):
      got = done.value()[0]
      if levels == 0:
        return got
      future = dist.all_reduce(value(rank), async_op=True).get_future()
      return future.then(deeper(levels - 1)).wait() + got
    return callback

  future = dist.all_reduce(value(rank), async_op=True).get_future()
  same(future.then(deeper(10)).wait(), 11 * total(size))


def check_many_callbacks_wait_at_a_time(rank, size):
  """One that waits does not begin the others, whose depth would have no limit."""
  count, left, right = 300, (rank - 1) % size, (rank + 1) % size

  def then_receive(tag):
    def callback(done):
      got = torch.empty(3, 4)
      future = dist.irecv(got, left, tag=count + tag).get_future()
      dist.isend(done.value()[0] + 1, right, tag=count + tag)
      return future.then(lambda done: done.value()[0] + 1).wait()
    return callback

  parts = [torch.empty(3, 4) for _ in range(count)]
  futures = [dist.irecv(part, left, tag=tag).get_future().then(then_receive(tag))
             for tag, part in enumerate(parts)]
  for tag in range(count):
    dist.isend(value(rank), right, tag=tag)
  for future in futures:
    same(future.wait(), value((rank - 2) % size) + 2)
  dist.barrier()


def check_a_callback_waits_for_another_thread(rank, size):
  """A future of the user's, which no operation ends."""
  mine = torch.futures.Future()
  setter = threading.Timer(0.05, lambda: mine.set_result(1))
  setter.start()  # first, for the callback runs in this thread if the operation is over
  future = dist.all_reduce(value(rank), async_op=True).get_future()
  same(future.then(lambda done: mine.wait() + done.value()[0]).wait(), total(size) + 1)
  setter.join()
