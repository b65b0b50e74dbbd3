"""optimize() and load(): how models are made and read."""

from __future__ import annotations

import importlib
import logging
import operator
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto import _stretto
from stretto._arrays import as_array
from stretto._errors import InvalidArgumentError
from stretto._model import Model
from stretto._paths import path_text
from stretto._progress import Progress, shown
from stretto._report import Report, report_path
from stretto._torch_types import TorchModule, TorchProgram, TorchTensor
from stretto.media import Step
from stretto.media import _text as _steps_text

if TYPE_CHECKING:
  import onnx

LOG = logging.getLogger("stretto")

# What optimize() does only while it makes a model: the rest holds for an artefact too.
_DEFAULTS: dict[str, Any] = {
  "inputs": None, "level": "lossless", "accuracy": "default", "shapes": None, "tuning": "quick",
  "tuning_cache": None, "disable": (), "force": None, "peers": (), "kwargs": None,
  "dynamic_shapes": None, "lengths": None, "preprocess": None,
}


def optimize(
  source: str | os.PathLike[str] | bytes | onnx.ModelProto | TorchModule | TorchProgram,
  inputs: Mapping[str, Any] | Sequence[Any] | TorchTensor | None = None,
  *,
  kwargs: Mapping[str, Any] | None = None,
  dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
  level: str = "lossless",
  accuracy: str = "default",
  threads: int | None = None,
  shapes: Mapping[str, str | Sequence[int | str | tuple[int, int]]] | None = None,
  lengths: str | None = None,
  preprocess: str | Step | Sequence[str | Step] | None = None,
  tuning: str | float = "quick",
  tuning_cache: str | os.PathLike[str] | None = None,
  report: str | os.PathLike[str] | None = None,
  peers: str | Iterable[str] = (),
  disable: str | Iterable[str] = (),
  force: Mapping[str, str] | None = None,
  verify: bool | None = None,
  progress: bool | Progress = True,
) -> Model:
  """Optimises an ONNX model or a PyTorch module for this machine and verifies the result.

  Ctrl-C ends it within a second.

  Args:
    source: path of an ONNX file, an `onnx.ModelProto`, or its bytes. The path of a `.stretto` file
      is also taken: the artefact is loaded as by `load`. It is optimised already, so only
      `threads`, `report`, `verify` and `progress` may be given with it. Or a `torch.nn.Module` in
      evaluation mode, or a `torch.export.ExportedProgram`: the result is then called like the
      module, with tensors of the same shapes, and returns tensors.
    inputs: for a module, what it is traced, checked and timed with: a tensor, a tuple of positional
      arguments, or a dictionary of keyword arguments. For an ONNX model: arrays to check and time
      with, by input name; float64 is rounded where the model takes float32, and the log says so.
      None: they are made up, and the report says so. `Model.save` stores them in the artefact if
      they take 8 MiB or less together, so do not give data here that users of the artefact must not
      see. An input for which the file has a value (an initialiser) is a constant, unless it is
      named here or in `shapes`: then every call is given it.
    kwargs: keyword arguments of a module, besides positional ones in `inputs`.
    dynamic_shapes: which dimensions of a module's inputs may differ from call to call, as
      `torch.export.export` takes it: `({0: torch.export.Dim("batch", max=64)},)`. The model is
      optimised for the shapes of `inputs`, and makes a program for every other one when it comes.
    level: how much accuracy may be given up for speed. "lossless" (fp32 throughout) is the only
      level so far; "half" and "int8" are planned.
    accuracy: "strict": kernels with the errors of plain fp32 sums; "default": Winograd F(4,3) and
      Strassen's products too; "fast": also Winograd F(6,3).
    threads: number of threads to run with. None: one for every physical core that this process may
      use, or fewer where a container limits its CPU time.
    shapes: shapes of inputs whose file leaves dimensions open, by input name: `(1, 3, 224, 224)`,
      or ranges of sizes, `"1..8x3x224x224"` or `((1, 8), 3, 224, 224)`. `"batch:1..x3x224x224"` has
      no limit, and dimensions of one name have one size in every run. Inputs not named here take
      any size that the file allows. The model is optimised for the largest sizes, for those of
      `inputs`, or for likely ones, and makes a program for each other shape when it comes.
    lengths: name of the input of shape [batch, length] that is 1 for the tokens of a sample and 0
      for padding, such as "attention_mask". Each run then works on the tokens only, in about their
      share of the time, and what it makes per token is 0 where padding is. `Model.notes` says what
      was gained.
    preprocess: steps by which an ONNX model's input takes pictures instead of tensors, such as
      `stretto.media.Imagenet(224)` or a list of steps (see `stretto.media`): calls then take 8-bit
      pixels of any size, or files. The steps are part of the model and of its artefact.
    tuning: how long to search for the fastest kernels: "off", "quick" (at most 10 s), "full" (at
      most 240 s), or a number of seconds.
    tuning_cache: the file that remembers the fastest kernels; "none": no file. None: the file that
      `STRETTO_TUNING_CACHE` names, or one in `~/.cache/stretto`.
    report: also write a report to this `.html` or `.json` file, in a folder that exists.
    peers: other inference engines to time on the same model, for the report: a list of names
      ("onnxruntime", "openvino", "torch", "ncnn", "mnn"), or "installed" for every one that is
      installed. None by default: peers may take minutes.
    disable: names of passes or rules not to apply, as a list or with commas in between; see
      `list_passes`.
    force: kernel to use, by operator family ("conv2d") or by node name, whatever was measured.
    verify: compare the outputs with a double-precision reference; None and True do so. An artefact
      is compared with the outputs stored in it, as by `load`, only if this is True.
    progress: True: a progress bar in the notebook, or on standard error if that is a terminal
      (tqdm's, if tqdm is installed). False: none. A function is called with the name of the stage
      and the share of it that is done, from 0 to 1; what it raises ends the call.

  Returns:
    The model, ready to run.

  Raises:
    InvalidArgumentError: an argument is wrong (a ValueError).
    UnsupportedError: the model needs what Stretto lacks; the text gives every reason.
    FormatError: a file is missing or damaged (an OSError); the text names it.
    InternalError: an output differs from the reference by more than `accuracy` allows: 2e-5 of its
      largest value with "strict", 1e-4 with "default", 3e-4 with "fast".

  Examples:
    >>> model = stretto.optimize("cnn.onnx", threads=1, tuning="off")
    >>> model
    <stretto.Model cnn: x float32[1, 3, 16, 16] -> y float32[1, 10]>
    >>> model.save("cnn.stretto")

    >>> model = stretto.optimize("cnn.onnx", preprocess=stretto.media.Imagenet(16), tuning="off")
    >>> model(np.zeros((375, 500, 3), np.uint8)).shape
    (1, 10)

    >>> module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
    >>> fast = stretto.optimize(module, torch.zeros(1, 3, 16, 16), tuning="off")
    >>> fast(torch.zeros(1, 3, 16, 16)).shape
    torch.Size([1, 8, 14, 14])
  """
  module = _is_module(source)
  peer_names = _names(peers)
  options = _stretto.Options()
  options.level = _text("level", level)
  options.accuracy = _text("accuracy", accuracy)
  options.threads = _threads(threads) or 0
  options.tuning = str(tuning)
  if tuning_cache is not None:
    options.tuning_cache = path_text("tuning_cache", tuning_cache)
  _set_shapes(options, shapes)
  if lengths is not None:
    options.lengths = _text("lengths", lengths)
    if not lengths:
      raise InvalidArgumentError("lengths: expected the name of an input, got an empty string")
  if preprocess is not None:
    options.preprocess = _steps_text(preprocess)
  options.disable = set(_texts("disable", disable))
  options.force = {_text("force", name): _text(f"force[{name!r}]", kernel)
                   for name, kernel in _mapping("force", force).items()}
  options.verify = verify is not False
  path = path_text("source", source) if isinstance(source, (str, os.PathLike)) else None
  if report is not None:  # refused now rather than after minutes of work
    report_file = report_path("report", report)
    for name, other in (("source", path), ("tuning_cache", options.tuning_cache)):
      if other and _stretto.same_file(report_file, other):
        raise InvalidArgumentError(f"report: {report_file} would replace {name}; name another file")
    _stretto.check_writable(report_file)
  if path is not None and path.endswith(".stretto"):
    _refuse({"inputs": inputs, "level": level, "accuracy": accuracy, "shapes": shapes,
             "lengths": lengths, "preprocess": preprocess, "tuning": tuning,
             "tuning_cache": tuning_cache, "disable": disable, "force": force, "peers": peers,
             "kwargs": kwargs, "dynamic_shapes": dynamic_shapes})
    model = load(path, threads=threads, verify=bool(verify))
    if report is not None:
      model.report.save(report)
    return model
  if module:
    if preprocess is not None:
      raise InvalidArgumentError("preprocess: only ONNX models can be given pictures; export the "
                                 "module with torch.onnx.export, or prepare its tensors")
    if shapes:
      raise InvalidArgumentError("shapes: those of a PyTorch module are the shapes of its inputs; "
                                 "leave the option out, or give dynamic_shapes")
    model = _optimize_module(source, inputs, kwargs, dynamic_shapes, options, peer_names, progress)
    if report is not None:
      model.report.save(report)
    return model
  if dynamic_shapes is not None:
    raise InvalidArgumentError("dynamic_shapes: only a PyTorch module has them; open dimensions of "
                               "an ONNX model stay open, and shapes takes ranges of sizes")
  if kwargs is not None:
    raise InvalidArgumentError("kwargs: only a PyTorch module has keyword arguments; give arrays "
                               "by input name as inputs")
  arrays = {_text("inputs", name): as_array(value, name=f"inputs[{name!r}]")
            for name, value in _mapping("inputs", inputs).items()}
  content = None if path is not None else _onnx_bytes(source)
  with shown(progress) as tell:
    model = Model(_stretto.optimize(path, content, path or "model", options, arrays, tell))
    for note in model.notes:
      LOG.warning("%s: %s", path or "model", note)
    if peer_names:
      with _on_disk(path, content) as onnx_path:
        text = _stretto.report_with_peers(model._session, onnx_path, options, arrays, peer_names,
                                          sys.executable, tell)
      model._report = Report.from_json(text)
      for peer in model.report["latency"]["peers"]:
        if "error" in peer:
          own_words = "".join(f"\n  {line}" for line in peer.get("last_words", []))
          LOG.warning("%s was not timed: %s%s", peer["name"], peer["error"], own_words)
  if report is not None:
    model.report.save(report)
  return model


