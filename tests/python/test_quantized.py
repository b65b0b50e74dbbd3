"""Quantised models: every operator has a kernel, and results are those of ONNX Runtime."""

import platform

import numpy as np
import onnx
import pytest
from conftest import exact_options, model_of, value
from onnx import TensorProto

import stretto

ort = pytest.importorskip("onnxruntime")

RANDOM = np.random.default_rng(7)
ISAS = ["portable"] if platform.machine() == "aarch64" else ["avx512", "avx2", "portable"]


def dynamic():
  """As onnxruntime.quantization.quantize_dynamic writes a product."""
  node = onnx.helper.make_node
  weight = RANDOM.integers(-127, 128, (96, 40)).astype(np.int8)
  nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
           node("MatMulInteger", ["q", "w", "z", "wz"], ["sums"]),
           node("Cast", ["sums"], ["floats"], to=TensorProto.FLOAT),
           node("Mul", ["s", "ws"], ["scale"]),
           node("Mul", ["floats", "scale"], ["y"])]
  return model_of(nodes, [value("x", [3, 96])], [value("y", [3, 40])],
                  {"w": weight, "wz": np.int8(3), "ws": np.float32(0.01)})


def pairs():
  """QuantizeLinear and DequantizeLinear around a convolution, with weights per channel."""
  node = onnx.helper.make_node
  nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]),
           node("DequantizeLinear", ["q", "s", "z"], ["xd"]),
           node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
           node("Conv", ["xd", "wd"], ["c"], pads=[1] * 4),
           node("QuantizeLinear", ["c", "t", "z"], ["r"]),
           node("DequantizeLinear", ["r", "t", "z"], ["y"])]
  weight = RANDOM.integers(-127, 128, (8, 6, 3, 3)).astype(np.int8)
  return model_of(nodes, [value("x", [1, 6, 9, 9])], [value("y", [1, 8, 9, 9])],
                  {"s": np.float32(0.02), "t": np.float32(0.25), "z": np.uint8(120), "w": weight,
                   "ws": np.linspace(0.01, 0.03, 8, dtype=np.float32), "wz": np.zeros(8, np.int8)})


def operators():
  node = onnx.helper.make_node
  nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]),
           node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "t", "z", "b"], ["r"],
                pads=[1] * 4),
           node("DequantizeLinear", ["r", "t", "z"], ["y"])]
  weight = RANDOM.integers(-127, 128, (8, 6, 3, 3)).astype(np.int8)
  return model_of(nodes, [value("x", [1, 6, 9, 9])], [value("y", [1, 8, 9, 9])],
                  {"s": np.float32(0.02), "t": np.float32(0.25), "z": np.uint8(120), "w": weight,
                   "ws": np.full(8, 0.02, np.float32), "wz": np.zeros(8, np.int8),
                   "b": RANDOM.integers(-900, 900, 8).astype(np.int32)})


def convolution(outputs, channels, **attributes):
  """As older quantisers of ONNX Runtime write it: the bias is quantised when the model runs, and
  weights have a zero point of their own."""
  node = onnx.helper.make_node
  weight = RANDOM.integers(0, 256, (8, channels, 3, 3)).astype(np.uint8)
  nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
           node("ConvInteger", ["q", "w", "z", "wz"], ["sums"], **attributes),
           node("Mul", ["s", "ws"], ["scale"]),
           node("Div", ["b", "scale"], ["steps"]),
           node("Floor", ["steps"], ["floor"]),
           node("Cast", ["floor"], ["bi"], to=TensorProto.INT32),
           node("Reshape", ["bi", "shape"], ["bias"]),
           node("Add", ["sums", "bias"], ["total"]),
           node("Cast", ["total"], ["floats"], to=TensorProto.FLOAT),
           node("Mul", ["floats", "scale"], ["y"])]
  return model_of(nodes, [value("x", [1, channels, 9, 9])],
                  [value("y", ["n", "k", "h", "w"]),
                   value("sums", ["n", "k", "h", "w"], TensorProto.INT32)][:outputs],
                  {"w": weight, "wz": np.uint8(121), "ws": np.float32(0.01),
                   "b": RANDOM.normal(size=8).astype(np.float32),
                   "shape": np.array([1, 8, 1, 1], np.int64)})


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(("channels", "attributes"), [
    (6, {"pads": [1] * 4}), (6, {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    (300, {"pads": [1] * 4})])  # sums of 2,700 products: float32 does not hold them at once
def test_sums_of_convolutions_are_exact(isa, outputs, channels, attributes, monkeypatch):
  monkeypatch.setenv("STRETTO_ISA", isa)
  proto = convolution(outputs, channels, **attributes)
  x = RANDOM.normal(size=(1, channels, 9, 9)).astype(np.float32)
  ours = stretto.optimize(proto, tuning="off")
  kernels = {row["op"]: row["kernel"] for row in ours.report["operators"]}
  assert "reference" not in kernels.values(), kernels
  got = ours(x) if outputs > 1 else [ours(x)]
  want = ort.InferenceSession(proto.SerializeToString(), exact_options()).run(None, {"x": x})
  np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
  if outputs > 1:
    np.testing.assert_array_equal(got[1], want[1])


@pytest.mark.parametrize(("model", "step"), [(dynamic, 1e-4), (pairs, 0.25), (operators, 0.25)])
def test_every_operator_has_a_kernel(model, step):
  proto = model()
  x = RANDOM.normal(size=[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim])
  x = x.astype(np.float32)
  ours = stretto.optimize(proto, tuning="off")
  kernels = {row["op"]: row["kernel"] for row in ours.report["operators"]}
  assert "reference" not in kernels.values(), kernels
  theirs = ort.InferenceSession(proto.SerializeToString(), exact_options()).run(None, {"x": x})[0]
  differences = np.abs(ours(x) - theirs)
  # Next to a tie a value may fall either way.
  assert differences.max() <= 1.01 * step and np.mean(differences > 1e-4) < 0.02


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("weights", [np.int8, np.uint8])
def test_products_of_bytes_stay_integers(isa, weights, monkeypatch):
  monkeypatch.setenv("STRETTO_ISA", isa)
  proto = dynamic()
  # A zero point of 128 makes uint8 what int8 holds.
  offset = 128 if weights == np.uint8 else 0
  for tensor in proto.graph.initializer:
    if tensor.name in ("w", "wz"):
      array = onnx.numpy_helper.to_array(tensor).astype(np.int16) * (tensor.name == "w") + offset
      tensor.CopyFrom(onnx.numpy_helper.from_array(array.astype(weights), tensor.name))
  x = RANDOM.normal(size=(3, 96)).astype(np.float32)
  ours = stretto.optimize(proto, tuning="off")
  kernels = {row["op"]: row["kernel"] for row in ours.report["operators"]}
  if isa == "portable":  # whose products of floats are faster
    assert "stretto.IntegerLinear" not in kernels
  else:
    assert kernels["stretto.IntegerLinear"] in ("dots", "pairs"), kernels
  theirs = ort.InferenceSession(proto.SerializeToString(), exact_options()).run(None, {"x": x})[0]
  np.testing.assert_allclose(ours(x), theirs, rtol=1e-5, atol=1e-5)
