"""String labels, maps and categories of domain ai.onnx.ml, compared with ONNX Runtime."""

import ml_models as ml
import numpy as np
import pytest
from test_ml_trees import TOLERANCE, expected

import stretto


def forest(labels, *, zipmap=True, kind="TreeEnsembleClassifier", output="scores"):
  """A classifier with its ZipMap, as skl2onnx writes them."""
  rng = np.random.default_rng(7)
  texts = isinstance(labels[0], str)
  n = len(labels)
  keys = {"classlabels_strings" if texts else
          ("classlabels_int64s" if kind.startswith("Tree") else "classlabels_ints"): labels}
  trees = (ml.trees(rng, 5, 4, 3, targets=n, per_leaf=n, prefix="class",
                    weights=lambda: rng.uniform(0, 0.2)) if kind.startswith("Tree") else
           {"coefficients": rng.normal(size=3 * n).tolist(), "intercepts": [0.0] * n})
  nodes = [ml.ml_node(kind, ["x"], ["label", output], **trees, **keys)]
  outputs = [("label", np.str_ if texts else np.int64, ["N"]), (output, np.float32, ["N", n])]
  if zipmap:
    keys = {"classlabels_strings" if texts else "classlabels_int64s": labels}
    nodes.append(ml.ml_node("ZipMap", [output], ["maps"], **keys))
  model = ml.model(nodes, [("x", np.float32, ["N", 3])], outputs)
  if zipmap:
    value = model.graph.output.add()
    value.name = "maps"
    entry = value.type.sequence_type.elem_type.map_type
    entry.key_type = ml.TYPES[np.str_ if texts else np.int64]
    entry.value_type.tensor_type.elem_type = ml.TYPES[np.float32]
  return model


@pytest.mark.parametrize("labels", [["a", "bé", "c"], [4, 5, 6]])
@pytest.mark.parametrize("kind", ["TreeEnsembleClassifier", "LinearClassifier"])
def test_labels_and_maps(labels, kind):
  rng = np.random.default_rng(7)
  model = forest(labels, kind=kind)
  fast = stretto.optimize(model, {"x": ml.rows(rng, 4, 3)}, tuning="off")
  for count in (4, 1, 200):
    x = ml.rows(rng, count, 3)
    got, want = fast.run({"x": x}), expected(model, {"x": x})
    np.testing.assert_array_equal(got["label"], want[0])
    np.testing.assert_allclose(got["scores"], want[1], rtol=TOLERANCE, atol=TOLERANCE)
    assert isinstance(got["maps"], list) and len(got["maps"]) == count
    for ours, theirs in zip(got["maps"], want[2], strict=True):
      assert list(ours) == list(theirs) == labels
      np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=TOLERANCE,
                                 atol=TOLERANCE)


def test_a_label_that_nobody_reads():
  rng = np.random.default_rng(7)
  model = forest(["a", "b", "c"], zipmap=False)
  del model.graph.output[0]
  x = ml.rows(rng, 4, 3)
  np.testing.assert_allclose(stretto.optimize(model, {"x": x}, tuning="off")(x),
                             expected(model, {"x": x})[0], rtol=TOLERANCE, atol=TOLERANCE)


def test_saved_models_keep_labels(tmp_path):
  rng = np.random.default_rng(7)
  x = ml.rows(rng, 4, 3)
  model = forest(["a", "b", "c"])
  stretto.optimize(model, {"x": x}, tuning="off").save(tmp_path / "m.stretto")
  got = stretto.load(tmp_path / "m.stretto").run({"x": x})
  np.testing.assert_array_equal(got["label"], expected(model, {"x": x})[0])


def test_maps_whose_labels_are_too_few():
  rng = np.random.default_rng(7)
  node = ml.ml_node("ZipMap", ["x"], ["maps"], classlabels_int64s=[1, 2])
  model = ml.model(node, [("x", np.float32, ["N", 3])], [("maps", np.float32, ["N"])])
  model.graph.output[0].type.Clear()
  model.graph.output[0].type.sequence_type.elem_type.map_type.key_type = ml.TYPES[np.int64]
  fast = None
  with pytest.raises(stretto.Error, match="ZipMap.*expected 3 class labels, got 2"):
    fast = stretto.optimize(model, {"x": ml.rows(rng, 4, 3)}, tuning="off")
    fast(ml.rows(rng, 4, 3))


def text_model(op, x, y, **attributes):
  return ml.model(ml.ml_node(op, ["x"], ["y"], **attributes), [("x", x, ["N", 2])],
                  [("y", *y)], ml=2)


@pytest.mark.parametrize("x, y", [(np.str_, np.int64), (np.int64, np.str_)])
def test_category_mappers(x, y):
  model = text_model("CategoryMapper", x, (y, ["N", 2]), cats_strings=["a", "b"],
                     cats_int64s=[5, 6], default_int64=-7, default_string="none")
  values = (np.array([["a", "x"], ["b", "a"]], object) if x is np.str_ else
            np.array([[5, 6], [7, 5]]))
  np.testing.assert_array_equal(stretto.optimize(model, tuning="off")(values),
                                expected(model, {"x": values})[0])


def test_one_hot_encoders_of_strings():
  model = text_model("OneHotEncoder", np.str_, (np.float32, ["N", 2, 2]),
                     cats_strings=["a", "b"], zeros=1)
  values = np.array([["a", "x"], ["b", "a"]], object)
  np.testing.assert_array_equal(stretto.optimize(model, tuning="off")(values),
                                expected(model, {"x": values})[0])


def test_labels_with_zero_characters():
  """A label may hold any character: onnx's reference and scikit-learn take them."""
  rng = np.random.default_rng(7)
  labels = ["a\0b", "a", "\0"]
  model = forest(labels, zipmap=False, kind="LinearClassifier")
  x = ml.rows(rng, 40, 3)
  got = stretto.optimize(model, {"x": x}, tuning="off").run({"x": x})
  whole = stretto.optimize(forest([0, 1, 2], zipmap=False, kind="LinearClassifier"), {"x": x},
                           tuning="off").run({"x": x})
  assert list(got["label"]) == [labels[i] for i in whole["label"]]
  assert set(got["label"]) == set(labels)


def test_labels_picked_by_place(tmp_path):
  """As skl2onnx writes nearest neighbours and votes: the label where the score is largest."""
  nodes = [ml.helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
           ml.ml_node("ArrayFeatureExtractor", ["classes", "place"], ["row"]),
           ml.helper.make_node("Reshape", ["row", "flat"], ["label"])]
  model = ml.model(nodes, [("x", np.float32, ["N", 3])], [("label", np.str_, ["N"])])
  model.graph.initializer.extend([
    ml.helper.make_tensor("classes", ml.TYPES[np.str_], [3], [b"cat", "bé".encode(), b"an ant"]),
    ml.helper.make_tensor("flat", ml.TYPES[np.int64], [1], [-1])])
  fast = stretto.optimize(model, tuning="off")
  fast.save(tmp_path / "m.stretto")
  for count in (5, 1):
    x = ml.rows(np.random.default_rng(7), count, 3)
    want = expected(model, {"x": x})[0]
    np.testing.assert_array_equal(fast(x), want)
    np.testing.assert_array_equal(stretto.load(tmp_path / "m.stretto")(x), want)