def _is_module(source: Any) -> bool:
  """Whether it is PyTorch's. Imports nothing: such an object exists only where torch is."""
  if "torch" not in sys.modules or isinstance(source, (str, os.PathLike, bytes)):
    return False
  return bool(_aten().is_module(source))


def _aten() -> Any:
  """stretto.aten, which imports torch; by its name, so that type checkers do not."""
  return importlib.import_module("stretto.aten")


def _optimize_module(source: Any, inputs: Any, kwargs: Mapping[str, Any] | None,
                     dynamic_shapes: Any, options: _stretto.Options, peers: list[str],
                     progress: bool | Progress) -> Model:
  if peers:
    raise InvalidArgumentError("peers: other engines read ONNX files; export the module with "
                               "torch.onnx.export and optimise that file to compare with them")
  with shown(progress) as tell:
    model: Model = _aten().optimize_module(source, inputs, _mapping("kwargs", kwargs),
                                           dynamic_shapes, options, tell)
  for note in model.notes:
    LOG.warning("%s: %s", model.name, note)
  return model


def load(path: str | os.PathLike[str], *, threads: int | None = None,
         verify: bool = False) -> Model:
  """Reads an artefact, which `Model.save` or `stretto optimize -o` wrote.

  Args:
    path: the `.stretto` file.
    threads: number of threads to run with, 1 to 1024. None: as many as the model was optimised for,
      but not more than this machine has cores.
    verify: run the model on the sample inputs stored in the file, and compare its outputs with
      those stored there. They are the inputs that the model was optimised with.

  Returns:
    The model, ready to run.

  Raises:
    FormatError: the file is missing, damaged or no artefact (an OSError); the text names it.
    InvalidArgumentError: `threads` is out of range.
    InternalError: `verify` found an output with too large an error; the text names both.
    UnsupportedError: `verify` is True and the file holds no samples, because the inputs given to
      `optimize` take more than 8 MiB.

  Examples:
    >>> stretto.optimize("cnn.onnx", tuning="off").save("cnn.stretto")
    >>> model = stretto.load("cnn.stretto", threads=1)
    >>> model.threads
    1
  """
  file = path_text("path", path)
  session = _stretto.load(file, _threads(threads), bool(verify))
  for note in session.notes:
    LOG.warning("%s: %s", file, note)
  return Model(session)


