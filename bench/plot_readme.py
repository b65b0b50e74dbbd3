"""Draws the README's charts from the tables in bench/results.

  python -m bench.plot_readme            writes docs/images/inference.svg and gradients.svg

A row per model or case, a dot per engine: how many times longer than Stretto it takes.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS, IMAGES = ROOT / "bench/results", ROOT / "docs/images"
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
COLORS = {"onnxruntime": "#1f6fb4", "openvino": "#7a3fb0", "ncnn": "#c26a00", "mnn": "#8a8a00",
          "torch": "#c2314a", "gloo": "#1f6fb4", "openmpi": "#c26a00"}
# What people call the engines and models of the tables.
ENGINES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "ncnn": "ncnn", "mnn": "MNN",
           "torch": "PyTorch", "gloo": "Gloo", "openmpi": "Open MPI"}
MODELS = {"resnet50": "ResNet-50", "resnext50_32x4d": "ResNeXt-50", "resnest50": "ResNeSt-50",
          "centernet_resnet18": "CenterNet ResNet-18", "unet": "U-Net",
          "mobilenet_v2": "MobileNet-v2", "efficientnet_b0": "EfficientNet-B0",
          "vit_b_16": "ViT-B/16", "bert_base": "BERT-base"}
# The cases that are drawn, and what the chart calls them.
CASES = {"16 MB on 2 hosts": "16 MB, 2 hosts",
         "16 MB on 2 x 2": "16 MB, 2 hosts with 2 ranks",
         "16 MB on 2 x 2 interleaved": "the same, ranks interleaved",
         "16 MB on 8 hosts": "16 MB, 8 hosts",
         "4 KB on 2 hosts": "4 KB, 2 hosts",
         "64 KB on 2 x 2": "64 KB, 2 hosts with 2 ranks",
         "32 MB at 250 Mbit per flow": "32 MB, connections capped",
         "64 MB unshaped": "64 MB, network not limited",
         "DDP 25 M parameters 1000 Mbit": "DDP step, 25 M parameters",
         "DDP convnet on digits 2 x 2 1000 Mbit": "DDP step, small CNN, 2 x 2 ranks"}
WIDTH, LABEL, RIGHT, LINE = 860, 280, 24, 25


@dataclass
class Panel:
  title: str
  rows: dict[str, dict[str, float]]  # model -> engine -> its time / Stretto's
  largest: float  # right end of the axis; what lies beyond stands there as a number


def table_after(text: str, heading: str) -> list[dict[str, str]]:
  """The first Markdown table after `heading`, a dictionary per row."""
  lines = iter(text[text.index(heading):].splitlines())
  line = next(line for line in lines if line.startswith("|"))
  titles = cells(line)
  next(lines)  # the rule below the titles
  rows = []
  for line in lines:
    if not line.startswith("|"):
      break
    rows.append(dict(zip(titles, cells(line))))
  return rows


def cells(line: str) -> list[str]:
  return [cell.strip() for cell in line.strip().strip("|").split("|")]


def seconds(text: str) -> float:
  number, _, unit = text.partition(" ")
  return float(number) * UNITS[unit]


def is_model(row: dict[str, str]) -> bool:
  return row["model"] != "geometric mean"


def model_name(row: dict[str, str]) -> str:
  return MODELS.get(row["model"], row["model"])


def inference_panels(text: str) -> list[Panel]:
  wide = {model_name(r): {name: float(r[name]) / float(r["stretto"]) for name in COLORS
                          if r.get(name)}
          for r in table_after(text, "1 thread, median ms:") if is_model(r)}
  capped = {model_name(r): {"openvino": float(r["openvino / stretto"])}
            for r in table_after(text, "## Xeon, capped at AVX2") if is_model(r)}
  return [Panel("AVX-512, one thread: time relative to Stretto", wide, 3.0),
          Panel("AVX2, one thread, the same machine: only OpenVINO can be limited to AVX2", capped,
                3.0)]


def gradient_panels(text: str) -> list[Panel]:
  rows = {}
  for r in table_after(text, "<!-- comm: begin"):
    if r["case"] in CASES:
      pairs = {"gloo": ("gloo", "stretto"), "openmpi": ("openmpi", "stretto-core")}
      rows[CASES[r["case"]]] = {name: seconds(r[peer]) / seconds(r[ours])
                         for name, (peer, ours) in pairs.items() if r[peer] and r[ours]}
  return [Panel("All-reduces and training steps: time relative to Stretto", rows, 5.0)]


def position(ratio: float, largest: float) -> float:
  low, high = math.log(0.8), math.log(largest)
  share = (math.log(min(max(ratio, 0.8), largest)) - low) / (high - low)
  return LABEL + share * (WIDTH - LABEL - RIGHT)


def text_at(x: float, y: float, words: str, **style: str) -> str:
  rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
  return f'<text x="{x:.1f}" y="{y:.1f}"{rest}>{escape(words)}</text>'


def draw_panel(panel: Panel, top: float) -> list[str]:
  bottom = top + 30 + LINE * len(panel.rows)
  out = [text_at(16, top + 12, panel.title, font_weight="bold")]
  for tick in (0.8, 1.0, 1.5, 2.0, 3.0, 5.0):
    if tick > panel.largest:
      continue
    x = position(tick, panel.largest)
    color = "#222222" if tick == 1 else "#d0d0d0"
    out.append(f'<line x1="{x:.1f}" y1="{top + 24:.1f}" x2="{x:.1f}" y2="{bottom:.1f}" '
               f'stroke="{color}"/>')
    out.append(text_at(x, bottom + 16, f"{tick:g}x", text_anchor="middle", fill="#555555"))
  for n, (name, ratios) in enumerate(panel.rows.items()):
    y = top + 30 + LINE * (n + 0.5)
    out.append(text_at(LABEL - 16, y + 4, name, text_anchor="end"))
    for engine, ratio in sorted(ratios.items(), key=lambda item: -item[1]):
      x = position(ratio, panel.largest)
      out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5" fill="{COLORS[engine]}">'
                 f"<title>{ENGINES[engine]} {ratio:.2f}x</title></circle>")
      if ratio > panel.largest:
        out.append(text_at(x - 10, y + 4, f"{ratio:.0f}x", text_anchor="end", fill="#555555"))
  return out


def chart(panels: list[Panel], note: str) -> str:
  engines = dict.fromkeys(e for e in COLORS for p in panels if any(e in r for r in p.rows.values()))
  body, x = [], 16.0
  for name in engines:
    body.append(f'<circle cx="{x + 6:.1f}" cy="20" r="5.5" fill="{COLORS[name]}"/>')
    body.append(text_at(x + 16, 24, ENGINES[name]))
    x += 34 + 7.5 * len(ENGINES[name])
  body.append(text_at(WIDTH - RIGHT, 24, "right of 1x: slower than Stretto", text_anchor="end",
                      fill="#555555"))
  top = 48.0
  for panel in panels:
    body += draw_panel(panel, top)
    top += 66 + LINE * len(panel.rows)
  body.append(text_at(16, top + 6, note, fill="#555555", font_size="12"))
  height = top + 20
  return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
          f'width="{WIDTH}" height="{height:.0f}" font-family="sans-serif" font-size="13" '
          f'fill="#222222">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
          + "\n".join(body) + "\n</svg>\n")


def charts() -> dict[str, str]:
  """File name and content of every chart."""
  inference = inference_panels((RESULTS / "inference.md").read_text())
  gradients = gradient_panels((RESULTS / "communication.md").read_text())
  return {
    "inference.svg": chart(
      inference, "fp32, batch 1, Intel Xeon, no kernel tuned for these models; "
                 "tables and commands: bench/results/inference.md"),
    "gradients.svg": chart(
      gradients, "AMD EPYC, hosts are network namespaces; tables and commands: "
                 "bench/results/communication.md"),
  }


def main() -> int:
  IMAGES.mkdir(parents=True, exist_ok=True)
  for name, content in charts().items():
    (IMAGES / name).write_text(content)
    print(IMAGES / name)
  return 0


if __name__ == "__main__":
  sys.exit(main())
