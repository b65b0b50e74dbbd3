"""Pools and resizing of bytes, which quantised models and models of pictures have, and products
along an axis: all by kernels."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stretto

TYPES = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8, np.float32: TensorProto.FLOAT,
         np.float64: TensorProto.DOUBLE, np.int32: TensorProto.INT32, np.int64: TensorProto.INT64}


def model_of(node, shape, dtype, initializers=None, opset=19):
  graph = helper.make_graph(
    [node], "g", [helper.make_tensor_value_info("x", TYPES[dtype], shape)],
    [helper.make_tensor_value_info("y", TYPES[dtype], None)],
    [numpy_helper.from_array(a, n) for n, a in (initializers or {}).items()])
  return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset)])


def peer(model, x):
  options = onnxruntime.SessionOptions()
  options.log_severity_level = 4
  session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                         providers=["CPUExecutionProvider"])
  return session.run(None, {"x": x})[0]


def bytes_of(shape, dtype, seed=5):
  info = np.iinfo(dtype)
  return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def run(model, x, family):
  """What the model gives, all of it by a kernel of this family."""
  fast = stretto.optimize(model, tuning="off", threads=2)
  steps = fast.report["operators"]
  assert [step.get("family") for step in steps] == [family]
  assert "reference" not in [step.get("kernel") for step in steps]
  return fast(x)


POOLS = [
  ((1, 3, 17, 19), {"kernel_shape": [2, 2], "strides": [2, 2]}),
  ((2, 5, 56, 56), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
  ((1, 2, 9, 300), {"kernel_shape": [3, 5], "strides": [1, 1], "pads": [1, 2, 1, 2]}),
  ((1, 2, 14, 13), {"kernel_shape": [3, 3], "strides": [3, 4], "ceil_mode": 1}),
  ((1, 2, 14, 13), {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [1, 2]}),
  ((2, 3, 7, 7), {"kernel_shape": [7, 7]}),
  ((1, 1, 1, 1), {"kernel_shape": [1, 1]}),
]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shape, attributes", POOLS)
def test_max_pools(shape, attributes, dtype):
  model = model_of(helper.make_node("MaxPool", ["x"], ["y"], **attributes), shape, dtype)
  x = bytes_of(shape, dtype)
  np.testing.assert_array_equal(run(model, x, "pool2d"), peer(model, x))


def resize(shape, dtype, sizes, **attributes):
  node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attributes)
  return model_of(node, shape, dtype, {"sizes": np.array(sizes, np.int64)})


SIZES = [((1, 3, 12, 10), (1, 3, 24, 20)), ((2, 3, 15, 22), (2, 3, 8, 5)),
         ((1, 1, 7, 9), (1, 1, 21, 13)), ((1, 2, 1, 1), (1, 2, 3, 4)),
         ((1, 2, 9, 8), (1, 2, 9, 16))]
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("shape, sizes", SIZES)
def test_nearest_pixels(shape, sizes, coordinates, dtype):
  model = resize(shape, dtype, sizes, mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode=coordinates)
  x = bytes_of(shape, dtype)
  np.testing.assert_array_equal(run(model, x, "resize"), peer(model, x))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("shape, sizes", SIZES)
def test_linear_pixels(shape, sizes, coordinates, dtype):
  """ONNX Runtime rounds its weights to float32: where a sum is nearly whole, it may give the byte
  beside."""
  model = resize(shape, dtype, sizes, mode="linear", coordinate_transformation_mode=coordinates)
  x = bytes_of(shape, dtype)
  got, want = run(model, x, "resize").astype(int), peer(model, x).astype(int)
  assert np.abs(got - want).max() <= 1
  assert np.mean(got != want) < 0.1


@pytest.mark.parametrize("value", [0, 1, 5, 128, 255])
def test_one_colour_stays_that_colour(value):
  x = np.full((1, 3, 31, 17), value, np.uint8)
  got = stretto.optimize(resize(x.shape, np.uint8, (1, 3, 50, 41), mode="linear"), tuning="off")(x)
  np.testing.assert_array_equal(got, np.full((1, 3, 50, 41), value, np.uint8))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_products_along_an_axis(dtype, exclusive, reverse, axis):
  node = helper.make_node("CumProd", ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
  shape = (3, 5, 70)
  model = model_of(node, shape, dtype, {"axis": np.array(axis, np.int64)}, opset=26)
  random = np.random.default_rng(2)
  x = (random.standard_normal(shape) if np.issubdtype(dtype, np.floating)
       else random.integers(-4, 5, shape)).astype(dtype)
  want = ReferenceEvaluator(model).run(None, {"x": x})[0]
  np.testing.assert_allclose(run(model, x, "cumsum"), want, rtol=1e-4, atol=1e-6)
