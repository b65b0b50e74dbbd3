"""Operators that draw random numbers: what they draw, when it is the same, and where it goes."""

import threading

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import stretto

MANY = 100_000
FLOAT, DOUBLE, INT32, INT64 = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32,
                               TensorProto.INT64)


def model_of(nodes, inputs, outputs, opset=21):
  """`inputs` and `outputs`: names with types and shapes."""
  values = [[helper.make_tensor_value_info(*value) for value in side] for side in (inputs, outputs)]
  graph = helper.make_graph(nodes, "draws", *values)
  made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
  onnx.checker.check_model(made)
  return made.SerializeToString()


def node(op, inputs, output="y", **attributes):
  return helper.make_node(op, inputs, [output], **attributes)


def optimized(model, **options):
  return stretto.optimize(model, **{"tuning": "off", "tuning_cache": "none", "threads": 1,
                                    **options})


def noisy(shape=("n", 3)):
  """What decoders of speech do: x + scale * noise."""
  return model_of([node("RandomNormalLike", ["x"], "noise", scale=0.5),
                   node("Add", ["x", "noise"])],
                  [("x", FLOAT, shape)], [("y", FLOAT, shape)])


def close(value, expected, deviation):
  """Whether a mean of MANY values of this standard deviation is as expected."""
  assert abs(value - expected) < 5.5 * deviation / MANY ** 0.5


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
@pytest.mark.parametrize("op, attributes, mean, deviation", [
  ("RandomNormal", {}, 0, 1),
  ("RandomNormal", {"mean": 3.0, "scale": 0.25}, 3, 0.25),
  ("RandomUniform", {}, 0.5, 12 ** -0.5),
  ("RandomUniform", {"low": -3.0, "high": 1.0}, -1, 4 * 12 ** -0.5),
])
def test_numbers_have_their_distribution(op, attributes, mean, deviation, dtype):
  model = optimized(model_of([node(op, [], shape=[MANY], dtype=dtype, **attributes)], [],
                             [("y", dtype, [MANY])]))
  y = model.run({})["y"]
  assert y.dtype == (np.float64 if dtype == DOUBLE else np.float32)
  close(y.mean(), mean, deviation)
  close(((y - mean) ** 2).mean(), deviation ** 2, 1.5 * deviation ** 2)
  assert not np.array_equal(model.run({})["y"], y)


def test_shapes_and_types_are_those_of_the_input():
  model = optimized(model_of(
    [node("RandomUniformLike", ["x"], "a"), node("RandomNormalLike", ["x"], "b", dtype=DOUBLE),
     node("RandomUniformLike", ["i"], "c", dtype=FLOAT)],
    [("x", FLOAT, ["n", 4]), ("i", INT64, [2, "m"])],
    [("a", FLOAT, ["n", 4]), ("b", DOUBLE, ["n", 4]), ("c", FLOAT, [2, "m"])]))
  for n, m in ((1, 5), (3, 2), (0, 1)):
    y = model.run({"x": np.ones((n, 4), np.float32), "i": np.ones((2, m), np.int64)})
    assert [y[k].shape for k in "abc"] == [(n, 4), (n, 4), (2, m)]
    assert [y[k].dtype for k in "abc"] == [np.float32, np.float64, np.float32]


def test_an_integer_input_needs_a_type():
  with pytest.raises(stretto.InvalidArgumentError, match="RandomNormalLike.*dtype.*got int64"):
    optimized(model_of([node("RandomNormalLike", ["i"])], [("i", INT64, [2])],
                       [("y", FLOAT, [2])]))


def test_bernoulli_draws_by_chances():
  chances = np.tile(np.array([0, 0.1, 0.5, 1], np.float32), (MANY, 1))
  model = optimized(model_of([node("Bernoulli", ["x"]), node("Bernoulli", ["x"], "i", dtype=INT32)],
                             [("x", FLOAT, chances.shape)],
                             [("y", FLOAT, chances.shape), ("i", INT32, chances.shape)]))
  y = model.run({"x": chances})
  for drawn in y.values():
    assert set(np.unique(drawn)) == {0, 1}
    means = drawn.mean(0, dtype=np.float64)
    assert means[0] == 0 and means[3] == 1
    close(means[1], 0.1, 0.3)
    close(means[2], 0.5, 0.5)
  assert y["i"].dtype == np.int32 and not np.array_equal(y["y"], y["i"])


@pytest.mark.parametrize("dtype", [INT32, INT64])
def test_multinomial_draws_classes_by_their_logarithms(dtype):
  shares = np.array([[0.1, 0.2, 0, 0.7], [0.25, 0.25, 0.25, 0.25]])
  with np.errstate(divide="ignore"):
    logs = np.log(shares).astype(np.float32) + 3
  model = optimized(model_of([node("Multinomial", ["x"], sample_size=MANY, dtype=dtype)],
                             [("x", FLOAT, [2, 4])], [("y", dtype, [2, MANY])]),
                    inputs={"x": logs})
  y = model.run({"x": logs})["y"]
  assert y.dtype == (np.int32 if dtype == INT32 else np.int64)
  for row, share in zip(y, shares):
    for c, s in enumerate(share):
      close((row == c).mean(), s, (s * (1 - s)) ** 0.5 + 1e-9)


