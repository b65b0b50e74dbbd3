"""Initialisers of ONNX files that are inputs too."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import stretto

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(nodes, inputs, outputs, initializers=None, ir_version=9):
  graph = helper.make_graph(
    nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
    [helper.make_tensor_value_info(*o) for o in outputs],
    [numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()])
  return helper.make_model(graph, ir_version=ir_version,
                           opset_imports=[helper.make_opsetid("", 19)])


def peer(model, feeds):
  options = onnxruntime.SessionOptions()
  options.log_severity_level = 4
  session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                         providers=["CPUExecutionProvider"])
  return session.run(None, feeds)


def random(*shape, seed=3):
  return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def with_default(rows="N", ir_version=9):
  """y = x w + b, where w and b are inputs with values."""
  return model_of(
    [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
    [("x", FLOAT, [rows, 5]), ("w", FLOAT, [5, 4]), ("b", FLOAT, [4])], [("y", FLOAT, None)],
    {"w": random(5, 4), "b": random(4)}, ir_version=ir_version)


@pytest.mark.parametrize("ir_version", [3, 4, 9])
def test_inputs_with_values_are_constants(ir_version):
  model = with_default(ir_version=ir_version)
  fast = stretto.optimize(model, tuning="off")
  assert [spec.name for spec in fast.inputs] == ["x"]
  x = random(3, 5, seed=4)
  np.testing.assert_allclose(fast(x), peer(model, {"x": x})[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", ["N", 3])
@pytest.mark.parametrize("ask", ["inputs", "shapes"])
def test_inputs_with_values_can_be_given(tmp_path, rows, ask):
  model = with_default(rows)
  x, w = random(3, 5, seed=4), random(5, 4, seed=5)
  asked = {"w": w} if ask == "inputs" else {"w": (5, 4)}
  fast = stretto.optimize(model, tuning="off", **{ask: asked})
  assert [spec.name for spec in fast.inputs] == ["x", "w"]
  want = peer(model, {"x": x, "w": w})[0]
  np.testing.assert_allclose(fast(x=x, w=w), want, rtol=1e-5, atol=1e-5)
  fast.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  np.testing.assert_allclose(loaded(x=x, w=w), want, rtol=1e-5, atol=1e-5)
  with pytest.raises(stretto.InvalidArgumentError, match="b: the ONNX file has a value"):
    loaded(x=x, w=w, b=random(4))


def test_inputs_with_values_name_the_way_to_give_others(tmp_path):
  fast = stretto.optimize(with_default(3), tuning="off")
  fast.save(tmp_path / "m.stretto")
  for model in (fast, stretto.load(tmp_path / "m.stretto")):
    with pytest.raises(stretto.InvalidArgumentError) as error:
      model(x=random(3, 5), w=random(5, 4))
    assert str(error.value) == (
      "w: the ONNX file has a value for this input, which became a constant; optimise the file "
      "with inputs={'w': ...} or shapes={'w': ...} to give other values")
  with pytest.raises(stretto.InvalidArgumentError, match="input w: expected float32 5x4"):
    stretto.optimize(with_default(3), inputs={"w": random(4, 4)}, tuning="off")
  with pytest.raises(stretto.InvalidArgumentError, match="the model has no such input; it has x"):
    fast(x=random(3, 5), v=random(5, 4))


def test_inputs_with_values_in_stages(tmp_path):
  """NonZero makes the model run in stages."""
  model = model_of(
    [helper.make_node("Add", ["x", "b"], ["s"]), helper.make_node("NonZero", ["s"], ["y"])],
    [("x", FLOAT, [6]), ("b", FLOAT, [6])], [("y", INT64, None)],
    {"b": np.array([1, 0, 0, 2, 0, 0], np.float32)})
  x = np.array([0, 1, 0, -2, 0, 3], np.float32)
  np.testing.assert_array_equal(stretto.optimize(model, tuning="off")(x), peer(model, {"x": x})[0])
  b = -x
  fast = stretto.optimize(model, inputs={"b": np.ones(6, np.float32)}, tuning="off")
  fast.save(tmp_path / "m.stretto")
  for one in (fast, stretto.load(tmp_path / "m.stretto")):
    np.testing.assert_array_equal(one(x=x, b=b), peer(model, {"x": x, "b": b})[0])
