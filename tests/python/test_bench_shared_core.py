"""bench.shared_core: a loop takes half of a core while engines are timed, and only then."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bench import compare, rounds, shared_core


def cpu_seconds(pid: int) -> float:
  fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
  return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_loop_runs_on_its_core_and_ends(monkeypatch):
  started = []

  class Watched(subprocess.Popen):
    def __init__(self, *args, **options):
      super().__init__(*args, **options)
      started.append(self)

  monkeypatch.setattr(subprocess, "Popen", Watched)
  cpu = max(os.sched_getaffinity(0))
  with pytest.raises(ZeroDivisionError), shared_core.busy_core(cpu):
    pid = started[0].pid
    assert os.sched_getaffinity(pid) == {cpu}
    stop = time.monotonic() + 30
    while cpu_seconds(pid) < 0.1 and time.monotonic() < stop:
      time.sleep(0.01)
    assert cpu_seconds(pid) >= 0.1
    raise ZeroDivisionError
  assert started[0].returncode


def test_engines_are_timed_beside_it_but_not_loaded(cnn_path, tmp_path):
  inputs = tmp_path / "inputs.npz"
  np.savez(inputs, x=np.zeros((1, 3, 16, 16), np.float32))
  seen = []

  class Beside:
    def __enter__(self):
      seen.append("in")

    def __exit__(self, *_):
      seen.append("out")

  subject = rounds.Subject("cnn", None, Path(cnn_path), inputs, ["y"], None, 0)
  results = rounds.compare(subject, compare.own_entries(["off"]), 1,
                           rounds.Plan(2, 1, 0, 60, None, None), tmp_path, seen.append,
                           beside=Beside)
  assert results[0]["status"] == "ok" and results[0]["runs"] == 2
  loading = [i for i, word in enumerate(seen) if "loading" in word]
  timing = [i for i, word in enumerate(seen) if "timing" in word]
  assert max(loading) < seen.index("in") < min(timing) < max(timing) < seen.index("out")


def test_a_core_that_is_not_ours_is_refused(monkeypatch, capsys):
  monkeypatch.setattr(sys, "argv", ["shared_core", "unet", "--threads", "1", "--peers", "none",
                                    "--cpu", "4096"])
  with pytest.raises(SystemExit):
    shared_core.arguments()
  assert "may not run on 4096" in capsys.readouterr().err


def test_the_document_names_the_core():
  args = argparse.Namespace(cpu=1, runs=2, burst=1, warm_up=0, tuning="off")
  found = shared_core.document(args, {"cpu": "x"}, [])
  assert found["busy_cpu"] == 1 and found["results"] == [] and found["ratios"] == []
