"""Models of domain ai.onnx.ml from random numbers, with the attributes that skl2onnx writes."""

import numpy as np
from onnx import TensorProto, helper

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
TYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.int64: TensorProto.INT64,
         np.int32: TensorProto.INT32, np.str_: TensorProto.STRING}


def model(nodes, inputs, outputs, *, ml=3, opset=17):
  """One of these nodes; `inputs` and `outputs` are (name, type, shape)."""
  nodes = nodes if isinstance(nodes, list) else [nodes]
  infos = [[helper.make_tensor_value_info(name, TYPES.get(kind, kind), shape)
            for name, kind, shape in part] for part in (inputs, outputs)]
  return helper.make_model(
      helper.make_graph(nodes, "g", *infos), ir_version=8,
      opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ml)])


def ml_node(op, inputs, outputs, **attributes):
  return helper.make_node(op, inputs, outputs, op, domain="ai.onnx.ml", **attributes)


def trees(rng, count, depth, features, *, targets=1, per_leaf=1, modes=MODES[:1], tracks=False,
          prefix="target", whole=False, early=0.2, weights=None):
  """The nodes of `count` random trees, as attributes. A node above `depth` is a leaf with the
  chance `early`; a leaf has `per_leaf` weights."""
  a = {f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "values", "modes",
                                  "truenodeids", "falsenodeids", "missing_value_tracks_true")}
  a |= {f"{prefix}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
  weights = weights or (lambda: rng.normal() / count)

  def grow(tree, level):
    number = counts[tree]
    counts[tree] += 1
    leaf = level == depth or (level > 0 and rng.random() < early)
    at = len(a["nodes_modes"])
    split = float(np.float32(rng.integers(-2, 3) if whole else rng.normal()))
    a["nodes_treeids"].append(tree)
    a["nodes_nodeids"].append(number)
    a["nodes_featureids"].append(0 if leaf else int(rng.integers(features)))
    a["nodes_values"].append(0.0 if leaf else split)
    a["nodes_modes"].append("LEAF" if leaf else str(rng.choice(modes)))
    a["nodes_truenodeids"].append(0)
    a["nodes_falsenodeids"].append(0)
    a["nodes_missing_value_tracks_true"].append(int(tracks and not leaf and rng.random() < 0.5))
    if leaf:
      first = int(rng.integers(targets)) if per_leaf < targets else 0
      for k in range(per_leaf):
        a[f"{prefix}_treeids"].append(tree)
        a[f"{prefix}_nodeids"].append(number)
        a[f"{prefix}_ids"].append((first + k) % targets)
        a[f"{prefix}_weights"].append(float(np.float32(weights())))
    else:
      a["nodes_truenodeids"][at] = grow(tree, level + 1)
      a["nodes_falsenodeids"][at] = grow(tree, level + 1)
    return number

  counts = [0] * count
  for tree in range(count):
    grow(tree, 0)
  if not tracks:
    del a["nodes_missing_value_tracks_true"]
  return a


def rows(rng, count, features, dtype=np.float32, *, special=False, whole=False):
  """Inputs; `special`: with NaN and infinities among them."""
  if np.issubdtype(dtype, np.integer):
    return rng.integers(-3, 4, (count, features)).astype(dtype)
  x = rng.normal(size=(count, features))
  if whole:
    x = np.round(x)
  if special:
    flat = x.reshape(-1)
    flat[::7], flat[3::11], flat[5::13] = np.nan, np.inf, -np.inf
  return x.astype(dtype)
