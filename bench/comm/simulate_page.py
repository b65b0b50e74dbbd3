"""Draws what bench.comm.simulate found as one HTML page without other files.

  python -m bench.comm.simulate_page build/simulate.json -o build/simulate.html
  python -m bench.comm.simulate_page build/simulate.json build/alone.json --results
"""

from __future__ import annotations

import argparse
import html
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

from bench.comm import tables

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 540, 330, 64, 34, 12, 28
STYLE = """
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr)); gap: 18px; }
figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: 4px; }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); } polyline { fill: none; stroke-width: 2; }
.chosen { stroke-width: 4; } .guess { stroke-dasharray: 2 4; } .bound { stroke-dasharray: 7 5; }
.key span { margin-right: 16px; white-space: nowrap; } .key i { display: inline-block; width: 18px;
  height: 3px; vertical-align: middle; margin-right: 5px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 14px; }
td, th { padding: 3px 10px; text-align: right; border-bottom: 1px solid var(--line); }
td:nth-child(1), th:nth-child(1), td:nth-child(4), th:nth-child(4) { text-align: left; }
"""

Points = list[tuple[float, float]]


def size_text(count: float) -> str:
  for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
    if count >= scale:
      return f"{count / scale:.{'0f' if count >= 100 * scale else '3g'}} {unit}"
  return f"{count:.0f} B"


def decimal_text(value: float, unit: str) -> str:
  """A power of ten, as axes have them."""
  for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "K"), (1, ""), (1e-3, "m"), (1e-6, "u")):
    if value >= 0.999 * scale and (unit != "s" or scale <= 1):
      return f"{value / scale:.0f} {prefix}{unit}".strip()
  return f"{value:g} {unit}"


def plot(title: str, lines: list[tuple[str, str, Points]], y_text: Callable[[float], str],
         marks: list[tuple[float, str]]) -> str:
  """Lines (class, colour, points) over two logarithmic axes."""
  xs = [x for _, _, points in lines for x, _ in points]
  ys = [y for _, _, points in lines for _, y in points if y > 0]
  if not ys:
    return ""
  x_low, x_high = math.log(min(xs)), math.log(max(max(xs), 2 * min(xs)))
  y_low, y_high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
  y_high = max(y_high, y_low + 1)

  def x_at(x: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(x) - x_low) / (x_high - x_low)

  def y_at(y: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (y_high - math.log10(y)) / (y_high - y_low)

  parts = [f"<figure><figcaption>{html.escape(title)}</figcaption>"
           f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' role='img'>"]
  for power in range(y_low, y_high + 1):
    at = y_at(10.0 ** power)
    parts.append(f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{at:.1f}' y2='{at:.1f}' "
                 f"class='grid'/><text x='{LEFT - 6}' y='{at + 4:.1f}' text-anchor='end'>"
                 f"{html.escape(y_text(10.0 ** power))}</text>")
  for x, text in marks:
    parts.append(f"<text x='{x_at(x):.1f}' y='{HEIGHT - 10}' text-anchor='middle'>"
                 f"{html.escape(text)}</text>")
  for name, colour, points in lines:
    drawn = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in points if y > 0)
    parts.append(f"<polyline class='{name}' stroke='{colour}' points='{drawn}'/>")
  return "".join(parts) + "</svg></figure>"


def colour_of(names: list[str]) -> dict[str, str]:
  return {name: f"var(--c{1 + i % 7})" for i, name in enumerate(names)}  # --c0 is the accent


def time_plot(rows: list[dict], ranks: int, colours: dict[str, str]) -> str:
  mine = [r for r in rows if r["ranks"] == ranks]
  lines: list[tuple[str, str, Points]] = []
  for name, colour in colours.items():
    found = sorted((r for r in mine if r["algorithm"] == name), key=lambda r: r["bytes"])
    guessed = any(r["played_units"] == 0 for r in found)
    points = [(r["bytes"], r["seconds"]) for r in found]
    if points:
      lines.append(("guess" if guessed else "played", colour, points))
  chosen = sorted((r for r in mine if r["chosen"]), key=lambda r: r["bytes"])
  lines.append(("bound", "var(--ink)", [(r["bytes"], r["bound_s"]) for r in chosen]))
  lines.append(("chosen", "var(--accent)", [(r["bytes"], r["seconds"]) for r in chosen]))
  marks = [(r["bytes"], size_text(r["bytes"])) for r in chosen]
  return plot(f"Time of one {mine[0]['kind']}, {ranks} ranks", lines,
              lambda v: decimal_text(v, "s"), marks)


def count_plot(title: str, field: str, rows: list[dict], ranks: int, colours: dict[str, str],
               text: Callable[[float], str], bound: str = "") -> str:
  mine = [r for r in rows if r["ranks"] == ranks]
  lines: list[tuple[str, str, Points]] = []
  for name, colour in colours.items():
    points = sorted((r["bytes"], r[field]) for r in mine if r["algorithm"] == name and r[field])
    if points:
      lines.append(("played", colour, points))
  chosen = sorted((r for r in mine if r["chosen"]), key=lambda r: r["bytes"])
  if bound:
    lines.append(("bound", "var(--ink)", [(r["bytes"], r[bound]) for r in chosen]))
  lines.append(("chosen", "var(--accent)", [(r["bytes"], r[field]) for r in chosen]))
  return plot(f"{title}, {mine[0]['kind']}, {ranks} ranks", lines, text,
              [(r["bytes"], size_text(r["bytes"])) for r in chosen])


def table(head: list[str], rows: list[list[str]]) -> str:
  cells = "".join(f"<th>{html.escape(h)}</th>" for h in head)
  body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in r) + "</tr>" for r in rows)
  return f"<div class='wide'><table><tr>{cells}</tr>{body}</table></div>"