def list_passes() -> list[tuple[str, str]]:
  """Lists the passes of the optimiser in the order in which they run.

  Returns:
    Per pass its name, which `optimize` takes as `disable`, and a line about it.

  Examples:
    >>> stretto.list_passes()[0]
    ('...', '...')
  """
  return _stretto.list_passes()


def _refuse(given: dict[str, Any]) -> None:
  """An artefact is made already: refuses the options that only making one could obey."""
  for name, value in given.items():
    if isinstance(value, (str, bool, int, float)):
      is_default = value == _DEFAULTS[name]
    else:
      is_default = value is None or (isinstance(value, Sized) and not len(value))
    if is_default:
      continue
    raise InvalidArgumentError(
      f"{name}: a .stretto file is optimised already, so this option has no effect on it; "
      f"optimise the ONNX file again with {name}, or leave it out")


def _names(peers: str | Iterable[str]) -> list[str]:
  from stretto.peers import names  # imports nothing that is not installed, but takes a while

  return names(peers if isinstance(peers, str) else _texts("peers", peers))


def _text(name: str, value: Any) -> str:
  if not isinstance(value, str):
    raise InvalidArgumentError(f"{name}: expected a string, got {type(value).__name__}")
  return value


def _texts(name: str, values: Any) -> list[str]:
  """A list of strings, also from one string with commas in between, as the command takes it."""
  if isinstance(values, str):
    return [value.strip() for value in values.split(",") if value.strip()]
  if not isinstance(values, Iterable):
    raise InvalidArgumentError(f"{name}: expected a list of strings, got {type(values).__name__}")
  return [_text(name, value) for value in values]


