"""Operators of ONNX Runtime's own (domain com.microsoft), one model each, against ONNX Runtime."""

import numpy as np
import pytest
from onnx import ValueInfoProto, helper, numpy_helper
from stretto._model import Model

import stretto
from stretto import _stretto

ort = pytest.importorskip("onnxruntime")

B, S, N, H = 2, 5, 4, 8  # batch, length, heads, size of a head
D = N * H
RNG = np.random.default_rng(7)


def floats(*shape, scale=1.0):
  return (scale * RNG.standard_normal(shape)).astype(np.float32)


def cache(rows, columns):
  """Cosines and sines as a rotary model has them."""
  angle = np.outer(np.arange(rows), 1 / 100 ** (np.arange(columns) / columns))
  return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def ints(*values):
  return np.array(values, np.int32)


# (operator, inputs by name, number of outputs, attributes). An input whose name begins with "c_" is
# a constant of the model; None is an absent one.
X = floats(B, S, D)
QKV = floats(D, 3 * D, scale=0.3)
BIAS = floats(3 * D)
COS, SIN = cache(32, H // 2)
COS16, SIN16 = cache(32, 8)
RIGHT = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
IMAGE = floats(2, 6, 6, 8)

CASES = [
    ("Gelu", {"x": X}, 1, {}),
    ("BiasGelu", {"x": X, "c_b": floats(D)}, 1, {}),
    ("FastGelu", {"x": X}, 1, {}),
    ("FastGelu", {"x": X, "c_b": floats(D)}, 1, {}),
    ("QuickGelu", {"x": X}, 1, {}),
    ("QuickGelu", {"x": X}, 1, {"alpha": 1.5}),
    ("ExpandDims", {"x": X, "c_axis": np.array(1, np.int32)}, 1, {}),
    ("Trilu", {"x": floats(6, 6), "c_k": np.array(1, np.int64)}, 1, {"upper": 0}),
    ("FusedConv", {"x": floats(1, 3, 8, 8), "c_w": floats(4, 3, 3, 3), "c_b": floats(4)}, 1,
     {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    ("FusedConv", {"x": floats(1, 3, 8, 8), "c_w": floats(4, 3, 3, 3)}, 1,
     {"activation": "LeakyRelu", "activation_params": [0.2]}),
    ("FusedConv", {"x": floats(1, 3, 8, 8), "c_w": floats(4, 3, 1, 1), "c_b": floats(4),
                   "z": floats(1, 4, 8, 8)}, 1,
     {"activation": "Clip", "activation_params": [0.0, 6.0]}),
    ("FusedGemm", {"a": floats(4, 6), "c_b": floats(5, 6), "c_c": floats(5)}, 1,
     {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1, "alpha": 0.5}),
    ("FusedMatMul", {"a": floats(2, 4, 6), "b": floats(2, 5, 6)}, 1, {"transB": 1, "alpha": 0.25}),
    ("FusedMatMul", {"a": floats(2, 6, 4), "c_b": floats(6, 5)}, 1, {"transA": 1}),
    ("SkipLayerNormalization", {"x": X, "s": floats(B, S, D), "c_g": floats(D), "c_b": floats(D),
                                "c_bias": floats(D)}, 4, {"epsilon": 1e-5}),
    ("SkipLayerNormalization", {"x": X, "s": floats(B, S, D), "c_g": floats(D)}, 1, {}),
    ("SkipLayerNormalization", {"x": X, "s": floats(S, D), "c_g": floats(D), "c_b": floats(D)}, 1,
     {}),
    ("SkipSimplifiedLayerNormalization", {"x": X, "s": floats(B, S, D), "c_g": floats(D),
                                          "c_bias": floats(D)}, 4, {"epsilon": 1e-6}),
    (":SimplifiedLayerNormalization", {"x": X, "c_g": floats(D)}, 1, {"epsilon": 1e-6, "axis": -1}),
    ("EmbedLayerNormalization", {"ids": ints([1, 2, 3], [4, 5, 6]),
                                 "segments": ints([0, 0, 1], [1, 0, 1]),
                                 "c_w": floats(9, D), "c_p": floats(7, D), "c_s": floats(2, D),
                                 "c_g": floats(D), "c_b": floats(D),
                                 "mask": ints([1, 1, 0], [1, 1, 1])}, 3, {}),
    ("EmbedLayerNormalization", {"ids": ints([1, 2, 3], [4, 5, 6]), "segments": None,
                                 "c_w": floats(9, D), "c_p": floats(7, D), "c_s": None,
                                 "c_g": floats(D), "c_b": floats(D)}, 2, {}),
    ("RotaryEmbedding", {"x": floats(B, S, D), "at": np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]),
                         "c_cos": COS, "c_sin": SIN}, 1, {}),
    ("RotaryEmbedding", {"x": floats(B, S, D), "at": np.array([3]), "c_cos": COS, "c_sin": SIN}, 1,
     {"interleaved": 1}),
    ("RotaryEmbedding", {"x": floats(B, N, S, H), "at": np.array([[0, 1, 2, 3, 4]] * 2),
                         "c_cos": COS[:, :2].copy(), "c_sin": SIN[:, :2].copy()}, 1,
     {"rotary_embedding_dim": 4, "num_heads": N}),
    # Attention: plain, masks of every form, causal, cached, with scores.
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS}, 1, {"num_heads": N}),
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS, "mask": RIGHT}, 1, {"num_heads": N}),
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS, "mask": ints(4, 2)}, 1, {"num_heads": N}),
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS, "mask": ints(4, 5, 1, 0)}, 1, {"num_heads": N}),
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS,
                   "mask": np.tril(np.ones((B, S, S), np.int32))}, 1,
     {"num_heads": N, "mask_filter_value": -1e4}),
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS}, 2, {"num_heads": N, "unidirectional": 1}),
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS, "mask": None, "past": floats(2, B, N, 3, H)}, 2,
     {"num_heads": N, "unidirectional": 1}),
    ("Attention", {"x": X, "c_w": floats(D, 80, scale=0.3), "c_b": floats(80), "mask": None,
                   "past": None, "scores": floats(B, N, S, S)}, 1,
     {"num_heads": N, "qkv_hidden_sizes": [32, 32, 16], "scale": 0.3}),
    ("MultiHeadAttention", {"q": X, "k": floats(B, 7, D), "v": floats(B, 7, D)}, 1,
     {"num_heads": N}),
    ("MultiHeadAttention", {"q": X, "k": floats(B, S, D), "v": floats(B, S, D), "c_b": BIAS,
                            "mask": RIGHT}, 1, {"num_heads": N}),
    ("MultiHeadAttention", {"q": X, "k": floats(B, S, D), "v": floats(B, S, D), "c_b": None,
                            "mask": ints(4, 2)}, 1, {"num_heads": N}),
    ("MultiHeadAttention", {"q": X, "k": floats(B, N, 7, H), "v": floats(B, N, 7, H)}, 1,
     {"num_heads": N}),
    ("MultiHeadAttention", {"q": X, "k": floats(B, S, D), "v": floats(B, S, D), "c_b": None,
                            "mask": None, "scores": floats(1, N, S, S + 3),
                            "pk": floats(B, N, 3, H), "pv": floats(B, N, 3, H)}, 3,
     {"num_heads": N, "unidirectional": 1}),
    # Grouped queries: prompts, one token behind a cache, shared buffers, windows, rotation.
    ("GroupQueryAttention", {"q": floats(B, S, 64), "k": floats(B, S, 32),
                             "v": floats(B, S, 32), "pk": None,
                             "pv": None, "last": ints(4, 4),
                             "c_total": np.array(5, np.int32)}, 3,
     {"num_heads": N, "kv_num_heads": 2}),
    ("GroupQueryAttention", {"q": floats(B, S, 128), "k": None, "v": None, "pk": None,
                             "pv": None, "last": ints(4, 4), "c_total": np.array(5, np.int32),
                             "c_cos": COS16, "c_sin": SIN16}, 3,
     {"num_heads": N, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 2}),
    ("GroupQueryAttention", {"q": floats(1, 1, 128), "k": None, "v": None,
                             "pk": floats(1, 2, 6, 16), "pv": floats(1, 2, 6, 16), "last": ints(6),
                             "c_total": np.array(7, np.int32), "c_cos": COS16, "c_sin": SIN16}, 3,
     {"num_heads": N, "kv_num_heads": 2, "do_rotary": 1, "softcap": 3.0, "scale": 0.2}),
    ("GroupQueryAttention", {"q": floats(1, 3, 128), "k": None, "v": None,
                             "pk": floats(1, 2, 6, 16), "pv": floats(1, 2, 6, 16), "last": ints(8),
                             "c_total": np.array(9, np.int32), "c_cos": COS16, "c_sin": SIN16}, 3,
     {"num_heads": N, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1,
      "local_window_size": 4}),
    ("GroupQueryAttention", {"q": floats(1, 1, 128), "k": None, "v": None,
                             "pk": floats(1, 2, 6, 16), "pv": floats(1, 2, 6, 16), "last": ints(6),
                             "c_total": np.array(7, np.int32), "c_cos": None, "c_sin": None,
                             "at": None, "scores": floats(1, N, 1, 7)}, 3,
     {"num_heads": N, "kv_num_heads": 2}),
    ("GroupQueryAttention", {"q": floats(1, 3, 128), "k": None, "v": None,
                             "pk": None, "pv": None, "last": ints(2),
                             "c_total": np.array(3, np.int32), "c_cos": None, "c_sin": None,
                             "at": None, "scores": None, "c_sink": floats(N)}, 3,
     {"num_heads": N, "kv_num_heads": 2}),
    ("GroupQueryAttention", {"q": floats(1, 4, 128), "k": None, "v": None, "pk": None, "pv": None,
                             "last": ints(3), "c_total": np.array(4, np.int32)}, 3,
     {"num_heads": N, "kv_num_heads": 2, "smooth_softmax": 1}),
]


