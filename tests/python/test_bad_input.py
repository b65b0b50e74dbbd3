"""Models that are damaged, contradict themselves or ask for too much: always an error of Stretto's
own that names the file, and the node where there is one. See docs/design/bad-input.md."""

import os
import resource

import numpy as np
import onnx
import pytest
from conftest import value
from onnx import TensorProto, helper, numpy_helper

import stretto

ERRORS = (stretto.FormatError, stretto.InvalidArgumentError, stretto.UnsupportedError)


def write(folder, nodes, inputs, outputs=("y",), weights=(), name="bad.onnx"):
  graph = helper.make_graph(nodes, "bad", inputs, [value(o, None) for o in outputs], list(weights))
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
  path = folder / name
  path.write_bytes(model.SerializeToString())
  return path


def refused(path, kind, *words):
  """Optimising the file fails with that error, quickly and in little memory."""
  before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  with pytest.raises(kind) as caught:
    stretto.optimize(path, tuning="off")
  assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
  for word in (path.name, *words):
    assert word in str(caught.value)


NODE = helper.make_node
CONTRADICTIONS = {
  "a cycle": ([NODE("Relu", ["b"], ["y"], "one"), NODE("Neg", ["y"], ["b"], "two")],
              stretto.FormatError, "one"),
  "itself": ([NODE("Relu", ["y"], ["y"], "selfish")], stretto.FormatError, "selfish"),
  "a missing weight": ([NODE("Conv", ["x", "w"], ["y"], "first")], stretto.FormatError, "first"),
  "an unknown operator": ([NODE("Sparkle", ["x"], ["y"], "shiny")], stretto.UnsupportedError,
                          "Sparkle"),
  "an unknown domain": ([NODE("Relu", ["x"], ["y"], "custom", domain="com.example")],
                        stretto.UnsupportedError, "com.example"),
  "a wrong rank": ([NODE("GlobalAveragePool", ["x"], ["h"], "fine"),
                    NODE("Gemm", ["h", "h"], ["y"], "matrices")], stretto.InvalidArgumentError,
                   "matrices"),
  "a wrong axis": ([NODE("Softmax", ["x"], ["y"], "over", axis=4)], stretto.InvalidArgumentError,
                   "over"),
  "overflowing pads": ([NODE("MaxPool", ["x"], ["y"], "padded", kernel_shape=[1, 1],
                             pads=[2**62] * 4)], stretto.InvalidArgumentError, "padded"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_contradictions_name_the_node(what, tmp_path):
  nodes, kind, word = CONTRADICTIONS[what]
  refused(write(tmp_path, nodes, [value("x", [1, 3, 8, 8])]), kind, word)


def constant(name, values, dtype=np.int64):
  return numpy_helper.from_array(np.array(values, dtype), name)


LARGE = {
  "dimensions beyond any memory": (
    [NODE("Relu", ["x"], ["y"], "r")], [2**33, 2**33], (), stretto.InvalidArgumentError,
    "more than 2^40 elements"),
  "an input of 1 TiB": ([NODE("Relu", ["x"], ["y"], "r")], [2**19, 2**19], (),
                        stretto.UnsupportedError, "input x"),
  "an expansion to 1 TiB": ([NODE("Expand", ["x", "s"], ["y"], "wide")], [1, 1],
                            [constant("s", [2**19, 2**19])], stretto.UnsupportedError, "wide"),
  "an expansion beyond any memory": ([NODE("Expand", ["x", "s"], ["y"], "wide")], [1, 1],
                                     [constant("s", [2**31, 2**31])],
                                     stretto.InvalidArgumentError, "wide"),
  "a filled constant of 1 TiB": (
    [NODE("ConstantOfShape", ["s"], ["c"], "fill"), NODE("Add", ["x", "c"], ["y"], "add")], [1, 1],
    [constant("s", [2**19, 2**19])], stretto.UnsupportedError, "fill"),
  "an outer product of 1 TiB": ([NODE("MatMul", ["x", "t"], ["y"], "outer")], [2**19, 1],
                                [numpy_helper.from_array(np.ones((1, 2**19), np.float32), "t")],
                                stretto.UnsupportedError, "outer"),
  "repeats that overflow": ([NODE("Tile", ["x", "s"], ["y"], "tiles")], [4, 4],
                            [constant("s", [2**62, 2**62])], stretto.InvalidArgumentError, "tiles"),
}


@pytest.mark.parametrize("what", LARGE)
def test_what_no_machine_holds_is_refused_at_once(what, tmp_path):
  nodes, shape, weights, kind, word = LARGE[what]
  refused(write(tmp_path, nodes, [value("x", shape)], weights=weights), kind, word)


def test_a_weight_that_declares_more_than_the_file_holds(tmp_path):
  weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**19, 2**19],
                       raw_data=bytes(8))
  path = write(tmp_path, [NODE("MatMul", ["x", "w"], ["y"], "m")], [value("x", [1, 2**19])],
               weights=[weight])
  refused(path, stretto.FormatError, '"w"', "got 8")


def test_every_truncation_is_refused(cnn_path, tmp_path):
  whole = cnn_path.read_bytes()
  cut = tmp_path / "cut.onnx"
  for size in sorted({0, 1, 2, 7, *range(11, len(whole), len(whole) // 60)}):
    cut.write_bytes(whole[:size])
    with pytest.raises(ERRORS, match="cut.onnx"):
      stretto.optimize(cut, tuning="off")


@pytest.fixture
def folder_with_secret(tmp_path):
  (tmp_path / "secret.bin").write_bytes(np.ones(4, np.float32).tobytes())
  (tmp_path / "model").mkdir()
  return tmp_path / "model"


@pytest.mark.parametrize("way", ["up", "around", "absolute", "link", "folder link", "folder"])
def test_external_data_stays_in_the_folder_of_the_model(way, folder_with_secret):
  folder = folder_with_secret
  os.symlink("../secret.bin", folder / "link.bin")
  os.symlink("..", folder / "out")
  location = {"up": "../secret.bin", "around": "a/../../secret.bin", "link": "link.bin",
              "absolute": str(folder.parent / "secret.bin"), "folder link": "out/secret.bin",
              "folder": "out"}[way]
  weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4],
                       data_location=TensorProto.EXTERNAL)
  weight.external_data.add(key="location", value=location)
  path = write(folder, [NODE("Add", ["x", "w"], ["y"], "a")], [value("x", [4])], weights=[weight])
  refused(path, stretto.FormatError, '"w"', location)


def test_a_graph_without_outputs_and_an_empty_file(tmp_path):
  refused(write(tmp_path, [], [value("x", [1])], outputs=()), stretto.FormatError, "no outputs")
  path = tmp_path / "empty.onnx"
  path.write_bytes(b"")
  refused(path, stretto.FormatError, "empty")


def test_text_that_is_no_text(tmp_path):
  model = onnx.load(write(tmp_path, [NODE("Relu", ["x"], ["y"], "n")], [value("x", [1])]))
  path = tmp_path / "latin.onnx"
  path.write_bytes(model.SerializeToString().replace(b"Relu", b"Rel\xff"))
  refused(path, stretto.FormatError, "UTF-8")
