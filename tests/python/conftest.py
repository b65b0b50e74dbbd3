"""Small models made with the onnx package, and its own evaluator as the judge."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

SEED = 7
# fp32 sums of a few hundred terms in another order, relative to the largest value.
TOLERANCE = 2e-5


def exact_options():
  """Of a session of ONNX Runtime, whose sums of 8-bit products saturate otherwise where the
  processor has no VNNI."""
  import onnxruntime as ort
  options = ort.SessionOptions()
  options.add_session_config_entry("session.x64quantprecision", "1")
  return options


@pytest.fixture(autouse=True, scope="session")
def own_tuning_cache(tmp_path_factory):
  """Remembered choices of the machine's user must neither help nor suffer."""
  folder = tmp_path_factory.mktemp("cache")
  os.environ["STRETTO_CACHE_DIR"] = str(folder)
  settle_machine_rates(folder / "machine-rates.tsv")


def settle_machine_rates(path):
  """Lets the first measurement count for all processes: a faster one would change the kernels that
  they choose, and so what they find remembered."""
  subprocess.run([sys.executable, "-m", "stretto", "doctor"], capture_output=True, check=False)
  if path.exists():
    header, *machines = path.read_text().splitlines()
    settled = [line.rpartition("\t")[0] + "\t5" for line in machines]
    path.write_text("\n".join([header, *settled, ""]))


@pytest.fixture(autouse=True, scope="session")
def no_flight_records():
  """Jobs that fail on purpose leave no files behind; tests of these files set the variable."""
  os.environ["STRETTO_DUMP"] = "none"


def free_port():
  """A port that is free with the one after it."""
  while True:
    with socket.socket() as first, socket.socket() as second:
      first.bind(("", 0))
      try:
        second.bind(("", first.getsockname()[1] + 1))
      except OSError:
        continue
      return first.getsockname()[1]


@pytest.fixture(scope="session")
def stretto_program() -> str:
  build = os.environ.get("STRETTO_BUILD")
  if not build or not Path(build, "cli", "stretto").exists():
    pytest.skip("no stretto program: set STRETTO_BUILD to a build folder (./dev test does)")
  return str(Path(build, "cli", "stretto"))


@pytest.fixture
def run_command(stretto_program, tmp_path):
  def run(*arguments, code=0):
    done = subprocess.run([stretto_program, *map(str, arguments)], capture_output=True, text=True,
                          cwd=tmp_path, env={**os.environ, "STRETTO_PYTHON": sys.executable},
                          timeout=300)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done

  return run


def value(name, shape, dtype=TensorProto.FLOAT):
  return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, weights):
  graph = helper.make_graph(nodes, "test", inputs, outputs,
                            [numpy_helper.from_array(a, n) for n, a in weights.items()])
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
  onnx.checker.check_model(model)
  return model


def cnn_model(batch=1, size=16):
  """Convolution, normalisation, residual, pooling, classifier: work for every rewrite."""
  rng = np.random.default_rng(SEED)

  def weights(*shape):
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)

  w = {
    "w1": weights(16, 3, 3, 3), "scale": 1 + 0.1 * weights(16), "shift": weights(16),
    "mean": 0.1 * weights(16), "var": np.abs(weights(16)) + 0.5,
    "w2": weights(16, 16, 3, 3), "b2": weights(16), "w3": weights(32, 16, 1, 1),
    "fc": weights(10, 32), "fc_bias": weights(10),
  }
  w = {name: array.astype(np.float32) for name, array in w.items()}
  nodes = [
    helper.make_node("Conv", ["x", "w1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
    helper.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["n1"], "bn1"),
    helper.make_node("Relu", ["n1"], ["r1"], "relu1"),
    helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
    helper.make_node("Add", ["c2", "r1"], ["a2"], "add2"),
    helper.make_node("Relu", ["a2"], ["r2"], "relu2"),
    helper.make_node("Conv", ["r2", "w3"], ["c3"], "conv3", strides=[2, 2]),
    helper.make_node("GlobalAveragePool", ["c3"], ["p"], "pool"),
    helper.make_node("Flatten", ["p"], ["f"], "flatten"),
    helper.make_node("Gemm", ["f", "fc", "fc_bias"], ["y"], "fc", transB=1),
  ]
  return model_of(nodes, [value("x", [batch, 3, size, size])], [value("y", [batch, 10])], w)


def two_by_two_model():
  """Two inputs, two outputs."""
  nodes = [helper.make_node("Add", ["a", "b"], ["sum"], "adder"),
           helper.make_node("Mul", ["a", "b"], ["product"], "multiplier")]
  return model_of(nodes, [value("a", [2, 5]), value("b", [2, 5])],
                  [value("sum", [2, 5]), value("product", [2, 5])], {})


@pytest.fixture(scope="session")
def cnn():
  return cnn_model()


@pytest.fixture(scope="session")
def two_by_two():
  return two_by_two_model()


@pytest.fixture(scope="session")
def cnn_path(cnn, tmp_path_factory):
  path = tmp_path_factory.mktemp("models") / "cnn.onnx"
  onnx.save(cnn, path)
  return path


@pytest.fixture(scope="session")
def image():
  return np.random.default_rng(SEED).standard_normal((1, 3, 16, 16)).astype(np.float32)


def expected(model, **inputs):
  return ReferenceEvaluator(model).run(None, inputs)


def assert_close(got, want, tolerance=TOLERANCE):
  assert got.shape == want.shape
  assert np.abs(got - want).max() <= tolerance * np.abs(want).max()
