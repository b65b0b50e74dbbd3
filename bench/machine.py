"""What the numbers were measured on, and which cores an engine may use."""

from __future__ import annotations

import os
import platform
from pathlib import Path

kIsaFlags = ("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")


def cpu_info() -> dict[str, str]:
  fields: dict[str, str] = {}
  try:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
      key, _, value = line.partition(":")
      fields.setdefault(key.strip(), value.strip())
  except OSError:
    pass
  return fields


def describe() -> dict:
  info = cpu_info()
  flags = info.get("flags", "").split()
  return {
      "cpu": info.get("model name", platform.processor()),
      "family_model": f"{info.get('cpu family', '?')}/{info.get('model', '?')}",
      "isa": [flag for flag in kIsaFlags if flag in flags],
      "cores": len(physical_cores()),
      "logical_cpus": len(os.sched_getaffinity(0)),
      "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
      "system": f"{platform.system()} {platform.release()}",
      "python": platform.python_version(),
      "load_average": os.getloadavg()[0],
  }


def physical_cores() -> list[int]:
  """One logical CPU of each core this process may run on, the highest-numbered core first: the
  lowest tends to serve interrupts."""
  seen, cores = set(), []
  for cpu in sorted(os.sched_getaffinity(0)):
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    siblings = path.read_text().strip() if path.exists() else str(cpu)
    if siblings not in seen:
      seen.add(siblings)
      cores.append(cpu)
  return cores[::-1]


def status_mib(pid: int, key: str) -> float:
  """A size from /proc/PID/status: VmRSS (now) or VmHWM (peak)."""
  for line in Path(f"/proc/{pid}/status").read_text().splitlines():
    if line.startswith(key + ":"):
      return int(line.split()[1]) / 1024
  return 0.0


def cpu_ms(pid: int) -> float:
  """CPU time all threads of a process have used."""
  total = 0
  for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
    try:
      total += int(path.read_text().split()[0])
    except OSError:  # the thread ended meanwhile
      pass
  return total / 1e6
