"""Initialisers of ONNX files beyond plain constants: those that are inputs too, and sparse ones."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import stretto

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(nodes, inputs, outputs, initializers=None, sparse=(), ir_version=9):
  graph = helper.make_graph(
    nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
    [helper.make_tensor_value_info(*o) for o in outputs],
    [numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()],
    sparse_initializer=sparse)
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


def sparse(name, dense, *, linear=True, dtype=None, order=None):
  """The nonzero elements of an array as a SparseTensorProto."""
  places = np.flatnonzero(dense)
  if order is not None:
    places = places[order]
  values = dense.ravel()[places]
  indices = places if linear else np.stack(np.unravel_index(places, dense.shape), axis=1)
  return helper.make_sparse_tensor(
    numpy_helper.from_array(np.ascontiguousarray(values), name),
    numpy_helper.from_array(np.ascontiguousarray(indices.astype(np.int64)), name + "_indices"),
    list(dense.shape))


def thin(shape, dtype, seed=7):
  random_ = np.random.default_rng(seed)
  dense = random_.integers(1, 100, shape).astype(dtype)
  return np.where(random_.random(shape) < 0.2, dense, np.zeros_like(dense))


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.int8, np.uint8,
                                   np.bool_])
def test_sparse_initialisers_are_made_dense(dtype, linear):
  dense = thin((7, 5, 3), dtype)
  plain = model_of([helper.make_node("Identity", ["w"], ["y"])], [], [("y", 0, None)], {"w": dense})
  want = stretto.optimize(plain, tuning="off")()
  model = model_of([helper.make_node("Identity", ["w"], ["y"])], [], [("y", 0, None)],
                   sparse=[sparse("w", dense, linear=linear)])
  got = stretto.optimize(model, tuning="off")()
  assert got.dtype == dense.dtype
  np.testing.assert_array_equal(got, dense)
  np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("linear", [True, False])
def test_sparse_weights(linear):
  """A product whose input size is open, so that the weights' dimensions fix it."""
  dense = thin((12, 9), np.float32)
  model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", FLOAT, ["N", "M"])],
                   [("y", FLOAT, None)], sparse=[sparse("w", dense, linear=linear)])
  x = random(4, 12)
  np.testing.assert_allclose(stretto.optimize(model, tuning="off")(x), x @ dense, rtol=1e-5,
                             atol=1e-4)
  if linear:
    np.testing.assert_allclose(peer(model, {"x": x})[0], x @ dense, rtol=1e-5, atol=1e-4)


def test_sparse_initialisers_of_stages_and_of_branches():
  dense = thin((6,), np.float32)
  nodes = [helper.make_node("Add", ["x", "b"], ["s"]), helper.make_node("NonZero", ["s"], ["y"])]
  model = model_of(nodes, [("x", FLOAT, [6])], [("y", INT64, None)], sparse=[sparse("b", dense)])
  x = -np.arange(6).astype(np.float32)
  np.testing.assert_array_equal(stretto.optimize(model, tuning="off")(x),
                                np.array(np.nonzero(x + dense)))
  branch = helper.make_graph(
    [helper.make_node("Add", ["x", "c"], ["z"])], "then", [],
    [helper.make_tensor_value_info("z", FLOAT, None)], sparse_initializer=[sparse("c", dense)])
  other = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "else", [],
                            [helper.make_tensor_value_info("z", FLOAT, None)])
  node = helper.make_node("If", ["known"], ["y"], then_branch=branch, else_branch=other)
  for known in (True, False):
    model = model_of([node], [("x", FLOAT, [6])], [("y", FLOAT, None)],
                     {"known": np.array(known)})
    np.testing.assert_array_equal(stretto.optimize(model, tuning="off")(x),
                                  x + dense if known else -x)


@pytest.mark.parametrize("linear", [True, False])
def test_sparse_constants(linear):
  dense = thin((4, 6), np.float32)
  node = helper.make_node("Constant", [], ["w"], sparse_value=sparse("", dense, linear=linear))
  model = model_of([node, helper.make_node("Mul", ["x", "w"], ["y"])], [("x", FLOAT, [4, 6])],
                   [("y", FLOAT, None)])
  x = random(4, 6)
  np.testing.assert_array_equal(stretto.optimize(model, tuning="off")(x), x * dense)
  np.testing.assert_array_equal(peer(model, {"x": x})[0], x * dense)


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (5,), ()])
def test_sparse_without_values(shape):
  dense = np.zeros(shape, np.float32)
  model = model_of([helper.make_node("Identity", ["w"], ["y"])], [], [("y", FLOAT, None)],
                   sparse=[sparse("w", dense)])
  np.testing.assert_array_equal(stretto.optimize(model, tuning="off")(), dense)


def one_value(dims, indices, name="w"):
  return helper.make_sparse_tensor(
    numpy_helper.from_array(np.ones(1, np.float32), name),
    numpy_helper.from_array(np.array(indices, np.int64), name + "_indices"), dims)


@pytest.mark.parametrize("dims, indices, text", [
  ([2, 3], [6], "index 0 lies outside"),
  ([2, 3], [-1], "index 0 lies outside"),
  ([2, 3], [[0, 3]], "index 0 lies outside"),
  ([2, 3], [[0, 1, 2]], "its indices are int64 1x3, expected int64 1 or 1x2"),
  ([2, 3], [0, 1], "its indices are int64 2, expected int64 1 or 1x2"),
  ([2, -3], [0], "a sparse tensor of"),
])
def test_broken_sparse_tensors(dims, indices, text):
  model = model_of([helper.make_node("Identity", ["w"], ["y"])], [], [("y", FLOAT, None)],
                   sparse=[one_value(dims, indices)])
  with pytest.raises(stretto.FormatError) as error:
    stretto.optimize(model, tuning="off")
  assert text in str(error.value)


def test_small_files_get_no_gigabytes():
  """One value each, in files of some hundred bytes."""
  large = model_of([helper.make_node("Identity", ["w"], ["y"])], [], [("y", FLOAT, None)],
                   sparse=[one_value([1 << 15, 1 << 15], [5])])
  with pytest.raises(stretto.UnsupportedError, match="sparse tensor of 32768x32768 has 1 values"):
    stretto.optimize(large, tuning="off")
  names = [f"w{i}" for i in range(5)]
  many = model_of([helper.make_node("Concat", names, ["y"], axis=0)], [], [("y", FLOAT, None)],
                  sparse=[one_value([1 << 12, 1 << 12], [5], name) for name in names])
  with pytest.raises(stretto.UnsupportedError, match="256 MiB of memory together"):
    stretto.optimize(many, tuning="off")
