"""One node through another engine: ONNX Runtime, or where it has no kernel, onnx's reference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime as ort
from onnx import ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from differential.divergences import ORT, REFERENCE
from differential.element_types import Array, numpy_type, onnx_type, schema_type

IR_VERSION = 10  # the newest that every version of ONNX Runtime in use reads
# ONNX Runtime takes arrays of NumPy's own types only.
_ORT_TYPES = frozenset("float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
                       "bool".split())


class CannotRun(Exception):
  """No peer computes the node; the text says why."""


def _session_options() -> ort.SessionOptions:
  options = ort.SessionOptions()
  options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
  options.log_severity_level = 4
  options.intra_op_num_threads = options.inter_op_num_threads = 1
  return options


_OPTIONS = _session_options()


def node_model(node: onnx.NodeProto, arrays: Mapping[str, Array], constants: Sequence[str],
               opsets: Mapping[str, int]) -> onnx.ModelProto:
  """A model of one node.

  Args:
    node: the node.
    arrays: everything that it and its graphs read, by name.
    constants: which of them are part of the model.
    opsets: versions of the operators by domain.
  """
  infos = [helper.make_tensor_value_info(name, onnx_type(array), array.shape)
           for name, array in arrays.items() if name not in constants]
  stored = [numpy_helper.from_array(arrays[name], name) for name in constants]
  graph = helper.make_graph([node], "one", infos,
                            [ValueInfoProto(name=name) for name in node.output if name], stored)
  imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
  return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def _typed(array: Array, name: str) -> Array:
  """ONNX Runtime gives float8 as bytes."""
  wanted = schema_type(name)
  return array.view(numpy_type(wanted)) if wanted.startswith("float8") else array


class NodeRunner:
  """A node that is ready to run.

  Args:
    node: the node.
    arrays: everything that it and its graphs read, by name.
    constants: which of them are part of the model.
    opsets: versions of the operators by domain.
    avoid: peers that are known to compute something else.

  Raises:
    CannotRun: no peer computes the node.
  """

  def __init__(self, node: onnx.NodeProto, arrays: Mapping[str, Array], constants: Sequence[str],
               opsets: Mapping[str, int], avoid: Sequence[str] = ()) -> None:
    self.model = node_model(node, arrays, constants, opsets)
    self._names = [name for name in node.output if name]
    self._session: ort.InferenceSession | None = None
    self._reference: ReferenceEvaluator | None = None
    self.peer = ""
    self.refusal = ""  # what ONNX Runtime said
    self._avoids_reference = REFERENCE in avoid
    if (ORT not in avoid
        and all(array.dtype.name in _ORT_TYPES for array in arrays.values())):
      try:
        self._session = ort.InferenceSession(self.model.SerializeToString(), _OPTIONS,
                                             providers=["CPUExecutionProvider"])
        self.peer = "onnxruntime"
      except Exception as error:
        self.refusal = str(error)

  def run(self, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs that have a name, in their order.

    Raises:
      CannotRun: no peer computes them.
    """
    if self._session is not None:
      try:
        outputs = self._session.run(self._names, dict(feeds))
        types = [output.type for output in self._session.get_outputs()]
        return [_typed(np.asarray(output), name) for output, name in zip(outputs, types)]
      except Exception as error:
        self.refusal, self._session = str(error), None
    if self._avoids_reference:
      raise CannotRun(self.refusal[:200])
    try:
      with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if self._reference is None:
          self._reference = ReferenceEvaluator(self.model)
        self.peer = "reference"
        return [np.asarray(output) for output in self._reference.run(self._names, dict(feeds))]
    except Exception as error:
      raise CannotRun(f"{self.refusal[:200]} | {type(error).__name__}: {error}") from None
