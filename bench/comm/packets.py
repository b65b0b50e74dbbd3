"""How many TCP segments and sleeps an all-reduce takes: most of what a small one costs.

  python -m torch.distributed.run --standalone --nproc-per-node=2 bench/comm/packets.py gloo
  STRETTO_TRANSPORTS=tcp python -m torch.distributed.run --standalone --nproc-per-node=2 \\
      bench/comm/packets.py stretto

Counts those of this network namespace and of rank 0, so nothing else may use the network there.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

SIZES = (4, 64, 4096, 65536)  # bytes
OPERATIONS = 200


def segments() -> int:
  """Sent in this namespace so far, by all ranks in it."""
  names, values = [line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines()
                   if line.startswith("Tcp:")]
  return int(values[names.index("OutSegs")])


def sleeps() -> int:
  """Of all threads of this process so far."""
  return sum(int(line.split()[1]) for task in Path("/proc/self/task").iterdir()
             for line in (task / "status").read_text().splitlines()
             if line.startswith("voluntary_ctxt_switches"))


def main() -> None:
  backend = sys.argv[1]
  if backend == "stretto":
    import stretto.torch  # noqa: F401  registers the backend
  torch.set_num_threads(1)
  dist.init_process_group(backend)
  cores = sorted(os.sched_getaffinity(0))
  os.sched_setaffinity(0, {cores[dist.get_rank() % len(cores)]})
  for size in SIZES:
    tensor = torch.ones(size // 4)
    for _ in range(20):
      dist.all_reduce(tensor)
    dist.barrier()
    before, times = (segments(), sleeps()), []
    for _ in range(OPERATIONS):
      start = time.perf_counter()
      dist.all_reduce(tensor)
      times.append(time.perf_counter() - start)
    sent, slept = segments() - before[0], sleeps() - before[1]
    if dist.get_rank() == 0:
      print(f"{size:6} B: {statistics.median(times) * 1e6:6.0f} us, "
            f"{sent / OPERATIONS:5.1f} segments, {slept / OPERATIONS:5.1f} sleeps of rank 0")
  dist.destroy_process_group()


if __name__ == "__main__":
  main()
