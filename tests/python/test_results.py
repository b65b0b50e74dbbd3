"""The README's charts and figures, and the tables they are from."""

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
  text = " ".join((ROOT / "README.md").read_text().split())

  def reached(words, machine="## AMD EPYC"):
    found = [row for row in plot_readme.table_after(gains, machine) if words in row["feature"]]
    assert found and all(row["kept"] == "yes" for row in found), words
    return [float(row["reached"]) for row in found]

  [segments] = reached("segments with a long tail")
  assert f"steps with segments are {segments:.2f} times as fast" in text
  assert f"at least {min(reached('mixed at')):.2f} of the speed of the best codec" in text
  local, gossip = reached("local:4"), reached("gossip:8:overlap")
  assert f"`local:4` does {min(local):.1f} to {max(local):.1f} times as many steps" in text
  assert f"on eight ranks {min(gossip):.1f} to {max(gossip):.1f} times" in text
  accumulate = reached("accumulate:4", "## Intel Xeon")
  assert f"does {min(accumulate):.1f} to {max(accumulate):.1f} times as many steps per" in text


def test_measured_tables_have_their_place():
  from bench import results_page
  from bench.comm import results_page as comm_page

  assert results_page.MARKS.search(results_page.PAGE.read_text())
  assert "<!-- comm: begin" in comm_page.PAGE.read_text()
  assert "<!-- comm: end -->" in comm_page.PAGE.read_text()


def test_a_ratio_beyond_the_axis_is_written_out():
  panel = plot_readme.Panel("t", {"case": {"gloo": 74.2}}, 5.0)
  assert any(">74x<" in line for line in plot_readme.draw_panel(panel, 0.0))
