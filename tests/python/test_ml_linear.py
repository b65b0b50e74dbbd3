"""Linear models, support vector machines and features of domain ai.onnx.ml, compared with ONNX
Runtime."""

import ml_models as ml
import numpy as np
import onnx
import pytest
from test_ml_trees import compare

import stretto

ROWS = (1, 3, 64)


def single(op, x, y, **attributes):
  """A model of one node; `x` and `y` are element types and numbers of columns."""
  return ml.model(ml.ml_node(op, ["x"], ["y"], **attributes), [("x", x[0], ["N", x[1]])],
                  [("y", y[0], ["N", y[1]])], ml=1)


def classifier(op, features, classes, columns, dtype=np.float32, **attributes):
  node = ml.ml_node(op, ["x"], ["label", "scores"], classlabels_ints=[3 * k + 1 for k in
                                                                      range(classes)], **attributes)
  return ml.model(node, [("x", dtype, ["N", features])],
                  [("label", np.int64, ["N"]), ("scores", np.float32, ["N", columns])], ml=1)


def numbers(rng, *shape):
  return rng.normal(size=shape).astype(np.float32).reshape(-1).tolist()


def samples(rng, features, dtype=np.float32, scale=1.0):
  return [(scale * ml.rows(rng, n, features, dtype)).astype(dtype) for n in ROWS]


@pytest.mark.parametrize("targets, transform", [(1, "NONE"), (3, "NONE"), (3, "SOFTMAX"),
                                                (3, "LOGISTIC"), (3, "SOFTMAX_ZERO")])
def test_linear_regressors(targets, transform):
  rng = np.random.default_rng(7)
  compare(single("LinearRegressor", (np.float32, 5), (np.float32, targets), targets=targets,
                 coefficients=numbers(rng, targets, 5), intercepts=numbers(rng, targets),
                 post_transform=transform), *samples(rng, 5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_linear_classifiers_of_types(dtype):
  rng = np.random.default_rng(7)
  compare(classifier("LinearClassifier", 5, 3, 3, dtype, coefficients=numbers(rng, 3, 5),
                     intercepts=numbers(rng, 3), post_transform="SOFTMAX"), *samples(rng, 5, dtype))


@pytest.mark.parametrize("transform", ml.TRANSFORMS[:4])
@pytest.mark.parametrize("classes, scores", [(2, 1), (2, 2), (4, 4)])
def test_linear_classifiers(transform, classes, scores):
  rng = np.random.default_rng(7)
  compare(classifier("LinearClassifier", 5, classes, classes, multi_class=0,
                     coefficients=numbers(rng, scores, 5), intercepts=numbers(rng, scores),
                     post_transform=transform), *samples(rng, 5))


PARAMS = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.2, 1.0, 3.0], "RBF": [0.3, 0.0, 3.0],
          "SIGMOID": [0.1, 0.5, 3.0]}


