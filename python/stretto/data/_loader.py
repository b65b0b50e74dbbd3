"""Batches of pictures, ahead of the model that takes them."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stretto import _stretto
from stretto._checks import WHOLE, expected, require
from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto.data import _arguments, _host, _options, _phases, _shares, _sources, _targets
from stretto.data._dataset import Dataset
from stretto.data._options import IMAGENET_MEAN, IMAGENET_STD

Transform = Callable[..., tuple[Any, ...]]


class ImageLoader:
  """Reads, decodes, crops and normalises pictures on threads of its own, ahead of the training.

  Every `iter()` is an epoch. The order of samples and the crop of each are functions of seed and
  epoch: they are the same for any number of threads and, if the batches of all ranks together are
  as large, of ranks. In training a part of each picture is drawn as torchvision's RandomResizedCrop
  does, and mirrored half of the time; otherwise the shorter side becomes size * 256 / 224 and the
  middle is shown. Pixels are Pillow's within rounding.

  The arrays are the loader's memory, which goes back to it when they die: keep few batches. A loop
  that is left early and begun again goes on with the next epoch.

  Args:
    source: a folder with a folder of pictures per class, another source that `stretto.data.open`
      takes, such as the URL of tar shards or a pack, or the dataset that it returned. A list of
      them is read as one (`concat`). A dictionary from source to weight, or a list of (source,
      weight), mixes them in training: in each 4,096 samples, counted on through the epochs, every
      source has its share exactly, and goes through its own samples, again and again.
    batch: samples of one batch, of this rank.
    size: height and width of the result in pixels, or both as a pair.
    train: whether to draw order and crops at random.
    crop: in training, the share of a picture's area that is shown, from and to; None: (0.08, 1), or
      with "letterbox" the whole picture. "iou" draws parts by the boxes in them, as torchvision's
      RandomIoUCrop.
    transforms: what is done to each picture in its final size, in this order: operators such as
      "rand_augment(2, 9)" or "erase(0.25)", which `stretto.data.operators` lists, run on the
      loader's threads; "erase" comes last. "mixup(0.2)" and "cutmix(1)" mix pairs of each batch
      behind all others, one of both where both are given; labels become float32 [batch, classes].
      Then functions that are given what a batch has (without which samples are real) and return as
      much; they run in this thread, which `stats()` counts as "python_seconds".
    dtype: "float32", "float16", "bfloat16" (with NumPy this needs the package ml_dtypes), or
      "uint8", which is not normalised.
    layout: "NCHW" or "NHWC".
    mean: what is subtracted from red, green and blue, which are from 0 to 1.
    std: what they are divided by then.
    seed: another one gives another order and other crops.
    rank: which rank this is; None: what the job says, by torch.distributed or its launcher.
    world: how many ranks there are; None: what the job says.
    threads: how many decode; None: this rank's cores less one, at least one.
    last: what happens to samples that do not fill the last batch: "drop" leaves them out, "pad"
      fills the batch up and gives a third array that says which samples are real, "wrap" fills it
      up with samples from the begin of the epoch. None: "drop" in training, otherwise "pad".
    cache: "page" leaves caching to the system, "user" keeps files in memory, "decoded" keeps
      decoded pictures; both keep what fits.
    cache_bytes: how much the last two keep; None: a quarter of the memory, shared by this machine's
      ranks.
    phases: dictionaries of what changes from an epoch on: "epoch", "size", "batch", "crop", "lr"
      and "momentum", the last two a number or a pair from begin to end of the phase; "epochs" says
      how many the last phase has.
    framework: whose arrays come: "numpy", "torch" or "jax".
    errors: "raise", or "skip", which takes another sample in place of one that cannot be read.
    sampler: the order in training: "shuffle", "blocks" (neighbours stay close to each other, for
      slow disks and for shards behind URLs), "sequential", "balanced" (each class as often), or a
      weight for each sample; the last two draw with replacement.
    flip: how likely a picture is mirrored in training.
    targets: what comes with the images. "labels"; "boxes": a list of a dictionary for each picture
      with "boxes" (float32 [n, 4]: left, top, right, bottom in pixels of the result), "labels",
      "image_id", "area" and "iscrowd", as torchvision's detectors take it; "masks": label maps
      [batch, height, width]; "boxes+masks", both, one behind the other; or "instances", as "boxes"
      with "masks" in each dictionary (uint8 [n, height, width], 1 in the box's thing, else 0), of
      COCO's polygons and runs.
    fit: how a picture fills a result of another shape: "crop" leaves something out, "letterbox"
      keeps its aspect and pads it on two sides with `mean`.
    min_visible: boxes of which the result shows a smaller share are left out, and those that are
      smaller than a pixel.
    mask_dtype: of label maps: "uint8", or "int64", which torch's cross_entropy takes. 255 is where
      a picture shows nothing, and crowds of COCO: pass `ignore_index=255`.
    classes: how many shares mixed labels have; None: as many as the dataset names.
    epoch_size: how many samples an epoch has where sources are mixed or samples are drawn by
      weights; None: as many as the dataset.
    cache_dir: of a source behind a URL, the folder of the cache on disk, as in
      `stretto.data.open`.
    disk_bytes: of a source behind a URL, what this cache may take.
    storage_options: of a source behind a URL, what fsspec is given for its store.
    share: "host": one process makes the batches of all ranks of this host that do so, from one
      cache and with the threads that all of them bring; `cache_bytes` is of all of them. They give
      the same arguments but for `rank`, `threads`, `framework` and `pin_memory`, and make such
      loaders in the same order. None: in this process.
    shares: `stretto.torch.Shares`, by which ranks on chips of unlike speed divide each batch: then
      `batch` is that of all ranks together, which has to be the one of the shares, and this rank's
      batches have as many samples as its share is. The order of all samples is the same whatever
      the shares are. `rank` and `world` are those of the shares. `last` is "drop" or "wrap", and
      `share`, mixup and cutmix cannot be used. The loop is over `shares.batches(loader)`.
    pin_memory: whether CUDA locks the memory of images, from when on this process uses CUDA, so
      that `images.to("cuda", non_blocking=True)` copies beside what Python does. Keep such a batch
      until its copy is done, as `stretto.data.to_device` does: the loader writes into the memory
      of a batch that was dropped.

  Attributes:
    dataset: what is read.
    rank: which rank this is.
    world: how many ranks there are.
    samples: which samples of the dataset the last batch has, an array of int64; -1 for padding.
  """

  def __init__(self, source: (str | os.PathLike[str] | Dataset | Sequence[Any]
                              | Mapping[Any, float]), batch: int = 256,
               size: int | tuple[int, int] = 224, *, train: bool = True,
               crop: tuple[float, float] | str | None = None,
               transforms: str | Transform | Sequence[str | Transform] | None = None,
               dtype: str = "float32", layout: str = "NCHW",
               mean: Sequence[float] = IMAGENET_MEAN,
               std: Sequence[float] = IMAGENET_STD, seed: int = 0, rank: int | None = None,
               world: int | None = None, threads: int | None = None, last: str | None = None,
               cache: str = "page", cache_bytes: int | None = None,
               phases: Sequence[Mapping[str, Any]] | None = None, framework: str = "numpy",
               errors: str = "raise", sampler: str | Sequence[float] | np.ndarray = "shuffle",
               flip: float = 0.5, targets: str = "labels", fit: str = "crop",
               min_visible: float = 0.1, mask_dtype: str = "uint8", classes: int | None = None,
               epoch_size: int | None = None, cache_dir: str | os.PathLike[str] | None = None,
               disk_bytes: int | None = None,
               storage_options: Mapping[str, Any] | None = None,
               share: str | None = None, shares: Any = None,
               pin_memory: bool = False) -> None:
    self._finish: Any = None
    self._finished_array = _options.array_maker(framework, dtype)
    if share not in (None, "host"):
      raise expected("share", "'host' or None", share)
    if not isinstance(pin_memory, (bool, np.bool_)):
      raise expected("pin_memory", "True or False", pin_memory)
    remote = {"cache_dir": cache_dir, "disk_bytes": disk_bytes, "storage_options": storage_options}
    # All that makes batches what they are, but for whose they are.
    given = {"batch": batch, "size": size, "train": train, "crop": crop, "transforms": transforms,
             "dtype": dtype, "layout": layout, "mean": mean, "std": std, "seed": seed,
             "last": last, "cache": cache, "cache_bytes": cache_bytes, "phases": phases,
             "errors": errors, "sampler": sampler, "flip": flip, "targets": targets, "fit": fit,
             "min_visible": min_visible, "mask_dtype": mask_dtype, "classes": classes,
             "epoch_size": epoch_size, **remote}
    read = _arguments.read(given)
    options = read.options
    self._phases, self._transforms = read.phases, read.functions
    if shares is not None:
      rank, world = _shares.set_shares(options, shares, given, rank, world, share)
    _options.set_place(options, rank, world, threads)
    options.pin = bool(pin_memory)
    _arguments.set_cache(options, given, shared=share is not None)
    sources = _sources.read(source, remote)
    self.dataset: Dataset = sources.dataset
    self._epoch_size = _arguments.set_sources(options, given, sources)
    self.rank: int = options.rank
    self.world: int = options.world
    self.samples: np.ndarray = np.empty(0, np.int64)
    self._framework = framework
    self._padded = read.padded
    self._python_seconds = 0.0
    self._begun = False  # an epoch was begun, and nobody has seen its end
    self._taker: object = None  # the iterator that may take batches
    self._given: tuple[int, int] | None = None  # epoch and number of the last batch
    self._loaded: int | None = None  # the epoch of a state behind which no batch was taken
    self._lock = threading.RLock()
    self._engine: Any = (_host.join(given, sources, options) if share is not None
                         else _stretto.DataLoader(self.dataset._table, options))
    self._shared = share is not None
    self._shares, self._ahead, self._wraps = shares, int(options.ahead), last == "wrap"
    # At exit of the interpreter too, before what its threads use is taken apart.
    self._finish = weakref.finalize(self, self._engine.close)

  def __iter__(self) -> Iterator[tuple[Any, ...]]:
    with self._lock:
      if self._begun:
        self._engine.set_epoch(self._engine.epoch() + 1)
      self._begun = True
      self._taker = taker = object()
      if self._shares is not None:
        self._shares._begin(taker, self._ahead, self._divide)
        self._divide()
    return _Batches(self, taker)

  def _divide(self) -> None:
    """Tells the engine which part of each batch from the next one on is this rank's."""
    with self._lock:
      _seed, epoch, place, _order = self._engine.position()
      self._engine.divide(_shares.divisions(self._shares, epoch, place, self._epoch_size,
                                            self._wraps))

  def __len__(self) -> int:
    """How many batches the epoch has, from its begin."""
    return int(self._engine.batches(self.epoch))

  @property
  def epoch(self) -> int:
    """The epoch of the next batch. Once a loop has seen the end of one, it is the next."""
    with self._lock:
      return int(self._engine.epoch())

  def set_epoch(self, epoch: int) -> None:
    """Lets the next `iter()` begin this epoch. Right behind `load_state_dict`, the epoch of that
    state goes on where it was.

    Args:
      epoch: which one, from 0 on.
    """
    epoch = _options.counted("set_epoch: epoch", epoch, 2**32)
    with self._lock:
      if self._loaded != epoch:
        self._engine.set_epoch(epoch)
        self._loaded = None
      self._begun, self._taker, self._given = False, None, None

  def state_dict(self) -> dict[str, Any]:
    """Where the loader is, for a checkpoint: behind the last batch that it gave. What asks for a
    batch before it works on the one before, as Accelerate does, is one batch behind that.

    Returns:
      A few integers, which JSON can hold. They do not depend on the rank, so that one rank's are
      enough.
    """
    with self._lock:
      seed, epoch, place, order = self._engine.position()
    return {"version": 1, "seed": seed, "epoch": epoch, "place": place, "order": order,
            "dataset": self.dataset.fingerprint}

  def load_state_dict(self, state: Mapping[str, Any]) -> None:
    """Goes to where the loader was whose state this is: the next `iter()` gives the rest of that
    epoch. The numbers of threads and ranks may be other ones; the batches of all ranks together
    must be as large, or the batches are others than they would have been.

    Args:
      state: what `state_dict` returned.

    Raises:
      InvalidArgumentError: it is of another dataset, seed or sampler, or no such state.
    """
    if not isinstance(state, Mapping):
      raise expected("load_state_dict: state", "what state_dict() returned", state)
    for key, limit in (("version", 2**31), ("seed", 2**64), ("epoch", 2**32), ("place", 2**62),
                       ("order", 2**64), ("dataset", 2**64)):
      _options.counted(f"load_state_dict: {key}", state.get(key), limit)
    if state["version"] != 1:
      raise InvalidArgumentError(f"load_state_dict: version {state['version']} is of a newer "
                                 "Stretto; this one reads version 1")
    if state["dataset"] != self.dataset.fingerprint:
      raise InvalidArgumentError(
        f"load_state_dict: the state is of another dataset than {self.dataset.source}: names "
        "or labels of its samples differ")
    with self._lock:
      self._engine.load(state["seed"], state["epoch"], state["place"], state["order"])
      self._begun, self._taker, self._given = False, None, None
      self._loaded = int(state["epoch"])

  def indices(self, epoch: int) -> np.ndarray:
    """Which samples this rank is given in an epoch, in order.

    Args:
      epoch: which one, from 0 on.

    Returns:
      Indices in `dataset`, int64; -1 for padding.
    """
    epoch = _options.counted("indices: epoch", epoch, 2**32)
    return np.asarray(self._engine.indices(epoch))

  def schedule(self, step: int | None = None) -> dict[str, float]:
    """Learning rate and momentum as the phases say.

    Args:
      step: which batch, counted from the begin of epoch 0; None: the one that was given last, or
        the first one if none was.

    Returns:
      "lr" and "momentum", as far as the phase names them.
    """
    if step is None:
      return _phases.values(self._phases, *self._progress())
    require("schedule", step=(step, WHOLE))
    epoch, left = 0, max(0, step)
    while 0 < (batches := int(self._engine.batches(epoch))) <= left:
      left -= batches
      epoch += 1
    return _phases.values(self._phases, epoch, left / max(1, batches))

  def _progress(self) -> tuple[int, float]:
    if self._given is None:
      state = self.state_dict()
      epoch, share = state["epoch"], state["place"] / max(1, self._epoch_size)
      return epoch, min(1.0, share)
    epoch, number = self._given
    return epoch, number / max(1, int(self._engine.batches(epoch)))

  def stats(self) -> dict[str, Any]:
    """What was done since the loader was made, and where the time went.

    Returns:
      Counts: "batches", "ready" (those that did not have to be waited for), "samples", "skipped",
      "read_bytes", "cache_hits", "cached_samples", "cache_bytes", "threads", "pinned_bytes" (of
      batches, by `pin_memory`), "ring_reads" (parts of samples that were read by io_uring for
      `cache="user"`). "reader": "io_uring" where what goes to that cache is read by it, else
      "pread". Seconds of all threads together: "read_seconds", "decode_seconds",
      "transform_seconds", and "idle_seconds", in which all batches ahead were ready. Seconds of the
      thread that takes batches: "waited_seconds" for a batch, of these "first_wait_seconds" for the
      first one, "asked_seconds" between two batches, and "python_seconds" in the `transforms`.
      "skipped_names": the first hundred. "verdict": what
      the job waits for, "device" where the loader is fast enough, or "reading", "decoding" or
      "transforms"; empty before the second batch. "remote": None or, of a source behind a URL since
      it was opened, "fetched" files and "fetched_bytes", "hits" (files that were in the cache when
      they were needed), "waits" and "wait_seconds" for files (a part of "read_seconds"), "retries"
      of requests, "failures", "evicted" files, and "limit_bytes", which the cache may take.
      "sources": for each source its name and the samples of it that were given. "shared": None or,
      with `share`, the process "pid" and its "ranks", each with "rank", "batches" and the seconds
      that it waited; then "samples", "read_bytes", the cache and what threads did are of all ranks.
    """
    stats = self._engine.stats()
    ranks, pid = stats.pop("ranks"), stats.pop("pid", None)
    stats["shared"] = {"pid": pid, "ranks": ranks} if self._shared else None
    given = stats.pop("part_samples") or [0] * len(self.dataset.parts)
    stats["sources"] = [{"source": name, "samples": samples}
                        for (name, _begin, _size), samples in zip(self.dataset.parts, given)]
    return {**stats, "python_seconds": self._python_seconds}

  def close(self) -> None:
    """Ends the threads. Arrays that were given stay valid. May be called again."""
    if self._finish is not None:
      self._finish()

  def __reduce__(self) -> tuple[Any, ...]:
    raise UnsupportedError("ImageLoader: it has threads, which another process cannot be given: "
                           "make a loader there, of a Dataset from stretto.data.open, which can be")

  def __enter__(self) -> ImageLoader:
    return self

  def __exit__(self, *error: object) -> None:
    self.close()

  def _next(self, taker: object) -> tuple[Any, ...]:
    with self._lock:
      if taker is not self._taker:
        raise StopIteration  # set_epoch, load_state_dict or another iter() came
      batch: Any = self._engine.next(self._framework)
      self._loaded = None
      if batch is None:
        self._begun, self._taker, self._given = False, None, None
        raise StopIteration
      images, labels, real, self.samples, epoch, number, others = batch
      self._given = epoch, number
      if self._shares is not None:
        begin, end = self._shares._draw(taker, self._shares.batch)
        if max(1, end - begin) != len(labels):
          raise InvalidArgumentError(
            f"ImageLoader: a batch of {len(labels)} samples for a share of {end - begin}: these "
            "shares were used by another loader or loaded from a state in the middle of a pass")
    if self._finished_array is not None:
      images = self._finished_array(images)
    arrays = (images, *_targets.of_batch(others, labels, self._framework))
    if self._transforms:
      start = time.perf_counter()
      for transform in self._transforms:
        arrays = _targets.changed(transform, arrays)
      self._python_seconds += time.perf_counter() - start
    return (*arrays, real) if self._padded else arrays


class _Batches(Iterator[tuple[Any, ...]]):
  """One pass over a loader."""

  def __init__(self, loader: ImageLoader, taker: object) -> None:
    self._loader = loader
    self._taker = taker

  def __next__(self) -> tuple[Any, ...]:
    return self._loader._next(self._taker)
