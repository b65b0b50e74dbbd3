"""Pixels of the loader of pictures beside Pillow's: how far apart they are, and whether a small
classifier can tell."""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from stretto import data

VIEWS = Path(__file__).parents[1] / "tests/python"  # the loader's crops, made again with Pillow
EPOCHS_SEEN, SIZE = 8, 224
# Of the classifier, which tells from which half of which photograph a part was cut.
TRAINED, VALIDATED, SIDE, TRAIN_EPOCHS, SEEDS = 1200, 1000, 32, 16, 12
CROP, BATCH = (0.5, 1.0), 50


def views() -> Any:
  """data_pictures of the tests: the boxes that are drawn, by a second writing of the generator."""
  if str(VIEWS) not in sys.path:
    sys.path.insert(0, str(VIEWS))
  import data_pictures

  return data_pictures


def in_order(loader: data.ImageLoader) -> np.ndarray:
  """The images of an epoch by sample, uint8."""
  found = {}
  for batch in loader:
    for image, sample in zip(batch[0], loader.samples):
      if sample >= 0:
        found[int(sample)] = np.array(image)
  return np.stack([found[i] for i in range(len(found))])


def difference_to_pillow(folder: Path) -> dict[str, Any]:
  """Of the crops of training, of all pictures that differ (not their copies)."""
  made = views()
  dataset = data.open(folder)
  names = [dataset.name(i) for i in range(len(dataset))]
  chosen = [i for i, name in enumerate(names) if name.endswith("-000.jpg")]
  means, largest, bytes_seen = [], 0, 0
  with data.ImageLoader(folder, batch=33, size=SIZE, dtype="uint8", last="pad") as loader:
    for epoch in range(EPOCHS_SEEN):
      images = in_order(loader)
      for i in chosen:
        want = made.training_view(folder / names[i], 0, epoch, i, SIZE)
        off = np.abs(images[i].astype(int) - want.astype(int))
        means.append(float(off.mean()))
        largest, bytes_seen = max(largest, int(off.max())), bytes_seen + off.size
  return {"value": statistics.mean(means), "worst_picture": max(means), "largest": largest,
          "pictures": len(chosen), "views": len(means), "million_values": bytes_seen / 1e6}


def write_halves(folder: Path, count: int, seed: int) -> None:
  """Parts of 48 to 96 pixels of scikit-learn's photographs, a folder for each half."""
  sources, rng = views().photographs(), np.random.default_rng(seed)
  for i in range(count):
    photo, side = i % len(sources), i // len(sources) % 2
    source = sources[photo]
    half = np.array(source.size) // 2
    size = rng.integers(48, 96, 2)
    x = int(rng.integers(0, source.width - size[0]))
    y = side * half[1] + int(rng.integers(0, half[1] - size[1]))
    file = folder / f"{photo}-{side}" / f"{i:05}.jpg"
    file.parent.mkdir(parents=True, exist_ok=True)
    source.crop((x, y, x + size[0], y + size[1])).save(file, quality=90)


def both_pixels(folder: Path, train: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Of every epoch and picture the loader's, Pillow's, and the labels."""
  made, ours, pillows = views(), [], []
  epochs = TRAIN_EPOCHS if train else 1
  options = {"crop": CROP, "last": "pad"} if train else {}
  with data.ImageLoader(folder, 50, SIDE, dtype="uint8", train=train, **options) as loader:
    labels = np.asarray(loader.dataset.labels)
    files = [folder / loader.dataset.name(i) for i in range(len(labels))]
    for epoch in range(epochs):
      ours.append(in_order(loader))
      pillows.append(np.stack([
        made.training_view(file, 0, epoch, i, SIDE, CROP) if train
        else made.validation_view(file, SIDE) for i, file in enumerate(files)]))
  return np.stack(ours), np.stack(pillows), labels


def trained(pixels: np.ndarray, labels: np.ndarray, seed: int) -> Any:
  """A classifier that was trained on them, in an order of the seed."""
  import torch
  from torch import nn

  torch.manual_seed(seed)
  layers: list[Any] = []
  for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
    layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.GroupNorm(4, outputs),
               nn.ReLU()]
  model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(64, int(labels.max()) + 1))
  optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
  wanted = torch.tensor(labels)
  schedule = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, 0.05, total_steps=len(pixels) * -(-len(labels) // BATCH))
  for images in pixels:
    for part in torch.randperm(len(labels)).split(BATCH):
      loss = nn.functional.cross_entropy(model(normalised(images[part.numpy()])), wanted[part])
      optimizer.zero_grad()
      loss.backward()
      optimizer.step()
      schedule.step()
  return model


def normalised(pixels: np.ndarray) -> Any:
  import torch

  return torch.from_numpy(views().normalised(pixels))


def right(model: Any, pixels: np.ndarray, labels: np.ndarray) -> float:
  """Per cent."""
  import torch

  with torch.no_grad():
    return 100 * float((model(normalised(pixels)).argmax(1).numpy() == labels).mean())


def accuracies(_folder: Path) -> dict[str, Any]:
  """Of classifiers that were trained and validated on the loader's pixels, and on Pillow's of the
  same crops; several of each, as seeds move accuracy more than pixels do."""
  import torch

  torch.set_num_threads(1)
  with tempfile.TemporaryDirectory() as folder:
    parts = []
    for name, count, seed in (("train", TRAINED, 1), ("validation", VALIDATED, 2)):
      write_halves(Path(folder) / name, count, seed)
      parts.append(both_pixels(Path(folder) / name, name == "train"))
  (ours, pillows, labels), (our_view, pillow_view, wanted) = parts
  of_ours, of_pillow, crossed = [], [], []
  for seed in range(SEEDS):
    of_ours.append(right(trained(ours, labels, seed), our_view[0], wanted))
    model = trained(pillows, labels, seed)
    of_pillow.append(right(model, pillow_view[0], wanted))
    crossed.append(right(model, our_view[0], wanted))
  off = [a - b for a, b in zip(of_ours, of_pillow)]
  error = statistics.stdev(off) / len(off) ** 0.5
  return {"value": abs(statistics.mean(off)) / max(error, 1e-9),
          "accuracy": statistics.mean(of_ours), "with_Pillow": statistics.mean(of_pillow),
          "trained_with_Pillow_shown_ours": statistics.mean(crossed),
          "difference": statistics.mean(off), "standard_error": error, "seeds": SEEDS}
