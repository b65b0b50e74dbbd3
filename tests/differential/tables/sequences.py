"""Operators on sequences and optional values. As values of a drawn model are tensors, each chain
of them stands in the branches of an If."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from differential import element_types as types
from differential.draft import Draft, Value
from differential.tables.control import condition_of, info
from differential.tables.row import Row

_TYPES = ("float32", "int64", "float64", "int32", "bool")


@dataclass
class Chain:
  """Nodes that make, change and take apart a sequence of tensors of one shape."""
  d: Draft
  tag: str
  item: Value
  nodes: list[onnx.NodeProto] = field(default_factory=list)
  read: list[Value] = field(default_factory=list)  # of the outer graph
  length: int = 0

  def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
    self.d.schema(op)
    result = f"{self.tag}{len(self.nodes)}"
    self.nodes.append(helper.make_node(op, inputs, [result], **attributes))
    return result

  def outer(self, value: Value) -> str:
    self.read.append(value)
    return value.name

  def tensor(self) -> str:
    return self.outer(self.d.like(self.item, shape=self.item.shape, reuse=0.9))

  def position(self, last: int) -> list[str]:
    """A place, the largest being `last`, counted from either end, or none."""
    if self.d.chance(0.2):
      return []
    dtype = self.d.choose(np.int64, np.int32)
    return [self.outer(self.d.new(np.array(self.d.integer(-self.length, last), dtype),
                                  self.d.known()))]

  def begin(self, op: str) -> str:
    d = self.d
    if op == "SequenceEmpty":
      empty = self.node(op, [], dtype=types.onnx_type(self.item.array))
      self.length = 1
      return self.node("SequenceInsert", [empty, self.tensor()])
    if op == "SplitToSequence":
      self.length, axis = d.integer(1, 4), d.integer(0, self.item.rank - 1)
      extent = self.item.shape[axis]
      shape = [self.length * extent if i == axis else e for i, e in enumerate(self.item.shape)]
      whole, size = d.like(self.item, shape=shape), d.new(np.array(extent), d.known())
      return self.node(op, [self.outer(whole), self.outer(size)], axis=axis)
    self.length = d.integer(1, 4)
    return self.node("SequenceConstruct", [self.tensor() for _ in range(self.length)])

  def change(self, op: str, sequence: str) -> str:
    if op == "SequenceMap":
      entry, made = f"{self.tag}in", f"{self.tag}out"
      body = helper.make_graph([helper.make_node("Identity", [entry], [made])], "body",
                               [info(entry, self.item)], [info(made, self.item)])
      return self.node(op, [sequence], body=body)
    if op == "Optional":
      return self.node("OptionalGetElement", [self.node(op, [sequence])])
    if op == "SequenceErase" and self.length > 1:
      shorter = self.node(op, [sequence, *self.position(self.length - 1)])
      self.length -= 1
      return shorter
    longer = self.node("SequenceInsert", [sequence, self.tensor(), *self.position(self.length)])
    self.length += 1
    return longer if op == "SequenceInsert" else self.change(op, longer)


_BEGIN = ("SequenceConstruct", "SequenceEmpty", "SplitToSequence")
_CHANGE = ("SequenceInsert", "SequenceErase", "SequenceMap", "Optional")
_END = ("ConcatFromSequence", "SequenceAt", "SequenceLength", "OptionalHasElement")


def chains(d: Draft, op: str) -> object:
  """A chain with this operator in one branch, and any chain with the same end in the other."""
  if op == "OptionalGetElement":
    op = "Optional"
  x = d.take([t for t in _TYPES if t in d.types("SequenceConstruct")],
             fits=lambda a: a.ndim > 0 and a.size > 0, least=1)
  end = op if op in _END else d.choose(*_END[:3])
  axis, stack = d.integer(0, x.rank - 1), d.integer(0, 1)
  tag = f"q{len(d.values)}_"
  graphs, read = {}, []
  for side in ("then", "else"):
    chain = Chain(d, tag + side, x)
    wanted = op if side == "then" else ""
    sequence = chain.begin(wanted if wanted in _BEGIN else d.choose(*_BEGIN[:2]))
    for _ in range(d.integer(0, 3)):
      sequence = chain.change(d.choose("SequenceInsert", "SequenceErase"), sequence)
    if wanted in _CHANGE:
      sequence = chain.change(wanted, sequence)
    if end == "ConcatFromSequence":
      last = chain.node(end, [sequence], axis=axis, new_axis=stack)
    elif end == "SequenceAt":
      places = chain.position(chain.length - 1)
      zero = [] if places else [chain.outer(d.constant(0))]
      last = chain.node(end, [sequence, *places, *zero])
    elif end == "OptionalHasElement":
      last = chain.node(end, [chain.node("Optional", [sequence])])
    else:
      last = chain.node(end, [sequence])
    graphs[f"{side}_branch"] = helper.make_graph(chain.nodes, side, [],
                                                 [onnx.ValueInfoProto(name=last)])
    read += chain.read
  return d.add("If", [condition_of(d, x)], captured=read, exact=True, **graphs)


ROWS = [
  Row("SequenceConstruct SequenceEmpty SplitToSequence SequenceInsert SequenceErase SequenceMap "
      "Optional OptionalGetElement OptionalHasElement SequenceAt SequenceLength "
      "ConcatFromSequence", chains, 2),
]
