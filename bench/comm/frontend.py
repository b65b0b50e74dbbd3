"""What PyTorch's own steps of dist.all_reduce take, without any communication: the least that a
backend which is called through torch.distributed can take.

  python -m bench.comm.frontend

The process group is PyTorch's `fake` one, in C++, which does nothing. Each call is timed back to
back, and after computing, as in the rows with "apart".
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from bench.comm.rank import compute

CALLS = 500


def median_us(before: Callable[[], None], call: Callable[[], object]) -> float:
  times = []
  for _ in range(CALLS):
    before()
    start = time.perf_counter()
    call()
    times.append(time.perf_counter() - start)
  return statistics.median(times) * 1e6


def main() -> None:
  torch.set_num_threads(1)
  dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
  tensor = torch.ones(1)
  for name, call in (("dist.all_reduce of 4 B", lambda: dist.all_reduce(tensor)),
                     ("the clock alone", lambda: None)):
    hot, apart = median_us(lambda: None, call), median_us(compute, call)
    print(f"{name}: {hot:.1f} us back to back, {apart:.1f} us after computing")
  dist.destroy_process_group()


if __name__ == "__main__":
  main()
