"""The arguments of ImageLoader as the engine's options."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stretto import _stretto
from stretto._checks import FUNCTION, expected, is_count, is_number, require, shown
from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto.data import _job
from stretto.data._dataset import Dataset
from stretto.data._phases import Phase, areas, positive
from stretto.data._sources import Sources

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
FRAMEWORKS = ("numpy", "torch", "jax")
FITS = ("crop", "letterbox")
SAMPLERS = ("shuffle", "sequential", "blocks", "balanced")


def colours(name: str, value: Any) -> list[float]:
  """Three numbers, of red, green and blue."""
  if (isinstance(value, str) or not isinstance(value, (Sequence, np.ndarray)) or len(value) != 3
      or not all(is_number(part) for part in value)):
    raise expected(name, "three numbers, of red, green and blue", value)
  return [float(part) for part in value]


def counted(name: str, value: Any, limit: int = 2**31) -> int:
  """An integer from 0 to below `limit`."""
  if not is_count(value) or value >= limit:
    raise expected(name, f"an integer from 0 to {limit - 1}", value)
  return int(value)


def set_shape(options: Any, phases: list[Phase]) -> None:
  options.set_phases([(p.epoch, p.height, p.width, p.batch, *p.crop, 3 / 4, 4 / 3)
                      for p in phases])


def set_pixels(options: Any, dtype: str, layout: str, mean: Any, std: Any, flip: Any) -> None:
  options.set_dtype(dtype)
  options.set_layout(layout)
  options.mean = colours("mean", mean)
  options.std = colours("std", std)
  if not all(part > 0 for part in options.std):
    raise InvalidArgumentError(f"std: expected numbers above 0, got {std!r}")
  if not is_number(flip) or not 0 <= flip <= 1:
    raise expected("flip", "a chance from 0 to 1", flip)
  options.flip = float(flip)


def set_transforms(options: Any, transforms: Any) -> list[Any]:
  """Operators by their text go to `options`; the functions behind them are returned."""
  alone = isinstance(transforms, str) or callable(transforms)
  if not alone and transforms is not None and (
      isinstance(transforms, Mapping) or not isinstance(transforms, Iterable)):
    raise expected("transforms", "an operator such as 'erase(0.25)', a function, or a list of them",
                   transforms)
  given = [transforms] if alone else list(transforms or ())
  texts = list(itertools.takewhile(lambda entry: isinstance(entry, str), given))
  functions = given[len(texts):]
  for entry in functions:
    if isinstance(entry, str):
      raise InvalidArgumentError(f"transforms: {entry!r} stands behind a function: functions are "
                                 "given whole batches, so operators come before them")
    require("transforms", element=(entry, FUNCTION))
  options.set_transforms(", ".join(texts))
  return functions


def operators() -> dict[str, str]:
  """Lists the operators that `ImageLoader`'s `transforms` take by their text.

  Returns:
    For each name what it does, and its parameters with their standard values.

  Examples:
    >>> stretto.data.operators()["posterize"]
    'keeps the upper bits of each value: posterize(bits=4, chance=0.5)'
  """
  return dict(_stretto.data_operators())


def set_place(options: Any, rank: Any, world: Any, threads: Any) -> None:
  for name, value in (("rank", rank), ("world", world), ("threads", threads)):
    if value is not None:
      counted(name, value)
  options.rank, options.world = _job.place_of(rank, world, os.environ)
  if threads == 0:
    raise expected("threads", "an integer from 1 on, or None", threads)
  options.threads = threads or _job.default_threads(os.environ)


def share(name: str, value: Any) -> float:
  if not is_number(value) or not 0 <= value <= 1:
    raise expected(name, "a number from 0 to 1", value)
  return float(value)


def set_frame(options: Any, fit: Any, crop: Any) -> tuple[float, float]:
  """Which part of a picture fills the result, and how; the shares of its area in training."""
  if fit not in FITS:
    raise InvalidArgumentError(f"fit: expected one of {', '.join(FITS)}, got {shown(fit)}")
  options.set_fit(fit)
  whole = (1.0, 1.0) if fit == "letterbox" else (0.08, 1.0)
  if isinstance(crop, str):
    if crop != "iou":
      raise InvalidArgumentError(f"crop: expected two shares of a picture's area, or 'iou', got "
                                 f"{crop!r}")
    options.iou_crop = True
    return whole
  return whole if crop is None else areas("crop", crop)


def set_mixture(options: Any, sources: Sources, epoch_size: Any, train: bool) -> int:
  """How many samples an epoch has."""
  if sources.weights is not None:
    if not train:
      raise InvalidArgumentError("source: weights are for training: with train=False each sample "
                                 "comes once; give a list of sources without weights")
    options.set_mixture(sources.sizes, sources.weights)
  if epoch_size is None:
    return len(sources.dataset)
  options.epoch_size = positive("epoch_size", epoch_size)
  return int(epoch_size)


def set_sampler(options: Any, sampler: Any, dataset: Dataset) -> None:
  """`sampler` is a name or the weights of the samples."""
  if isinstance(sampler, str):
    if sampler not in SAMPLERS:
      raise InvalidArgumentError(f"sampler: expected one of {', '.join(SAMPLERS)} or weights, got "
                                 f"{sampler!r}")
    if sampler == "balanced":
      options.set_balanced(dataset._table)
    else:
      options.set_order(sampler)
    return
  if not isinstance(sampler, Iterable):
    raise expected("sampler", "a name or an array of weights", sampler)
  try:
    weights = np.ascontiguousarray(sampler, dtype=np.float64)
  except (TypeError, ValueError):
    raise expected("sampler", "a name or an array of weights", sampler) from None
  if weights.shape != (len(dataset),):
    raise InvalidArgumentError(f"sampler: expected a weight for each of {len(dataset)} samples, "
                               f"got an array of shape {weights.shape}")
  options.set_weights(weights)


def array_maker(framework: str, dtype: str) -> Any:
  """What is done to the array of images that the engine gives; None: nothing."""
  if framework not in FRAMEWORKS:
    raise InvalidArgumentError(f"framework: expected one of {', '.join(FRAMEWORKS)}, got "
                               f"{shown(framework)}")
  if framework != "numpy":
    try:
      __import__(framework)
    except ImportError as error:
      raise UnsupportedError(f"framework: {framework} cannot be imported: {error}") from None
    return None
  if dtype != "bfloat16":
    return None
  try:
    import ml_dtypes
  except ImportError:
    raise UnsupportedError("dtype: NumPy has bfloat16 only with the package ml_dtypes, which is "
                           "not installed; float16, or framework='torch', does without") from None
  return lambda array: array.view(ml_dtypes.bfloat16)
