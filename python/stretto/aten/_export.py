"""From a module to a flat program of ATen operators, by torch.export."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._higher_order_ops import effects
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto.aten._assigned import copied_assignments, refuse_plain_state
from stretto.aten._causal import unasked
from stretto.aten._checks import erase_checks
from stretto.aten._control import inline_control_flow
from stretto.aten._conversions import idle_conversions
from stretto.aten._decompositions import DECOMPOSITIONS
from stretto.aten._recurrent_shapes import recurrent_as_wholes
from stretto.aten._state import shared, tensors_of
from stretto.aten._table import KEPT

_one_at_a_time = threading.RLock()


def export(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any],
           name: str, dynamic_shapes: Any = None) -> ExportedProgram:
  """Traces the module with these arguments, whose shapes the result keeps but for dynamic ones."""
  _check_module(module, name)
  with (torch.no_grad(), _quiet(), unasked(), idle_conversions(), recurrent_as_wholes(),
        copied_assignments(module, name) as assigned):
    try:
      program = torch.export.export(module, args, dict(kwargs), dynamic_shapes=dynamic_shapes,
                                    strict=False)
    except UnsupportedError:
      raise
    except GuardOnDataDependentSymNode as error:
      raise UnsupportedError(f"{name}: the module decides by the values of tensors, which "
                             "torch.export cannot trace; torch.compile(module, "
                             'backend="stretto") runs that part in PyTorch and optimises the rest. '
                             f"torch.export says: {error}") from error
    except Exception as error:
      raise UnsupportedError(f"{name}: torch.export cannot trace the module with these inputs: "
                             f"{error}") from error
  with torch.no_grad():
    refuse_plain_state(program, assigned, module, args, kwargs, name)
  try:
    return decomposed(program)
  except UnsupportedError as error:
    tensors = tensors_of(module)
    both = shared(list(tensors.values()))
    if both is None:
      raise
    first, second = (list(tensors)[i] for i in both)
    raise UnsupportedError(f"{name}: its tensors {first} and {second} share memory, which PyTorch "
                           f"may not take where the module changes one: {error}") from None


def decomposed(program: ExportedProgram) -> ExportedProgram:
  """The program without mutations, in core operators and those that the table keeps whole. What
  PyTorch does not take apart is taken apart as `_decompositions.py` says."""
  if not hasattr(torch.export, "default_decompositions"):
    raise UnsupportedError(f"PyTorch {torch.__version__} is too old to optimise modules; 2.6 is "
                           "the oldest that can")
  table = torch.export.default_decompositions()
  for name in KEPT:
    operator = _operator(name)
    if operator is not None:
      table.pop(operator, None)
  for name, function in DECOMPOSITIONS.items():
    operator = _operator(name)
    if operator is not None:
      table[operator] = function
  program = copy.copy(program)
  program.example_inputs = None  # without them PyTorch traces no checks of the arguments
  with torch.no_grad(), _quiet(), _unchecked(), recurrent_as_wholes():
    try:
      program = program.run_decompositions(table)
    except Exception as error:
      raise UnsupportedError("PyTorch cannot take the program apart into core operators: "
                             f"{error}") from error
    constants = {name: program.constants[target] for name, target
                 in program.graph_signature.inputs_to_lifted_tensor_constants.items()}
    inline_control_flow(program.graph_module, constants)
    erase_checks(program.graph)
    program.graph_module.recompile()
    return program


def _operator(name: str) -> Any:
  """None where this version of PyTorch has no such operator, or its library is not loaded."""
  packet, overload = name.rsplit(".", 1)
  library, _, packet = packet.rpartition("::")
  return getattr(getattr(getattr(torch.ops, library or "aten"), packet, None), overload, None)


@contextmanager
def _unchecked() -> Iterator[None]:
  """Without the effect that PyTorch sees in the checks of torch.linalg, which `_decompositions.py`
  leaves out."""
  name = "aten::_linalg_check_errors"
  register = getattr(effects, "_register_effectful_op", None)
  effect = getattr(effects, "_get_effect", lambda _: None)(name)
  if register is None or effect is None:
    yield
    return
  with _one_at_a_time:
    register(name, None)
    try:
      yield
    finally:
      register(name, effect)


@contextmanager
def _quiet() -> Iterator[None]:
  """Without what PyTorch has to say about its own insides."""
  with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    warnings.simplefilter("ignore", DeprecationWarning)
    # Recurrent modules gather their weights in a list anew; nothing is lost.
    warnings.filterwarnings("ignore", "The tensor attribute.* assigned during export", UserWarning)
    yield


def _check_module(module: torch.nn.Module, name: str) -> None:
  for path, part in module.named_modules():
    where = f"{name}.{path}" if path else name
    if isinstance(part, torch.jit.ScriptModule):
      raise UnsupportedError(f"{where}: torch.export takes no TorchScript; give the module that it "
                             "was made of, or write an ONNX file with torch.onnx.export(..., "
                             "dynamo=False)")
    if part.training:
      raise InvalidArgumentError(f"{where} ({type(part).__name__}) is in training mode; call "
                                 "module.eval() first")
  for path, tensor in [*module.named_parameters(), *module.named_buffers()]:
    if tensor.device.type != "cpu":
      raise InvalidArgumentError(f"{name}.{path} is on {tensor.device}; move the module to main "
                                 "memory with module.cpu()")
