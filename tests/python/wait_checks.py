"""The checks of test_comm_torch.py on all-reduces that return when they are over: part of the job
of torch_checks.py."""

import os
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch_checks import same, total, value


def check_work_of_a_call_that_waits(rank, size):
  """It is over when the process group returns, and answers as every Work does."""
  opts = dist.AllreduceOptions()
  opts.asyncOp = False
  for tensor, want in ((value(rank), total(size)), (nn.Parameter(value(rank)), total(size)),
                       (value(rank, (4, 3)).t(), total(size, (4, 3)).t())):
    work = dist.group.WORLD.allreduce([tensor], opts)
    assert work.wait() and work.wait(timedelta(seconds=1))
    assert work.is_completed() and work.is_success() and work.exception() is None
    assert work.result()[0] is tensor
    same(tensor.detach(), want)
    same(work.get_future().then(lambda done: done.value()[0].detach() * 2).wait(), want * 2)


def check_ctrl_c_in_a_call_that_waits(rank, size):
  """The operation goes on, and ends when the other ranks come."""
  job, x = dist.group.WORLD, value(rank)
  others = dist.new_group(list(range(1, size)))
  started = job._sequence

  def interrupt():
    while job._sequence == started:
      time.sleep(0.01)
    time.sleep(0.2)  # in the midst of the wait
    os.kill(os.getpid(), signal.SIGINT)

  if rank == 0:
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
      threading.Thread(target=interrupt).start()
      dist.all_reduce(x)
    except KeyboardInterrupt:
      del x  # its memory lives on
    else:
      raise AssertionError("the call came back")
    finally:
      signal.signal(signal.SIGINT, old)
    dist.send(torch.ones(1), 1)
  elif rank == 1:
    dist.recv(torch.ones(1), 0)
  if rank > 0:
    dist.barrier(others)
    dist.all_reduce(x)
    same(x, total(size))
  dist.barrier()
