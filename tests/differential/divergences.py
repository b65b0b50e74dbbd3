"""Where a peer computes something else than ONNX says, or where ONNX leaves it open. Such nodes are
computed by the other peer, or not drawn. One row per reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from differential.element_types import INTEGERS, Array

ORT, REFERENCE = "onnxruntime", "reference"


@dataclass(frozen=True)
class Form:
  """A node as the rows see it: its attributes, and its inputs, None where one is left out."""
  attributes: dict[str, Any]
  inputs: Sequence[Array | None]
  outputs: int
  opset: int

  @property
  def dtype(self) -> str:
    return self.inputs[0].dtype.name if self.inputs and self.inputs[0] is not None else ""


@dataclass(frozen=True)
class Divergence:
  """One reason.

  Attributes:
    peer: who diverges.
    ops: the operators.
    holds: for which nodes.
    reason: what the peer does, and what ONNX says.
  """
  peer: str
  ops: tuple[str, ...]
  holds: Callable[[Form], bool]
  reason: str


REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMean",
              "ReduceProd", "ReduceSum", "ReduceSumSquare", "CumSum", "CumProd")


def same_padding(form: Form) -> bool:
  """Whether the padding follows from the strides."""
  return "SAME" in form.attributes.get("auto_pad", "")


def steps_over(form: Form) -> bool:
  """Whether a window's stride is larger than the window."""
  kernel = form.attributes["kernel_shape"] if "kernel_shape" in form.attributes else [1]
  return any(s > k for s, k in zip(form.attributes.get("strides", []), kernel))


def long_products(form: Form) -> bool:
  """Whether two products of a uint8 and an int8 may not fit into 16 bits."""
  sizes = {name: max((int(np.abs(a.astype(np.int64)).max(initial=0)) for a in form.inputs
                      if a is not None and a.dtype.name == name), default=0)
           for name in ("uint8", "int8")}
  return 2 * sizes["uint8"] * sizes["int8"] > 32767


def interpolates_long_integers(form: Form) -> bool:
  """Whether a Resize may average integers that float32 does not hold."""
  return (form.dtype in INTEGERS and form.attributes.get("mode", "nearest") != "nearest" and
          int(np.abs(form.inputs[0].astype(np.float64)).max(initial=0)) >= 2**24)


def nearly_certain(form: Form) -> bool:
  """Whether a class has so much of the probability that its loss has few digits left."""
  scores = form.inputs[0]
  if scores is None or scores.size == 0 or scores.ndim < 2:
    return False
  wide = scores.astype(np.float64)
  others = np.exp(wide - wide.max(1, keepdims=True)).sum(1) - 1
  return bool((others < 1 / 16).any())


def begins_before(form: Form) -> bool:
  """Whether a backward slice begins before the first element."""
  if len(form.inputs) < 5 or form.inputs[0] is None or form.inputs[4] is None:
    return False
  starts, steps = form.inputs[1], form.inputs[4]
  axes = form.inputs[3] if form.inputs[3] is not None else np.arange(len(steps))
  return any(step < 0 and start + form.inputs[0].shape[axis] < 0
             for start, axis, step in zip(starts, axes, steps))


def has_inside(form: Form, op: str) -> bool:
  """Whether a graph of the node has such a node."""
  graphs = [value for value in form.attributes.values() if isinstance(value, onnx.GraphProto)]
  return any(node.op_type == op for graph in graphs for node in graph.node)


