"""If, Loop and Scan, in the form that Stretto supports: what decides how often a graph runs is a
constant of the model, most of the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from differential import element_types as types
from differential.draft import Draft, Unfit, Value
from differential.tables.row import Row

_UNARY = ("Relu", "Neg", "Abs", "Tanh", "Sigmoid")
_BINARY = ("Add", "Sub", "Mul")


def info(name: str, value: Value, shape: tuple[int, ...] | None = None) -> onnx.ValueInfoProto:
  return helper.make_tensor_value_info(name, types.onnx_type(value.array),
                                       value.shape if shape is None else shape)


def body(d: Draft, tag: str, names: list[str], count: int) -> tuple[list[onnx.NodeProto], str]:
  """Nodes that keep the shape, from any of these values to one."""
  nodes = []
  for i in range(count):
    result = f"{tag}{i}"
    if d.chance(0.5):
      nodes.append(helper.make_node(d.choose(*_UNARY), [d.choose(*names)], [result]))
    else:
      nodes.append(helper.make_node(d.choose(*_BINARY), [d.choose(*names), d.choose(*names)],
                                    [result]))
    names = [*names, result]
  return nodes, names[-1]


def branches(d: Draft, op: str) -> object:
  """Both branches read values of the outer graph; their shapes may differ."""
  x = d.take(("float32", "float64"), low=-3, high=3)
  y = d.like(x, shape=x.shape, low=-3, high=3)
  tag = f"b{len(d.values)}_"
  graphs = {}
  for side in ("then", "else"):
    nodes, last = body(d, tag + side, [x.name, y.name], d.integer(1, 3))
    shape: tuple[int, ...] | None = None
    if d.chance(0.3):
      nodes.append(helper.make_node("Concat", [last, last], [last + "c"], axis=0))
      last, shape = last + "c", ()
      if x.rank == 0:
        nodes.pop()
        last = last[:-1]
    output = onnx.ValueInfoProto(name=last) if shape is not None else info(last, x)
    graphs[f"{side}_branch"] = helper.make_graph(nodes, side, [], [output])
  if d.chance(0.1):
    condition = d.take(("bool",), (), constant=None)
  else:
    condition = d.constant(d.chance(0.5), "bool")
  return d.add(op, [condition], captured=[x, y], **graphs)


def loop(d: Draft, op: str) -> object:
  """A carried value, a stacked one, and one of the outer graph."""
  x = d.take(("float32", "float64"), low=-1, high=1)
  outer = d.like(x, shape=x.shape, low=-1, high=1)
  tag = f"l{len(d.values)}_"
  nodes, last = body(d, tag, [tag + "v", outer.name], d.integer(1, 3))
  # Numbers would grow without bound.
  nodes.append(helper.make_node("Tanh", [last], [tag + "next"]))
  nodes.append(helper.make_node("Identity", [tag + "c"], [tag + "go"]))
  outputs = [helper.make_tensor_value_info(tag + "go", TensorProto.BOOL, ()), info(tag + "next", x)]
  stacked = d.chance(0.6)
  if stacked:
    nodes.append(helper.make_node("Neg", [tag + "next"], [tag + "row"]))
    outputs.append(info(tag + "row", x))
  graph = helper.make_graph(
    nodes, "body", [helper.make_tensor_value_info(tag + "i", TensorProto.INT64, ()),
                    helper.make_tensor_value_info(tag + "c", TensorProto.BOOL, ()),
                    info(tag + "v", x)], outputs)
  turns = d.new(np.array(d.integer(1 if stacked else 0, 4)), not d.chance(0.1))
  go = d.constant(True, "bool") if d.chance(0.5) else None
  return d.add(op, [turns, go, x], 2 if stacked else 1, captured=[outer], body=graph)


def scan(d: Draft, op: str) -> object:
  """A state, and a sequence along any axis."""
  if d.opset < 9:
    raise Unfit("scans of opset 8 have a batch")
  rank = d.integer(1, 3)
  sequence = d.take(("float32", "float64"), [None] * rank, -1, 1, least=1)
  axis = d.integer(0, rank - 1)
  element = tuple(e for i, e in enumerate(sequence.shape) if i != axis)
  state = d.like(sequence, shape=element, low=-1, high=1)
  tag = f"s{len(d.values)}_"
  nodes, last = body(d, tag, [tag + "state", tag + "x"], d.integer(1, 3))
  nodes += [helper.make_node("Tanh", [last], [tag + "next"]),
            helper.make_node("Neg", [tag + "next"], [tag + "row"])]
  graph = helper.make_graph(
    nodes, "body", [info(tag + "state", state), info(tag + "x", state)],
    [info(tag + "next", state), info(tag + "row", state)])
  forms: dict[str, Any] = {"scan_input_axes": [axis], "scan_input_directions": [d.integer(0, 1)],
           "scan_output_directions": [d.integer(0, 1)],
           "scan_output_axes": [d.integer(0, rank - 1)]}
  return d.add(op, [state, sequence], 2, body=graph, num_scan_inputs=1, **forms)


ROWS = [
  Row("If", branches),
  Row("Loop", loop),
  Row("Scan", scan),
]
