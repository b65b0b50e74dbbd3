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
  first = json.loads(report.read_text())["tuning"]
  lost = first["compared"] is not None and first["compared"]["kept"] == "default"
  assert lost or first["measured"] > 0
  assert cache.read_text().startswith("stretto-tuning-cache ")
  assert "warning" not in run_command(*words).stderr
  tuning = json.loads(report.read_text())["tuning"]
  # On a busy machine half a second is too short for all problems: the rest may be measured now.
  again = tuning["compared"] is not None and tuning["compared"]["kept"] == "default"
  assert lost or again or tuning["from_tuning_cache"] >= first["measured"]


def test_an_interrupt_of_the_comparison_keeps_what_was_measured(cnn, tmp_path):
  cache = tmp_path / "cache.tsv"

  def stop(stage, _):
    if stage == "compare":
      raise KeyboardInterrupt

  with pytest.raises(KeyboardInterrupt):
    stretto.optimize(cnn, tuning=1, tuning_cache=cache, progress=stop)
  assert len(cache.read_text().splitlines()) > 1


def test_choices_that_lose_as_a_whole_are_not_used(cnn, tmp_path):
  """As if a busy machine had made the tuning cache remember the wrong kernels."""
  cache = tmp_path / "cache.tsv"
  options = {"tuning": 1, "tuning_cache": cache, "progress": False, "threads": 1}
  stretto.optimize(cnn, **options)
  header, *lines = cache.read_text().splitlines()
  # The references do every problem, and take much longer.
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
