"""NonMaxSuppression, compared with ONNX Runtime box by box, and with onnx's reference."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stretto

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model_of(most, overlap, score, *, by_centre=0, constant=None):
  """Boxes and scores are inputs, unless they are `constant`: then the node is folded."""
  names = ["boxes", "scores", "most", "overlap", "score"]
  values = {"most": np.array([most], np.int64), "overlap": np.array([overlap], np.float32)}
  if score is not None:
    values["score"] = np.array([score], np.float32)
  node = helper.make_node("NonMaxSuppression", names[:5 if score is not None else 4], ["y"],
                          center_point_box=by_centre)
  inputs = [helper.make_tensor_value_info("boxes", FLOAT, ["N", "B", 4]),
            helper.make_tensor_value_info("scores", FLOAT, ["N", "C", "B"])]
  if constant:
    values |= constant
    inputs = []
  graph = helper.make_graph(
    [node], "g", inputs, [helper.make_tensor_value_info("y", INT64, [None, 3])],
    [numpy_helper.from_array(v, n) for n, v in values.items()])
  return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 13)])


def peer(model, feeds):
  options = onnxruntime.SessionOptions()
  options.log_severity_level = 4
  session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                         providers=["CPUExecutionProvider"])
  return session.run(None, feeds)[0]


def draw(seed, batch, classes, count, *, ties=False, whole=False):
  """Boxes that overlap often; with ties in scores; at whole numbers, where overlaps are fractions
  of small numbers and meet the threshold exactly."""
  random = np.random.default_rng(seed)
  if whole:
    boxes = random.integers(0, 9, (batch, count, 4)).astype(np.float32)
  else:
    corner = random.uniform(0, 20, (batch, count, 2))
    boxes = np.concatenate([corner, corner + random.uniform(0, 6, (batch, count, 2))], -1)
    boxes = boxes.astype(np.float32)
  flip = random.random(count) < 0.3
  boxes[:, flip] = boxes[:, flip][..., [2, 1, 0, 3]]
  boxes[:, random.random(count) < 0.05] = 3  # without an area
  scores = random.uniform(-0.2, 1, (batch, classes, count)).astype(np.float32)
  return boxes, np.round(scores, 1) + np.float32(0) if ties else scores


CASES = [(2, 3, 300, 7, 0.5, 0.1), (1, 2, 2000, 100, 0.3, 0.25), (1, 1, 500, 10000, 0.0, None),
         (1, 1, 500, 10000, 1.0, None), (2, 1, 1, 1, 0.5, None), (1, 2, 0, 4, 0.5, 0.0),
         (1, 2, 40, 0, 0.5, 0.0), (1, 1, 60, 9, 0.5, 2.0), (1, 1, 3000, 200, 0.9, 0.05)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("by_centre", [0, 1])
@pytest.mark.parametrize("how", ["plain", "ties", "whole"])
def test_same_boxes(case, by_centre, how):
  batch, classes, count, most, overlap, score = case
  boxes, scores = draw(11, batch, classes, count, ties=how != "plain", whole=how == "whole")
  model = model_of(most, overlap, score, by_centre=by_centre)
  feeds = {"boxes": boxes, "scores": scores}
  got = stretto.optimize(model, tuning="off")(feeds)
  assert got.dtype == np.int64
  np.testing.assert_array_equal(got, peer(model, feeds).reshape(-1, 3))


def test_thresholds_that_are_met_exactly():
  """Overlaps of 1/3 and 1/2, with the float32 of the threshold."""
  boxes = np.array([[[0, 0, 2, 2], [0, 1, 2, 3], [0, 0, 2, 4], [5, 5, 7, 7]]], np.float32)
  scores = np.array([[[0.9, 0.8, 0.7, 0.6]]], np.float32)
  for overlap in (1 / 3, 0.5, 0.33333334, 0.3333333):
    model = model_of(4, overlap, 0.6)
    feeds = {"boxes": boxes, "scores": scores}
    want = peer(model, feeds)
    np.testing.assert_array_equal(stretto.optimize(model, tuning="off")(feeds), want)
    np.testing.assert_array_equal(ReferenceEvaluator(model).run(None, feeds)[0], want)


def test_known_boxes_are_folded():
  boxes, scores = draw(12, 1, 2, 100)
  known = model_of(5, 0.4, 0.2, constant={"boxes": boxes, "scores": scores})
  want = peer(model_of(5, 0.4, 0.2), {"boxes": boxes, "scores": scores})
  np.testing.assert_array_equal(stretto.optimize(known, tuning="off")(), want)


def test_scores_that_are_no_numbers_are_left_out():
  boxes, scores = draw(13, 1, 1, 50)
  scores[0, 0, ::3] = np.nan
  got = stretto.optimize(model_of(50, 1.0, None), tuning="off")({"boxes": boxes, "scores": scores})
  kept = np.flatnonzero(~np.isnan(scores[0, 0]))
  np.testing.assert_array_equal(got[:, 2], kept[np.argsort(-scores[0, 0, kept], kind="stable")])


def test_numbers_of_boxes_that_differ_are_named():
  model = model_of(5, 0.4, 0.2)
  model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "other"
  boxes, scores = draw(14, 1, 2, 50)
  fast = stretto.optimize(model, tuning="off")
  with pytest.raises(stretto.InvalidArgumentError, match="boxes, scores: expected .* got 1x49x4"):
    fast({"boxes": boxes[:, 1:], "scores": scores})
