"""Ensembles of trees of domain ai.onnx.ml, compared with ONNX Runtime."""

import ml_models as ml
import numpy as np
import onnx
import onnxruntime as ort
import pytest

import stretto

# Scores are sums of floats in the order of the trees, as in ONNX Runtime with one thread.
TOLERANCE = 1e-5
# PROBIT takes the difference of two nearly equal floats.
TOLERANCES = {"PROBIT": 2e-4}


def expected(model, feeds):
  options = ort.SessionOptions()
  options.intra_op_num_threads = 1
  options.log_severity_level = 3
  session = ort.InferenceSession(model.SerializeToString(), options,
                                 providers=["CPUExecutionProvider"])
  return session.run(None, feeds)


def compare(model, *samples, tolerance=TOLERANCE):
  """All of these inputs, one after another with one session; the first decides the shapes."""
  fast = stretto.optimize(model, {"x": samples[0]}, tuning="off")
  for x in samples:
    got_all = fast.run({"x": x}).values()
    for got, want in zip(got_all, expected(model, {"x": x}), strict=True):
      assert got.shape == want.shape
      if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
      else:
        np.testing.assert_array_equal(got, want)


def regressor(attributes, features, dtype=np.float32, targets=1, ml_version=3, **more):
  node = ml.ml_node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=targets, **attributes, **more)
  return ml.model(node, [("x", dtype, ["N", features])], [("y", np.float32, ["N", targets])],
                  ml=ml_version)


def classifier(attributes, features, labels, dtype=np.float32, **more):
  texts = isinstance(labels[0], str)
  given = {"classlabels_strings" if texts else "classlabels_int64s": labels}
  node = ml.ml_node("TreeEnsembleClassifier", ["x"], ["label", "scores"], **attributes, **given,
                    **more)
  return ml.model(node, [("x", dtype, ["N", features])],
                  [("label", np.str_ if texts else np.int64, ["N"]),
                   ("scores", np.float32, ["N", len(labels)])])


