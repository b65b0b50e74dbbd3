"""The arguments of ImageLoader that say what its batches are, as the engine takes them. A rank
reads them, and so does the process that makes the batches of all ranks of a host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from stretto import _stretto
from stretto.data import _job, _options, _phases, _targets
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
  options.train = bool(given["train"])
  options.seed = counted("seed", given["seed"], 2**64)
  last = given["last"] or ("drop" if given["train"] else "pad")
  options.set_last(last)
  options.set_errors(given["errors"])
  _options.set_shape(options, phases)
  _options.set_pixels(options, given["dtype"], given["layout"], given["mean"], given["std"],
                      given["flip"])
  return Read(options, phases, functions, last == "pad")


def set_cache(options: Any, given: Mapping[str, Any], shared: bool) -> None:
  """One cache for each rank, or one that the ranks of a host share."""
  options.set_cache(given["cache"])
  options.cache_bytes = (
    counted("cache_bytes", given["cache_bytes"], 2**62) if given["cache_bytes"] is not None
    else _job.default_cache_bytes({} if shared else os.environ))


def set_sources(options: Any, given: Mapping[str, Any], sources: Sources) -> int:
  """The order of the samples of `sources`; how many an epoch has."""
  train = bool(given["train"])
  _options.set_sampler(options, given["sampler"] if train else "sequential", sources.dataset)
  return _options.set_mixture(options, sources, given["epoch_size"], train)
