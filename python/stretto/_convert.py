"""From PyTorch and ONNX to ONNX files."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from stretto import _stretto
from stretto._errors import Error, FormatError, InvalidArgumentError, UnsupportedError, format_error
from stretto._optimize import _aten, _is_module, _mapping, _onnx_bytes, _shape, _text
from stretto._paths import path_text
from stretto._torch_types import TorchModule, TorchProgram

LOG = logging.getLogger("stretto")


def convert(source: str | os.PathLike[str] | bytes | Any | TorchModule | TorchProgram,
            path: str | os.PathLike[str], inputs: Any = None, *,
            kwargs: Mapping[str, Any] | None = None,
            shapes: Mapping[str, Any] | None = None,
            dynamic_shapes: Any = None) -> list[str]:
  """Writes a model as an ONNX file.

  The file has the operators of ONNX's own domains, of opset 21 or, where a model needs a newer one,
  of the oldest that has all of its operators. Dimensions are fixed, but for those that
  `dynamic_shapes` or an exported program leaves open, and sizes that depend on the values of
  tensors. Nothing is optimised: `optimize` makes an artefact of the file, or of the same source.

  Args:
    source: a PyTorch module in evaluation mode; a `torch.export.ExportedProgram`, or the path of
      one that `torch.export.save` wrote (`.pt2`); an ONNX model as `optimize` takes it, whose older
      operators are brought to their newest form, and whose functions and loops are expanded.
    path: the file to write, called `*.onnx`. Weights of more than 1 GiB together go to a file
      beside it, called `path` and `.data`.
    inputs: for a module, what it is traced with, as for `optimize`. A program has its own.
    kwargs: keyword arguments of a module, besides positional ones in `inputs`.
    shapes: of an ONNX model with open dimensions, the shapes of these inputs by name.
    dynamic_shapes: for a module, dimensions that stay open, as for `torch.export.export`.

  Returns:
    The files that were written, the model last.

  Raises:
    InvalidArgumentError: an argument is wrong (a ValueError).
    UnsupportedError: the model needs operators that Stretto lacks, and the text names all of them;
      or no single graph is right for all sizes.
    FormatError: a file is missing or damaged, or cannot be written (an OSError).

  Examples:
    >>> module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
    >>> stretto.convert(module, "module.onnx", torch.zeros(1, 3, 16, 16))
    ['module.onnx']
    >>> stretto.optimize("module.onnx", tuning="off").outputs[0].shape
    (1, 8, 14, 14)
  """
  to = path_text("path", path)
  if to.endswith(".stretto"):
    raise InvalidArgumentError("path: artefacts are optimised for a machine: "
                               "stretto.optimize(source, ...).save(path) makes one")
  if not to.endswith(".onnx"):
    raise InvalidArgumentError(f"path: expected a file called *.onnx, got {to}")
  _stretto.check_writable(to)
  text = path_text("source", source) if isinstance(source, (str, os.PathLike)) else None
  if text is not None and text.endswith(".stretto"):
    raise InvalidArgumentError("source: an artefact holds operators that ONNX does not have; "
                               "convert the model that it was made from")
  if text is not None and text.endswith(".pt2"):
    source = _load_program(text)
  if _is_module(source):
    if shapes:
      raise InvalidArgumentError("shapes: those of a PyTorch module are the shapes of its inputs")
    graph, ins, outs, why = _aten().graph_of_module(source, inputs, _mapping("kwargs", kwargs),
                                                    dynamic_shapes)
    if why is not None:
      LOG.warning("%s: the program's dynamic dimensions are fixed to those of its inputs: %s", to,
                  why)
    _, files = graph.write_onnx(to, inputs=ins, outputs=outs)
    return list(files)
  if dynamic_shapes is not None:
    raise InvalidArgumentError("dynamic_shapes: only a PyTorch module has them")
  if inputs is not None or kwargs:
    raise InvalidArgumentError("inputs: only a PyTorch module is traced with inputs")
  fixed = {_text("shapes", name): _shape(name, shape)
           for name, shape in _mapping("shapes", shapes).items()}
  content = None if text is not None else _onnx_bytes(source)
  _, files = _stretto.convert_onnx(text, content, fixed, to)
  return list(files)


def _load_program(path: str) -> Any:
  """What torch.export.save wrote."""
  try:
    import torch
  except ImportError:
    raise UnsupportedError(f"{path}: a program of PyTorch is read by PyTorch, which is not "
                           "installed: pip install torch") from None
  if not os.path.exists(path):
    raise format_error(f"{path}: there is no such file", path, code=2)
  try:
    return torch.export.load(path)
  except Exception as error:  # PyTorch raises whatever comes up while it reads
    raise FormatError(f"{path}: expected a file of torch.export.save: {error}") from None


class _Notes(logging.Handler):
  """Keeps what is logged."""

  def __init__(self) -> None:
    super().__init__(logging.WARNING)
    self.texts: list[str] = []

  def emit(self, record: logging.LogRecord) -> None:
    self.texts.append(record.getMessage())


def main(source: str, path: str) -> None:
  """Answers the command, for which PyTorch is read here, with a line of JSON."""
  notes = _Notes()
  LOG.addHandler(notes)
  answer: dict[str, Any]
  try:
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
      answer = {"files": convert(source, path)}
  except Error as error:
    answer = {"error": str(error), "kind": type(error).__name__}
  print(json.dumps({**answer, "notes": notes.texts}), flush=True)


if __name__ == "__main__":
  main(*sys.argv[1:])
