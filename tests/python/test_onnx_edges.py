"""Corners of ONNX that exporters reach: strings as constants, loops without turns, batches of
nothing, inputs without a shape, dimensions that only one size fits."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import stretto

FLOAT, INT64, STRING, BOOL = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING,
                              TensorProto.BOOL)


def graph_of(nodes, inputs, outputs, initializers=None):
  return helper.make_graph(
    nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
    [helper.make_tensor_value_info(*o) for o in outputs],
    [numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()])


def model_of(nodes, inputs, outputs, initializers=None, opset=19):
  return helper.make_model(graph_of(nodes, inputs, outputs, initializers), ir_version=9,
                           opset_imports=[helper.make_opsetid("", opset)])


def peer(model, feeds):
  options = onnxruntime.SessionOptions()
  options.log_severity_level = 4
  session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                         providers=["CPUExecutionProvider"])
  return session.run(None, feeds)


def run(model, feeds, **options):
  outputs = stretto.optimize(model, tuning="off", threads=1, **options)(feeds)
  return list(outputs) if isinstance(outputs, tuple) else [outputs]


def assert_same(got, want):
  assert len(got) == len(want)
  for a, b in zip(got, want):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    if b.dtype.kind in "OU":
      assert [str(t) for t in a.ravel()] == [str(t) for t in b.ravel()]
    else:
      assert a.dtype == b.dtype
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def random(*shape):
  return np.random.default_rng(len(shape) + 7).standard_normal(shape).astype(np.float32)


STRINGS = {
  "value_string": helper.make_node("Constant", [], ["s"], value_string=b"one"),
  "value_strings": helper.make_node("Constant", [], ["s"], value_strings=[b"one", b"two"]),
  "value": helper.make_node("Constant", [], ["s"],
                            value=helper.make_tensor("t", STRING, [2, 1], [b"one", "zwölf"])),
  "empty": helper.make_node("Constant", [], ["s"],
                            value=helper.make_tensor("t", STRING, [0], [])),
}


@pytest.mark.parametrize("kind", STRINGS)
def test_constants_of_strings(kind):
  constant = STRINGS[kind]
  words = np.array(["one"], dtype=object)
  alone = model_of([constant, helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, [2])],
                   [("s", STRING, None), ("y", FLOAT, None)])
  assert_same(run(alone, {"x": random(2)}), peer(alone, {"x": random(2)}))
  unused = model_of([constant, helper.make_node("Neg", ["x"], ["y"])], [("x", FLOAT, [2])],
                    [("y", FLOAT, None)])
  optimised = stretto.optimize(unused, tuning="off")
  assert not [note for note in optimised.notes if "stages" in note]
  compared = model_of([constant, helper.make_node("Equal", ["s", "w"], ["y"])],
                      [("w", STRING, ["n"])], [("y", BOOL, None)])
  assert_same(run(compared, {"w": words}), peer(compared, {"w": words}))
  branches = [graph_of(nodes, [], [("t", STRING, None)]) for nodes in (
    [constant, helper.make_node("Identity", ["s"], ["t"])],
    [helper.make_node("Identity", ["w"], ["t"])])]
  chosen = model_of([helper.make_node("If", ["c"], ["y"], then_branch=branches[0],
                                      else_branch=branches[1])],
                    [("c", BOOL, []), ("w", STRING, ["n"])], [("y", STRING, None)])
  for truth in (True, False):
    feeds = {"c": np.array(truth), "w": words}
    assert_same(run(chosen, feeds), peer(chosen, feeds))


def test_a_function_that_is_called_with_strings():
  node = helper.make_node("Constant", [], ["s"])
  node.attribute.add(name="value_string", ref_attr_name="word", type=onnx.AttributeProto.STRING)
  function = helper.make_function(
    "own", "Same", ["w"], ["y"], [node, helper.make_node("Equal", ["s", "w"], ["y"])],
    [helper.make_opsetid("", 19)], ["word"])
  model = model_of([helper.make_node("Same", ["w"], ["y"], domain="own", word="b"),
                    helper.make_node("Same", ["w"], ["z"], domain="own", word="a")],
                   [("w", STRING, [2])], [("y", BOOL, None), ("z", BOOL, None)])
  model.functions.append(function)
  model.opset_import.append(helper.make_opsetid("own", 1))
  words = np.array(["a", "b"], dtype=object)
  assert_same(run(model, {"w": words}), [np.array([False, True]), np.array([True, False])])


def loop(trip, more=(), declared=None):
  body = graph_of(
    [helper.make_node("Add", ["s", "x"], ["s2"]), helper.make_node("Concat", ["s2", "s2"], ["o"],
                                                                   axis=0),
     helper.make_node("Cast", ["o"], ["i"], to=INT64), *more,
     helper.make_node("Identity", ["c"], ["c2"])],
    [("n", INT64, []), ("c", BOOL, []), ("s", FLOAT, None)],
    [("c2", BOOL, []), ("s2", FLOAT, None), ("o", FLOAT, declared), ("i", INT64, None)])
  inputs = [("x", FLOAT, ["rows", 3])] + ([] if trip is not None else [("M", INT64, [])])
  return model_of([helper.make_node("Loop", ["M", "", "x"], ["y", "o", "i"], body=body)], inputs,
                  [("y", FLOAT, None), ("o", FLOAT, None), ("i", INT64, None)],
                  {} if trip is None else {"M": np.array(trip)})


@pytest.mark.parametrize("trip", [0, -3])
def test_a_loop_without_turns_stacks_nothing(trip):
  x = random(2, 3)
  expected = [x, np.zeros((0, 4, 3), np.float32), np.zeros((0, 4, 3), np.int64)]
  assert_same(run(loop(trip), {"x": x}), expected)
  feeds = {"x": x, "M": np.array(trip)}
  assert_same(run(loop(None), feeds), expected)
  model = stretto.optimize(loop(None), tuning="off")
  assert_same(model(feeds), expected)
  turns = {"x": x, "M": np.array(2)}
  assert_same(model(turns), peer(loop(None), turns))
  assert_same(model(feeds), expected)


def test_a_loop_without_turns_whose_shapes_depend_on_values():
  body = graph_of([helper.make_node("NonZero", ["s"], ["o"]),
                   helper.make_node("Identity", ["s"], ["s2"]),
                   helper.make_node("Identity", ["c"], ["c2"])],
                  [("n", INT64, []), ("c", BOOL, []), ("s", FLOAT, None)],
                  [("c2", BOOL, []), ("s2", FLOAT, None), ("o", INT64, [2, "k"])])
  model = model_of([helper.make_node("Loop", ["M", "", "x"], ["y", "o"], body=body)],
                   [("x", FLOAT, [2, 3]), ("M", INT64, [])],
                   [("y", FLOAT, None), ("o", INT64, None)])
  feeds = {"x": random(2, 3), "M": np.array(0)}
  assert_same(run(model, feeds), [feeds["x"], np.zeros((0, 2, 0), np.int64)])
  assert_same(run(model, feeds), peer(model, feeds))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("values", [False, True])
def test_a_scan_over_nothing_stacks_nothing(axis, values):
  """ONNX Runtime refuses an axis of length 0."""
  nodes = [helper.make_node("Add", ["s", "e"], ["s2"]),
           helper.make_node("Concat", ["s2", "s2"], ["o"], axis=0)]
  if values:  # so that it runs in stages
    nodes += [helper.make_node("NonZero", ["e"], ["z"]), helper.make_node("Shape", ["z"], ["h"])]
  outputs = [("s2", FLOAT, None), ("o", FLOAT, None)] + [("h", INT64, None)] * values
  body = graph_of(nodes, [("s", FLOAT, None), ("e", FLOAT, None)], outputs)
  node = helper.make_node("Scan", ["a", "x"], ["f", "o", "h"][:2 + values], body=body,
                          num_scan_inputs=1, scan_input_axes=[axis],
                          scan_output_axes=[1] + [0] * values)
  shape = [4, 4]
  shape[axis] = 0
  model = model_of([node], [("a", FLOAT, [4]), ("x", FLOAT, shape)],
                   [("f", FLOAT, None), ("o", FLOAT, None)] + [("h", INT64, None)] * values)
  a = random(4)
  expected = [a, np.zeros((8, 0), np.float32)] + [np.zeros((0, 2), np.int64)] * values
  assert_same(run(model, {"a": a, "x": np.zeros(shape, np.float32)}), expected)


def test_an_inner_initialiser_hides_what_is_outside():
  """Of a loop that runs turn by turn, and whose `w` is not that of the model."""
  body = graph_of([helper.make_node("Add", ["s", "w"], ["s2"]),
                   helper.make_node("NonZero", ["s2"], ["k"]),
                   helper.make_node("Identity", ["c"], ["c2"])],
                  [("n", INT64, []), ("c", BOOL, []), ("s", FLOAT, None)],
                  [("c2", BOOL, []), ("s2", FLOAT, None)], {"w": np.array([1, 2], np.float32)})
  model = model_of([helper.make_node("Neg", ["x"], ["w"]),
                    helper.make_node("Loop", ["M", "", "w"], ["y"], body=body)],
                   [("x", FLOAT, [2]), ("M", INT64, [])], [("y", FLOAT, None)])
  feeds = {"x": np.array([5, 6], np.float32), "M": np.array(3)}
  assert_same(run(model, feeds), [np.array([-2, 0], np.float32)])


def batches():
  w = {"w": random(3, 4), "k": random(5, 3, 3, 3), "b": random(4)}
  two, four = [("x", FLOAT, ["N", 3])], [("x", FLOAT, ["N", 3, 8, 8])]
  node = helper.make_node
  yield "gemm", [node("Gemm", ["x", "w", "b"], ["y"])], two, w
  yield "softmax", [node("MatMul", ["x", "w"], ["h"]), node("Softmax", ["h"], ["y"])], two, w
  yield "conv", [node("Conv", ["x", "k"], ["h"]), node("Relu", ["h"], ["r"]),
                 node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                 node("GlobalAveragePool", ["p"], ["y"])], four, w
  yield "mean", [node("ReduceMean", ["x", "a"], ["y"], keepdims=0)], two, {"a": np.array([1])}
  yield "sum", [node("ReduceSum", ["x", "a"], ["y"], keepdims=0)], two, {"a": np.array([0])}
  yield "reshape", [node("Reshape", ["x", "s"], ["y"])], four, {"s": np.array([-1, 3, 64])}
  yield "concat", [node("Concat", ["x", "x"], ["y"], axis=0)], two, {}
  yield "shape", [node("Shape", ["x"], ["y"])], two, {}
  yield "norm", [node("LayerNormalization", ["x", "s"], ["y"])], two, {"s": random(3)}
  yield "transpose", [node("Transpose", ["x"], ["y"], perm=[1, 0])], two, {}
  yield "argmax", [node("ArgMax", ["x"], ["y"], axis=1)], two, {}


@pytest.mark.parametrize("name, nodes, inputs, weights",
                         [pytest.param(*case, id=case[0]) for case in batches()])
def test_batches_of_nothing(name, nodes, inputs, weights):
  output = ("y", INT64 if name in ("shape", "argmax") else FLOAT, None)
  used = {k: v for k, v in weights.items() if any(k in n.input for n in nodes)}
  model = model_of(nodes, inputs, [output], used)
  optimised = stretto.optimize(model, tuning="off", threads=1)
  for batch in (2, 0, 1, 0):
    x = random(batch, *inputs[0][2][1:])
    assert_same([optimised(x)], peer(model, {"x": x}))


def test_the_largest_of_nothing_is_refused():
  model = model_of([helper.make_node("ReduceMax", ["x", "a"], ["y"])], [("x", FLOAT, ["N", 3])],
                   [("y", FLOAT, None)], {"a": np.array([0])})
  optimised = stretto.optimize(model, tuning="off")
  x = np.zeros((0, 3), np.float32)
  try:
    expected = peer(model, {"x": x})
  except Exception:
    with pytest.raises(stretto.Error, match="ReduceMax"):
      optimised(x)
  else:
    assert_same([optimised(x)], expected)


def test_inputs_without_a_shape_take_that_of_the_array():
  model = model_of([helper.make_node("Conv", ["x", "w"], ["y"])], [("x", FLOAT, None)],
                   [("y", FLOAT, None)], {"w": random(4, 3, 3, 3)})
  x = random(1, 3, 8, 8)
  optimised = stretto.optimize(model, {"x": x}, tuning="off")
  assert_same([optimised(x)], peer(model, {"x": x}))
  with pytest.raises(stretto.InvalidArgumentError, match="no shape in the file; give it one"):
    stretto.optimize(model, tuning="off")
  ranged = stretto.optimize(model, shapes={"x": "1..2x3x8x4..8"}, tuning="off")
  for shape in ((2, 3, 8, 5), (1, 3, 8, 8)):
    assert_same([ranged(random(*shape))], peer(model, {"x": random(*shape)}))
  with pytest.raises(stretto.InvalidArgumentError, match="expected shape 1..2x3x8x4..8"):
    ranged(random(1, 3, 9, 8))


def test_only_the_dimension_that_one_size_fits_is_fixed(caplog):
  """Twelve heads stand in the file; batch and length stay open."""
  weights = {"s": np.array([0, 0, 12, 4], np.int64), "t": np.array([0, 0, 48], np.int64)}
  model = model_of([helper.make_node("Reshape", ["x", "s"], ["h"]),
                    helper.make_node("Softmax", ["h"], ["p"]),
                    helper.make_node("Reshape", ["p", "t"], ["y"])],
                   [("x", FLOAT, ["N", "L", "hidden"])], [("y", FLOAT, None)], weights)
  with caplog.at_level(logging.WARNING, "stretto"):
    optimised = stretto.optimize(model, {"x": random(1, 7, 48)}, tuning="off")
  assert "dimension 2 of input x, which the file leaves open, is fixed at 48" in caplog.text
  assert optimised.inputs[0].sizes == "N:0..xL:0..x48"
  for shape in ((3, 5, 48), (1, 9, 48), (0, 9, 48)):
    assert_same([optimised(random(*shape))], peer(model, {"x": random(*shape)}))
  with pytest.raises(stretto.InvalidArgumentError, match="expected shape N:0..xL:0..x48"):
    optimised(random(1, 7, 96))


def test_channels_are_those_of_the_weights():
  weights = {"k": random(4, 5, 3, 3), "w": random(6, 2), "h": np.array(2, np.float32)}
  names = [None, None, None, None]
  model = model_of([helper.make_node("Mul", ["x", "h"], ["m"]),
                    helper.make_node("Transpose", ["m"], ["t"], perm=[0, 3, 1, 2]),
                    helper.make_node("Conv", ["t", "k"], ["y"]),
                    helper.make_node("Gemm", ["a", "w"], ["b"], transA=1)],
                   [("x", FLOAT, names), ("a", FLOAT, ["k", "n"])],
                   [("y", FLOAT, None), ("b", FLOAT, None)], weights)
  optimised = stretto.optimize(model, tuning="off")
  assert [i.shape for i in optimised.inputs] == [(1, 224, 224, 5), (6, 128)]
  assert [i.sizes for i in optimised.inputs] == ["0..x0..x0..x5", "6xn:0.."]
  feeds = {"x": random(2, 9, 8, 5), "a": random(6, 3)}
  assert_same(optimised(feeds), peer(model, feeds))


def test_the_advice_is_not_the_shape_that_failed():
  model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [("x", FLOAT, ["N", "L", 8])],
                   [("y", FLOAT, None)], {"w": random(77, 8)})
  with pytest.raises(stretto.InvalidArgumentError,
                     match=r"1x128x8 was tried; .* --shape x=1x_x8 or --shape x=1\.\.8x_x8"):
    stretto.optimize(model, tuning="off")


def test_an_opset_that_nobody_knows_is_noted():
  model = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, [2])],
                   [("y", FLOAT, None)], opset=99)
  optimised = stretto.optimize(model, tuning="off")
  assert any("opset 99 is newer than" in note for note in optimised.notes)


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements", "Gather"])
def test_indices_of_an_axis_of_one_place(op):
  """Made-up indices were 1."""
  inputs = ["x", "i", "u"] if op == "ScatterElements" else ["x", "i"]
  model = model_of([helper.make_node("Reshape", ["j", "shape"], ["i"]),
                    helper.make_node(op, inputs, ["y"], axis=1)],
                   [("x", FLOAT, [3, 1]), ("j", INT64, [3])] +
                   ([("u", FLOAT, [3, 1])] if "u" in inputs else []), [("y", FLOAT, None)],
                   {"shape": np.array([3, 1], np.int64)})
  feeds = {"x": random(3, 1), "j": np.zeros(3, np.int64), "u": random(3, 1) + 1}
  feeds = {name: feeds[name] for name in (["x", "j", "u"] if "u" in inputs else ["x", "j"])}
  assert_same(run(model, feeds), peer(model, feeds))
