"""Models whose inputs have open dimensions: any size runs, and weights are packed once."""

import logging
import re
import threading

import numpy as np
import onnx
import pytest
from conftest import assert_close, cnn_model, expected, model_of, value
from onnx import helper

import stretto


def images(batch, seed=0):
  return np.random.default_rng(seed).standard_normal((batch, 3, 16, 16)).astype(np.float32)


def encoder(features=32, heads=4, classes=5):
  """An attention block on [batch, length, features], whose shapes are computed in the graph."""
  rng = np.random.default_rng(3)
  weight = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
  size = features // heads
  nodes, constants = [], {}

  def node(op, inputs, output, **attributes):
    nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
    return output

  constants["heads"] = np.array([heads, size], np.int64)
  constants["flat"] = np.array([features], np.int64)
  node("Shape", ["x"], "shape", start=0, end=2)
  node("Concat", ["shape", "heads"], "split", axis=0)
  node("Concat", ["shape", "flat"], "joined", axis=0)
  for name in "qkv":
    constants[f"w{name}"] = weight(features, features)
    node("MatMul", ["x", f"w{name}"], f"{name}1")
    node("Reshape", [f"{name}1", "split"], f"{name}2")
    node("Transpose", [f"{name}2"], name, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
  constants["scale"] = np.array(1 / np.sqrt(size), np.float32)
  node("MatMul", ["q", "k"], "products")
  node("Mul", ["products", "scale"], "scores")
  node("Softmax", ["scores"], "shares", axis=-1)
  node("MatMul", ["shares", "v"], "mixed")
  node("Transpose", ["mixed"], "rows", perm=[0, 2, 1, 3])
  node("Reshape", ["rows", "joined"], "one")
  node("Add", ["one", "x"], "sum")
  constants["wc"] = weight(features, classes)
  node("MatMul", ["sum", "wc"], "y")
  return model_of(nodes, [value("x", ["batch", "length", features])],
                  [value("y", ["batch", "length", classes])], constants)


def test_an_open_batch_stays_open(caplog):
  onnx_model = cnn_model(batch="N")
  with caplog.at_level(logging.WARNING, "stretto"):
    model = stretto.optimize(onnx_model, tuning="off")
  assert [r.getMessage() for r in caplog.records] == [
    "model: input x takes N:0..x3x16x16: optimised for 1x3x16x16, and compiled for other sizes "
    "when they come"]
  assert model.inputs[0].shape == (1, 3, 16, 16)
  assert model.inputs[0].sizes == "N:0..x3x16x16"
  assert "[N:0..x3x16x16]" in repr(model)
  for batch in (1, 2, 7, 1, 2, 32):
    x = images(batch, seed=batch)
    assert_close(model(x), expected(onnx_model, x=x)[0])


def test_shapes_computed_in_the_graph_follow():
  onnx_model = encoder()
  model = stretto.optimize(onnx_model, tuning="off", threads=2)
  rng = np.random.default_rng(5)
  for batch, length in ((1, 128), (1, 1), (3, 17), (2, 64), (1, 5), (4, 16)):
    x = rng.standard_normal((batch, length, 32)).astype(np.float32)
    y = model(x)
    assert y.shape == (batch, length, 5)
    assert_close(y, expected(onnx_model, x=x)[0])


def test_a_range_has_two_ends():
  model = stretto.optimize(cnn_model(batch="N"), shapes={"x": "2..8x3x16x16"}, tuning="off")
  assert model.inputs[0].shape == (8, 3, 16, 16)  # optimised for the largest
  assert model.inputs[0].sizes == "N:2..8x3x16x16"
  assert model(images(2)).shape == (2, 10)
  for batch in (1, 9):
    with pytest.raises(stretto.InvalidArgumentError,
                       match=f"input x: expected shape N:2..8x3x16x16, got {batch}x3x16x16"):
      model(images(batch))
  with pytest.raises(stretto.InvalidArgumentError, match="got 4x3x16x17"):
    model(np.zeros((4, 3, 16, 17), np.float32))
  with pytest.raises(stretto.InvalidArgumentError, match="expected float32, got int64"):
    model(np.zeros((4, 3, 16, 16), np.int64))


@pytest.mark.parametrize("shape", [((1, 8), 3, 16, 16), ["1..8", 3, 16, 16], "1..8x3x16x16",
                                   ("N:1..8", 3, 16, 16)])
def test_a_range_can_be_written_in_several_ways(shape):
  model = stretto.optimize(cnn_model(batch="N"), shapes={"x": shape}, tuning="off")
  assert model.inputs[0].sizes == "N:1..8x3x16x16"


@pytest.mark.parametrize("shape, message", [
  ("1..8x3x16", "input x is Nx3x16x16, the shapes given for it are"),
  ("1..8x1..3x16x16", "input x is Nx3x16x16, the shapes given for it are"),
  ("8..1x3x16x16", "the range 8..1 in"),
  ("manyx3x16x16", "expected sizes or ranges with x between"),
  (((1, 2, 3), 3, 16, 16), "expected the least and the most size"),
])
def test_a_wrong_range_is_refused(shape, message):
  with pytest.raises(stretto.InvalidArgumentError, match=message):
    stretto.optimize(cnn_model(batch="N"), shapes={"x": shape}, tuning="off")


def test_given_arrays_lie_in_the_range():
  onnx_model = cnn_model(batch="N")
  model = stretto.optimize(onnx_model, {"x": images(3)}, shapes={"x": "1..8x3x16x16"}, tuning="off")
  assert model.inputs[0].shape == (3, 3, 16, 16)
  with pytest.raises(stretto.InvalidArgumentError,
                     match="input x: expected shape N:1..8x3x16x16, got 9x3x16x16"):
    stretto.optimize(onnx_model, {"x": images(9)}, shapes={"x": "1..8x3x16x16"}, tuning="off")
  with pytest.raises(stretto.InvalidArgumentError, match="input x: expected float32 2x3x16x16"):
    stretto.optimize(onnx_model, {"x": images(2)[:, :, :8]}, tuning="off")


def test_a_fixed_shape_stays_fixed():
  model = stretto.optimize(cnn_model(batch="N"), shapes={"x": (2, 3, 16, 16)}, tuning="off")
  assert model.inputs[0].sizes is None
  with pytest.raises(stretto.InvalidArgumentError, match="expected shape 2x3x16x16"):
    model(images(1))


def test_dimensions_of_one_name_are_equal():
  model = stretto.optimize(
    model_of([helper.make_node("Add", ["a", "b"], ["y"], "add")],
             [value("a", ["n", 4]), value("b", ["n", 4])], [value("y", ["n", 4])], {}),
    tuning="off")
  ones = lambda n: np.ones((n, 4), np.float32)
  assert model(ones(3), ones(3)).shape == (3, 4)
  with pytest.raises(stretto.InvalidArgumentError,
                     match="input b: dimension n is 2 here and 3 in input a"):
    model(ones(3), ones(2))


def test_dimensions_that_only_take_even_sizes_stay_open():
  halves = [helper.make_node("SpaceToDepth", ["x"], ["y"], "halves", blocksize=2)]
  model = stretto.optimize(
    model_of(halves, [value("x", ["N", 3, "H", "W"])], [value("y", ["N", 12, "h", "w"])], {}),
    tuning="off", inputs={"x": np.zeros((1, 3, 8, 8), np.float32)})
  x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
  want = x.reshape(2, 3, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 12, 2, 3)
  np.testing.assert_array_equal(model(x), want)
  with pytest.raises(stretto.InvalidArgumentError, match="halves"):
    model(x[:, :, :3])


def test_a_dimension_that_is_open_only_in_name_is_fixed(caplog):
  """Exporters write open dimensions over graphs that were traced for one size."""
  traced = model_of([helper.make_node("Reshape", ["x", "shape"], ["y"], "reshape")],
                    [value("x", ["N", 3, 4])], [value("y", [1, 12])],
                    {"shape": np.array([1, 12], np.int64)})
  with caplog.at_level(logging.WARNING, "stretto"):
    model = stretto.optimize(traced, tuning="off")
  assert "are fixed: the model cannot be had for x 2x3x4" in caplog.text
  assert model.inputs[0].sizes is None
  with pytest.raises(stretto.InvalidArgumentError, match="with x 2x3x4, which the ranges allow"):
    stretto.optimize(traced, shapes={"x": "1..2x3x4"}, tuning="off")


def test_a_guessed_size_that_does_not_fit_says_what_to_give():
  """The positions end at 77, so the usual guess of 128 tokens is wrong."""
  onnx_model = model_of([helper.make_node("Add", ["x", "positions"], ["y"], "add")],
                        [value("x", ["batch", "length", 8])], [value("y", ["batch", 77, 8])],
                        {"positions": np.zeros((77, 8), np.float32)})
  with pytest.raises(stretto.InvalidArgumentError,
                     match="1x128x8 was tried; give it a shape or a range, as in --shape x="):
    stretto.optimize(onnx_model, tuning="off")
  model = stretto.optimize(onnx_model, {"x": np.ones((2, 77, 8), np.float32)}, tuning="off")
  assert model.inputs[0].shape == (2, 77, 8)


@pytest.mark.parametrize("by_mask", [False, True])
def test_smaller_sizes_are_guessed_where_likely_ones_do_not_fit(by_mask):
  """A table of 77 positions, with indices that depend on sizes or, in a run, on values."""
  nodes = [helper.make_node("CumSum", ["ids", "axis"], ["positions"])] if by_mask else [
    helper.make_node("Shape", ["ids"], ["shape"]),
    helper.make_node("Gather", ["shape", "axis"], ["length"]),
    helper.make_node("Range", ["zero", "length", "one"], ["positions"])]
  nodes.append(helper.make_node("Gather", ["table", "positions"], ["y"]))
  table = np.random.default_rng(0).standard_normal((77, 8)).astype(np.float32)
  onnx_model = model_of(nodes, [value("ids", ["batch", "length"], onnx.TensorProto.INT64)],
                        [value("y", [None] * (3 if by_mask else 2))],
                        {"table": table, "axis": np.int64(1), "zero": np.int64(0),
                         "one": np.int64(1)})
  model = stretto.optimize(onnx_model, tuning="off", tuning_cache="none")
  assert model.inputs[0].shape == (1, 64)
  assert any(re.search(r"larger sizes were guessed first, and refused: .*77 is outside", note)
             for note in model.notes), model.notes
  ids = np.ones((1, 20), np.int64)
  want = table[np.arange(1, 21)][None] if by_mask else table[:20]
  assert np.array_equal(model(ids), want)


def test_the_advice_names_the_input_whose_size_does_not_fit():
  """Of three guessed inputs only the second one meets a fixed size."""
  nodes = [helper.make_node("Relu", ["a"], ["p"]),
           helper.make_node("Add", ["b", "positions"], ["q"], "add"),
           helper.make_node("Neg", ["c"], ["r"])]
  onnx_model = model_of(nodes, [value(name, ["batch", None, 8]) for name in "abc"],
                        [value(name, [None, None, 8]) for name in "pqr"],
                        {"positions": np.zeros((77, 8), np.float32)})
  with pytest.raises(stretto.InvalidArgumentError) as error:
    stretto.optimize(onnx_model, tuning="off")
  assert "input b takes" in str(error.value)
  assert "input a takes" not in str(error.value) and "input c takes" not in str(error.value)
  both = model_of([helper.make_node("MatMul", ["a", "b"], ["y"])],
                  [value("c", ["batch", None, 8]), value("a", [None, "m"]), value("b", [5, "k"])],
                  [value("y", [None, None])], {})
  both.graph.node.append(helper.make_node("Neg", ["c"], ["r"]))
  both.graph.output.append(value("r", [None, None, 8]))
  with pytest.raises(stretto.InvalidArgumentError) as error:
    stretto.optimize(both, tuning="off")
  assert "--shape a=" in str(error.value) and "--shape c=" not in str(error.value)


def test_an_artefact_keeps_its_dimensions_open(tmp_path):
  onnx_model = encoder()
  model = stretto.optimize(onnx_model, shapes={"x": "1..4x1..64x32"}, tuning="off")
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto", verify=True)
  assert loaded.inputs == model.inputs
  for shape in ((4, 64, 32), (1, 64, 32), (2, 3, 32)):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    assert_close(loaded(x), expected(onnx_model, x=x)[0])
  with pytest.raises(stretto.InvalidArgumentError, match="expected shape batch:1..4xlength:1..64x"):
    loaded(np.zeros((5, 1, 32), np.float32))
  one = stretto.load(tmp_path / "m.stretto", threads=1)
  x = np.ones((3, 9, 32), np.float32)
  assert_close(one(x), expected(onnx_model, x=x)[0])


def test_weights_in_other_files_are_saved_with_the_model(tmp_path):
  onnx.save(encoder(64), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin",
            size_threshold=16)
  model = stretto.optimize(tmp_path / "m.onnx", tuning="off", tuning_cache="none")
  model.save(tmp_path / "m.stretto")
  x = np.random.default_rng(0).standard_normal((2, 3, 64)).astype(np.float32)
  want = model(x)
  assert want.shape == (2, 3, 5)
  (tmp_path / "w.bin").unlink()
  stretto.load(tmp_path / "m.stretto").save(tmp_path / "again.stretto")
  for name in ("m", "again"):
    loaded = stretto.load(tmp_path / f"{name}.stretto", verify=True)
    assert_close(loaded(x), want)
    assert loaded(x[:1, :1]).shape == (1, 1, 5)


def test_a_file_with_weights_that_is_gone_is_named(tmp_path):
  onnx.save(encoder(64), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin",
            size_threshold=16)
  other = onnx.load(tmp_path / "m.onnx", load_external_data=False)
  unused = other.graph.initializer.add()
  unused.CopyFrom(other.graph.initializer[0])
  unused.name = "unused"
  next(e for e in unused.external_data if e.key == "location").value = "gone.bin"
  onnx.save(other, tmp_path / "m.onnx")
  with pytest.raises(stretto.FormatError, match="gone.bin"):
    stretto.optimize(tmp_path / "m.onnx", tuning="off", tuning_cache="none").save(
        tmp_path / "m.stretto")


def test_many_shapes_and_callers_at_once():
  """More shapes than are kept, from several threads."""
  onnx_model = cnn_model(batch="N")
  model = stretto.optimize(onnx_model, tuning="off", threads=1)
  results, failures = {}, []

  def call(first):
    try:
      for batch in [*range(first, 24, 3), *range(first, 24, 3)]:
        results[batch] = model(images(batch, seed=batch))
    except Exception as error:  # noqa: BLE001
      failures.append(error)

  threads = [threading.Thread(target=call, args=(first,)) for first in (1, 2, 3, 1)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert not failures
  for batch, y in results.items():
    assert_close(y, expected(onnx_model, x=images(batch, seed=batch))[0])


def residual_network(stages=3):
  """Convolutions of every usual kind, with strides and a classifier, of open batch and sides."""
  rng = np.random.default_rng(8)
  weight = lambda *s: (rng.standard_normal(s) / np.sqrt(np.prod(s[1:]))).astype(np.float32)
  nodes, weights, channels, last = [], {}, 3, "x"

  def convolve(name, x, c, out, size, stride=1, group=1):
    weights[name] = weight(out, c // group, size, size)
    nodes.append(helper.make_node("Conv", [x, name], [f"{name}.c"], name, strides=[stride] * 2,
                                  pads=[size // 2] * 4, group=group))
    nodes.append(helper.make_node("Relu", [f"{name}.c"], [f"{name}.y"], f"{name}.relu"))
    return f"{name}.y"

  last = convolve("stem", last, channels, 32, 7, 2)
  channels = 32
  for stage in range(stages):
    out = channels * 2
    down = convolve(f"{stage}.down", last, channels, out, 1, 2)
    y = convolve(f"{stage}.a", last, channels, out, 3, 2)
    y = convolve(f"{stage}.depthwise", y, out, out, 3, group=out)
    y = convolve(f"{stage}.b", y, out, out, 3)
    nodes.append(helper.make_node("Add", [y, down], [f"{stage}"], f"{stage}.add"))
    last, channels = str(stage), out
  nodes.append(helper.make_node("GlobalAveragePool", [last], ["mean"], "mean"))
  nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], "flat"))
  weights["fc"] = weight(10, channels)
  nodes.append(helper.make_node("Gemm", ["flat", "fc"], ["y"], "fc", transB=1))
  return model_of(nodes, [value("x", ["batch", 3, "height", "width"])],
                  [value("y", ["batch", 10])], weights)


def packed_by(caplog, model, *inputs):
  """How many weights a call packed; None where it made no program."""
  caplog.clear()
  with caplog.at_level(logging.INFO, "stretto"):
    model(*inputs)
  counts = [int(found[1]) for r in caplog.records
            if (found := re.search(r"a program for .*, (\d+) weights packed", r.getMessage()))]
  assert len(counts) <= 1
  return counts[0] if counts else None


@pytest.mark.parametrize("threads", [1, 2])
def test_new_sizes_inside_a_range_pack_hardly_any_weights(caplog, threads):
  """Sizes are sampled in `optimize`, and kernels are chosen by the machine's rates, which differ
  from one measurement to the next: a size may want a panel width that no sample wanted. Without
  the samples these eight pack more than one."""
  model = stretto.optimize(residual_network(), shapes={"x": "1..8x3x32..160x32..160"},
                           tuning="off", threads=threads)
  rng = np.random.default_rng(2)
  counts = [packed_by(caplog, model, rng.standard_normal((n, 3, h, w)).astype(np.float32))
            for n, h, w in ((1, 160, 160), (2, 61, 64), (1, 97, 131), (5, 64, 64), (8, 33, 160),
                            (1, 72, 72), (3, 112, 112), (1, 40, 40))]
  assert sum(counts) <= 1, counts

  model = stretto.optimize(encoder(96), shapes={"x": "1..8x1..256x96"}, tuning="off",
                           threads=threads)
  counts = [packed_by(caplog, model, np.ones((n, length, 96), np.float32))
            for n, length in ((1, 16), (1, 33), (4, 128), (2, 7), (8, 1), (3, 77), (1, 256))]
  assert counts == [0] * 7
  assert packed_by(caplog, model, np.ones((3, 77, 96), np.float32)) is None  # it is there already
