"""Fills the measured tables of bench/results/inference.md from what bench.compare wrote.

  python -m bench.compare all --threads 1,2 --tuning off,quick --json build/full.json
  python -m bench.compare all --threads 1,2 --isa avx2 --json build/avx2.json
  python -m bench.results_page build/full.json build/avx2.json

Files may cover different models, thread counts and instruction sets. Times of one run are never
mixed with those of another: where files overlap, the last one's comparison counts.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from bench import summary

PAGE = Path(__file__).parent / "results/inference.md"
MARKS = re.compile(r"(<!-- measured: begin[^>]*-->\n).*?(<!-- measured: end -->)", re.S)


def merge(documents: list[dict]) -> dict[str | None, dict]:
  """Per instruction set cap: "documents", and "groups" (results of one model and thread count, by
  both). ValueError when the files are from different machines."""
  machines = {d["machine"]["cpu"] for d in documents}
  if len(machines) > 1:
    raise ValueError(f"measured on different machines: {', '.join(sorted(machines))}")
  caps: dict[str | None, dict] = {}
  for document in documents:
    cap = caps.setdefault(document["isa"], {"documents": [], "groups": {}})
    cap["documents"].append(document)
    groups: dict[tuple[str, int], list[dict]] = {}
    for result in document["results"]:
      groups.setdefault((result["model"], result["threads"]), []).append(result)
    cap["groups"] |= groups
  return caps


def engines(groups: list[list[dict]]) -> list[str]:
  """Those timed at least once, Stretto's rows first, in the order of the runs."""
  names = dict.fromkeys(r["engine"] for g in groups for r in g if r["status"] == "ok")
  return sorted(names, key=lambda name: not summary.is_ours({"engine": name}))


def table(groups: list[list[dict]], threads: int) -> list[str]:
  chosen = [g for g in groups if g[0]["threads"] == threads]
  names = engines(chosen)
  ours = [name for name in names if summary.is_ours({"engine": name})]
  beyond = {r["engine"] for g in chosen for r in g if summary.is_uncapped(r)}
  titles = ["model", *(n + " \\*" * (n in beyond) for n in names), "best peer",
            *(f"best peer / {name}" for name in ours), *(f"lower fifths / {name}" for name in ours)]
  if beyond:
    titles += [f"best capped peer / {name}" for name in ours]
  lines = [f"{threads} thread{'s' * (threads > 1)}, median ms:", "",
           f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
  columns: dict[int, list[float]] = {}  # by position among the ratios
  for results in chosen:
    times = {r["engine"]: f"{r['median_ms']:.1f}" for r in results if r["status"] == "ok"}
    best = summary.best_peer(results)
    cells = [results[0]["model"], *(times.get(name, "") for name in names),
             best["engine"] if best else ""]
    lines_of = {name: summary.ratio(results, name) for name in ours}
    found = [lines_of[name] and lines_of[name][key] for key in ("ratio", "ratio_of_fifths")
             for name in ours]
    if beyond:
      capped = [summary.ratio(results, name, capped_only=True) for name in ours]
      found += [line and line["ratio"] for line in capped]
    for i, value in enumerate(found):
      if value is not None:
        columns.setdefault(i, []).append(value)
    cells += ["" if value is None else f"{value:.2f}" for value in found]
    lines.append(f"| {' | '.join(cells)} |")
  means = [f"**{summary.geometric_mean(columns[i]):.2f}**" for i in sorted(columns)]
  blank = " |" * (len(titles) - len(means) - 1)
  lines.append(f"| geometric mean |{blank} {' | '.join(means)} |")
  return lines + refusals(chosen)


def refusals(groups: list[list[dict]]) -> list[str]:
  """A line for each model that Stretto did not run, or computed wrongly, and why, without folders
  of the machine it ran on."""
  lines = [f"{r['model']}, {r['engine']}: {r['status']}: {without_folders(r['reason'])}"
           for g in groups for r in g if summary.is_ours(r) and r["status"] != "ok"]
  return ["", *lines] if lines else []


def without_folders(reason: str) -> str:
  return re.sub(r"/\S*/", "", reason)


def quoted(command: str) -> str:
  """As a user would type it, without folders of the machine it ran on."""
  return "`" + re.sub(r" --(models-folder|folder|json|quiet-lock) \S+", "", command) + "`"


def caps_text(groups: list[list[dict]]) -> list[str]:
  """What held every engine below the instruction set, or did not."""
  held: dict[str, set[str | None]] = {}
  for result in (r for g in groups for r in g if r["status"] == "ok"):
    held.setdefault(result["engine"], set()).add(result["cap"]["why"])
  whole = [name for name, whys in held.items() if whys == {None}]
  lines = [f"The cap held for {', '.join(whole)}."]
  for name, whys in held.items():
    for why in sorted(filter(None, whys)):
      lines.append(f"\\* {name}: {why}{'' if None not in whys else ' (for some models)'}.")
  return lines


def section(isa: str | None, documents: list[dict], groups: list[list[dict]]) -> list[str]:
  machine = documents[-1]["machine"]
  peers = {r["engine"]: r["version"] for g in groups for r in g
           if r["status"] == "ok" and not summary.is_ours(r)}
  tunings = {r["engine"]: r["tuning"] for g in groups for r in g if r.get("tuning")}
  native = "AVX-512" if "avx512f" in machine["isa"] else "AVX2"
  cap = f", capped at {isa.upper()}" if isa else ""
  dates = sorted({d["date"][:10] for d in documents})
  searches = [f'{name} with tuning="{tuning}"' for name, tuning in tunings.items()]
  lines = [f"fp32, batch 1, {machine['cpu']} ({native}{cap}), {machine['cores']} cores, "
           f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}; "
           f"{', '.join(f'{name} {version}' for name, version in peers.items())}; "
           f"{', '.join(searches)}.",
           "Engines took turns, outputs were compared first: "
           f"{', '.join(dict.fromkeys(quoted(d['command']) for d in documents))}."]
  if isa:
    lines += caps_text(groups)
  lines.append("")
  for threads in sorted({g[0]["threads"] for g in groups}):
    lines += [*table(groups, threads), ""]
  return lines


def measured(documents: list[dict]) -> str:
  """The text between the marks: full instruction set first, then each cap."""
  lines = []
  caps = merge(documents)
  for isa in sorted(caps, key=lambda isa: isa or ""):
    lines += section(isa, caps[isa]["documents"], list(caps[isa]["groups"].values()))
  return "\n".join(lines)


def main() -> int:
  parser = argparse.ArgumentParser(prog="python -m bench.results_page", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("results", nargs="+", type=Path, help="JSON files of bench.compare")
  parser.add_argument("--page", type=Path, default=PAGE)
  args = parser.parse_args()
  try:
    fill(args.page, measured([json.loads(path.read_text()) for path in args.results]))
  except ValueError as error:
    print(f"results_page: {error}", file=sys.stderr)
    return 1
  return 0


def fill(page: Path, between: str) -> None:
  """Writes the text between the marks of a page. ValueError when it has none."""
  text = page.read_text()
  if not MARKS.search(text):
    raise ValueError(f"{page}: no section between measured marks")
  page.write_text(MARKS.sub(lambda marks: marks[1] + between + marks[2], text))


if __name__ == "__main__":
  sys.exit(main())
