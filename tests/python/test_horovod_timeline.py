"""hvd.start_timeline and stop_timeline, and HOROVOD_TIMELINE."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="stretto.horovod is for torch, which is not installed")

# A guard against hanging for ever, not a statement about speed.
TIMEOUT_S = 300

JOB = """
import sys
import torch
import stretto.horovod as hvd
folder = sys.argv[1]
hvd.init()
def reduce(name):
  hvd.allreduce(torch.ones(5000), name=name)
reduce("at first")
hvd.start_timeline(f"{folder}/one-{hvd.rank()}.json")
reduce("in one")
hvd.start_timeline(f"{folder}/two-{hvd.rank()}.json", mark_cycles=True)
reduce("in two")
hvd.stop_timeline()
reduce("between")
hvd.stop_timeline()
hvd.start_timeline(f"{folder}/end-{hvd.rank()}.json")
reduce("at the end")
hvd.shutdown()
"""


def run(tmp_path, script, **environment):
  (tmp_path / "job.py").write_text(script)
  done = subprocess.run(
      [sys.executable, "-m", "stretto._launch", "-n", "2", str(tmp_path / "job.py"),
       str(tmp_path)],
      capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **environment})
  assert done.returncode == 0, done.stderr[-3000:]


def names(path):
  events = json.loads(path.read_text())["traceEvents"]
  return {word for event in events for word in
          ("at first", "in one", "in two", "between", "at the end") if word in event["name"]}


def marks(path):
  return [e for e in json.loads(path.read_text())["traceEvents"] if e["name"] == "CYCLE_START"]


def test_a_timeline_could_not_begin_in_the_middle_of_a_job(tmp_path):
  run(tmp_path, JOB, HOROVOD_TIMELINE=str(tmp_path / "whole.json"),
      HOROVOD_TIMELINE_MARK_CYCLES="1")
  assert sorted(file.name for file in tmp_path.glob("*.json")) == [
      "end-0.json", "one-0.json", "two-0.json", "whole.json"], "rank 0 writes, as in Horovod"
  assert names(tmp_path / "whole.json") == {"at first"}
  assert names(tmp_path / "one-0.json") == {"in one"}
  assert names(tmp_path / "two-0.json") == {"in two"}
  assert names(tmp_path / "end-0.json") == {"at the end"}
  assert marks(tmp_path / "whole.json") and marks(tmp_path / "two-0.json")
  assert not marks(tmp_path / "one-0.json") and not marks(tmp_path / "end-0.json")


def test_a_trace_of_the_whole_job_goes_on_beside_a_timeline(tmp_path):
  (tmp_path / "job.py").write_text(JOB)
  done = subprocess.run(
      [sys.executable, "-m", "stretto._launch", "-n", "2", "--trace", str(tmp_path / "all"),
       str(tmp_path / "job.py"), str(tmp_path)],
      capture_output=True, text=True, timeout=TIMEOUT_S,
      env={**os.environ, "HOROVOD_TIMELINE": "DYNAMIC"})
  assert done.returncode == 0, done.stderr[-3000:]
  assert names(tmp_path / "all") == {"at first", "in one", "in two", "between", "at the end"}
  assert names(tmp_path / "two-0.json") == {"in two"}