def model_of(op, inputs, outputs, attributes):
  names = ["" if v is None else k for k, v in inputs.items()]
  while names and not names[-1]:
    names.pop()
  domain = "" if op.startswith(":") else "com.microsoft"
  node = helper.make_node(op.lstrip(":"), names, [f"o{i}" for i in range(outputs)], "node",
                          domain=domain, **attributes)
  given = {k: v for k, v in inputs.items() if v is not None}
  infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
           for k, v in given.items() if not k.startswith("c_")]
  constants = [numpy_helper.from_array(v, k) for k, v in given.items() if k.startswith("c_")]
  graph = helper.make_graph([node], "single", infos,
                            [ValueInfoProto(name=f"o{i}") for i in range(outputs)], constants)
  opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
  feeds = {k: v for k, v in given.items() if not k.startswith("c_")}
  return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def run_peer(model, feeds):
  options = ort.SessionOptions()
  options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
  options.log_severity_level = 4
  session = ort.InferenceSession(model.SerializeToString(), options,
                                 providers=["CPUExecutionProvider"])
  return session.run(None, feeds)


def run_ours(model, feeds):
  options = _stretto.Options()
  options.tuning, options.tuning_cache, options.threads = "off", "none", 1
  options.verify = options.profile = False
  model = Model(_stretto.optimize(None, model.SerializeToString(), "model", options, {}, None))
  made = model(feeds) if feeds else model()
  return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: f"{CASES[i][0].lstrip(':')}-{i}")