OPERATION_HEAD = ["kind", "ranks", "bytes", "algorithm", "time", "bound", "ratio", "card bytes",
                  "/ bound", "messages", "peers", "units played"]


def operation_row(r: dict) -> list[str]:
  ratio = f"{r['seconds'] / r['bound_s']:.2f}" if r["bound_s"] else "-"
  over = f"{r['card_bytes'] / r['bound_bytes']:.2f}" if r["bound_bytes"] else "-"
  return [r["kind"], str(r["ranks"]), size_text(r["bytes"]),
          ("* " if r["chosen"] else "") + r["algorithm"],
          tables.time_text(r["seconds"]), tables.time_text(r["bound_s"]), ratio,
          size_text(r["card_bytes"]), over,
          *([f"{r['rank_messages']:.0f}", str(r["peers"]), f"{r['played_units']} of {r['units']}"]
            if r["played_units"] else ["-", "-", "estimate"])]


def negotiation_rows(report: dict) -> list[list[str]]:
  return [[str(n["ranks"]), str(n["names"]), f"round {i + 1}", str(r["agreed"]),
           tables.time_text(r["seconds"]), str(r["rank_messages"]), size_text(r["rank_bytes"])]
          for n in report["negotiation"] for i, r in enumerate(n["rounds"])]


def tuning_rows(report: dict) -> list[list[str]]:
  return [[str(t["ranks"]), size_text(t["bytes"]), t["start"], tables.time_text(t["start_s"]),
           t["best"], tables.time_text(t["best_s"]), str(t["steps"]),
           f"{t['best_s'] / t['fastest_s'] - 1:.1%}"] for t in report["tuning"]]


def link_text(report: dict) -> str:
  m = report["link_model"]
  gbit = 8e-9 / m["wire_byte_s"]
  return (f"Link model: {1e6 * m['wire_latency_s']:g} us and {gbit:g} Gbit/s between hosts, "
          f"{1e6 * m['wire_message_s']:g} us per message; inside a host "
          f"{1e6 * m['local_latency_s']:g} us, {1e6 * m['local_message_s']:g} us per message and "
          f"{1e9 * m['local_byte_s']:g} ns per byte; sums {1e9 * m['sum_byte_s']:g} ns per byte.")


def kinds_of(rows: list[dict]) -> list[list[dict]]:
  return [[r for r in rows if r["kind"] == kind] for kind in dict.fromkeys(r["kind"] for r in rows)]


