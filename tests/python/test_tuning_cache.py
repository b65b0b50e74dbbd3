"""The tuning cache as users of Python and of the command meet it: damage is set aside and said."""

import json
import os
import subprocess
import sys

import pytest

import stretto

OPTIMIZE = """
import logging, sys
logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
import stretto
stretto.optimize(sys.argv[1], tuning="off", verify=False)
stretto.optimize(sys.argv[1], tuning="off", verify=False)
"""


def verdicts(cache):
  """How many models the tuning cache has a verdict on."""
  header, *lines = cache.read_text().splitlines()
  assert header.startswith("stretto-tuning-cache ")
  return sum(line.startswith("model ") for line in lines)


def assert_remembered(first, again):
  """The second of two reports is of a run that took the first one's results and no measurements,
  whichever program the first one kept."""
  assert "compare" in first["seconds"] and "compare" not in again["seconds"]
  assert again["tuning"]["measured"] == 0
  assert again["tuning"]["from_tuning_cache"] >= first["tuning"]["measured"]
  assert [op["kernel"] for op in again["operators"]] == [op["kernel"] for op in first["operators"]]
  compared = first["tuning"]["compared"]
  assert (again["tuning"]["compared"] or {}).get("kept") == (compared or {}).get("kept")
  if compared:
    assert not compared["remembered"] and again["tuning"]["compared"]["remembered"]


def test_python_logs_a_damaged_tuning_cache_once(cnn_path, tmp_path):
  cache = tmp_path / "cache.tsv"
  cache.write_text("garbage\n")
  done = subprocess.run([sys.executable, "-c", OPTIMIZE, cnn_path], capture_output=True, text=True,
                        env={**os.environ, "STRETTO_TUNING_CACHE": str(cache)})
  assert done.returncode == 0, done.stderr
  assert done.stderr.count("stretto WARNING tuning cache") == 1, done.stderr
  assert "cache.tsv.damaged" in done.stderr
  assert (tmp_path / "cache.tsv.damaged").read_text() == "garbage\n"


def test_a_file_can_be_named_and_none_is_kept_if_asked(cnn, tmp_path, monkeypatch):
  own = tmp_path / "own.tsv"
  monkeypatch.setenv("STRETTO_TUNING_CACHE", str(own))
  stretto.optimize(cnn, tuning=0.5, verify=False, progress=False, tuning_cache="none")
  assert not own.exists()
  named = tmp_path / "named.tsv"
  stretto.optimize(cnn, tuning=0.5, verify=False, progress=False, tuning_cache=named)
  assert not own.exists()
  assert named.read_text().startswith("stretto-tuning-cache ")


def test_the_command_says_so_on_stderr_and_starts_anew(cnn_path, tmp_path, run_command,
                                                       monkeypatch):
  cache = tmp_path / "cache.tsv"
  cache.write_text("garbage\n")
  monkeypatch.setenv("STRETTO_TUNING_CACHE", str(cache))
  report = tmp_path / "report.json"
  words = ["optimize", cnn_path, "--tuning", "0.5", "--no-verify", "--report", report]
  assert run_command(*words).stderr.count("stretto: warning: tuning cache") == 1
  assert verdicts(cache) == 1
  first = json.loads(report.read_text())
  assert "warning" not in run_command(*words).stderr
  assert "compare" in first["seconds"]
  assert_remembered(first, json.loads(report.read_text()))


def test_the_file_asked_for_is_used(cnn, tmp_path):
  cache = tmp_path / "cache.tsv"
  first = stretto.optimize(cnn, tuning=0.3, tuning_cache=cache).report
  assert verdicts(cache) == 1
  assert_remembered(first, stretto.optimize(cnn, tuning=0.3, tuning_cache=str(cache)).report)
  text = cache.read_text()
  without = stretto.optimize(cnn, tuning=0.3, tuning_cache="none").report
  assert "compare" in without["seconds"]  # which follows measurements only
  assert not (without["tuning"]["compared"] or {}).get("remembered")
  assert cache.read_text() == text


def test_an_interrupt_of_the_comparison_keeps_what_was_measured(cnn, tmp_path):
  cache = tmp_path / "cache.tsv"

  def stop(stage, _):
    if stage == "compare":
      raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    stretto.optimize(cnn, tuning=1, tuning_cache=cache, progress=stop)
  assert len(cache.read_text().splitlines()) > 1 and verdicts(cache) == 0
  assert "compare" in stretto.optimize(cnn, tuning=1, tuning_cache=cache).report["seconds"]


def test_choices_that_lose_as_a_whole_are_not_used(cnn, tmp_path):
  """As if a busy machine had made the tuning cache remember the wrong kernels."""
  cache = tmp_path / "cache.tsv"
  options = {"tuning": 1, "tuning_cache": cache, "progress": False, "threads": 1}
  stretto.optimize(cnn, **options)
  header, *lines = cache.read_text().splitlines()
  # The references do every problem, and take much longer. A verdict that is damaged is none.
  wrong = ["\t".join([line.split("\t")[0], "reference", "1.0000"]) for line in lines]
  cache.write_text("\n".join([header, *wrong]) + "\n")
  model = stretto.optimize(cnn, **options)
  compared = model.report["tuning"]["compared"]
  assert compared["kept"] == "default" and compared["ratio"] > 2, compared
  assert compared["default_ms"] < compared["tuned_ms"] and compared["rounds"] >= 7
  kernels = [op["kernel"] for op in model.report["operators"]]
  assert "reference" not in kernels, kernels
  assert any("built-in order" in note for note in model.report["notes"]), model.report["notes"]
  # The counts are those of the kernels that run, as if nothing had been tuned.
  off = stretto.optimize(cnn, **(options | {"tuning": "off", "tuning_cache": "none"}))
  for count in ("measured", "from_tuning_cache", "from_default"):
    assert model.report["tuning"][count] == off.report["tuning"][count], count
  # The next run takes the default at once, measured or not.
  assert_remembered(model.report, stretto.optimize(cnn, **options).report)
  untuned = stretto.optimize(cnn, **(options | {"tuning": "off"}))
  assert [op["kernel"] for op in untuned.report["operators"]] == kernels
