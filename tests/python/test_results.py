"""The README's charts and figures, and the tables they are from."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import plot_readme  # noqa: E402


@pytest.mark.parametrize("name", ["inference.svg", "gradients.svg"])
def test_charts_show_the_tables(name):
  written = (plot_readme.IMAGES / name).read_text()
  assert written == plot_readme.charts()[name], "run: python -m bench.plot_readme"
  ElementTree.fromstring(written)


def test_panels_divide_by_the_time_of_stretto():
  text = ("1 thread, median ms:\n\n| model | stretto | torch | ncnn |\n|---|---|---|---|\n"
          "| m | 2.0 | 3.0 |  |\n| geometric mean | | | |\n\n## Xeon, capped at AVX2\n\n"
          "| model | stretto | openvino / stretto |\n|---|---|---|\n| m | 4 | 0.90 |\n")
  wide, capped = plot_readme.inference_panels(text)
  assert wide.rows == {"m": {"torch": 1.5}}
  assert capped.rows == {"m": {"openvino": 0.9}}


def test_the_readme_has_the_gains_of_the_table():
  gains = (plot_readme.RESULTS / "gains.md").read_text()
  machines = re.findall(r"^## .*", gains, re.M)
  rows = [row for machine in machines for row in plot_readme.table_after(gains, machine)]
  readme = (ROOT / "README.md").read_text()
  shown = {row["feature, on one to three machines"]: row["how many times as fast"]
           for row in plot_readme.table_after(readme, "has what each feature gains")}
  for feature, words in {"segments": "segments with a long tail", "mixed": "mixed at",
                         "local:4": "local:4", "accumulate:4": "accumulate:4",
                         "gossip:8:overlap": "gossip:8:overlap", "tuned settings": "tuning at",
                         "Horovod": "256 B at once on 2 hosts",
                         "same with two ranks": "256 B at once on 2 x 2"}.items():
    reached = [float(row["reached"]) for row in rows if words in row["feature"]]
    [found] = [text for name, text in shown.items() if feature in name]
    assert found == f"{min(reached):.2f} to {max(reached):.2f}", feature


def two_digits(ratio):
  return (f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}" if ratio < 10 else
          str(int(float(f"{ratio:.1e}"))))


def test_the_readme_has_the_ratios_of_the_tables():
  measured = (plot_readme.RESULTS / "communication.md").read_text()
  gains = (plot_readme.RESULTS / "gains.md").read_text()
  readme = (ROOT / "README.md").read_text()
  cases = plot_readme.table_after(measured, "<!-- comm: begin")
  sizes = plot_readme.table_after(gains, "## AMD EPYC (Zen 5)")

  def ranks_compared(pattern):
    found = [row for row in cases if re.match(pattern, row["case"])]
    return [[float(row[column]) for row in found if row[column]]
            for column in ("gloo / stretto", "openmpi / stretto-core")]

  def sizes_compared():
    return [[float(row["reached"]) for row in sizes if f"against {peer}" in row["feature"]]
            for peer in ("Gloo", "Open MPI")]

  expected = {"4 B to 64 KB": ranks_compared(r"(4 B|4 KB|64 KB|200 x) "),
              "16 MB, two hosts": ranks_compared(r"16 MB on 2 x 2"),
              "broadcasts": ranks_compared("broadcast"),
              "1 to 64 MB": sizes_compared()}
  shown = plot_readme.table_after(readme, "## How fast\n" and "This chart shows median times")
  assert len(shown) == len(expected)
  for row, (words, columns) in zip(shown, expected.items()):
    assert words in row["gradients"]
    for column, ratios in zip(("Gloo takes", "Open MPI takes"), columns):
      times = f"{two_digits(min(ratios))} to {two_digits(max(ratios))} times"
      assert row[column].startswith(times), (words, column, times)


def test_measured_tables_have_their_place():
  from bench import results_page
  from bench.comm import results_page as comm_page

  assert results_page.MARKS.search(results_page.PAGE.read_text())
  assert "<!-- comm: begin" in comm_page.PAGE.read_text()
  assert "<!-- comm: end -->" in comm_page.PAGE.read_text()


def test_a_ratio_beyond_the_axis_is_written_out():
  panel = plot_readme.Panel("t", {"case": {"gloo": 74.2}}, 5.0)
  assert any(">74x<" in line for line in plot_readme.draw_panel(panel, 0.0))
