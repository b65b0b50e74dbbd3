"""Which cores an engine may use, and how much memory and time its process has taken."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cpus() -> list[int]:
  if hasattr(os, "sched_getaffinity"):
    return sorted(os.sched_getaffinity(0))
  return list(range(os.cpu_count() or 1))


def physical_cores() -> list[int]:
  """One logical CPU of each core this process may run on, the highest-numbered core first: the
  lowest tends to serve interrupts."""
  seen, cores = set(), []
  for cpu in usable_cpus():
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    siblings = path.read_text().strip() if path.exists() else str(cpu)
    if siblings not in seen:
      seen.add(siblings)
      cores.append(cpu)
  return cores[::-1]


def stay_on(cpus: list[int]) -> None:
  """Keeps this process on these CPUs, where the system can."""
  if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, cpus)


def status_bytes(key: str, pid: int | str = "self") -> int:
  """A size from /proc/PID/status: VmRSS (now) or VmHWM (peak); 0 where there is none."""
  try:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
      if line.startswith(key + ":"):
        return int(line.split()[1]) * 1024
  except OSError:
    pass
  return 0


def cpu_ms(pid: int) -> float:
  """CPU time all threads of a process have used."""
  total = 0
  for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
    try:
      total += int(path.read_text().split()[0])
    except OSError:  # the thread ended meanwhile
      pass
  return total / 1e6
