"""The page of what bench.data measured: loaders side by side, and the loader's promises."""

from __future__ import annotations

import re
import statistics
import textwrap

from bench import data_promises, machine
from stretto.data import _peers as data_loaders

BEGIN, END = "<!-- promises: begin -->\n", "<!-- promises: end -->\n"


def summary(entry: dict) -> tuple[float, float, float]:
  """Median, least and largest rate of the rounds."""
  rates = [r["rate"] for r in entry["rounds"]]
  return statistics.median(rates), min(rates), max(rates)


def ratio(ours: dict, other: dict) -> float:
  """How many times as fast as the other: the median over the pieces in which both were timed."""
  def pieces(entry: dict) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for r in entry["rounds"]:
      found.setdefault(r["piece"], []).append(r["rate"])
    return {piece: statistics.median(rates) for piece, rates in found.items()}

  a, b = pieces(ours), pieces(other)
  return statistics.median([a[piece] / b[piece] for piece in a.keys() & b.keys()])


def table(result: dict) -> list[str]:
  lines = []
  for cores in sorted({int(key.rpartition("/")[2]) for key in result["loaders"]}):
    entries = {row.name: result["loaders"][f"{row.name}/{cores}"] for row in data_loaders.rows()
               if f"{row.name}/{cores}" in result["loaders"]}
    timed = {name: entry for name, entry in entries.items() if entry["rounds"]}
    ours = timed.get("stretto")
    lines += [f"## {cores} core{'s' if cores > 1 else ''}",
              "| loader | pictures/s and core | least to largest round | `stretto` is faster | "
              "mean, largest difference to Pillow | first batch |",
              "|---|---|---|---|---|---|"]
    for name, entry in entries.items():
      if name not in timed:
        lines.append(f"| {name} | left out: {entry.get('failed', 'not timed')} | | | | |")
        continue
      middle, least, most = (rate / cores for rate in summary(entry))
      faster = f"{ratio(ours, entry):.2f}x" if ours else ""
      lines.append(f"| {name} | {middle:,.0f} | {least:,.0f} to {most:,.0f} | {faster} | "
                   f"{entry['mean']:.2f}, {entry['most']:.0f} of 255 | "
                   f"{entry['first_s'] * 1e3:.0f} ms |")
    lines.append("")
  return lines


def between(numbers: list[int]) -> str:
  least, most = min(numbers), max(numbers)
  return f"{least} to {most}" if least < most else f"{most}"


def loaders(result: dict, note: str) -> str:
  names = {key.rpartition("/")[0]: entry for key, entry in result["loaders"].items()}
  versions = [f"- `{row.name}`: {row.about} ({row.package} {names[row.name].get('version', '')})"
              for row in data_loaders.rows() if row.name in names]
  rounds = [len(entry["rounds"]) for entry in result["loaders"].values() if entry["rounds"]]
  about = [
    "Pictures per second that a core reads, decodes, crops at random (RandomResizedCrop, 224x224), "
    "mirrors and normalises to float32, N, C, H, W. Written by `python -m bench.data --page`.",
    f"{machine.name(result['machine'])}, {result['machine']['system']}, Python "
    f"{result['machine']['python']}, {result['date']}. {result['files']} files of 500x375 pixels "
    f"and {result['mean_bytes'] / 1000:.0f} kB, batches of {result['batch']}, medians of "
    f"{between(rounds)} rounds of {result['seconds']:g} s. A ratio is of loaders that "
    "were timed in turns within a minute, the median over such pieces: rates of different pieces "
    f"differ more. {note}".strip(),
    "\"First batch\" is the time from making a loader to its first batch; importing its package is "
    "not in it, and filling a cache is."]
  return "\n".join(["# Loaders of pictures", "",
                    *(textwrap.fill(text, 100) + "\n" for text in about),
                    *table(result), "## What was called", *versions, ""])


def promises(found: dict) -> str:
  """The section of what was promised."""
  first = next(iter(found.values()))
  days = sorted({entry["date"] for entry in found.values()})
  about = (
    "What the loader promises beside its speed, with default arguments (epochs of the memory row "
    "have batches of 64), each measured in a process of its own. Written by `python -m bench.data "
    f"--promises all`. {machine.name(first['machine'])}, {first['machine']['system']}, Python "
    f"{first['machine']['python']}, {' to '.join(sorted({days[0], days[-1]}))}.")
  return "\n".join(["## Promises", "", textwrap.fill(about, 100), "",
                    *data_promises.table(found), ""])


def page(result: dict, note: str, before: str = "") -> str:
  """All of it. What `result` lacks stays as it was `before`."""
  old = re.search(f"{BEGIN}(.*?){END}", before, re.S)
  if "loaders" in result:
    top = loaders(result, note)
  else:
    top = re.sub(f"\n?{BEGIN}.*?{END}", "", before, flags=re.S)
  section = promises(result["promises"]) if "promises" in result else old[1] if old else ""
  return top.rstrip("\n") + "\n" + (f"\n{BEGIN}{section}{END}" if section else "")