def page(report: dict) -> str:
  from stretto import _stretto
  rows = report["operations"]
  names = list(dict.fromkeys(r["algorithm"] for r in rows))
  colours = colour_of(names)
  key = "".join(f"<span><i style='background:{c}'></i>{html.escape(n)}</span>"
                for n, c in colours.items())
  key += ("<span><i style='background:var(--accent);height:5px'></i>chosen</span>"
          "<span>dashed: bound; dotted: estimate of the cost model for some sizes</span>")
  plots = "".join(
      time_plot(mine, n, colours)
      + count_plot("Bytes through the busiest card", "card_bytes", mine, n, colours,
                   lambda v: decimal_text(v, "B"), "bound_bytes")
      + count_plot("Messages of the busiest rank", "rank_messages", mine, n, colours,
                   lambda v: decimal_text(v, ""))
      for mine in kinds_of(rows) for n in dict.fromkeys(r["ranks"] for r in mine))
  racks = f", {report['hosts_per_rack']} hosts per rack" if report["hosts_per_rack"] else ""
  about = (f"{report['kind']}, {report['ranks_per_host']} ranks per host{racks}, link "
           f"{report['link']}. Schedules, "
           "negotiation and tuning are the engine's code; the network and the processors are a "
           "model, so times are not measurements. Bytes and messages are counted.")
  sections = [
      f"<section><h2>Curves</h2><p class='note key'>{key}</p><div class='plots'>{plots}</div>"
      "</section>",
      "<section><h2>Operations</h2><p class='note'>* the algorithm that the engine chooses. Of "
      "long operations the first units are played, and the rest is inferred from them.</p>"
      + table(OPERATION_HEAD, [operation_row(r) for r in rows]) + "</section>"]
  if report["negotiation"]:
    sections.append(
        "<section><h2>Negotiation of names in any order</h2>"
        + table(["ranks", "names", "", "agreed", "time", "messages per rank", "bytes per rank"],
                negotiation_rows(report)) + "</section>")
  if report["tuning"]:
    sections.append("<section><h2>Tuning of a step, from a bad start</h2>"
                    + table(["ranks", "bytes", "start", "time", "found", "time", "steps",
                             "above the fastest"], tuning_rows(report)) + "</section>")
  return ("<!doctype html><html lang='en'><head><meta charset='utf-8'>"
          "<meta name='viewport' content='width=device-width, initial-scale=1'>"
          f"<title>Simulated collectives</title><style>{_stretto.report_style()}{STYLE}</style>"
          "</head><body><main><header><div class='brand'>Stretto</div>"
          f"<h1>Simulated collectives</h1><p class='headline'>{html.escape(about)}</p>"
          f"<p class='note'>{html.escape(link_text(report))}<br>{html.escape(report['command'])}, "
          f"{report['date'][:10]}, {report['took_s']} s</p></header>"
          + "".join(sections) + "</main></body></html>\n")


# The colours of the report, because an image has no style sheet of its own.
IMAGE_STYLE = """
svg { --soft: #646c77; --line: #e3e4e2; --ink: #1d2126; --accent: #0f7b6c;
  --c1: #3b6fb6; --c2: #c98a1b; --c3: #8a5cb0; --c4: #c2554d; --c5: #5d8f3a; --c6: #3c9db0;
  --c7: #7a7265; font: 12px system-ui, sans-serif; }
text { fill: var(--soft); } .grid { stroke: var(--line); } polyline { fill: none; stroke-width: 2; }
.chosen { stroke-width: 4; } .guess { stroke-dasharray: 2 4; } .bound { stroke-dasharray: 7 5; }
"""