def test_an_operator_gives_what_onnxruntime_gives(case):
  op, inputs, outputs, attributes = CASES[case]
  if outputs == 4:  # those in the middle are for training
    names = [0, 3]
  else:
    names = list(range(outputs))
  model, feeds = model_of(op, inputs, outputs, attributes)
  for i in sorted(set(range(outputs)) - set(names), reverse=True):
    model.graph.node[0].output[i] = ""
    del model.graph.output[i]
  want, got = run_peer(model, feeds), run_ours(model, feeds)
  assert len(want) == len(got)
  for a, b in zip(got, want, strict=True):
    b = np.asarray(b)
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_allclose(a, b, atol=3e-5 * max(1, float(np.abs(b).max())), rtol=0)


@pytest.mark.parametrize("slots", [9, 4])
def test_each_sample_has_its_length(slots):
  """Caches of the longest length, as onnxruntime-genai has them, or of the longest sample's."""
  past = [4, 2]
  q = floats(2, 1, 128)
  keys, values = floats(2, 2, slots, 16), floats(2, 2, slots, 16)
  inputs = {"q": q, "k": None, "v": None, "pk": keys, "pv": values, "last": ints(*past),
            "c_total": np.array(5, np.int32)}
  attributes = {"num_heads": N, "kv_num_heads": 2}
  model, feeds = model_of("GroupQueryAttention", inputs, 3, attributes)
  y, now_keys, now_values = run_ours(model, feeds)
  assert now_keys.shape == (2, 2, max(slots, 5), 16)
  for b, length in enumerate(past):
    alone = {"q": q[b:b + 1], "k": None, "v": None, "pk": keys[b:b + 1, :, :length].copy(),
             "pv": values[b:b + 1, :, :length].copy(), "last": ints(length),
             "c_total": np.array(length + 1, np.int32)}
    want = run_peer(*model_of("GroupQueryAttention", alone, 3, attributes))
    np.testing.assert_allclose(y[b:b + 1], want[0], atol=1e-5)
    np.testing.assert_allclose(now_keys[b:b + 1, :, :length + 1], want[1], atol=1e-6)
    np.testing.assert_allclose(now_values[b:b + 1, :, :length + 1], want[2], atol=1e-6)
    if slots == 9:
      np.testing.assert_array_equal(now_keys[b, :, length + 1:], keys[b, :, length + 1:])


