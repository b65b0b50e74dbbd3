"""bench.callers: rates of one caller and of several, with every output checked."""

import argparse

import numpy as np
import pytest

from bench import callers


def test_both_cases_of_a_model_are_measured(cnn_path, tmp_path):
  args = argparse.Namespace(callers=3, sessions=2, rounds=1, seconds=0.05, peers=[])
  rows = callers.measure(cnn_path, 1, args, tmp_path)
  assert [(row["sessions"], row["callers"]) for row in rows] == [(1, 3), (2, 2)]
  for row in rows:
    assert row["gain"] == row["at_once_per_s"] / row["in_turn_per_s"] > 0


def test_a_run_that_others_disturb_is_found():
  outputs = iter(np.float32([[1.0], [1.0], [2.0]]))
  case = callers.Case("stretto", [lambda: [next(outputs)]], 1)
  case.check(0, case.sessions[0]())
  assert not case.wrong
  case.check(0, case.sessions[0]())
  assert case.wrong == ["stretto: a run beside others differs from one alone"]


def test_an_unknown_peer_is_named(monkeypatch, capsys):
  monkeypatch.setattr("sys.argv", ["callers", "m.onnx", "--peers", "foo"])
  with pytest.raises(SystemExit):
    callers.main()
  error = capsys.readouterr().err
  assert "--peers: 'foo' is unknown; expected onnxruntime, onnxruntime-asleep or none" in error
