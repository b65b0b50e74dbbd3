"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from stretto.peers._machine import physical_cores, usable_cpus

ISA_FLAGS = ("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")

# Virtual machines often hide a processor's model from its name; family and model are there.
GENERATIONS = {"6/143": "Intel Xeon (Sapphire Rapids)", "6/207": "Intel Xeon (Emerald Rapids)",
               "25/1": "AMD EPYC (Zen 3)", "25/17": "AMD EPYC (Zen 4)",
               "26/2": "AMD EPYC (Zen 5)"}


def name(machine: dict) -> str:
  """Of what `describe` returned."""
  cpu = GENERATIONS.get(machine.get("family_model", ""), machine["cpu"])
  cores = machine["cores"]
  return f"{cpu}, {cores} core{'s' * (cores != 1)}"


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
      "isa": [flag for flag in ISA_FLAGS if flag in flags],
      "cores": len(physical_cores()),
      "logical_cpus": len(usable_cpus()),
      "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
      "system": f"{platform.system()} {platform.release()}",
      "python": platform.python_version(),
      "load_average": os.getloadavg()[0],
  }
