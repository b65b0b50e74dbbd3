"""The arguments of ImageLoader that say what its batches are, as the engine takes them. A rank
reads them, and so does the process that makes the batches of all ranks of a host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stretto import _stretto
from stretto._checks import expected
from stretto.data import _job, _options, _phases, _targets
from stretto.data._dataset import checked_cache
from stretto.data._options import counted
from stretto.data._phases import positive
from stretto.data._sources import Sources


class Read(NamedTuple):
  """What was made of the arguments before the source is opened."""

  options: Any  # the engine's
  phases: list[_phases.Phase]
  functions: list[Any]  # of `transforms`
  padded: bool  # whether batches say which samples are real


def read(given: Mapping[str, Any]) -> Read:
  """All but who this rank is, which are the same on all ranks."""
  options = _stretto.DataOptions()
  height, width = _phases.sides("size", given["size"])
  areas = _options.set_frame(options, given["fit"], given["crop"])
  phases = _phases.read(
    _phases.Phase(0, height, width, positive("batch", given["batch"]), areas), given["phases"])
  _targets.set_targets(options, given["targets"],
                       _options.share("min_visible", given["min_visible"]), given["mask_dtype"])
  classes = given["classes"]
  options.classes = 0 if classes is None else positive("classes", classes)
  functions = _options.set_transforms(options, given["transforms"])
  checked_cache(given["cache_dir"], given["disk_bytes"], given["storage_options"])
  for name in ("dtype", "layout", "cache", "errors"):
    if not isinstance(given[name], str):  # such as torch.float32
      raise expected(name, "a name", given[name])
  if not isinstance(given["last"], (str, type(None))):
    raise expected("last", "'drop', 'pad', 'wrap' or None", given["last"])
  if not isinstance(given["train"], (bool, np.bool_)):  # "validation" would be true
    raise expected("train", "True or False", given["train"])
  options.train = bool(given["train"])
  options.seed = counted("seed", given["seed"], 2**64)
  last = given["last"] or ("drop" if given["train"] else "pad")
  options.set_last(last)
  options.set_errors(given["errors"])
  _options.set_shape(options, phases)
  _options.set_pixels(options, given["dtype"], given["layout"], given["mean"], given["std"],
                      given["flip"])
  return Read(options, phases, functions, last == "pad")


def cache_bytes_of(value: Any) -> int:
  if counted("cache_bytes", value, 2**62) == 0:
    raise expected("cache_bytes", "a number of bytes above 0, or None (cache='page' keeps none)", 0)
  return int(value)


def set_cache(options: Any, given: Mapping[str, Any], shared: bool) -> None:
  """One cache for each rank, or one that the ranks of a host share."""
  options.set_cache(given["cache"])
  options.io_uring = os.environ.get("STRETTO_IO_URING") != "0"
  options.cache_bytes = (
    cache_bytes_of(given["cache_bytes"]) if given["cache_bytes"] is not None
    else _job.default_cache_bytes({} if shared else os.environ))


def set_sources(options: Any, given: Mapping[str, Any], sources: Sources) -> int:
  """The order of the samples of `sources`; how many an epoch has."""
  train = bool(given["train"])
  _options.set_sampler(options, given["sampler"] if train else "sequential", sources.dataset)
  return _options.set_mixture(options, sources, given["epoch_size"], train)
