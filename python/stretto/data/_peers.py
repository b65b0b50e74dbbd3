"""Loaders of pictures that bench.data and `stretto data bench` compare: a row per loader, each at
its best setting.

A row's function is given a Job and returns an iterator without end over batches of float32, of
shape N, C, H, W, normalised. `about` says what is called, so that nobody has to guess.

    python -m stretto.data._peers NAME FOLDER --seconds S <names.json

times one of them on one core, on files that standard input names.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 224


@dataclass(frozen=True)
class Job:
  folder: Path  # with a folder of pictures per class
  cores: int  # that this process is pinned to
  batch: int
  # The whole picture without a draw, in the order of names: to compare pixels.
  check: bool = False
  pack: Path | None = None
  size: int = SIZE
  names: tuple[str, ...] = ()  # of the files; empty: all of the folder

  @property
  def scale(self) -> tuple[float, float]:
    return (1.0, 1.0) if self.check else (0.08, 1.0)

  @property
  def ratio(self) -> tuple[float, float]:
    return (4 / 3, 4 / 3) if self.check else (3 / 4, 4 / 3)  # the photographs are 4:3

  @property
  def flip(self) -> float:
    return 0.0 if self.check else 0.5

  def files(self) -> list[str]:
    if self.names:
      return list(self.names)
    return sorted(str(path) for path in self.folder.glob("*/*.jpg"))

  def order(self) -> Iterator[str]:
    files, draw = self.files(), random.Random(0)
    while True:
      if not self.check:
        draw.shuffle(files)
      yield from files

  def batches(self) -> Iterator[list[str]]:
    names = self.order()
    while True:
      yield [next(names) for _ in range(self.batch)]


@dataclass(frozen=True)
class Row:
  name: str
  about: str
  start: Callable[[Job], Iterator[Any]]
  package: str = ""  # whose version is shown
  # Mean |difference| to Pillow in 255ths that its resize may have: INTER_AREA and FFmpeg's bilinear
  # filter are others than Pillow's.
  allowed: float = 1.0
  values: dict[str, Any] = field(default_factory=dict)


def endless(loader: Any) -> Iterator[Any]:
  while True:
    for batch in loader:
      yield batch[0]


def stretto_rows(job: Job, source: str = "folder", cache: str = "page") -> Iterator[Any]:
  from stretto.data import ImageLoader

  path = job.folder if source == "folder" else job.pack
  if path is None:
    raise ImportError("no pack: --pack FOLDER")
  loader = ImageLoader(path, job.batch, job.size, crop=job.scale, flip=job.flip, threads=job.cores,
                       cache=cache, sampler="sequential" if job.check else "shuffle")
  if cache != "page" and not job.check:
    list(map(len, loader))  # fills the cache, as the first epoch of a training does
  return endless(loader)


def torchvision_pil(job: Job, workers: int) -> Iterator[Any]:
  import torch
  from torchvision import transforms
  from torchvision.datasets import ImageFolder

  torch.set_num_threads(1)
  steps = [transforms.RandomResizedCrop(job.size, job.scale, job.ratio),
           transforms.RandomHorizontalFlip(job.flip), transforms.ToTensor(),
           transforms.Normalize(MEAN, STD)]
  dataset = ImageFolder(str(job.folder), transforms.Compose(steps))
  return endless(torch.utils.data.DataLoader(
    dataset, job.batch, shuffle=not job.check, num_workers=workers, drop_last=True,
    persistent_workers=workers > 0))


def torchvision_v2(job: Job, workers: int, decoder: str) -> Iterator[Any]:
  """uint8 up to the batch, which is then normalised at once."""
  import torch
  from torchvision.transforms import v2

  if decoder == "torchcodec":
    from torchcodec.decoders import decode_jpeg as decode_file

    def read(file: str) -> Any:
      return decode_file(file)
  else:
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    def read(file: str) -> Any:
      return decode_jpeg(read_file(file), ImageReadMode.RGB)

  torch.set_num_threads(1)
  crop = v2.Compose([v2.RandomResizedCrop(job.size, job.scale, job.ratio, antialias=True),
                     v2.RandomHorizontalFlip(job.flip)])
  finish = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

  class Files(torch.utils.data.Dataset):
    names = job.files()

    def __len__(self) -> int:
      return len(self.names)

    def __getitem__(self, index: int) -> tuple[Any, int]:
      return crop(read(self.names[index])), 0

  loader = torch.utils.data.DataLoader(
    Files(), job.batch, shuffle=not job.check, num_workers=workers, drop_last=True,
    persistent_workers=workers > 0)
  return (finish(images) for images in endless(loader))


def dali(job: Job) -> Iterator[Any]:
  from nvidia.dali import fn, pipeline_def, types

  @pipeline_def(batch_size=job.batch, num_threads=job.cores, device_id=None, seed=1)
  def pictures():
    files, _ = fn.readers.file(files=job.files(), random_shuffle=not job.check, name="reader")
    decoded = fn.decoders.image_random_crop(
      files, device="cpu", random_area=list(job.scale), random_aspect_ratio=list(job.ratio),
      output_type=types.RGB)
    resized = fn.resize(decoded, size=(job.size,) * 2, interp_type=types.INTERP_TRIANGULAR,
                        antialias=True)
    mirror = fn.random.coin_flip(probability=job.flip)
    return fn.crop_mirror_normalize(
      resized, dtype=types.FLOAT, output_layout="CHW", mirror=mirror,
      mean=[255 * m for m in MEAN], std=[255 * s for s in STD])

  pipeline = pictures()
  pipeline.build()
  while True:
    yield pipeline.run()[0].as_array()


def spdl(job: Job) -> Iterator[Any]:
  """As its tutorials do: FFmpeg decodes and crops, one call makes the batch, threads beside it."""
  from concurrent.futures import ThreadPoolExecutor

  import spdl.io
  import torch

  torch.set_num_threads(1)
  draw = random.Random(1)
  mean, std = (torch.tensor(v).view(1, 3, 1, 1) * 255 for v in (MEAN, STD))

  def decode(file: str) -> Any:
    packets = spdl.io.demux_image(file)
    x0, y0, x1, y1 = draw_crop(job, draw, packets.width, packets.height)
    flip = "hflip," if draw.random() < job.flip else ""
    return spdl.io.decode_packets(packets, filter_desc=(
      f"crop={x1 - x0}:{y1 - y0}:{x0}:{y0},scale={job.size}:{job.size}:flags=bilinear,{flip}"
      "format=pix_fmts=rgb24"))

  def make(files: list[str], pool: ThreadPoolExecutor | None) -> Any:
    frames = list(pool.map(decode, files) if pool else map(decode, files))
    batch = spdl.io.to_torch(spdl.io.convert_frames(frames))
    return batch.permute(0, 3, 1, 2).float().sub_(mean).div_(std)

  pool = ThreadPoolExecutor(job.cores) if job.cores > 1 else None
  for files in job.batches():
    yield make(files, pool)


def ffcv_like(job: Job, raw: bool) -> Iterator[Any]:
  """The calls of FFCV's RandomResizedCropRGBImageDecoder, ToTensor and NormalizeImage, in threads:
  TurboJPEG with the fast inverse transform, a slice, cv2.resize(INTER_AREA), a table of floats.
  `raw`: pictures decoded before, as its "raw" write mode stores them."""
  from concurrent.futures import ThreadPoolExecutor

  import cv2
  import numpy as np
  import turbojpeg

  cv2.setNumThreads(1)
  draw = random.Random(1)
  table = ((np.arange(256)[:, None] / 255 - MEAN) / STD).astype(np.float32)

  def read(file: str) -> np.ndarray:
    return np.asarray(turbojpeg.decompress(Path(file).read_bytes(), turbojpeg.PF.RGB, True, True))

  kept = {file: read(file) for file in job.files()} if raw else {}

  def decode(file: str, out: np.ndarray) -> None:
    pixels = kept[file] if raw else read(file)
    x0, y0, x1, y1 = draw_crop(job, draw, pixels.shape[1], pixels.shape[0])
    small = cv2.resize(pixels[y0:y1, x0:x1], (job.size,) * 2, interpolation=cv2.INTER_AREA)
    if draw.random() < job.flip:
      small = small[:, ::-1]
    for channel in range(3):
      np.take(table[:, channel], small[..., channel], out=out[channel], mode="clip")

  pool = ThreadPoolExecutor(job.cores) if job.cores > 1 else None
  for files in job.batches():
    out = np.empty((job.batch, 3, job.size, job.size), np.float32)
    list((pool.map if pool else map)(decode, files, out))
    yield out


def pillow(job: Job) -> Iterator[Any]:
  """A loop over PIL and NumPy, as scripts have it that need nothing else."""
  import numpy as np
  from PIL import Image

  draw = random.Random(1)
  mean, std = (np.array(v, np.float32) for v in (MEAN, STD))
  for files in job.batches():
    out = np.empty((job.batch, 3, job.size, job.size), np.float32)
    for i, file in enumerate(files):
      with Image.open(file) as opened:
        picture = opened.convert("RGB")
      small = picture.resize((job.size,) * 2, Image.Resampling.BILINEAR,
                             draw_crop(job, draw, *picture.size))
      pixels = (np.asarray(small, np.float32) / 255 - mean) / std
      out[i] = (pixels[:, ::-1] if draw.random() < job.flip else pixels).transpose(2, 0, 1)
    yield out


def draw_crop(job: Job, draw: random.Random, width: int, height: int) -> tuple[int, ...]:
  """RandomResizedCrop, for loaders that lack it."""
  import math

  low, high = (math.log(r) for r in job.ratio)
  for _ in range(10):
    area = width * height * draw.uniform(*job.scale)
    ratio = math.exp(draw.uniform(low, high))
    w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
    if 0 < w <= width and 0 < h <= height:
      x, y = draw.randint(0, width - w), draw.randint(0, height - h)
      return x, y, x + w, y + h
  return 0, 0, width, height


def rows() -> list[Row]:
  """`torch DataLoader` without workers, and with as many as there are cores: the better counts."""
  partial = functools.partial
  return [
    Row("stretto", "ImageLoader of a folder", stretto_rows, "stretto"),
    Row("stretto-pack", "ImageLoader of a pack", partial(stretto_rows, source="pack"), "stretto"),
    Row("stretto-decoded", "ImageLoader, cache='decoded'", partial(stretto_rows, cache="decoded"),
        "stretto"),
    Row("pil", "ImageFolder, PIL, torchvision.transforms, DataLoader(num_workers=0)",
        partial(torchvision_pil, workers=0), "torchvision"),
    Row("pil-workers", "the same, num_workers = cores",
        lambda job: torchvision_pil(job, job.cores), "torchvision"),
    Row("v2", "decode_jpeg, v2 on uint8, batch normalised at once, DataLoader(num_workers=0)",
        partial(torchvision_v2, workers=0, decoder="torchvision"), "torchvision"),
    Row("v2-workers", "the same, num_workers = cores",
        lambda job: torchvision_v2(job, job.cores, "torchvision"), "torchvision"),
    Row("torchcodec", "as v2, torchcodec's decode_jpeg, num_workers=0",
        partial(torchvision_v2, workers=0, decoder="torchcodec"), "torchcodec"),
    Row("dali", "CPU pipeline: image_random_crop, resize(triangular), crop_mirror_normalize", dali,
        "nvidia-dali-cuda120"),
    Row("spdl", "FFmpeg: crop, scale=bilinear; torch normalises the batch", spdl, "spdl", 6.0),
    Row("ffcv-like", "calls of FFCV's JPEG pipeline, made again: TurboJPEG, INTER_AREA, table",
        partial(ffcv_like, raw=False), "opencv-python-headless", 6.0),
    Row("ffcv-raw-like", "calls of FFCV's raw pipeline, made again: INTER_AREA, table",
        partial(ffcv_like, raw=True), "opencv-python-headless", 6.0),
  ]


# What a row imports first, of those that `stretto data bench` times beside ImageLoader.
IMPORTED = {"pillow": "PIL", "pil": "torchvision", "v2": "torchvision", "torchcodec": "torchcodec",
            "dali": "nvidia.dali", "spdl": "spdl"}
START_S = 120  # for imports and the first batch, beside the time of the measurement


def on_one_core() -> list[Row]:
  ours, *others = rows()
  return [ours, Row("pillow", "PIL and NumPy in a loop", pillow, "pillow"),
          *(row for row in others if row.name in IMPORTED)]


def installed() -> list[Row]:
  """Rows for one core whose package is here, with ImageLoader."""
  def there(name: str) -> bool:
    try:
      return importlib.util.find_spec(name) is not None
    except ImportError:  # of "nvidia.dali" without "nvidia"
      return False

  return [row for row in on_one_core() if row.name == "stretto" or there(IMPORTED[row.name])]


def compare(folder: str, names: list[str], size: int, batch: int,
            seconds: float) -> list[dict[str, Any]]:
  """Pictures per second of each row on one core, one after the other; those that fail say why."""
  found = []
  for row in installed():
    command = [sys.executable, "-m", "stretto.data._peers", row.name, folder, "--size", str(size),
               "--batch", str(batch), "--seconds", str(seconds)]
    entry: dict[str, Any] = {"name": row.name, "about": row.about}
    try:
      done = subprocess.run(command, input=json.dumps(names), capture_output=True, text=True,
                            timeout=START_S + 2 * seconds)
      if done.returncode == 0:
        entry |= json.loads(done.stdout.splitlines()[-1])
      else:
        entry["failed"] = (done.stderr.strip().splitlines() or ["it ended"])[-1][:200]
    except subprocess.TimeoutExpired:
      entry["failed"] = f"it took more than {START_S + 2 * seconds:.0f} s"
    found.append(entry)
  return found


def main() -> None:
  parser = argparse.ArgumentParser(prog="python -m stretto.data._peers")
  parser.add_argument("name")
  parser.add_argument("folder", type=Path)
  parser.add_argument("--size", type=int, default=SIZE)
  parser.add_argument("--batch", type=int, default=64)
  parser.add_argument("--seconds", type=float, default=3.0)
  options = parser.parse_args()
  if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
  row = next(row for row in on_one_core() if row.name == options.name)
  batches = row.start(Job(options.folder, 1, options.batch, size=options.size,
                          names=tuple(json.load(sys.stdin))))
  for _ in range(4):  # those that were made ahead while nobody measured
    next(batches)
  count, begin = 0, time.perf_counter()
  while count == 0 or time.perf_counter() - begin < options.seconds:
    next(batches)
    count += options.batch
  print(json.dumps({"pictures_per_s": count / (time.perf_counter() - begin)}))


if __name__ == "__main__":
  main()
