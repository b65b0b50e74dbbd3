"""Draws the loss and accuracy of any number of runs of train_digits.py as one HTML page.

  python examples/python/curves.py build/digits/*.json -o build/digits/curves.html

Runs that differ only in their seed have the same colour.
"""

from __future__ import annotations

import argparse
import html
import json
from pathlib import Path

COLOURS = ("#2563a8", "#c2571a", "#2e8540", "#8a3ba8", "#b00020", "#5f6368", "#0f9bb3", "#b59400")
WIDTH, HEIGHT, LEFT, BOTTOM = 460, 300, 46, 28


def label(run: dict) -> str:
  codec = "" if run["codec"] == "none" else f" {run['codec']}"
  return f"{run['backend']}{codec if run['backend'] == 'stretto' else ''}, {run['ranks']} ranks"


def plot(runs: list[dict], what: str, colours: dict[str, str]) -> str:
  values = [v for run in runs for v in run[what]]
  low, high = (0.0, max(values)) if what == "loss" else (min(values), 1.0)
  low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
  epochs = max(len(run[what]) for run in runs)

  def x(i: int) -> float:
    return LEFT + (WIDTH - LEFT - 10) * i / max(epochs - 1, 1)

  def y(v: float) -> float:
    return 10 + (HEIGHT - BOTTOM - 10) * (high - v) / (high - low)

  parts = [f"<figure><figcaption>{what}</figcaption>"
           f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' role='img'>"]
  for k in range(5):
    v = low + (high - low) * k / 4
    parts.append(f"<line x1='{LEFT}' x2='{WIDTH - 10}' y1='{y(v):.1f}' y2='{y(v):.1f}' "
                 f"class='grid'/><text x='{LEFT - 6}' y='{y(v) + 4:.1f}' "
                 f"text-anchor='end'>{v:.2f}</text>")
  for i in range(0, epochs, max(1, epochs // 6)):
    parts.append(f"<text x='{x(i):.1f}' y='{HEIGHT - 8}' text-anchor='middle'>{i + 1}</text>")
  for run in runs:
    points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(run[what]))
    parts.append(f"<polyline points='{points}' stroke='{colours[label(run)]}'>"
                 f"<title>{html.escape(label(run))}, seed {run['seed']}</title></polyline>")
  return "".join(parts) + "</svg></figure>"


def page(runs: list[dict]) -> str:
  names = list(dict.fromkeys(label(run) for run in runs))
  colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
  rows = []
  for name in names:
    mine = [run for run in runs if label(run) == name]
    last = [(run["loss"][-1], run["accuracy"][-1], run["seconds"]) for run in mine]
    loss, accuracy, seconds = (sum(v) / len(mine) for v in zip(*last))
    spread = max(v[1] for v in last) - min(v[1] for v in last)
    square = f"<span style='color:{colours[name]}'>&#9632;</span>"
    cells = [f"{square} {html.escape(name)}", str(len(mine)), f"{loss:.4f}", f"{accuracy:.4f}",
             f"{spread:.4f}", f"{seconds:.1f} s"]
    rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
  return ("<!doctype html><meta charset=utf-8><title>Training curves</title><style>"
          "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}"
          "figure{display:inline-block;margin:0}figcaption{font-weight:600}svg{max-width:100%}"
          "text{font-size:11px;fill:#555}.grid{stroke:#ddd}polyline{fill:none;stroke-width:1.6}"
          "td,th{padding:.25rem .8rem;text-align:right;border-bottom:1px solid #ddd}"
          "td:first-child,th:first-child{text-align:left}</style><h1>Training curves</h1>"
          + plot(runs, "loss", colours) + plot(runs, "accuracy", colours)
          + "<table><tr><th>run</th><th>seeds</th><th>final loss</th><th>final accuracy</th>"
          "<th>spread over seeds</th><th>time</th></tr>" + "".join(rows) + "</table>\n")


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("runs", nargs="+", type=Path, help="JSON files of train_digits.py")
  parser.add_argument("-o", "--out", type=Path, default=Path("curves.html"))
  args = parser.parse_args()
  args.out.write_text(page([json.loads(path.read_text()) for path in args.runs]))
  print(args.out)


if __name__ == "__main__":
  main()