def _threads(value: int | None) -> int | None:
  if value is None:
    return None
  try:
    count = operator.index(value)
  except TypeError:
    raise InvalidArgumentError(
      f"threads: expected an integer or None, got {type(value).__name__}") from None
  if not 0 <= count <= 1024:
    raise InvalidArgumentError(f"threads: expected 1 to 1024, or None, got {count}")
  return count


def _set_shapes(options: _stretto.Options, shapes: Any) -> None:
  fixed: dict[str, list[int]] = {}
  for name, shape in _mapping("shapes", shapes).items():
    text = shape if isinstance(shape, str) else _range_text(name, shape)
    if text is not None:
      try:
        options.set_range(_text("shapes", name), text)
      except InvalidArgumentError as error:
        raise InvalidArgumentError(f"shapes[{name!r}]: expected a list of integers or ranges: "
                                   f"{error}") from None
    else:
      fixed[_text("shapes", name)] = _shape(name, shape)
  options.shapes = fixed


def _range_text(name: str, shape: Any) -> str | None:
  """A shape of sizes and ranges in the text form; None: it has no ranges."""
  try:
    sizes = list(shape)
  except TypeError:
    return None
  if not any(isinstance(size, (str, tuple, list)) for size in sizes):
    return None
  words = []
  for size in sizes:
    if isinstance(size, str):
      words.append(size)
    elif isinstance(size, (tuple, list)):
      if len(size) != 2:
        raise InvalidArgumentError(
          f"shapes[{name!r}]: expected the least and the most size, got {size!r}")
      words.append("..".join(str(end) for end in _shape(name, size)))
    else:
      words.append(str(_shape(name, [size])[0]))
  return "x".join(words)


def _shape(name: str, shape: Any) -> list[int]:
  try:
    sizes = [operator.index(size) for size in shape]
  except TypeError:
    raise InvalidArgumentError(
      f"shapes[{name!r}]: expected a list of integers or ranges, got {shape!r}") from None
  for size in sizes:
    if not 0 <= size < 1 << 63:
      raise InvalidArgumentError(
        f"shapes[{name!r}]: expected integers from 0 to 2**63 - 1, got {size}")
  return sizes


def _mapping(name: str, values: Any) -> Mapping[Any, Any]:
  if values is None:
    return {}
  if not isinstance(values, Mapping):
    raise InvalidArgumentError(
      f"{name}: expected a dictionary by name, got {type(values).__name__}")
  return values


def _onnx_bytes(source: Any) -> bytes:
  if isinstance(source, (bytes, bytearray, memoryview)):
    return bytes(source)
  if hasattr(source, "SerializeToString"):
    return bytes(source.SerializeToString())
  raise InvalidArgumentError("source: expected a path, an onnx.ModelProto, bytes or a PyTorch "
                             f"module, got {type(source).__name__}")


@contextmanager
def _on_disk(path: str | None, content: bytes | None) -> Iterator[str]:
  """The path of the model's file, written for the time of the block if there is none."""
  if path is not None:
    yield path
    return
  with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "model.onnx")
    file.write_bytes(content or b"")
    yield str(file)