def test_packed_attention_is_that_of_its_parts():
  """ONNX Runtime has packed forms for other devices only."""
  parts = [floats(B, S, N, H) for _ in range(3)]
  bias = floats(3 * D)
  flat = {name: part.reshape(B, S, D) for name, part in zip("qkv", parts, strict=True)}
  want, = run_ours(*model_of("MultiHeadAttention", flat, 1, {"num_heads": N}))
  both = {"q": flat["q"], "k": np.stack(parts[1:], 3)}
  got, = run_ours(*model_of("MultiHeadAttention", both, 1, {"num_heads": N}))
  np.testing.assert_allclose(got, want, atol=1e-5)
  want, = run_ours(*model_of("MultiHeadAttention", {**flat, "c_b": bias}, 1, {"num_heads": N}))
  packed = {"q": np.stack(parts, 3), "k": None, "v": None, "c_b": bias}
  got, = run_ours(*model_of("MultiHeadAttention", packed, 1, {"num_heads": N}))
  np.testing.assert_allclose(got, want, atol=1e-5)


def test_operators_of_diffusion_models():
  """ONNX Runtime has them for other devices only."""
  skip, gamma, beta, bias = floats(2, 6, 6, 8), floats(8), floats(8), floats(8)

  def normed(x):
    groups = x.reshape(2, 36, 2, 4)
    centred = groups - groups.mean((1, 3), keepdims=True)
    y = centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-5)
    y = y.reshape(x.shape) * gamma + beta
    return y / (1 + np.exp(-y))

  attributes = {"groups": 2, "activation": 1, "channels_last": 1}
  weights = {"c_g": gamma, "c_b": beta}
  got, = run_ours(*model_of("GroupNorm", {"x": IMAGE, **weights}, 1, attributes))
  np.testing.assert_allclose(got, normed(IMAGE), atol=1e-5)
  inputs = {"x": IMAGE, **weights, "s": skip, "c_bias": bias}
  got, total = run_ours(*model_of("SkipGroupNorm", inputs, 2, attributes))
  np.testing.assert_allclose(total, IMAGE + skip + bias, atol=1e-5)
  np.testing.assert_allclose(got, normed(IMAGE + skip + bias), atol=1e-5)
  got, = run_ours(*model_of("BiasAdd", {"x": X, "c_b": floats(D) * 0 + 1, "s": X}, 1, {}))
  np.testing.assert_allclose(got, 2 * X + 1, atol=1e-6)
  half = X[..., D // 2:] + 1
  gelu, = run_ours(*model_of("Gelu", {"x": np.ascontiguousarray(half)}, 1, {}))
  got, = run_ours(*model_of("BiasSplitGelu", {"x": X, "c_b": floats(D) * 0 + 1}, 1, {}))
  np.testing.assert_allclose(got, (X[..., :D // 2] + 1) * gelu, atol=1e-5)


@pytest.mark.parametrize(("op", "inputs", "attributes", "text"), [
    ("MultiHeadAttention", {"q": X, "k": X, "v": X}, {"num_heads": 5}, "num_heads|heads"),
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS}, {"num_heads": N, "do_rotary": 1},
     "do_rotary is not supported"),
    ("Attention", {"x": X, "c_w": QKV, "c_b": BIAS, "mask": ints(*range(8))}, {"num_heads": N},
     "a mask of shape 8"),
    ("FusedConv", {"x": floats(1, 3, 8, 8), "c_w": floats(4, 3, 1, 1)}, {"activation": "Mish"},
     "activation Mish is not supported"),
    ("BiasGelu", {"x": X}, {}, "input 1 is missing"),
])
def test_what_is_wrong_is_named(op, inputs, attributes, text):
  model, _ = model_of(op, inputs, 1, attributes)
  with pytest.raises(stretto.Error, match=text) as error:
    run_ours(model, {})
  assert "node" in str(error.value)
