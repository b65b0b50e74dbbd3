"""Quantised operators of ONNX Runtime's own (domain com.microsoft), against ONNX Runtime: single
nodes, and what its quantisers make of small models."""

import numpy as np
import onnx
import pytest
from conftest import exact_options
from onnx import TensorProto, helper, numpy_helper
from test_onnxruntime_operators import model_of, run_ours, run_peer

import stretto

ort = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")

RNG = np.random.default_rng(11)


def floats(*shape):
  return RNG.standard_normal(shape).astype(np.float32)


def octets(*shape, low=0, high=256, dtype=np.uint8):
  if dtype == np.int8:  # without VNNI, ONNX Runtime adds pairs of products in 16 bits
    low, high = max(low, -64), min(high, 64)
  return RNG.integers(low, high, shape).astype(dtype)


def number(value, dtype=np.float32):
  return np.array(value, dtype)


def bits_case(bits, block, inner, columns, zeros=None, **more):
  blocks = -(-inner // block)
  inputs = {"a": floats(2, 3, inner), "c_b": octets(columns, blocks, block * bits // 8),
            "c_s": np.abs(floats(columns, blocks)) * 0.1}
  if zeros == "packed":
    inputs["c_z"] = octets(columns, -(-blocks * bits // 8))
  elif zeros == "floats":
    inputs["c_z"] = floats(columns, blocks) + 8
  attributes = {"K": inner, "N": columns, "bits": bits, "block_size": block}
  return "MatMulNBits", inputs | more, attributes, 1e-5


LINEAR = {"s1": number(0.02), "z1": number(128, np.uint8), "s2": number(0.03),
          "z2": number(117, np.uint8)}
OUT = {"c_s3": number(0.05), "c_z3": number(120, np.uint8)}


def binary(op):
  inputs = {"a": octets(2, 3, 8), "c_s1": LINEAR["s1"], "c_z1": LINEAR["z1"], "b": octets(3, 8),
            "c_s2": LINEAR["s2"], "c_z2": LINEAR["z2"], **OUT}
  return op, inputs, {}, 0.051


def unary(op, **attributes):
  inputs = {"x": octets(2, 4, 6, 6), "c_s1": number(0.03), "c_z1": number(128, np.uint8), **OUT}
  return op, inputs, attributes, 1.01


# (operator, inputs, attributes, allowed difference). One step of a quantised output is 1.
CASES = [
    bits_case(4, 16, 64, 10),
    bits_case(4, 32, 80, 7, "packed"),
    bits_case(4, 32, 96, 12, "floats"),
    bits_case(8, 32, 96, 12),
    bits_case(4, 16, 64, 10, None, c_z=None, c_g=None, c_bias=floats(10)),
    ("GatherBlockQuantized", {"c_data": octets(9, 32), "at": np.array([[1, 8], [0, 3]], np.int64),
                              "c_s": np.abs(floats(9, 4))},
     {"block_size": 16, "bits": 4, "gather_axis": 0, "quantize_axis": 1}, 1e-6),
    ("QuantizeLinear", {"x": floats(3, 8), "c_s": number(0.0001), "c_z": number(300, np.uint16)},
     {}, 1.01),
    ("DequantizeLinear", {"x": octets(3, 8, high=60000, dtype=np.uint16), "c_s": number(0.01),
                          "c_z": number(300, np.uint16)}, {}, 1e-3),
    ("DynamicQuantizeMatMul", {"a": floats(2, 5, 8), "c_b": octets(8, 6), "c_s": number(0.02),
                               "c_z": number(120, np.uint8), "c_bias": floats(6)}, {}, 1e-4),
    ("MatMulIntegerToFloat", {"a": octets(5, 8),
                              "c_b": octets(8, 6, low=-99, high=99, dtype=np.int8),
                              "c_as": number(0.02), "c_bs": np.abs(floats(6)) * 0.1,
                              "c_az": number(99, np.uint8), "c_bz": None, "c_bias": floats(6)}, {},
     1e-3),
    binary("QLinearAdd"),
    binary("QLinearMul"),
    unary("QLinearSigmoid"),
    unary("QLinearLeakyRelu", alpha=0.2),
    unary("QLinearGlobalAveragePool"),
    unary("QLinearAveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    ("NhwcMaxPool", {"x": octets(2, 7, 6, 4)}, {"kernel_shape": [3, 2], "strides": [2, 1],
                                                "pads": [1, 0, 1, 1]}, 0),
    ("NhwcMaxPool", {"x": octets(1, 9, 8, 3, dtype=np.int8)},
     {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER", "ceil_mode": 1}, 0),
]


def attention(weight=np.int8, columns=False, **more):
  """Inputs of QAttention: rows of 32, 4 heads."""
  signed = weight == np.int8
  inputs = {"x": octets(2, 5, 32),
            "c_w": octets(32, 96, low=-90 if signed else 0, high=91 if signed else 256,
                          dtype=weight),
            "c_b": floats(96), "c_xs": number(0.02),
            "c_ws": np.abs(floats(96)) * 0.01 if columns else number(0.01),
            "mask": None, "c_xz": number(120, np.uint8),
            "c_wz": number(0 if signed else 131, weight)}
  return inputs | more


def embedding(segments, mask):
  """Inputs of QEmbedLayerNormalization: 9 words, 8 positions, rows of 16."""
  scales, zeros = [0.02, 0.01, 0.03, 0.01, 0.02], [120, 131, 99, 20, 128]
  names = ["word", "position", "segment", "gamma", "beta"]
  given = [True, True, segments, True, True]
  inputs = {"ids": octets(2, 5, high=9, dtype=np.int32),
            "segments": octets(2, 5, high=2, dtype=np.int32) if segments else None,
            "c_word": octets(9, 16), "c_position": octets(8, 16),
            "c_segment": octets(2, 16) if segments else None,
            "c_gamma": octets(16), "c_beta": octets(16),
            "mask": np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32) if mask else None}
  for name, scale, there in zip(names, scales, given, strict=True):
    inputs[f"c_{name}_s"] = number(scale) if there else None
  for name, zero, there in zip(names, zeros, given, strict=True):
    inputs[f"c_{name}_z"] = number(zero, np.uint8) if there else None
  return inputs


def gemm(c=True, y=True, columns=False, **attributes):
  inputs = {"a": octets(*((8, 4) if attributes.get("transA") else (4, 8))), "c_as": number(0.03),
            "c_az": number(118, np.uint8),
            "c_b": octets(*((6, 8) if attributes.get("transB") else (8, 6)), low=-99, high=99,
                          dtype=np.int8),
            "c_bs": np.abs(floats(6)) * 0.02 + 0.001 if columns else number(0.02),
            "c_bz": octets(6, low=-5, high=5, dtype=np.int8) if columns else number(3, np.int8),
            "c_c": octets(6, low=-500, high=500, dtype=np.int32) if c else None}
  if y:
    inputs |= {"c_ys": number(0.1), "c_yz": number(111, np.uint8)}
  return "QGemm", inputs, attributes, 1.01 if y else 1e-4


def where():
  inputs = {"c": octets(3, 4, high=2).astype(bool), "x": octets(3, 4), "c_xs": number(0.02),
            "c_xz": number(100, np.uint8), "y": octets(4), "c_ys": number(0.04),
            "c_yz": number(140, np.uint8), "c_zs": number(0.05), "c_zz": number(120, np.uint8)}
  return "QLinearWhere", inputs, {}, 1.01


def concat(axis):
  inputs = {"c_ys": number(0.05), "c_yz": number(120, np.uint8)}
  for i, (scale, zero) in enumerate([(0.02, 100), (0.05, 120), (0.09, 7)]):
    inputs |= {f"x{i}": octets(2, 3, 4), f"c_s{i}": number(scale),
               f"c_z{i}": number(zero, np.uint8)}
  return "QLinearConcat", inputs, {"axis": axis}, 1.01


def channels_last(group=1, columns=False, bias=True, **attributes):
  count = 8
  inputs = {"x": octets(2, 7, 9, 4), "c_xs": number(0.02), "c_xz": number(117, np.uint8),
            "c_w": octets(count, 4 // group, 3, 3, low=-90, high=91, dtype=np.int8),
            "c_ws": np.abs(floats(count)) * 0.02 + 0.001 if columns else number(0.02),
            "c_wz": np.zeros(count, np.int8) if columns else number(0, np.int8),
            "c_ys": number(0.2), "c_yz": number(121, np.uint8),
            "c_b": octets(count, low=-900, high=900, dtype=np.int32) if bias else None}
  return "QLinearConv", inputs, {"channels_last": 1, "group": group, **attributes}, 1.01


MORE_CASES = [
    ("QAttention", attention(), {"num_heads": 4}, 1e-4),
    ("QAttention", attention(columns=True), {"num_heads": 4, "unidirectional": 1}, 1e-4),
    ("QAttention", attention(np.uint8, mask=np.array([4, 2], np.int32)), {"num_heads": 4}, 1e-4),
    ("QAttention", attention(mask=np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32)),
     {"num_heads": 4}, 1e-4),
    ("QAttention", attention(past=floats(2, 2, 4, 3, 8)), {"num_heads": 4, "unidirectional": 1},
     1e-4),
    ("QEmbedLayerNormalization", embedding(True, True), {}, 1e-4),
    ("QEmbedLayerNormalization", embedding(False, False), {"epsilon": 1e-3}, 1e-4),
    where(), concat(1), concat(-1),
    gemm(), gemm(c=False), gemm(y=False, columns=True), gemm(columns=True, transB=1),
    gemm(transA=1, alpha=0.5),
    channels_last(), channels_last(columns=True, pads=[1, 0, 1, 2], strides=[2, 1]),
    channels_last(group=4, bias=False, auto_pad="SAME_UPPER"),
    ("QLinearSoftmax", {"x": octets(2, 4, 6), "c_s1": number(0.03), "c_z1": number(128, np.uint8),
                        "c_s3": number(1 / 256), "c_z3": number(0, np.uint8)},
     {"axis": -1, "opset": 13}, 1.01),
]


@pytest.mark.parametrize("case", range(len(MORE_CASES)), ids=lambda i: f"{MORE_CASES[i][0]}-{i}")
def test_every_output_is_what_onnxruntime_gives(case):
  op, inputs, attributes, allowed = MORE_CASES[case]
  outputs = 2 if op == "QEmbedLayerNormalization" or "past" in inputs else 1
  model, feeds = model_of(op, inputs, outputs, attributes)
  wanted, made = run_peer(model, feeds), run_ours(model, feeds)
  for want, got in zip(wanted, made, strict=True):
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.abs(got.astype(np.float64) - want.astype(np.float64)).max() <= allowed


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: f"{CASES[i][0]}-{i}")
def test_an_operator_gives_what_onnxruntime_gives(case):
  op, inputs, attributes, allowed = CASES[case]
  model, feeds = model_of(op, inputs, 1, attributes)
  want, got = run_peer(model, feeds)[0], run_ours(model, feeds)[0]
  assert got.shape == want.shape and got.dtype == want.dtype
  assert np.abs(got.astype(np.float64) - want.astype(np.float64)).max() <= allowed


def weights(name, *shape):
  scale = np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 1
  return numpy_helper.from_array(floats(*shape) / np.float32(scale), name)


def saved(path, nodes, shape, outputs, constants):
  given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
  made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
  graph = helper.make_graph(nodes, "g", given, made, constants)
  opsets = [helper.make_opsetid("", 17)]
  onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
  return path


def convnet(path):
  nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1] * 4),
           helper.make_node("Relu", ["a"], ["r"]),
           helper.make_node("Conv", ["r", "w2"], ["c"], pads=[1] * 4),
           helper.make_node("Add", ["c", "r"], ["s"]),
           helper.make_node("Sigmoid", ["s"], ["t"]),
           helper.make_node("Mul", ["s", "t"], ["m"]),
           helper.make_node("AveragePool", ["m"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
           helper.make_node("Concat", ["p", "p"], ["q"], axis=1),
           helper.make_node("GlobalAveragePool", ["q"], ["g"]),
           helper.make_node("Flatten", ["g"], ["f"]),
           helper.make_node("Gemm", ["f", "w3", "b3"], ["l"], transB=1),
           helper.make_node("Softmax", ["l"], ["y"])]
  constants = [weights("w1", 16, 3, 3, 3), weights("b1", 16), weights("w2", 16, 16, 3, 3),
               weights("w3", 10, 32), weights("b3", 10)]
  return saved(path, nodes, [1, 3, 16, 16], ["y"], constants)


def agree(path, feeds, allowed, options=None):
  want = ort.InferenceSession(path, options,
                              providers=["CPUExecutionProvider"]).run(None, feeds)
  got = stretto.optimize(path, feeds, threads=1, tuning="off", tuning_cache="none",
                         progress=False)(feeds)
  for a, b in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
    assert np.abs(a - b).max() <= allowed * np.abs(b).max()


@pytest.mark.parametrize("form", ["QOperator", "QDQ"])
def test_statically_quantised_convolutions(tmp_path, form):
  x = floats(1, 3, 16, 16)

  class Samples(quantization.CalibrationDataReader):
    def __init__(self):
      self.left = [{"x": x}, {"x": x / 2}]

    def get_next(self):
      return self.left.pop() if self.left else None

  path = str(tmp_path / "quantised.onnx")
  more = {} if form == "QOperator" else {"activation_type": quantization.QuantType.QUInt16,
                                         "extra_options": {"UseQDQContribOps": True}}
  quantization.quantize_static(convnet(str(tmp_path / "m.onnx")), path, Samples(),
                               quant_format=quantization.QuantFormat[form], **more)
  domains = {node.domain for node in onnx.load(path).graph.node}
  assert "com.microsoft" in domains
  agree(path, {"x": x}, 0.02)


@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamically_quantised_recurrence(tmp_path, per_channel):
  """ONNX Runtime rounds the inputs and the state of every step as well."""
  nodes = [helper.make_node("LSTM", ["x", "W", "R", "B"], ["h", "", "c"], hidden_size=32,
                            direction="bidirectional"),
           helper.make_node("MatMul", ["h", "m"], ["y"])]
  constants = [weights("W", 2, 128, 24), weights("R", 2, 128, 32), weights("B", 2, 256),
               weights("m", 32, 48)]
  plain = saved(str(tmp_path / "m.onnx"), nodes, [12, 2, 24], ["y", "c"], constants)
  path = str(tmp_path / "quantised.onnx")
  quantization.quantize_dynamic(plain, path, per_channel=per_channel)
  assert "DynamicQuantizeLSTM" in {node.op_type for node in onnx.load(path).graph.node}
  agree(path, {"x": floats(12, 2, 24)}, 0.03, exact_options())


def test_what_is_wrong_is_named():
  op, inputs, attributes, _ = bits_case(4, 16, 64, 10)
  model, _ = model_of(op, inputs, 1, attributes | {"bits": 3})
  with pytest.raises(stretto.Error, match="bits") as error:
    run_ours(model, {})
  assert "node" in str(error.value)
