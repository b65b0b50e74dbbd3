"""Stretto as a backend of ONNX's own tests: `onnx.backend.test.BackendTest(stretto.onnx_backend)`.

Models run as `stretto.optimize` makes them, but nothing is tuned, timed or verified: the tests
compare the outputs themselves. This module needs the package `onnx`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from stretto import _stretto
from stretto._arrays import as_array
from stretto._errors import InvalidArgumentError
from stretto._model import Model

__all__ = ["prepare", "run_model", "run_node", "supports_device", "StrettoRep"]


def _optimized(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray] | None = None) -> Model:
  """Makes a model ready to run on one thread, in as little time as possible.

  Args:
    model: the model to run.
    inputs: arrays for its inputs, by name, whose shapes close those that the model leaves open.
      None: the model says all shapes, and the inputs that it is tried with are made up.

  Returns:
    What `stretto.optimize` returns, with a report that says nothing about time.
  """
  options = _stretto.Options()
  options.tuning, options.tuning_cache, options.threads = "off", "none", 1
  options.verify = options.profile = False
  arrays = {name: as_array(array, name=name) for name, array in (inputs or {}).items()}
  options.shapes = {name: list(array.shape) for name, array in arrays.items()}
  content = model.SerializeToString()
  return Model(_stretto.optimize(None, content, model.graph.name or "model", options, arrays, None))


class StrettoRep(BackendRep):
  """A model that was prepared to run.

  Inputs whose shape the model leaves open get the shapes of the arrays that come; other shapes lead
  to another plan.

  Args:
    model: the model to run.

  Raises:
    UnsupportedError: the model needs what Stretto lacks, whatever its inputs are.
  """

  def __init__(self, model: onnx.ModelProto) -> None:
    constants = {tensor.name for tensor in model.graph.initializer}
    self._proto = model
    self._inputs = [value.name for value in model.graph.input if value.name not in constants]
    self._tensors = {value.name for value in model.graph.input
                     if value.type.HasField("tensor_type")}
    self._outputs = [value.name for value in model.graph.output]
    self._types = {
      value.name: onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
      for value in model.graph.output if value.type.HasField("tensor_type")}
    self._plans: dict[tuple[Any, ...], Model] = {}
    if not any(_is_open(value) for value in model.graph.input if value.name not in constants):
      try:
        self._plans[()] = _optimized(model)
      except InvalidArgumentError:
        pass  # made-up inputs may be wrong where those that come are right

  def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Runs the model.

    Args:
      inputs: an array per input of the model in their order, or a dictionary of them by name;
        for sequences a list, for optional values that are not there None.
      **kwargs: not used.

    Returns:
      The outputs, as a tuple whose elements also have the outputs' names.

    Raises:
      UnsupportedError: the model needs what Stretto lacks; the text gives every reason.
      InvalidArgumentError: an input is missing, or of the wrong type or shape.
    """
    given = inputs if isinstance(inputs, Mapping) else dict(zip(self._inputs, inputs))
    missing = [name for name in self._inputs if name not in given]
    if missing:
      raise InvalidArgumentError(f"input {', '.join(missing)} is missing")
    values = {name: np.asarray(given[name]) if name in self._tensors else given[name]
              for name in self._inputs}
    model = self._plans.get(()) or self._plan(values)
    result = model({spec.name: values[spec.name] for spec in model.inputs})
    outputs = result if isinstance(result, tuple) else (result,)
    # The engine gives types that NumPy lacks as wider ones.
    typed = [output.astype(self._types.get(name, output.dtype), copy=False)
             if isinstance(output, np.ndarray) else output
             for name, output in zip(self._outputs, outputs)]
    return namedtupledict("Outputs", self._outputs)(*typed)

  def _plan(self, values: Mapping[str, Any]) -> Model:
    """The model for these shapes."""
    arrays = {name: value for name, value in values.items()
              if name in self._tensors and value.dtype.kind not in "OUST"}
    key = tuple((name, array.shape) for name, array in arrays.items())
    if key not in self._plans:
      self._plans[key] = _optimized(self._proto, arrays)
    return self._plans[key]


def prepare(model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> StrettoRep:
  """Makes a model ready to run.

  Args:
    model: the model.
    device: "CPU".
    **kwargs: not used.

  Returns:
    What runs it.

  Raises:
    UnsupportedError: the model needs what Stretto lacks; the text gives every reason.
  """
  return _Backend.prepare(model, device, **kwargs)


def run_model(model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
  """Prepares a model and runs it once.

  Args:
    model: the model.
    inputs: an array per input of the model, or a dictionary of them by name.
    device: "CPU".
    **kwargs: not used.

  Returns:
    The outputs, as `StrettoRep.run` returns them.
  """
  return _Backend.run_model(model, inputs, device, **kwargs)


def run_node(node: onnx.NodeProto, inputs: Any, device: str = "CPU",
             outputs_info: Any = None, **kwargs: Any) -> Any:
  """Runs one node as a model of its own.

  Args:
    node: the node.
    inputs: an array per input of the node that is not absent.
    device: "CPU".
    outputs_info: type and shape of each output; not needed.
    **kwargs: `opset`, the version of ONNX's operators that the node is written for; the newest by
      default.

  Returns:
    The outputs, as `StrettoRep.run` returns them.
  """
  return _Backend.run_node(node, inputs, device, outputs_info, **kwargs)


def supports_device(device: str) -> bool:
  """Whether models can run on a device.

  Args:
    device: its name, like "CPU" or "CUDA:1".

  Returns:
    True for "CPU".
  """
  return _Backend.supports_device(device)


class _Backend(Backend):
  """What the functions of this module call."""

  @classmethod
  def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> StrettoRep:
    if not cls.supports_device(device):
      raise InvalidArgumentError(f"device: expected CPU, got {device}")
    return StrettoRep(model)

  @classmethod
  def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU",
               outputs_info: Any = None, **kwargs: Any) -> Any:
    names = [name for name in node.input if name]
    arrays = [np.asarray(inputs[name] if isinstance(inputs, Mapping) else inputs[i])
              for i, name in enumerate(names)]
    infos = [onnx.helper.make_tensor_value_info(
      name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
      for name, array in zip(names, arrays)]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], node.op_type, infos, outputs)
    opset = kwargs.get("opset", onnx.defs.onnx_opset_version())
    model = onnx.helper.make_model(
      graph, opset_imports=[onnx.helper.make_opsetid(node.domain, opset)])
    return cls.run_model(model, arrays, device)

  @classmethod
  def supports_device(cls, device: str) -> bool:
    return bool(Device(device).type == DeviceType.CPU)


def _is_open(value: onnx.ValueInfoProto) -> bool:
  """Whether the shape of an input is not known before there is an array for it."""
  tensor = value.type.tensor_type
  if not value.type.HasField("tensor_type"):
    return False  # refused with its reason
  return not tensor.HasField("shape") or any(
    not dimension.HasField("dim_value") for dimension in tensor.shape.dim)
