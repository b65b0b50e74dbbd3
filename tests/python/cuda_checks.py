"""The checks of test_comm_cuda.py on streams of a GPU (comm_job.py runs them)."""

import comm_job
import stretto.torch  # noqa: F401  registers the backend
import torch
import torch.distributed as dist

COUNT = 300_000
CYCLES = 20_000_000  # about 10 ms of a GPU: long enough for what comes next to be queued behind it


def check_values_of_a_side_stream(rank, size):
  """What the caller's stream has still to compute counts, on any stream."""
  for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
    x = torch.zeros(COUNT)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
      torch.cuda._sleep(CYCLES)
      x += rank + 1
      dist.all_reduce(x)
      doubled = x * 2
    stream.synchronize()
    assert (doubled == size * (size + 1)).all()


def check_results_come_after_what_is_queued(rank, size):
  """A receiving tensor's last writes may still wait in the caller's stream."""
  stream = torch.cuda.Stream()
  for root in range(size):
    x = torch.full((COUNT,), float(rank))
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
      if rank != root:
        torch.cuda._sleep(CYCLES)
        x.fill_(-1)
      dist.broadcast(x, root)
    stream.synchronize()
    assert (x == root).all(), (root, x)


def check_futures_order_their_stream(rank, size):
  x = torch.full((COUNT,), float(rank + 1))
  future = dist.all_reduce(x, async_op=True).get_future()
  halved = future.then(lambda done: done.value()[0] / 2).wait()
  assert (halved == size * (size + 1) / 4).all()


def check_submitting_does_not_wait_for_the_device(rank, size):
  """The operations are queued while the device computes what they need."""
  x = [torch.full((COUNT,), float(rank)) for _ in range(4)]
  torch.cuda.synchronize()
  done = torch.cuda.Event()
  torch.cuda._sleep(50 * CYCLES)
  for t in x:
    t += 1
  done.record()
  works = [dist.all_reduce(t, async_op=True) for t in x]
  assert not done.query(), "all_reduce(async_op=True) waited for the device"
  for work in works:
    work.wait()
  for t in x:
    assert (t == size * (size + 1) / 2).all()


def check_tensors_of_host_and_device_take_turns(rank, size):
  works, expected = [], size * (size + 1) / 2
  host = [torch.full((100,), float(rank + 1), device="cpu") for _ in range(10)]
  device = [torch.full((100,), float(rank + 1)) for _ in range(10)]
  torch.cuda._sleep(CYCLES)
  for pair in zip(host, device):
    works += [dist.all_reduce(t, async_op=True) for t in pair]
  for work in works:
    work.wait()
  assert all((t == expected).all() for t in host + device)


if __name__ == "__main__":
  comm_job.main(globals())
