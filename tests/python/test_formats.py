"""The pages that list fields of JSON, against what Stretto writes."""

import json
import re
import sys
from pathlib import Path

import pytest

import stretto

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ROOT / "docs/formats"
sys.path.insert(0, str(ROOT / "docs/site"))

import formats  # noqa: E402


def rows(page: str) -> dict[str, set[str]]:
  """First cell of every row of the page's tables -> the words in code font of the second one."""
  found = {}
  for line in (FORMATS / page).read_text().splitlines():
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    if line.startswith("| `") and len(cells) == 2:
      found[cells[0].strip("`")] = set(re.findall(r"`([^`]+)`", cells[1]))
  return found


def keys_below(value) -> set[str]:
  if isinstance(value, list):
    return set().union(*map(keys_below, value))
  if isinstance(value, dict):
    return set(value).union(*map(keys_below, value.values()))
  return set()


def test_the_page_of_the_report_has_its_fields_and_no_others(cnn_path):
  report = json.loads(json.dumps(stretto.optimize(str(cnn_path), tuning="off").report))
  page = rows("report.md")
  assert {field.partition(".")[0] for field in page} == set(report)
  every_word = set().union(*page.values()) | {field.partition(".")[2] for field in page}
  for field, value in report.items():
    assert keys_below(value) <= every_word, field
  for field in ("model", "machine", "options", "tuning", "seconds"):
    assert page[field] - set(report[field]) <= keys_below(report[field]), field
  assert set(report["latency"]) == {field.partition(".")[2] for field in page
                                    if field.startswith("latency.")}


@pytest.mark.parametrize("words", formats.RUNS)
def test_the_page_of_the_command_has_the_fields_of_each_verb(words, run_command, tmp_path):
  formats.write_model(tmp_path)
  formats.write_picture(tmp_path)
  if words in ("pack --verify PACK", "unpack"):
    run_command(*formats.RUNS["pack"])
  if "M.stretto" in formats.RUNS[words]:
    run_command(*formats.RUNS["optimize M.onnx"])
  printed = json.loads(run_command(*formats.RUNS[words], "--json").stdout)
  page = rows("command-json.md")
  assert set(printed) <= page[words if words in page else words.partition(" ")[0]]


def test_fields_of_json_are_listed_with_their_types():
  value = {"a": [{"b": 1, "c": None}, {"b": 2.5, "c": "x"}], "d": {"e": True}}
  assert formats.fields_table(value).splitlines()[2:] == [
    "| `a` | list |", "| `a[].b` | number |", "| `a[].c` | null or string |",
    "| `d.e` | boolean |"]