def image(report: dict) -> str:
  """The times of the first kind for all job sizes side by side, as one SVG."""
  rows = kinds_of(report["operations"])[0]
  colours = colour_of(list(dict.fromkeys(r["algorithm"] for r in rows)))
  jobs = list(dict.fromkeys(r["ranks"] for r in rows))
  parts = []
  for i, ranks in enumerate(jobs):
    drawn = re.sub(r".*?(<svg.*</svg>).*", r"\1", time_plot(rows, ranks, colours), flags=re.S)
    parts.append(f"<text x='{i * WIDTH + LEFT}' y='16' style='font-weight:600'>{ranks} ranks</text>"
                 + drawn.replace("<svg ", f"<svg x='{i * WIDTH}' y='20' height='{HEIGHT}' ", 1))
  x = LEFT
  for name, colour in [*colours.items(), ("chosen", "var(--accent)")]:
    wide = 5 if name == "chosen" else 3
    parts.append(f"<rect x='{x}' y='{HEIGHT + 34}' width='18' height='{wide}' fill='{colour}'/>"
                 f"<text x='{x + 24}' y='{HEIGHT + 40}'>{name}</text>")
    x += 44 + 7 * len(name)
  parts.append(f"<text x='{x}' y='{HEIGHT + 40}'>dashed: bound; dotted: has estimates</text>")
  return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH * len(jobs)} "
          f"{HEIGHT + 50}'><style>{IMAGE_STYLE}</style>"
          f"<rect width='100%' height='100%' fill='#ffffff'/>{''.join(parts)}</svg>\n")


def markdown(head: list[str], rows: list[list[str]]) -> str:
  lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
  return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


# What the page of the site has of all kinds but the first.
SHOWN_BYTES = (64 << 10, 16 << 20)


def section(report: dict) -> str:
  chosen = kinds_of([r for r in report["operations"] if r["chosen"]])
  command = re.sub(r" --(json|html) \S+", "", report["command"])
  per_host = report["ranks_per_host"]
  text = [f"`{command}`, {report['date'][:10]}: {chosen[0][0]['kind']}, {per_host} "
          f"rank{'s' if per_host > 1 else ''} per host. {link_text(report)}\n",
          markdown(OPERATION_HEAD[1:],
                   [operation_row(r | {"chosen": False})[1:] for r in chosen[0]])]
  others = [r for rows in chosen[1:] for r in rows if r["bytes"] in SHOWN_BYTES]
  if others:
    text += ["Other collectives, where `bytes` are those of all blocks together:\n",
             markdown(OPERATION_HEAD, [operation_row(r | {"chosen": False}) for r in others])]
  if report["negotiation"]:
    text += ["Names that ranks submit in any order:\n",
             markdown(["ranks", "names", "round", "agreed", "time", "messages per rank",
                       "bytes per rank"],
                      [[*r[:2], r[2].removeprefix("round "), *r[3:]]
                       for r in negotiation_rows(report)])]
  if report["tuning"]:
    text += ["Tuning of a step of one all-reduce, from the smallest unit:\n",
             markdown(["ranks", "bytes", "start", "time", "found", "time", "steps",
                       "above the fastest"],
                      [[r[0], r[1], f"`{r[2]}`", r[3], f"`{r[4]}`", *r[5:]]
                       for r in tuning_rows(report)])]
  return "\n".join(text)


def write_results(reports: list[dict]) -> None:
  root = Path(__file__).resolve().parents[2]
  results = root / "bench/results/simulation.md"
  marks = r"(<!-- simulate: begin[^>]*-->\n).*?(<!-- simulate: end -->)"
  sections = "\n".join(section(r) for r in reports)
  results.write_text(re.sub(marks, lambda m: m[1] + sections + m[2], results.read_text(),
                            flags=re.S))
  (root / "docs/images/simulated.svg").write_text(image(reports[0]))


def main() -> int:
  parser = argparse.ArgumentParser(prog="bench.comm.simulate_page", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("reports", type=Path, nargs="+")
  parser.add_argument("-o", "--out", type=Path, help="the page, of the first report")
  parser.add_argument("--results", action="store_true",
                      help="fill bench/results/simulation.md and draw docs/images/simulated.svg")
  args = parser.parse_args()
  reports = [json.loads(report.read_text()) for report in args.reports]
  if args.out:
    args.out.write_text(page(reports[0]))
  if args.results:
    write_results(reports)
  return 0


if __name__ == "__main__":
  raise SystemExit(main())
