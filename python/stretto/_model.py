"""Models that are ready to run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stretto import _stretto
from stretto._arrays import NO_TENSORS, as_array, from_engine, to_engine
from stretto._context import Context
from stretto._errors import InvalidArgumentError
from stretto._paths import path_text
from stretto._report import Report


@dataclass(frozen=True)
class TensorSpec:
  """One input or output of a model.

  Attributes:
    name: its name in the ONNX file.
    dtype: NumPy's name of the element type, like "float32"; "strings", "sequence" or "optional" for
      what is no tensor of numbers.
    shape: the dimensions that the model was optimised for, outermost first; () is a scalar. Of an
      output whose shape depends on values, that of the first run, or -1 where none was made.
    sizes: of an input with open dimensions, the shapes that it takes: "batch:1..8x3x224x224". None:
      `shape` only.
  """

  name: str
  dtype: str
  shape: tuple[int, ...]
  sizes: str | None = None


def _picture(picture: Any) -> str | np.ndarray:
  """One picture as the engine takes it: a path, or pixels, or the bytes of a file."""
  if isinstance(picture, (str, os.PathLike)):
    return path_text("picture", picture)
  if isinstance(picture, (bytes, bytearray, memoryview)):
    return np.frombuffer(picture, np.uint8)
  return as_array(picture, "uint8", "picture")


def _holds_numbers(value: Any) -> bool:
  """Whether a list is an array written out, and not a list of pictures."""
  while isinstance(value, (list, tuple)) and value:
    value = value[0]
  return isinstance(value, (int, float))


class Model:
  """An optimised model: made by `optimize` or `load`, run by calling it.

  Any number of threads may call one model at the same time. The GIL is released while it runs.

  Attributes:
    name: the model's name in the ONNX file.
    inputs: its inputs, in the order of positional arguments.
    outputs: its outputs, in the order they are returned.
    threads: number of threads that one call runs on.
    weight_bytes: memory of the weights, in bytes.
    memory_bytes: memory of the activations of one call, in bytes. Calls that run at the same time
      need as much each.
    preprocess: the steps by which it takes pictures, in full; empty where it takes tensors.
    notes: what was assumed or could not be done, a sentence each; the log has them as warnings.

  Examples:
    >>> model = stretto.optimize("cnn.onnx", tuning="off")
    >>> y = model(np.zeros((1, 3, 16, 16), np.float32))
    >>> y.shape, y.dtype
    ((1, 10), dtype('float32'))
  """

  def __init__(self, session: _stretto.Session, report: Report | None = None) -> None:
    self._session = session
    self._report = report
    self.name: str = session.name
    self.inputs = [TensorSpec(n, d, tuple(s), sizes)
                   for (n, d, s), sizes in zip(session.inputs, session.input_ranges)]
    self.outputs = [TensorSpec(n, d, tuple(s)) for n, d, s in session.outputs]
    self.preprocess: str = session.preprocess
    self.threads: int = session.threads
    self.weight_bytes: int = session.weight_bytes
    self.memory_bytes: int = session.memory_bytes
    self.notes: list[str] = list(session.notes)

  def __call__(self, *args: Any, **kwargs: Any) -> np.ndarray | tuple[np.ndarray, ...]:
    """Runs the model on one array per input.

    Args:
      *args: arrays in the order of `inputs`, or one dictionary of arrays by input name, which also
        takes names that are not Python identifiers.
      **kwargs: arrays by input name; and `context`, a `Context`, from which the call then goes on.
        Such a call takes the inputs that hold no state, and returns the outputs that hold none.
        Where a cache grows, `attention_mask` and `position_ids` follow from the context.

        An array is a NumPy array, a nested list, a number, or any object with `__dlpack__`
        (PyTorch, JAX, CuPy on main memory; nothing is copied) or `__array__`. Shapes must be those
        in `inputs`, or in the range that `sizes` there allows: the first call with new ones takes
        some milliseconds more. Element types must be those in `inputs`, except that conversions
        which lose nothing, and float64 to float32, are done silently.

        An input that takes pictures (`preprocess`) is given 8-bit pixels of any size, as uint8 of
        height x width x 3, height x width, or a batch of either; the path or the bytes of a JPEG,
        PNG or WebP file; a list of such; or what `prepare` returned, or any other tensor of floats
        that the steps could have made.

    Returns:
      The output as a NumPy array, or a tuple of arrays in the order of `outputs` if there are
      several. They belong to the caller: later runs leave them alone. Strings come as an array of
      objects, a sequence as a list, and an optional value that is not there as None.

    Raises:
      InvalidArgumentError: an input is missing, unknown, given twice, or of the wrong type or
        shape; the text names it.

    Examples:
      >>> x = np.zeros((1, 3, 16, 16), np.float32)
      >>> model(x).shape
      (1, 10)
    """
    if self._goes_on(kwargs):
      outputs = self._run_on(args, kwargs)
    else:
      outputs = self._outputs(self._arrange(args, kwargs))
    return outputs[0] if len(outputs) == 1 else tuple(outputs)

  def run(self, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
    """Runs the model and returns its outputs by name.

    Args:
      *args: as in `__call__`.
      **kwargs: as in `__call__`.

    Returns:
      A dictionary of NumPy arrays by output name, in the order of `outputs`, also if there is only
      one.

    Raises:
      InvalidArgumentError: as in `__call__`.

    Examples:
      >>> model.run({"x": np.zeros((1, 3, 16, 16), np.float32)})["y"].shape
      (1, 10)
    """
    if self._goes_on(kwargs):
      return dict(zip(kwargs["context"].outputs, self._run_on(args, kwargs)))
    outputs = self._outputs(self._arrange(args, kwargs))
    return {spec.name: output for spec, output in zip(self.outputs, outputs)}

  def prepare(self, *pictures: Any) -> np.ndarray:
    """What the steps of `preprocess` make of pictures, as one batch that a call takes.

    Args:
      *pictures: paths, the bytes of files, or 8-bit pixels, each as in `__call__`.

    Returns:
      The tensor that the model computes with. Of files it has the bits of
      `stretto.data.ImageLoader(train=False)` with the same numbers.

    Raises:
      InvalidArgumentError: the model takes no pictures, or this is none.
      FormatError: a file is missing or damaged (an OSError); the text names it.

    Examples:
      >>> takes = stretto.optimize("cnn.onnx", preprocess="imagenet(16)", tuning="off")
      >>> takes.prepare(np.zeros((375, 500, 3), np.uint8), np.zeros((20, 30, 3), np.uint8)).shape
      (2, 3, 16, 16)
    """
    if not pictures:
      raise InvalidArgumentError("prepare: expected at least one picture")
    return self._session.prepare([_picture(picture) for picture in pictures])[0]

  def _pictures(self, value: Any, name: str) -> np.ndarray:
    """An input that takes pictures: pixels go to the engine as they are, tensors of numbers as what
    the steps make."""
    numbers = isinstance(value, (list, tuple)) and _holds_numbers(value)
    if isinstance(value, (list, tuple)) and not numbers:
      return self.prepare(*value)
    if isinstance(value, (str, os.PathLike, bytes, bytearray, memoryview)):
      return self.prepare(value)
    array = as_array(value, name=name)
    if array.ndim == 4 and array.dtype.kind == "f":
      return as_array(value if numbers else array, self._session.picture_dtype, name)
    return as_array(value, "uint8", name) if numbers else array

  def context(self, batch: int = 1, *, max_length: int | None = None,
              state: Mapping[str, str] | None = None) -> Context:
    """Makes an empty context, with which calls go on from one another.

    Args:
      batch: number of samples.
      max_length: places (tokens) that a sample may get; a call beyond it is an error. None: any
        number. Memory grows with what is used.
      state: the output that becomes an input of the next call, by name of that input. None: they
        are found by their names, such as past_key_values.0.key and present.0.key, or h0 and hn.

        An output that is made as `Concat(input, new)` grows, and a call appends to it in place. Its
        model needs an input `attention_mask` over all places and, unless it counts by that mask,
        `position_ids`; and the lengths must be open dimensions. Any other output must have the
        input's shape, and takes its place.

    Returns:
      The context, which belongs to the caller.

    Raises:
      InvalidArgumentError: there is no such pair, or one of them does neither; the text names it.

    Examples:
      >>> context = decoder.context(batch=2)
      >>> decoder([[3, 1, 4], [1, 5, 9]], context=context).shape
      (2, 3, 97)
    """
    pairs = {str(key): str(value) for key, value in (state or {}).items()}
    handle = self._session.context(int(batch), int(max_length or 0), pairs)
    return Context(handle, {spec.name: spec.dtype for spec in self.inputs})

  def save(self, path: str | os.PathLike[str]) -> None:
    """Writes the artefact, which `load` reads.

    Besides the model, the file holds what `load(verify=True)` needs: the arrays that `optimize` got
    as `inputs`, if they take 8 MiB or less together, and up to 4097 values of every output. It also
    holds the report, with the path of the ONNX file and the name of the processor.

    Args:
      path: the file, by custom `*.stretto`, in a folder that exists. It is replaced in one step.

    Raises:
      InvalidArgumentError: it is a file that the model was optimised from.
      FormatError: the file cannot be written (an OSError).

    Examples:
      >>> model.save("cnn.stretto")
      >>> stretto.load("cnn.stretto").name == model.name
      True
    """
    self._session.save(path_text("path", path))

  @property
  def report(self) -> Report:
    """How the model was made and what was measured; see `Report`."""
    if self._report is None:
      self._report = Report.from_json(self._session.report_json())
    return self._report

  def __repr__(self) -> str:
    def words(specs: list[TensorSpec]) -> str:
      return ", ".join(f"{s.name} {s.dtype}{f'[{s.sizes}]' if s.sizes else list(s.shape)}"
                       for s in specs)

    return f"<stretto.Model {self.name}: {words(self.inputs)} -> {words(self.outputs)}>"

  def _outputs(self, inputs: list[Any]) -> list[Any]:
    if not self._session.staged:
      return list(self._session.run(inputs))
    return [from_engine(value) for value in self._session.run_values(inputs)]

  def _goes_on(self, kwargs: dict[str, Any]) -> bool:
    """Whether a call is from a context. None is none, unless an input has that name."""
    if "context" not in kwargs or any(spec.name == "context" for spec in self.inputs):
      return isinstance(kwargs.get("context"), Context)
    context = kwargs["context"]
    if context is None:
      del kwargs["context"]
    elif not isinstance(context, Context):
      raise InvalidArgumentError(
        f"context: expected what Model.context returned, got {type(context).__name__}")
    return context is not None

  def _run_on(self, args: tuple[Any, ...], kwargs: dict[str, Any],
              last_place_of: str = "") -> list[np.ndarray]:
    rest = {name: value for name, value in kwargs.items() if name != "context"}
    context: Context = kwargs["context"]
    return self._session.run_on(context._handle, context._arrange(args, rest), last_place_of)

  def _arrange(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    if len(args) == 1 and isinstance(args[0], Mapping):
      kwargs, args = {**args[0], **kwargs}, ()
    names = [spec.name for spec in self.inputs]
    if len(args) > len(names):
      raise InvalidArgumentError(f"{self.name}: expected {len(names)} inputs "
                                          f"({', '.join(names)}), got {len(args)}")
    given = dict(zip(names, args))
    for name, value in kwargs.items():
      if name in self._session.constant_inputs:
        raise InvalidArgumentError(
          f"{name}: the ONNX file has a value for this input, which became a constant; optimise "
          f"the file with inputs={{{name!r}: ...}} or shapes={{{name!r}: ...}} to give other "
          "values")
      if name not in names:
        raise InvalidArgumentError(
          f"{name}: the model has no such input; it has {', '.join(names)}")
      if name in given:
        raise InvalidArgumentError(f"{name}: given twice")
      given[name] = value
    pictures = self._session.picture_input
    missing = [name for name in names if name not in given]
    if missing:
      raise InvalidArgumentError(f"{self.name}: input {', '.join(missing)} is missing")
    return [to_engine(given[s.name], s.dtype, f"input {s.name}") if s.dtype in NO_TENSORS
            else self._pictures(given[s.name], f"input {s.name}") if i == pictures
            else as_array(given[s.name], s.dtype, f"input {s.name}")
            for i, s in enumerate(self.inputs)]
