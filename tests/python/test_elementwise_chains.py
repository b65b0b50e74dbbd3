"""Chains of elementwise operators on floats and bools are one loop, and compute exactly what onnx's
reference evaluator computes operator by operator, also of NaN, infinity and -0. ONNX Runtime is no
judge here: its Where loses the sign of -0."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import stretto

TYPES = {"x": TensorProto.FLOAT, "z": TensorProto.FLOAT, "row": TensorProto.FLOAT,
         "p": TensorProto.BOOL, "q": TensorProto.BOOL, "column": TensorProto.BOOL}
CONSTANTS = {"zero": np.float32(0), "half": np.float32(0.5), "nan": np.float32(np.nan),
             "minus_zero": np.float32(-0.0), "true": np.bool_(True)}
SPECIAL = np.array([0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 3e38, 0.5], np.float32)

# Name: the nodes as (operator, inputs, output, attributes), the last of which makes y.
CHAINS = {
  "choice": [("Greater", "x zero", "a"), ("Mul", "x z", "b"), ("Where", "a x b", "y")],
  "diamond": [("Mul", "x z", "a"), ("Greater", "a half", "b"), ("Neg", "a", "c"),
              ("Where", "b a c", "d"), ("Add", "d a", "y")],
  "special": [("IsNaN", "x", "a"), ("IsInf", "z", "b"), ("Or", "a b", "c"), ("Not", "c", "d"),
              ("Where", "d x minus_zero", "y")],
  "one sign": [("IsInf", "x", "a", {"detect_negative": 0}),
               ("IsInf", "z", "b", {"detect_positive": 0}), ("Xor", "a b", "c"),
               ("Where", "c nan z", "y")],
  "no sign": [("IsInf", "x", "a", {"detect_negative": 0, "detect_positive": 0}),
              ("Where", "a z x", "y")],
  "mask": [("Add", "x z", "a"), ("LessOrEqual", "a row", "b"), ("And", "b column", "y")],
  "cast to float": [("GreaterOrEqual", "x z", "a"), ("Cast", "a", "b", {"to": TensorProto.FLOAT}),
                    ("Add", "b p_float", "y")],
  "cast to bool": [("Sub", "x z", "a"), ("Cast", "a", "b", {"to": TensorProto.BOOL}),
                   ("Xor", "b p", "y")],
  "cast twice": [("Cast", "x", "a", {"to": TensorProto.BOOL}),
                 ("Cast", "a", "b", {"to": TensorProto.FLOAT}), ("Mul", "b z", "y")],
  "bools": [("Xor", "p true", "a"), ("Or", "a q", "b"), ("Equal", "b column", "c"),
            ("Where", "c p b", "d"), ("Not", "d", "y")],
  "bools through floats": [("Cast", "p", "a", {"to": TensorProto.FLOAT}), ("Mul", "a half", "b"),
                           ("Less", "b half", "c"), ("And", "c q", "y")],
  "rounding": [("Mul", "x row", "a"), ("Div", "a row", "b"), ("Equal", "b x", "c"),
               ("Where", "c zero b", "y")],
}


def model_of(nodes, rows):
  """Of `nodes`, and what they read; p_float is p as float."""
  made, protos, shapes = set(), [], {"row": (1, 37), "column": (rows, 1)}
  if any("p_float" in node[1].split() for node in nodes):
    nodes = [("Cast", "p", "p_float", {"to": TensorProto.FLOAT}), *nodes]
  for op, inputs, output, *attributes in nodes:
    protos.append(helper.make_node(op, inputs.split(), [output], **(attributes or [{}])[0]))
    made.add(output)
  read = {name for node in nodes for name in node[1].split()} - made
  result = TensorProto.BOOL if nodes[-1][0] in ("And", "Or", "Xor", "Not") else TensorProto.FLOAT
  graph = helper.make_graph(
    protos, "chain",
    [helper.make_tensor_value_info(n, TYPES[n], shapes.get(n, (rows, 37)))
     for n in sorted(read & TYPES.keys())],
    [helper.make_tensor_value_info("y", result, None)],
    [numpy_helper.from_array(np.asarray(CONSTANTS[n]), n) for n in sorted(read & CONSTANTS.keys())])
  return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)])


def feeds_of(model, seed):
  rng = np.random.default_rng(seed)
  feeds = {}
  for value in model.graph.input:
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    if value.type.tensor_type.elem_type == TensorProto.BOOL:
      feeds[value.name] = rng.random(shape) < 0.5
    else:
      numbers = rng.standard_normal(shape).astype(np.float32)
      feeds[value.name] = np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), numbers)
  return feeds


@pytest.mark.parametrize("rows", [5, 0, 61])
@pytest.mark.parametrize("chain", CHAINS)
def test_chains_are_one_loop_that_computes_what_their_operators_do(chain, rows):
  model = model_of(CHAINS[chain], rows)
  feeds = feeds_of(model, seed=3)
  with np.errstate(all="ignore"):
    (want,) = ReferenceEvaluator(model).run(None, feeds)
  optimised = stretto.optimize(model, tuning="off", threads=2)
  if rows > 0:  # the operators of nothing are interpreted
    assert [call["family"] for call in optimised.report["operators"]] == ["elementwise"]
    assert optimised.report["operators"][0]["kernel"] != "reference"
  got = np.asarray(optimised(feeds))
  assert got.dtype == want.dtype
  np.testing.assert_array_equal(got, want)
  if want.dtype == np.float32:
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
