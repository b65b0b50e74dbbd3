"""Runs a training script as ranks of unlike speed, by limits on their processor time.

    stretto run -n 2 -m bench.slowed 1,0.141 examples/cluster/train_unlike.py --shares equal

Rank i gets the i-th part of a processor's time: a rank that has used it up is stopped until more
has come. One that waits for others uses none, so it answers them at once, as a slow chip does. What
Python needs to import large packages is not slowed, so that a short run is a run of the training.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import runpy
import signal
import sys
import time

TICK_S = 0.0005  # between two looks at what a rank has used
# Of processor time, which a rank may save while it waits for others or, where ranks share a core,
# for the core, which the kernel gives to another one for some 3 ms.
MOST_CREDIT_S = 0.004
PR_SET_PDEATHSIG = 1
LIBRARIES = ("stretto.torch", "torch.utils.data", "sklearn.datasets")


def child(script: str, arguments: list[str], parent: int) -> None:
  """Never outlives its parent, which may leave it stopped."""
  ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != parent:
    os._exit(1)
  sys.argv = [script, *arguments]
  sys.path[0] = os.path.dirname(os.path.abspath(script))
  runpy.run_path(script, run_name="__main__")


def hold(pid: int, share: float) -> int:
  """Slows a child until it ends; its exit status. What that takes is taken from other cores."""
  own = os.sched_getaffinity(0)
  with contextlib.suppress(OSError):
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - own or own)

  def end(number: int, frame: object) -> None:
    os.kill(pid, number)
    os.kill(pid, signal.SIGCONT)

  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, end)
  clock = ~pid << 3 | 2  # of a process's threads together, as clock_getcpuclockid() makes it
  credit, used, seen = 0.0, time.clock_gettime(clock), time.perf_counter()
  while True:
    ended, status = os.waitpid(pid, 0 if share >= 1 else os.WNOHANG)
    if ended:
      return os.waitstatus_to_exitcode(status)
    time.sleep(TICK_S)
    now, spent = time.perf_counter(), time.clock_gettime(clock)
    credit = min(MOST_CREDIT_S, credit + share * (now - seen) - (spent - used))
    seen, used = now, spent
    if credit < 0:
      os.kill(pid, signal.SIGSTOP)
      time.sleep(-credit / share)
      os.kill(pid, signal.SIGCONT)


def main() -> None:
  if len(sys.argv) < 3:
    raise SystemExit(__doc__)
  shares = [float(share) for share in sys.argv[1].split(",")]
  rank = int(os.environ.get("RANK", "0"))
  if rank >= len(shares) or not all(0 < share <= 1 for share in shares):
    raise SystemExit(f"bench.slowed: {sys.argv[1]}: expected a part of the time between 0 and 1 "
                     f"for each rank, with commas; this is rank {rank}")
  for name in LIBRARIES:  # before the fork, at full speed
    with contextlib.suppress(ImportError):
      importlib.import_module(name)
  parent = os.getpid()
  pid = os.fork()
  if pid == 0:
    child(sys.argv[2], sys.argv[3:], parent)
    return
  code = hold(pid, shares[rank])
  sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
  main()