@pytest.mark.parametrize("mode", [*ml.MODES, "all"])
@pytest.mark.parametrize("tracks", [False, True])
def test_modes_and_missing_values(mode, tracks):
  rng = np.random.default_rng(7)
  modes = ml.MODES if mode == "all" else (mode,)
  trees = ml.trees(rng, 10, 5, 4, modes=modes, tracks=tracks, whole=True)
  x = ml.rows(rng, 50, 4, special=True, whole=True)
  compare(regressor(trees, 4), x, x[:1], x[:3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_element_types(dtype):
  rng = np.random.default_rng(7)
  samples = [ml.rows(rng, count, 5, dtype) for count in (1, 10_000)]
  trees = ml.trees(rng, 20, 6, 5, prefix="class", targets=3, per_leaf=3)
  compare(classifier(trees, 5, [0, 1, 2], dtype), *samples)
  if np.issubdtype(dtype, np.floating):  # ONNX Runtime has no regressors of integers
    compare(regressor(ml.trees(rng, 20, 6, 5), 5, dtype), *samples)


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
# Where leaves leave targets out, ONNX Runtime forgets the base values of those without a score.
@pytest.mark.parametrize("targets, per_leaf, base", [
    (1, 1, True), (3, 3, True), (1, 1, False), (3, 1, False), (3, 2, False)])
def test_aggregates(how, targets, per_leaf, base):
  rng = np.random.default_rng(7)
  trees = ml.trees(rng, 7, 4, 3, targets=targets, per_leaf=per_leaf)
  more = {"base_values": [0.5, -1.0, 2.0][:targets]} if base else {}
  x = ml.rows(rng, 20, 3)
  compare(regressor(trees, 3, targets=targets, aggregate_function=how, **more), x, x[:1])


@pytest.mark.parametrize("transform", ml.TRANSFORMS)
@pytest.mark.parametrize("targets", [1, 3])
def test_transforms_of_regressors(transform, targets):
  rng = np.random.default_rng(7)
  trees = ml.trees(rng, 5, 4, 3, targets=targets, per_leaf=targets,
                   weights=lambda: rng.uniform(0.02, 0.18))
  compare(regressor(trees, 3, targets=targets, post_transform=transform), ml.rows(rng, 20, 3),
          tolerance=TOLERANCES.get(transform, TOLERANCE))


@pytest.mark.parametrize("transform", ml.TRANSFORMS)
@pytest.mark.parametrize("labels, base", [([0, 1, 2, 3], True), ([7, -1, 3], False)])
def test_many_classes(transform, labels, base):
  rng = np.random.default_rng(7)
  n = len(labels)
  trees = ml.trees(rng, 9, 4, 3, targets=n, per_leaf=n, prefix="class",
                   weights=lambda: rng.uniform(0.01, 0.09))
  more = {"base_values": [0.01 * k for k in range(n)]} if base else {}
  x = ml.rows(rng, 40, 3)
  compare(classifier(trees, 3, labels, post_transform=transform, **more), x, x[:1],
          tolerance=TOLERANCES.get(transform, TOLERANCE))


# One score for two classes, as forests (weights that are not negative) and boosted trees have it.
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("transform", ml.TRANSFORMS[:4])
@pytest.mark.parametrize("labels, base", [([0, 1], []), ([5, 7], [0.1]), ([5, 7], [0.1, 0.2])])
def test_two_classes_with_one_score(positive, transform, labels, base):
  rng = np.random.default_rng(7)
  weight = (lambda: rng.uniform(0, 0.1)) if positive else (lambda: rng.normal())
  trees = ml.trees(rng, 9, 4, 3, prefix="class", weights=weight)
  more = {"base_values": base} if base else {}
  x = ml.rows(rng, 40, 3)
  compare(classifier(trees, 3, labels, post_transform=transform, **more), x, x[:1])


@pytest.mark.parametrize("transform", ml.TRANSFORMS[:4])
@pytest.mark.parametrize("positive", [False, True])
def test_scores_of_the_second_class_alone(transform, positive):
  rng = np.random.default_rng(7)
  weight = (lambda: rng.uniform(0, 0.1)) if positive else (lambda: rng.normal())
  trees = ml.trees(rng, 9, 4, 3, prefix="class", weights=weight)
  trees["class_ids"] = [1] * len(trees["class_ids"])
  compare(classifier(trees, 3, [5, 7], post_transform=transform), ml.rows(rng, 40, 3))


def test_classes_without_a_score_do_not_win():
  rng = np.random.default_rng(7)
  trees = ml.trees(rng, 5, 3, 3, targets=2, per_leaf=2, prefix="class",
                   weights=lambda: rng.uniform(-2, -1))
  compare(classifier(trees, 3, [4, 5, 6]), ml.rows(rng, 20, 3))


def test_doubles_in_tensors():
  rng = np.random.default_rng(7)
  trees = ml.trees(rng, 5, 5, 3)
  for name in ("nodes_values", "target_weights"):
    values = trees.pop(name)
    trees[name + "_as_tensor"] = onnx.helper.make_tensor(name, onnx.TensorProto.DOUBLE,
                                                         [len(values)], values)
  compare(regressor(trees, 3, np.float64), ml.rows(rng, 200, 3, np.float64))


def test_trees_of_one_leaf_and_unequal_depth():
  rng = np.random.default_rng(7)
  trees = ml.trees(rng, 6, 12, 3, early=0.5)
  number = max(trees["nodes_treeids"]) + 1
  for name, value in {"treeids": number, "nodeids": 0, "featureids": 0, "values": 0.0,
                      "modes": "LEAF", "truenodeids": 0, "falsenodeids": 0}.items():
    trees["nodes_" + name].append(value)
  for name, value in {"treeids": number, "nodeids": 0, "ids": 0, "weights": 3.5}.items():
    trees["target_" + name].append(value)
  x = ml.rows(rng, 33, 3)
  compare(regressor(trees, 3, ml_version=1), x, x[:1])


def refused(attributes, text, **changes):
  broken = {**attributes, **changes}
  with pytest.raises(stretto.Error, match=text):
    stretto.optimize(regressor(broken, 2), tuning="off")


def test_broken_trees_are_refused():
  rng = np.random.default_rng(7)
  good = ml.trees(rng, 2, 2, 2, early=0)
  count = len(good["nodes_modes"])
  for name in ("treeids", "nodeids", "featureids", "values", "truenodeids", "falsenodeids"):
    refused(good, f"nodes_{name}: expected {count} values, got {count - 1}",
            **{"nodes_" + name: good["nodes_" + name][:-1]})
  refused(good, "target_weights: expected 8 values, got 7",
          target_weights=good["target_weights"][:-1])
  refused(good, "nodes_modes: BRANCH_NO is no mode",
          nodes_modes=["BRANCH_NO", *good["nodes_modes"][1:]])
  refused(good, "nodes_truenodeids: tree 0 has no node 99",
          nodes_truenodeids=[99, *good["nodes_truenodeids"][1:]])
  refused(good, "the root of tree 0 does not lead to node 0",
          nodes_truenodeids=[0, *good["nodes_truenodeids"][1:]])
  refused(good, "nodes 0 and 1 of tree 0 have no parent",
          nodes_truenodeids=[good["nodes_falsenodeids"][0], *good["nodes_truenodeids"][1:]],
          nodes_falsenodeids=[good["nodes_truenodeids"][0], *good["nodes_falsenodeids"][1:]],
          nodes_modes=["LEAF", *good["nodes_modes"][1:]])
  refused(good, "nodes_nodeids: tree 0 has two nodes 0", nodes_nodeids=[0] * count)
  refused(good, "nodes_featureids: 2 is outside", nodes_featureids=[2] * count)
  refused(good, "leaf_targetids: 5 is outside", target_ids=[5] * len(good["target_ids"]))
  refused(good, "node 0 of tree 0 is no leaf", target_nodeids=[0] * len(good["target_ids"]))
  refused(good, "aggregate_function", aggregate_function="MEDIAN")
  refused(good, "post_transform", post_transform="TANH")
  refused(good, "base_values", base_values=[1.0, 2.0])


def test_a_leaf_of_many_branches_is_not_copied_for_each():
  count = 3000  # of branches in a chain, and of the weights of the leaf that they share
  trees = {"nodes_treeids": [0] * (count + 1), "nodes_nodeids": list(range(count + 1)),
           "nodes_featureids": [0] * (count + 1), "nodes_values": [float(i) for i in range(count)],
           "nodes_modes": ["BRANCH_LEQ"] * count + ["LEAF"],
           "nodes_truenodeids": [count] * count + [0],
           "nodes_falsenodeids": [*range(1, count + 1), 0],
           "target_treeids": [0] * count, "target_nodeids": [count] * count,
           "target_ids": list(range(count)), "target_weights": [float(i) for i in range(count)]}
  trees["nodes_values"].append(0.0)
  fast = stretto.optimize(regressor(trees, 1, targets=count), {"x": np.zeros((2, 1), np.float32)},
                          tuning="off")
  assert fast.report["memory"]["weight_bytes"] < 1 << 22
  np.testing.assert_array_equal(fast.run({"x": np.float32([[-1], [2e9]])})["y"],
                                np.tile(np.arange(count, dtype=np.float32), (2, 1)))