ROWS: list[Divergence] = [
  Divergence(REFERENCE, ("If",), lambda f: has_inside(f, "Optional"),
             "takes an optional sequence for a sequence in a sequence"),
  Divergence(ORT, ("MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv"), long_products,
             "on processors without VNNI it adds pairs of products in 16 bits and cuts them off"),
  Divergence(REFERENCE, ("Unique",), lambda f: f.attributes.get("sorted", 1) == 0,
             "it sorts where only the values are asked for, and takes them along the first axis; "
             "ONNX gives them in the order in which they come first"),
  Divergence(ORT, ("AffineGrid",), lambda f: f.attributes.get("align_corners", 0) == 1 and
             f.inputs[1] is not None and 1 in f.inputs[1][2:],
             "puts the only pixel of an axis at 1; onnx's reference puts it at -1"),
  Divergence(ORT, ("ConvTranspose",), lambda f: same_padding(f) and steps_over(f),
             "where the kernel is smaller than the stride, the output is not input times stride"),
  Divergence(ORT, ("Dropout",), lambda f: f.outputs > 1 and f.opset < 12,
             "gives a mask of False, which ONNX says nothing about before opset 12"),
  Divergence(ORT, ("LpPool",), lambda f: same_padding(f) and steps_over(f),
             "where the kernel is smaller than the stride, it begins inside the image"),
  Divergence(ORT, ("MaxPool", "AveragePool", "LpPool"), lambda f: same_padding(f) and
             "dilations" in f.attributes, "leaves dilations out of the padding"),
  Divergence(ORT, ("NonZero",), lambda f: f.inputs[0] is not None and f.inputs[0].ndim == 0,
             "gives a row for a scalar, where ONNX wants none"),
  Divergence(ORT, ("ReduceSum", "ReduceMean"), lambda f: f.dtype == "int64",
             "rounds sums to float64"),
  Divergence(ORT, ("Resize",), lambda f: f.dtype in INTEGERS and "antialias" in f.attributes,
             "makes negative numbers 0"),
  Divergence(ORT, ("Resize",), interpolates_long_integers, "interpolates integers in float32"),
  Divergence(ORT, ("SoftmaxCrossEntropyLoss",), nearly_certain,
             "takes the logarithm of a sum that is rounded beside 1; Stretto that of one plus the "
             "rest"),
  Divergence(ORT, ("TreeEnsemble",), lambda f: f.attributes.get("post_transform", 0) != 0,
             "leaves the transform out"),
  Divergence(REFERENCE, ("ConvTranspose",), lambda f: same_padding(f) or f.inputs[0] is not None
             and f.inputs[0].ndim > 4, "gives zeros"),
  Divergence(REFERENCE, ("ConvTranspose",), lambda f: f.attributes.get("group", 1) > 1,
             "gives all groups the bias of the first, and one channel each"),
  Divergence(REFERENCE, ("Slice",), begins_before,
             "gives nothing where a backward slice begins before the first element; ONNX begins at "
             "that element"),
  Divergence(REFERENCE, ("SoftmaxCrossEntropyLoss",), nearly_certain,
             "takes the logarithm of a quotient that is rounded beside 1"),
  Divergence(REFERENCE, ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"),
             lambda f: f.inputs[0] is not None and f.inputs[0].ndim != 4,
             "reduces other axes than those of the image"),
  Divergence(REFERENCE, ("GridSample",), lambda f: f.attributes.get("padding_mode") == "border"
             and f.attributes.get("mode") in ("cubic", "bicubic"),
             "moves the neighbours of a place to the border, not the place"),
  Divergence(REFERENCE, ("LpNormalization",), lambda f: f.attributes.get("p", 2) == 1,
             "adds numbers with their signs"),
  Divergence(REFERENCE, ("LRN",), lambda f: True, "leaves a channel out of its sums"),
  Divergence(REFERENCE, ("Conv", "ConvInteger", "QLinearConv"),
             lambda f: same_padding(f) and "dilations" in f.attributes,
             "leaves dilations out of the padding"),
  Divergence(REFERENCE, ("MaxPool", "AveragePool", "LpPool"),
             lambda f: same_padding(f) or "pads" in f.attributes or "ceil_mode" in f.attributes,
             "pads the axes in another order, and extends windows otherwise"),
  Divergence(REFERENCE, ("MaxPool",), lambda f: f.outputs > 1, "counts places beyond the image"),
  Divergence(REFERENCE, ("ReduceMean",), lambda f: f.dtype in INTEGERS,
             "adds integers in their own type, which wraps"),
  Divergence(REFERENCE, REDUCTIONS, lambda f: f.dtype in ("float16", "bfloat16"),
             "rounds after every addition"),
  Divergence(REFERENCE, ("Resize",), lambda f: f.dtype in INTEGERS,
             "rounds interpolated integers; ONNX Runtime and Stretto cut them off"),
  Divergence(REFERENCE, ("Resize",),
             lambda f: f.attributes.get("coordinate_transformation_mode") == "align_corners",
             "puts the last pixel beyond the output where scaled sizes are no whole numbers"),
  Divergence(REFERENCE, ("Resize",), lambda f: "antialias" in f.attributes and
             f.attributes.get("coordinate_transformation_mode") == "pytorch_half_pixel",
             "takes the first pixel for one pixel of output; ONNX Runtime and Stretto all of them"),
  Divergence(REFERENCE, ("RNN", "GRU", "LSTM"), lambda f: True,
             "leaves out sequence_lens, directions and most other attributes"),
  Divergence(REFERENCE, ("Softmax", "LogSoftmax", "Hardmax"), lambda f: f.opset < 13,
             "works along an axis, where the matrix of all axes from there on is meant"),
  Divergence(REFERENCE, ("Unique",), lambda f: "axis" in f.attributes and
             f.attributes.get("sorted", 1) == 0,
             "puts unsorted slices back along the first axis, whatever the axis is"),
  Divergence(REFERENCE, ("TreeEnsemble",), lambda f: f.attributes.get("post_transform", 0) != 0,
             "leaves the transform out"),
]

# What a peer computes in float32, or with constants of that precision, for inputs of float64.
IN_FLOAT32 = {
  ORT: ("AffineGrid", "Attention", "DFT", "Gelu", "GroupNormalization", "HardSwish",
        "LayerNormalization", "RMSNormalization", "HannWindow", "HammingWindow", "BlackmanWindow",
        "STFT", "Shrink"),
  REFERENCE: ("AffineGrid", "Attention", "Erf", "Gelu", "HardSwish", "Resize", "RMSNormalization",
              "LayerNormalization", "GroupNormalization"),
}


def diverges(peer: str, op: str, form: Form) -> str:
  """Why a peer's result for a node is not to be compared with; empty if it is."""
  for row in ROWS:
    if row.peer == peer and op in row.ops and row.holds(form):
      return row.reason
  return ""
