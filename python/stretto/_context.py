"""What a model keeps from one call to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stretto import _stretto
from stretto._arrays import as_array
from stretto._errors import InvalidArgumentError


class Context:
  """The state of a model between its calls: caches of keys and values, or of recurrent layers.

  Made by `Model.context`, and given to calls of the model, which then go on from where it is. It
  belongs to its caller: calls with one context must not overlap, and calls with different ones are
  independent.

  Attributes:
    batch: number of samples.
    length: places (tokens) of the longest sample.
    lengths: places of each sample, without those that a mask hides.
    capacity: places until memory grows, and programs are made for the larger memory.
    memory_bytes: memory of the state, in bytes.
    inputs: names of the inputs that a call with this context needs.
    outputs: names of the outputs that it returns.

  Examples:
    >>> context = decoder.context()
    >>> logits = decoder([[3, 1, 4]], context=context)
    >>> logits = decoder([[1]], context=context)
    >>> context.length
    4
  """

  def __init__(self, handle: _stretto.Context, dtypes: Mapping[str, str]) -> None:
    self._handle = handle
    self._dtypes = dtypes
    self.batch: int = handle.batch
    self.inputs: list[str] = handle.inputs
    self.outputs: list[str] = handle.outputs

  @property
  def length(self) -> int:
    """Places (tokens) of the longest sample."""
    return self._handle.length

  @property
  def lengths(self) -> list[int]:
    """Places of each sample, without those that a mask hides."""
    return list(self._handle.lengths)

  @property
  def capacity(self) -> int:
    """Places until memory grows."""
    return self._handle.capacity

  @property
  def memory_bytes(self) -> int:
    """Memory of the state, in bytes."""
    return self._handle.memory_bytes

  def fork(self) -> Context:
    """Makes a copy, which goes its own way.

    Returns:
      The copy, with memory of its own.
    """
    return Context(self._handle.fork(), self._dtypes)

  def reset(self) -> None:
    """Makes it empty again. The memory is kept."""
    self._handle.reset()

  def reorder(self, samples: Sequence[int]) -> None:
    """Sample i becomes what sample `samples[i]` is, as beam search needs it.

    Args:
      samples: as many numbers as there are samples; some may be there twice.

    Raises:
      InvalidArgumentError: a number is out of range, or there are too few or too many.
    """
    self._handle.reorder([int(i) for i in samples])

  def save(self) -> dict[str, np.ndarray]:
    """Returns a copy of the state as arrays.

    Returns:
      A dictionary by name of input. The places of a cache are those that are used, and
      "attention_mask" says which of them each sample sees.
    """
    return dict(self._handle.save())

  def restore(self, saved: Mapping[str, Any]) -> None:
    """Takes over what `save` returned, of a context of the same model and batch.

    Args:
      saved: the arrays by name of input.

    Raises:
      InvalidArgumentError: an array is missing or has the wrong type or shape; the text names it.
    """
    self._handle.restore({
      name: as_array(value, "int64" if name == "attention_mask" else self._dtypes.get(name),
                     f"saved[{name!r}]") for name, value in saved.items()})

  def __repr__(self) -> str:
    return f"<stretto.Context: {self.batch} x {self.length} places>"

  def _arrange(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays by name, from arguments in the order of `inputs` and by name."""
    if len(args) == 1 and isinstance(args[0], Mapping):
      kwargs, args = {**args[0], **kwargs}, ()
    if len(args) > len(self.inputs):
      raise InvalidArgumentError(f"expected {len(self.inputs)} inputs ({', '.join(self.inputs)}), "
                                 f"got {len(args)}")
    given = dict(zip(self.inputs, args))
    for name, value in kwargs.items():
      if name in given:
        raise InvalidArgumentError(f"{name}: given twice")
      given[name] = value
    return {name: as_array(value, self._dtypes.get(name), f"input {name}")
            for name, value in given.items()}
