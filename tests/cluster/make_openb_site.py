"""Writes examples/cluster/openb.toml, the site of Alibaba's GPU trace, from its list of nodes.

    python tests/cluster/make_openb_site.py
"""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NODES = ROOT / "tests/cluster/traces/openb_node_list_gpu_node.csv"
SITE = ROOT / "examples/cluster/openb.toml"
PREFIX = "openb-node-"
HEAD = """\
# The 1,213 nodes with GPUs of Alibaba's trace "openb" (2023), 6,212 GPUs, for stretto cluster
# simulate. Nodes that are alike are one set. Written by tests/cluster/make_openb_site.py from
# tests/cluster/traces/openb_node_list_gpu_node.csv; change that script, not this file.
name = "openb"
"""
TAIL = """
[preemption]
mode = "off"
"""


def names_of(numbers: list[str]) -> str:
    """Numbers with zeros in front, in Slurm's form: openb-node-[0003-0010,0012]."""
    parts = []
    for _, run in groupby(enumerate(numbers), lambda entry: int(entry[1]) - entry[0]):
        together = [number for _, number in run]
        parts.append(together[0] if len(together) == 1 else f"{together[0]}-{together[-1]}")
    return f"{PREFIX}[{','.join(parts)}]"


def text() -> str:
    sets: dict[tuple[str, ...], list[str]] = {}
    with open(NODES, newline="") as file:
        for row in csv.DictReader(file):
            kind = (row["model"], row["gpu"], row["cpu_milli"], row["memory_mib"])
            sets.setdefault(kind, []).append(row["sn"].removeprefix(PREFIX))
    written = HEAD
    for (model, chips, cores, memory), numbers in sets.items():
        written += (
            f'\n[[nodes]]\nnames = "{names_of(sorted(numbers))}"\nchip = "{model}"\n'
            f"chips = {chips}\ncores = {int(cores) // 1000}\nmemory_gb = {int(memory) // 1024}\n"
        )
    return written + TAIL


if __name__ == "__main__":
    SITE.write_text(text())
