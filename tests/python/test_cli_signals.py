"""How the command ends when a signal or a closed pipe ends it."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import model_of, value

# What a person waits without wondering; the command itself needs milliseconds.
PATIENCE_S = 1.0


@pytest.fixture(params=["program", "package"])
def command(request):
  """The stand-alone program, and the same command inside Python."""
  if request.param == "package":
    return [sys.executable, "-m", "stretto"]
  return [request.getfixturevalue("stretto_program")]


def shell(line, folder):
  return subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=folder,
                        env={**os.environ, "STRETTO_PYTHON": sys.executable}, timeout=300)


@pytest.mark.parametrize("words", [["inspect", "--passes"], ["kernels"], ["--help"],
                                   ["optimize", "--help"], ["run", "--help"]])
def test_a_reader_that_leaves_ends_the_command_quietly(command, words, tmp_path):
  done = shell(f"{shlex.join([*command, *words])} | true; echo ${{PIPESTATUS[0]}}", tmp_path)
  assert done.stderr == ""
  assert done.stdout.strip() in ("0", "141")


def test_a_full_disk_is_an_error(command, tmp_path):
  done = shell(f"{shlex.join(command)} inspect --passes > /dev/full", tmp_path)
  assert done.returncode == 3 and "No space left" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_its_workers(command, number, cnn_path, tmp_path):
  (tmp_path / "tmp").mkdir()
  words = [*command, "bench", str(cnn_path), "--tuning", "off", "--seconds", "600"]
  run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "TMPDIR": str(tmp_path / "tmp"),
                              "STRETTO_PYTHON": sys.executable})
  stop = time.monotonic() + 120
  while not list(tmp_path.glob("tmp/*/stretto.npz")):
    assert run.poll() is None and time.monotonic() < stop, "the worker did not start"
    time.sleep(0.05)
  workers = children(run.pid)
  assert workers
  start = time.monotonic()
  run.send_signal(number)
  out, err = run.communicate(timeout=30)
  assert time.monotonic() - start < PATIENCE_S
  assert run.returncode == -number, "a shell calls that 128 + the signal's number"
  assert out == "" and err == ""
  assert list((tmp_path / "tmp").iterdir()) == []
  stop = time.monotonic() + PATIENCE_S
  while [pid for pid in workers if running(pid)] and time.monotonic() < stop:
    time.sleep(0.02)
  assert not [pid for pid in workers if running(pid)]


def test_a_signal_while_a_file_is_written_leaves_no_part_of_it(command, tmp_path):
  weights = {"w": np.random.default_rng(1).standard_normal((4096, 8192)).astype(np.float32)}
  path = tmp_path / "large.onnx"
  onnx.save(model_of([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [1, 4096])],
                     [value("y", [1, 8192])], weights), path)
  out = tmp_path / "out"
  out.mkdir()
  words = [*command, "optimize", str(path), "--tuning", "off", "--no-verify", "--threads", "1",
           "-o", str(out / "m.stretto")]
  for _ in range(5):  # on a busy machine the file may be whole before the signal arrives
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env={**os.environ, "STRETTO_PYTHON": sys.executable})
    while run.poll() is None and not any(size(file) for file in out.glob("*.tmp")):
      time.sleep(0.001)
    start = time.monotonic()
    run.send_signal(signal.SIGINT)
    run.wait(30)
    assert time.monotonic() - start < PATIENCE_S
    if run.returncode == -signal.SIGINT and not (out / "m.stretto").exists():
      assert list(out.iterdir()) == []
      return
    assert [file.name for file in out.iterdir()] == ["m.stretto"]
    (out / "m.stretto").unlink()
  pytest.fail("every file was whole before the signal arrived")


def size(file):
  try:
    return file.stat().st_size
  except OSError:  # it has its final name by now
    return 0


def children(parent):
  found = []
  for entry in Path("/proc").iterdir():
    if entry.name.isdigit():
      try:
        words = (entry / "stat").read_text().rpartition(")")[2].split()
      except OSError:
        continue
      if int(words[1]) == parent:
        found.append(int(entry.name))
  return found


def running(pid):
  try:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
  except OSError:
    return False
