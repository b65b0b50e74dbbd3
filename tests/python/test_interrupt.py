"""Ctrl-C ends optimize() soon, whatever it is doing."""

import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from conftest import model_of, value
from onnx import helper

LIMIT_S = 1.0

# A job in the background of a shell ignores SIGINT, and so would its children.
SCRIPT = """
import signal
import sys
import stretto

signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", flush=True)
try:
  stretto.optimize(sys.argv[1], **eval(sys.argv[2]))
  print("finished", flush=True)
except KeyboardInterrupt:
  print("interrupted", flush=True)
"""


@pytest.fixture(scope="module")
def heavy_path(tmp_path_factory):
  """Forty layers of different shapes, 2 to 7 GFLOP each: kernels end soon, the whole does not."""
  rng = np.random.default_rng(1)
  nodes, weights, x = [], {}, "x"
  for layer in range(40):
    weights["w"] = (rng.standard_normal((256, 256, 3, 3)) / 48).astype(np.float32)
    nodes.append(helper.make_node("Conv", [x, "w"], [f"y{layer}"], f"conv{layer}",
                                  pads=[1, 1, 2, 1]))  # a row more: a problem of its own
    x = f"y{layer}"
  nodes.append(helper.make_node("GlobalAveragePool", [x], ["y"], "pool"))
  path = tmp_path_factory.mktemp("heavy") / "heavy.onnx"
  onnx.save(model_of(nodes, [value("x", [1, 256, 15, 112])], [value("y", [1, 256, 1, 1])], weights),
            path)
  return path


@pytest.mark.parametrize("options, wait", [
  ({"tuning": 300, "verify": False}, 4),  # in the midst of measuring kernels
  ({"tuning": "off"}, 4),                 # in the double-precision reference
  ({"tuning": "off", "threads": 1}, 4),
  ({"tuning": "off"}, 0.2),               # while the model is read, rewritten and packed
])
def test_ctrl_c_ends_it_within_a_second(options, wait, heavy_path):
  child = subprocess.Popen([sys.executable, "-c", SCRIPT, str(heavy_path), repr(options)],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
  try:
    assert child.stdout.readline() == "ready\n"
    time.sleep(wait)
    child.send_signal(signal.SIGINT)
    sent = time.monotonic()
    said = child.stdout.readline()
    elapsed = time.monotonic() - sent
    _, err = child.communicate(timeout=60)
  finally:
    child.kill()
  assert said == "interrupted\n", err
  assert elapsed < LIMIT_S
