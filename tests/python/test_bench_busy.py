"""bench.busy: tunes beside busy loops, and compares with the default in turns."""

import argparse
import subprocess

import pytest

import stretto
from bench import busy
from bench.models.model import Input, Model


def test_a_tuning_is_compared_with_the_default(cnn_path):
  image = Input("x", (1, 3, 16, 16), "float32", "image")
  model = Model("cnn", "", (image,), ("y",), 0, 0, "none", "")
  default = stretto.optimize(cnn_path, tuning="off", threads=1, progress=False)
  args = argparse.Namespace(loops=1, threads=1, tuning="0.2", rounds=2)
  found = busy.tune(cnn_path, model, default, args)
  assert found["kept"] in ("tuned", "default", "same")
  assert found["ratio_of_fifths"] == found["tuned_fifth_ms"] / found["default_fifth_ms"] > 0
  assert "1.000" in busy.table([found | {"ratio_of_fifths": 1.0}])


def test_loops_end_with_the_tuning(monkeypatch):
  started = []

  class Watched(subprocess.Popen):
    def __init__(self, words):
      super().__init__(words)
      started.append(self)

  monkeypatch.setattr(subprocess, "Popen", Watched)
  with pytest.raises(ZeroDivisionError), busy.busy_loops(2):
    assert [loop.poll() for loop in started] == [None, None]
    raise ZeroDivisionError
  assert all(loop.returncode for loop in started)


def test_what_is_slower_than_allowed_is_counted():
  assert busy.behind([{"kept": "tuned", "ratio_of_fifths": 1.02},
                      {"kept": "tuned", "ratio_of_fifths": 1.04},
                      {"kept": "default", "ratio_of_fifths": 1.05}]) == 1


def test_tunings_of_another_kind_are_not_added_to(tmp_path):
  path = tmp_path / "busy.json"
  assert busy.earlier(path, {"loops": 2}) == []
  path.write_text('{"arguments": {"loops": 2}, "tunings": [{"seconds": 1}]}')
  assert busy.earlier(path, {"loops": 2}) == [{"seconds": 1}]
  with pytest.raises(SystemExit, match="done with"):
    busy.earlier(path, {"loops": 3})
