"""The pages that list fields of JSON, against what Stretto writes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import stretto

FORMATS = Path(__file__).resolve().parents[2] / "docs/formats"


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


@pytest.mark.parametrize("words", [
    "optimize M.onnx", "infer", "inspect --passes", "inspect M.onnx", "inspect --rules",
    "inspect --bisect", "inspect M.stretto", "kernels", "operators", "peers", "doctor",
    "help environment"])
def test_the_page_of_the_command_has_the_fields_of_each_verb(words, run_command, cnn_path, image,
                                                             tmp_path):
  run_command("optimize", cnn_path, "-o", "M.stretto", "--tuning", "off")
  np.save(tmp_path / "x.npy", image)
  verb, _, rest = words.partition(" ")
  line = {"optimize M.onnx": ["optimize", cnn_path, "--tuning", "off"],
          "infer": ["infer", "M.stretto", "--input", "x=x.npy"],
          "inspect M.onnx": ["inspect", cnn_path],
          "inspect --rules": ["inspect", cnn_path, "--rules"],
          "inspect --bisect": ["inspect", cnn_path, "--bisect"]}.get(words, [verb, *rest.split()])
  printed = json.loads(run_command(*line, "--json").stdout)
  page = rows("command-json.md")
  assert set(printed) <= page[words if words in page else verb]
