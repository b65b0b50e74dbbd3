"""Ctrl-C ends waits for other processes, peers and ranks, within a second.

A program sends SIGINT to itself in the midst of the call and says how long the call lasted after
that.
"""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from conftest import model_of, value

LIMIT_S = 1.0

BEGIN = """
import json, os, signal, sys, threading, time
import stretto
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
sent = []

def interrupt():
  sent.append(time.monotonic())
  os.kill(os.getpid(), signal.SIGINT)

def soon(delay_s=0.3):
  threading.Timer(delay_s, interrupt).start()

def at(stage):
  def progress(now, share):
    if now == stage and not sent:
      sent.append(None)
      soon(0.05)
  return progress

try:
"""

END = """
except KeyboardInterrupt:
  print(json.dumps(time.monotonic() - sent[-1]))
else:
  print(json.dumps("not interrupted"))
"""


def seconds_to_end(code, *arguments):
  lines = "\n".join("  " + line for line in code.strip().splitlines())
  done = subprocess.run([sys.executable, "-c", BEGIN + lines + END, *map(str, arguments)],
                        capture_output=True, text=True, timeout=120)
  assert done.returncode == 0, done.stderr
  answer = json.loads(done.stdout)
  assert answer != "not interrupted"
  return answer


@pytest.fixture(scope="module")
def large_path(tmp_path_factory):
  """128 MiB of weights: writing them takes a while."""
  weights = {"w": np.random.default_rng(1).standard_normal((4096, 8192)).astype(np.float32)}
  path = tmp_path_factory.mktemp("large") / "large.onnx"
  onnx.save(model_of([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [1, 4096])],
                     [value("y", [1, 8192])], weights), path)
  return path


def test_ctrl_c_ends_a_save_and_leaves_the_old_file(large_path, tmp_path):
  # A signal in the last 50 ms of a save comes after it: then the new file is there, and we look
  # again.
  code = """
model = stretto.optimize(sys.argv[1], tuning="off", verify=False, threads=1)
sent.append(0)
old = 0
for _ in range(10):
  try:
    soon(0.05)
    for _ in range(1000):
      with open(sys.argv[2], "wb") as file:
        file.write(b"old")
      model.save(sys.argv[2])
  except KeyboardInterrupt:
    elapsed = time.monotonic() - sent[-1]
    with open(sys.argv[2], "rb") as file:
      old += file.read(4) == b"old"
    assert os.listdir(os.path.dirname(sys.argv[2])) == ["m.stretto"]
    assert elapsed < 1, elapsed
assert old > 0
sent.append(time.monotonic())
raise KeyboardInterrupt
"""
  assert seconds_to_end(code, large_path, tmp_path / "m.stretto") < LIMIT_S


@pytest.mark.parametrize("stage", ["stretto", "timing"])
def test_ctrl_c_ends_the_timing_of_peers(stage, cnn_path):
  code = ('stretto.optimize(sys.argv[1], tuning="off", peers=["onnxruntime"], '
          'progress=at(sys.argv[2]))')
  assert seconds_to_end(code, cnn_path, stage) < LIMIT_S


def test_ctrl_c_ends_a_wait_for_ranks_that_do_not_come(tmp_path):
  code = """
soon()
stretto.comm.Engine(sys.argv[1] + "/", 0, 2)
"""
  assert seconds_to_end("import stretto.comm\n" + code, tmp_path) < LIMIT_S


def test_ctrl_c_ends_a_wait_for_the_links_to_a_rank_that_hangs(tmp_path):
  rank_1 = "import sys, stretto.comm; stretto.comm.Engine(sys.argv[1] + '/', 1, 2)"
  child = subprocess.Popen([sys.executable, "-c", rank_1, str(tmp_path)])
  try:
    until = time.monotonic() + 60
    while not any("rank" in file.name for file in tmp_path.iterdir()):
      assert time.monotonic() < until, "rank 1 did not publish its addresses"
      time.sleep(0.01)
    child.send_signal(signal.SIGSTOP)
    code = """
soon()
stretto.comm.Engine(sys.argv[1] + "/", 0, 2)
"""
    assert seconds_to_end("import stretto.comm\n" + code, tmp_path) < LIMIT_S
  finally:
    child.kill()
    child.wait()


@pytest.mark.parametrize("store", [
  "dist.FileStore(sys.argv[1] + '/store', 2)", "dist.HashStore()",
  "dist.TCPStore('127.0.0.1', 0, None, True, wait_for_workers=False)",
])
def test_ctrl_c_ends_init_process_group_while_ranks_do_not_come(store, tmp_path):
  pytest.importorskip("torch")
  code = f"""
import torch.distributed as dist
import stretto.torch
store = {store}
soon()
dist.init_process_group("stretto", store=store, rank=0, world_size=2)
"""
  assert seconds_to_end(code, tmp_path) < LIMIT_S


@pytest.fixture
def other_rank(tmp_path):
  """Starts rank 1 of a job: `code` knows `engine` and np; afterwards it takes part in nothing."""
  children = []

  def start(code):
    begin = ("import sys\nimport numpy as np\nimport stretto.comm\n"
             "engine = stretto.comm.Engine(sys.argv[1] + '/', 1, 2)\n")
    children.append(subprocess.Popen(
      [sys.executable, "-c", f"{begin}{code}\nsys.stdin.read()", str(tmp_path)],
      stdin=subprocess.PIPE))

  yield start
  for child in children:
    child.kill()
    child.wait()


RANK_0 = """
import numpy as np
import stretto.comm
engine = stretto.comm.Engine(sys.argv[1] + "/", 0, 2)
"""


def test_ctrl_c_ends_a_collective_that_waits_for_another_rank(other_rank, tmp_path):
  other_rank("")
  code = RANK_0 + """
soon()
engine.all_reduce(np.ones(8, np.float32))
"""
  assert seconds_to_end(code, tmp_path) < LIMIT_S


def test_a_step_does_not_wait_for_the_tuning_of_another_rank(other_rank, tmp_path):
  steps = """
x = np.ones(1 << 16, np.float32)
for _ in range(5):
  engine.all_reduce(x)
  engine.step()
engine.all_reduce(x)
"""
  other_rank(steps)
  code = RANK_0 + steps + """
engine.step()  # rank 1 does not come to this one, and the next one used to wait for its times
engine.start_all_reduce(x)
engine.step()
handle = engine.start_all_reduce(x)
soon()
engine.wait(handle)
"""
  assert seconds_to_end(code, tmp_path) < LIMIT_S