def test_a_seed_of_the_process_repeats_runs():
  model, x = optimized(noisy()), np.zeros((50, 3), np.float32)
  stretto.manual_seed(3)
  first, second = model(x), model(x)
  assert not np.array_equal(first, second)
  stretto.manual_seed(3)
  np.testing.assert_array_equal(model(x), first)
  np.testing.assert_array_equal(model(x), second)
  stretto.manual_seed(4)
  assert not np.array_equal(model(x), first)
  stretto.manual_seed(np.int64(2**63 - 1))
  for wrong in (-1, 2**64, 1.5, None, "7"):
    with pytest.raises(stretto.InvalidArgumentError, match="manual_seed: seed: expected a number"):
      stretto.manual_seed(wrong)


def test_a_seed_of_the_operator_repeats_every_run():
  model = optimized(model_of(
    [node("RandomNormal", [], "a", shape=[9], seed=1.5), node("RandomNormal", [], "b", shape=[9],
                                                              seed=1.5),
     node("RandomNormal", [], "c", shape=[9], seed=2.5), node("RandomNormal", [], "d", shape=[9])],
    [], [(k, FLOAT, [9]) for k in "abcd"]))
  first, second = model.run({}), model.run({})
  for k in "abc":
    np.testing.assert_array_equal(first[k], second[k])
  np.testing.assert_array_equal(first["a"], first["b"])
  assert not np.array_equal(first["a"], first["c"])
  assert not np.array_equal(first["d"], second["d"])


def test_equal_operators_draw_other_numbers():
  model = optimized(model_of([node("RandomNormalLike", ["x"], "a"),
                              node("RandomNormalLike", ["x"], "b"), node("Sub", ["a", "b"])],
                             [("x", FLOAT, [200])], [("y", FLOAT, [200])]))
  assert np.abs(model(np.zeros(200, np.float32))).max() > 0.5


@pytest.mark.parametrize("turns", ["known", "at run time"])
def test_every_turn_of_a_loop_draws_anew(turns):
  body = helper.make_graph(
    [node("RandomNormalLike", ["s"], "r"), node("Identity", ["c"], "c_out"),
     node("Add", ["s", "r"], "s_out"), node("Identity", ["r"], "r_out")], "body",
    [helper.make_tensor_value_info("i", INT64, []),
     helper.make_tensor_value_info("c", TensorProto.BOOL, []),
     helper.make_tensor_value_info("s", FLOAT, [4])],
    [helper.make_tensor_value_info("c_out", TensorProto.BOOL, []),
     helper.make_tensor_value_info("s_out", FLOAT, [4]),
     helper.make_tensor_value_info("r_out", FLOAT, [4])])
  loop = helper.make_node("Loop", ["n", "", "x"], ["y", "all"], body=body)
  inputs = [("x", FLOAT, [4])]
  nodes = [loop]
  if turns == "known":
    nodes.insert(0, helper.make_node("Constant", [], ["n"], value_int=5))
  else:
    inputs.append(("n", INT64, []))
  model = optimized(model_of(nodes, inputs, [("y", FLOAT, [4]), ("all", FLOAT, [None, 4])]),
                    inputs={"x": np.zeros(4, np.float32),
                            **({} if turns == "known" else {"n": np.int64(5)})})
  feeds = {"x": np.zeros(4, np.float32)}
  if turns != "known":
    feeds["n"] = np.array(5)
  y = model.run(feeds)
  assert len(np.unique(y["all"])) == 20
  np.testing.assert_allclose(y["y"], y["all"].sum(0), rtol=1e-5, atol=1e-6)


def test_a_saved_model_draws_and_is_verified(tmp_path):
  path = tmp_path / "m.stretto"
  optimized(noisy((2, 3))).save(path)
  model = stretto.load(path, verify=True)
  x = np.zeros((2, 3), np.float32)
  assert not np.array_equal(model(x), model(x))
  optimized(noisy(), inputs={"x": x}).save(path)
  model = stretto.load(path)
  assert model(np.zeros((7, 3), np.float32)).shape == (7, 3)


def test_what_is_written_draws_in_onnxruntime(tmp_path):
  ort = pytest.importorskip("onnxruntime")
  path = tmp_path / "m.onnx"
  (tmp_path / "n.onnx").write_bytes(noisy((MANY // 10, 10)))
  stretto.convert(tmp_path / "n.onnx", path)
  onnx.checker.check_model(onnx.load(path))
  written = [n.op_type for n in onnx.load(path).graph.node]
  assert "RandomNormalLike" in written or "RandomNormal" in written
  session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
  y, = session.run(None, {"x": np.ones((MANY // 10, 10), np.float32)})
  close(y.mean(), 1, 0.5)
  close(((y - 1) ** 2).mean(), 0.25, 0.36)


def test_threads_draw_other_numbers():
  model, found = optimized(noisy()), []
  x = np.zeros((4, 3), np.float32)

  def work():
    found.extend(model(x)[0, 0] for _ in range(200))

  threads = [threading.Thread(target=work) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert len(set(found)) > 790  # of 800 floats, some may be equal


def test_operators_can_be_called():
  from stretto import ops
  a = ops.RandomNormal(shape=[1000])
  assert a.shape == (1000,) and 0.8 < a.std() < 1.2
  assert not np.array_equal(ops.RandomNormal(shape=[1000]), a)