@pytest.mark.parametrize("kernel", PARAMS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regressors(kernel, one_class):
  rng = np.random.default_rng(7)
  compare(single("SVMRegressor", (np.float32, 4), (np.float32, 1), kernel_type=kernel,
                 kernel_params=PARAMS[kernel], n_supports=9, one_class=one_class, rho=[0.25],
                 coefficients=numbers(rng, 9), support_vectors=numbers(rng, 9, 4)),
          *samples(rng, 4))


def test_distances_far_from_zero():
  rng = np.random.default_rng(7)
  vectors = (rng.normal(size=(9, 4)) + 1000).astype(np.float32)
  compare(single("SVMRegressor", (np.float32, 4), (np.float32, 1), kernel_type="RBF",
                 kernel_params=[0.3, 0.0, 3.0], n_supports=9, rho=[0.25],
                 coefficients=numbers(rng, 9), support_vectors=vectors.reshape(-1).tolist()),
          *[x + np.float32(1000) for x in samples(rng, 4)], tolerance=1e-4)


@pytest.mark.parametrize("kernel", PARAMS)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_support_vector_classifiers(kernel, classes, transform):
  rng = np.random.default_rng(7)
  sizes = [3 + k for k in range(classes)]
  pairs = classes * (classes - 1) // 2
  compare(classifier("SVMClassifier", 4, classes, max(2, pairs), kernel_type=kernel,
                     kernel_params=PARAMS[kernel], vectors_per_class=sizes,
                     coefficients=numbers(rng, classes - 1, sum(sizes)), rho=numbers(rng, pairs),
                     support_vectors=numbers(rng, sum(sizes), 4), post_transform=transform),
          *samples(rng, 4))


def test_support_vector_classifiers_of_liblinear():
  rng = np.random.default_rng(7)
  compare(classifier("SVMClassifier", 4, 3, 3, kernel_type="LINEAR", kernel_params=[0.0] * 3,
                     coefficients=numbers(rng, 3, 4), rho=[0.5]), *samples(rng, 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_scalers(dtype):
  rng = np.random.default_rng(7)
  for offset, scale in (([1.0, 2.0, 3.0], [0.5, 2.0, -1.0]), ([1.5], [2.0])):
    compare(single("Scaler", (dtype, 3), (np.float32, 3), offset=offset, scale=scale),
            *samples(rng, 3, dtype))


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_normalizers(norm, dtype):
  rng = np.random.default_rng(7)
  x = ml.rows(rng, 40, 3, dtype)
  x[5] = 0
  compare(single("Normalizer", (dtype, 3), (np.float32, 3), norm=norm), x, x[:1])


def test_imputers():
  rng = np.random.default_rng(7)
  x = ml.rows(rng, 40, 3, special=True)
  compare(single("Imputer", (np.float32, 3), (np.float32, 3), replaced_value_float=float("nan"),
                 imputed_value_floats=[1.0, 2.0, 3.0]), x, x[:1])
  whole = ml.rows(rng, 40, 3, np.int64)
  compare(single("Imputer", (np.int64, 3), (np.int64, 3), replaced_value_int64=2,
                 imputed_value_int64s=[9]), whole)


def test_binarizers():
  rng = np.random.default_rng(7)
  compare(single("Binarizer", (np.float32, 3), (np.float32, 3), threshold=0.25), *samples(rng, 3))


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_one_hot_encoders(dtype):
  rng = np.random.default_rng(7)
  node = ml.ml_node("OneHotEncoder", ["x"], ["y"], cats_int64s=[0, 2, -1], zeros=1)
  compare(ml.model(node, [("x", dtype, ["N", 2])], [("y", np.float32, ["N", 2, 3])]),
          ml.rows(rng, 20, 2, dtype, whole=True))


def test_a_category_that_stands_twice_is_refused():
  node = ml.ml_node("OneHotEncoder", ["x"], ["y"], cats_int64s=[3, 1, 1])
  with pytest.raises(stretto.Error, match="cats_int64s: 1 stands there twice"):
    stretto.optimize(ml.model(node, [("x", np.int64, [1, 2])], [("y", np.float32, [1, 2, 3])]),
                     tuning="off")


def test_an_empty_list_is_none():
  rng = np.random.default_rng(7)
  model = classifier("SVMClassifier", 3, 3, 3, coefficients=[float(i) for i in range(9)],
                     kernel_type="LINEAR")
  x = ml.rows(rng, 5, 3)
  wanted = stretto.optimize(model, {"x": x}, tuning="off").run({"x": x})
  empty = onnx.helper.make_attribute("rho", [], attr_type=onnx.AttributeProto.FLOATS)
  model.graph.node[0].attribute.append(empty)
  got = stretto.optimize(model, {"x": x}, tuning="off").run({"x": x})
  for name in ("label", "scores"):
    np.testing.assert_array_equal(got[name], wanted[name])


def test_feature_vectorizers_and_extractors():
  rng = np.random.default_rng(7)
  nodes = [ml.ml_node("ArrayFeatureExtractor", ["x", "columns"], ["part"]),
           ml.ml_node("FeatureVectorizer", ["part", "x"], ["y"], inputdimensions=[2, 4])]
  model = ml.model(nodes, [("x", np.float32, ["N", 4])], [("y", np.float32, ["N", 6])], ml=1)
  model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 0]), "columns"))
  compare(model, *samples(rng, 4))


@pytest.mark.parametrize("op, attributes, text", [
    ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0]}, "coefficients: expected 2 values"),
    ("LinearRegressor", {"coefficients": [1.0, 2.0], "targets": 0}, "targets: expected 1 or more"),
    ("Scaler", {"offset": [1.0, 2.0, 3.0]}, "offset: expected 2 values, got 3"),
    ("Normalizer", {"norm": "L3"}, "norm: expected MAX, L1 or L2, got L3"),
    ("Imputer", {"imputed_value_floats": [1.0] * 3}, "imputed_value_floats: expected 2 values"),
    ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 1, "kernel_type": "RBF",
                      "kernel_params": [1.0]}, "kernel_params: expected gamma"),
    ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 1, "kernel_type": "COS",
                      "support_vectors": [1.0, 2.0]}, "kernel_type: expected"),
    ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 5},
     "n_supports: 5 is outside"),
    ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 1, "kernel_type": "RBF",
                      "support_vectors": [1.0]}, "support_vectors: expected 2 values, got 1"),
])
def test_attributes_that_do_not_fit_are_refused(op, attributes, text):
  with pytest.raises(stretto.Error, match=text):
    stretto.optimize(single(op, (np.float32, 2), (np.float32, 1), **attributes), tuning="off")
