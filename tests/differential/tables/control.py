"""If, Loop and Scan. What decides which way they go and how often is a constant of the model, an
input, or computed in the model."""

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


def condition_of(d: Draft, x: Value) -> Value:
  """A scalar: constant, given, or computed from a value's numbers."""
  if (d.known() or d.chance(0.3) or not x.exact or x.array.size == 0 or x.dtype == "bool"
      or x.dtype not in d.types("Less")):
    return d.new(np.array(d.chance(0.5)), d.known())
  flat = d.add("Reshape", [x, d.constant([-1])], exact=True)[0]
  first = d.add("Gather", [flat, d.constant(d.integer(0, x.array.size - 1))], exact=True)[0]
  return d.add(d.choose("Greater", "Less"), [first, d.like(x, shape=(), exact=True)], exact=True)[0]


def found_places(tag: str, name: str, rank: int) -> tuple[list[onnx.NodeProto], str]:
  """Nodes that pick the numbers of a value that are not 0, how many these may be."""
  nodes = [helper.make_node("NonZero", [name], [tag + "at"])]
  if rank == 0:  # where runtimes differ in the shape
    return [], name
  nodes += [helper.make_node("Transpose", [tag + "at"], [tag + "rows"], perm=[1, 0]),
            helper.make_node("GatherND", [name, tag + "rows"], [tag + "picked"])]
  return nodes, tag + "picked"


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
    elif d.opset >= 12 and x.exact and d.chance(0.2):
      more, last = found_places(f"{tag}{side}_", x.name, x.rank)
      nodes, shape = nodes + more, ()
      if not more:  # an output is made inside
        last = f"{tag}{side}_same"
        nodes.append(helper.make_node("Identity", [x.name], [last]))
    output = onnx.ValueInfoProto(name=last) if shape is not None else info(last, x)
    graphs[f"{side}_branch"] = helper.make_graph(nodes, side, [], [output])
  return d.add(op, [condition_of(d, x)], captured=[x, y], **graphs)


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
  turns = d.new(np.array(d.integer(1 if stacked else 0, 4)), d.known())
  go = d.constant(True, "bool") if d.chance(0.5) else None
  return d.add(op, [turns, go, x], 2 if stacked else 1, captured=[outer], body=graph)


def loop_until(d: Draft, op: str) -> object:
  """A loop that ends when a carried number says so, with an If inside, and a value that grows."""
  d.schema("Mod")
  x = d.take(("float32", "float64"), low=-1, high=1, fits=lambda a: a.ndim > 0)
  count, limit = (d.new(np.array(d.integer(a, b)), d.known()) for a, b in ((0, 3), (0, 9)))
  tag = f"u{len(d.values)}_"
  nodes, last = body(d, tag, [tag + "v", x.name], d.integer(1, 2))
  sides = {}
  for side in ("then", "else"):
    inner, made = body(d, tag + side, [last, x.name], d.integer(1, 2))
    sides[f"{side}_branch"] = helper.make_graph(inner, side, [], [info(made, x)])
  two, step = (d.constant(number) for number in (2, d.integer(1, 3)))
  nodes += [
    helper.make_node("Mod", [tag + "i", two.name], [tag + "odd"]),
    helper.make_node("Cast", [tag + "odd"], [tag + "is_odd"], to=TensorProto.BOOL),
    helper.make_node("If", [tag + "is_odd"], [tag + "chosen"], **sides),
    helper.make_node("Tanh", [tag + "chosen"], [tag + "next"]),
    helper.make_node("Add", [tag + "n", step.name], [tag + "n_next"]),
    helper.make_node("Less", [tag + "n_next", limit.name], [tag + "go"]),
  ]
  scalar = helper.make_tensor_value_info
  taken = [scalar(tag + "i", TensorProto.INT64, ()), scalar(tag + "c", TensorProto.BOOL, ()),
           scalar(tag + "n", TensorProto.INT64, ()), info(tag + "v", x)]
  given = [scalar(tag + "go", TensorProto.BOOL, ()), scalar(tag + "n_next", TensorProto.INT64, ()),
           info(tag + "next", x)]
  starts = [count, x]
  if d.chance(0.6):
    axis = d.integer(0, x.rank - 1)
    grown = helper.make_tensor_value_info(
      tag + "all", types.onnx_type(x.array), [None if i == axis else e
                                              for i, e in enumerate(x.shape)])
    nodes.append(helper.make_node("Concat", [tag + "all", tag + "next"], [tag + "more"], axis=axis))
    taken.append(grown)
    given.append(helper.make_tensor_value_info(
      tag + "more", types.onnx_type(x.array), [None if i == axis else e
                                               for i, e in enumerate(x.shape)]))
    starts.append(d.like(x, shape=x.shape, low=-1, high=1))
  graph = helper.make_graph(nodes, "body", taken, given)
  most = d.new(np.array(d.integer(0, 6)), d.known()) if d.chance(0.7) else None
  return d.add(op, [most, d.constant(True, "bool"), *starts], len(starts),
               captured=[x, limit, two, step], body=graph)


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
  Row("Loop", loop_until),
  Row("Scan", scan),
]
