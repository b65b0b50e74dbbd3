"""The checks of test_comm_torch.py on all-reduces that return when they are over: part of the job
of torch_checks.py."""

import os
import signal
import threading
import time
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch_checks import same, total, value

import stretto


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


def let_others_come(rank, size, x, others):
  """To the all-reduce that rank 0 has begun; called by all ranks, there when Ctrl-C has come."""
  if rank == 0:
    dist.send(torch.ones(1), 1)
  elif rank == 1:
    dist.recv(torch.ones(1), 0)
  if rank > 0:
    dist.barrier(others)
    dist.all_reduce(x)
    same(x, total(size))
  dist.barrier()


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
  let_others_come(rank, size, x if rank > 0 else None, others)


class Interrupted:
  """An engine during which Ctrl-C comes when an all-reduce has just begun."""

  def __init__(self, native):
    self.native = native

  def __getattr__(self, name):
    return getattr(self.native, name)

  def all_reduce(self, *arguments):
    assert self.native.all_reduce(*arguments)
    raise KeyboardInterrupt


def check_ctrl_c_when_an_all_reduce_has_begun(rank, size):
  """Before anything in Python knows its handle: the tensor lives as long as the operation."""
  engine, x = dist.group.WORLD.engine, value(rank)
  others = dist.new_group(list(range(1, size)))
  if rank == 0:
    native, engine.native = engine.native, Interrupted(engine.native)
    try:
      dist.all_reduce(x, async_op=True)
    except KeyboardInterrupt:
      memory = weakref.ref(x)
      del x
    finally:
      engine.native = native
    assert memory() is not None
  let_others_come(rank, size, x if rank > 0 else None, others)
  if rank == 0:
    while memory() is not None:  # until the completion thread has seen the end
      time.sleep(0.01)


def check_integers_of_fewer_than_eight_bits(rank, size):
  """PyTorch hands them over as bytes, as which they must not be added."""
  if not hasattr(torch, "uint4"):
    return
  try:
    dist.all_reduce(torch.zeros(4, dtype=torch.uint8).view(torch.uint4))
  except stretto.InvalidArgumentError as error:
    assert "uint4" in str(error)
  else:
    raise AssertionError("bytes were added")
