"""The task files that `stretto cluster run --backend cloud` writes for SkyPilot, which checks them
itself where it is installed, and what its command prints."""

import os
import subprocess

import pytest
import yaml
from cluster_cloud import HOSTILE
from stretto.cluster._backend import Request, parts_of

from stretto.cluster import _cloud_logs, _cloud_sky, _cloud_task

TAG = "0123456789ab"


def request(words=(), n=None, chips=(), nodes=None, **more):
  return Request("x", list(parts_of(n, list(chips), nodes, {})), list(words), **more)


def test_commands_of_setup_run_in_the_tree_or_not_at_all(tmp_path):
  (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
  (tmp_path / "python3").chmod(0o755)
  task = _cloud_task.config(request(), TAG, "", "touch made\ntrue")
  done = subprocess.run(["bash", "-c", task["setup"]], cwd=tmp_path,
                        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
  assert done.returncode != 0 and not (tmp_path / "made").exists()


@pytest.mark.parametrize("text", [
  "plain", "no", "Off", "null", "1", "1e3", "12:30", "a: b", "a #b", "- a", "", " a", "a ", "~",
  "@a",
  "a\nb", "a\n\nb\n", "\na\n", " a\nb\n", "a\n b\n", "a \nb\n", "a\tb\n", "\n", "é", HOSTILE, "%a",
  "\x00\x85\ufeff\uffff", "${HOME}", "a\r\nb\r\n"])
def test_texts_come_back_from_yaml_as_they_are(text):
  task = {"run": text, "envs": {"no": text, "A": text}, "n": 3, "none": None}
  assert yaml.safe_load(_cloud_task.yaml(task)) == task


TASKS = [request(chips=["v100:16"]), request(n=4), request(chips=["A100-80GB:8"], n=2, nodes=2),
         request(n=2, environment={"A": HOSTILE, "no": ""}, secrets={"KEY": "v"})]


@pytest.mark.parametrize("case", range(len(TASKS)))
def test_skypilot_takes_the_task_file(case, monkeypatch, tmp_path):
  pytest.importorskip("sky", reason="skypilot is not installed")
  (tmp_path / "send").mkdir()
  monkeypatch.chdir(tmp_path)
  task = _cloud_task.config(TASKS[case], TAG, "aws/us-east-1", "pip install x")
  again = yaml.safe_load(_cloud_task.yaml(task))
  assert again == task
  assert _cloud_task.check(again) == ""
  assert "num_node" in _cloud_task.check({**again, "num_node": 2})
  assert _cloud_task.check({**again, "resources": {"accelerator": "v100:8"}})
  assert _cloud_task.check({**again, "num_nodes": "two"})


def test_nodes_and_chips_of_a_task():
  def of(**how):
    task = _cloud_task.config(request(**how), TAG, "", "")
    return task["num_nodes"], task["resources"]

  assert of(chips=["v100:8"]) == (1, {"accelerators": "v100:8"})
  assert of(chips=["v100:12"]) == (2, {"accelerators": "v100:6"})
  assert of(chips=["v100:4"], nodes=4) == (4, {"accelerators": "v100:1"})
  assert of() == (1, {"cpus": "1+"})
  assert of(n=8, nodes=2) == (2, {"cpus": "4+"})


# What sky prints.

def test_json_among_notes():
  text = "Fetching ...\n[not json\n[\n  {\"a\": 1}\n]\nbye\n"
  assert _cloud_task.decoded(text, list) == [{"a": 1}]
  assert _cloud_task.decoded(text, dict) is None
  assert _cloud_task.decoded("{}\n", dict) == {}


def test_a_state_of_a_newer_skypilot_does_not_end_a_job():
  assert _cloud_sky.Job("1", "a", "REHEARSING", 0, "", "").state.what == "runs"
  assert _cloud_sky.Job("1", "a", "FAILED", 0, "", "").state.what == "over"


def test_a_connection_that_breaks_loses_and_repeats_nothing(tmp_path):
  (tmp_path / "logs").mkdir()
  lines = b"".join(b"\x1b[36m(worker%d, rank=%d, pid=7, ip=10.0.0.1)\x1b[0m [rank %d] %d\n"
                   % (i % 2, i % 2, i % 2, i) for i in range(100)) + \
      b"(setup pid=3, ip=10.0.0.1) prepared\nSkyPilot says\n" \
      b"(head, pid=7) [node 0] exit 0\n(worker1, pid=7) [node 1] exit 0\n"
  for size in range(0, len(lines) + 331, 331):
    pump = _cloud_logs.Pump(str(tmp_path), "c", "1", 2)
    pump.begin()
    pump.take(lines[:size])
    log = tmp_path / "logs/rank-00001.log"
    if log.exists() and size % 2 and size < len(lines):  # killed in the middle of a write
      log.write_bytes(log.read_bytes()[:-1])
  assert (tmp_path / "logs/rank-00000.log").read_text() == "".join(
    f"{i}\n" for i in range(0, 100, 2))
  assert (tmp_path / "logs/rank-00001.log").read_text() == "".join(
    f"{i}\n" for i in range(1, 100, 2))
  assert (tmp_path / "logs/batch.log").read_text() == "prepared\n"
  assert (tmp_path / "exit").read_text() == "0\n"
