"""Trains a small convolutional network to tell from which photograph a picture was cut.

  python examples/python/train_pictures.py                      # from a folder of JPEG files
  python examples/python/train_pictures.py --pack               # the same losses, to the bit
  stretto run -n 2 examples/python/train_pictures.py            # on two ranks
  python examples/python/train_pictures.py --checkpoint run.pt  # killed and restarted, it goes on

The pictures are parts of the photographs in scikit-learn and, where it is installed, scikit-image.
Needs PyTorch, scikit-learn and Pillow.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from PIL import Image
from torch import nn

from stretto import data

PHASES = [{"epoch": 0, "size": 32, "crop": (0.35, 1), "lr": (0.01, 0.05), "momentum": 0.9},
          {"epoch": 1, "size": 48, "crop": (0.5, 1), "lr": (0.05, 0.0), "momentum": 0.9}]


def photographs() -> dict[str, np.ndarray]:
  from sklearn.datasets import load_sample_images

  samples = load_sample_images()
  found = {Path(name).stem: pixels for name, pixels in zip(samples.filenames, samples.images)}
  try:
    from skimage import data as pictures

    found |= {name: getattr(pictures, name)() for name in ("astronaut", "chelsea", "coffee")}
  except ImportError:
    pass
  return found


def cut(folder: Path, count: int, seed: int = 0) -> None:
  """`count` parts of the photographs, in a folder for each of them. Written once."""
  if folder.exists():
    return
  unfinished = folder.with_name(folder.name + ".unfinished")
  sources, rng = photographs(), np.random.default_rng(seed)
  for i in range(count):
    name, pixels = sorted(sources.items())[i % len(sources)]
    height, width = (int(side) for side in rng.integers(64, 128, 2))
    y, x = (int(rng.integers(0, whole - part))
            for whole, part in zip(pixels.shape, (height, width)))
    file = unfinished / name / f"{i:05}.jpg"
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels[y:y + height, x:x + width]).save(file, quality=90)
  unfinished.rename(folder)


def prepare(options: argparse.Namespace) -> Path:
  """The folder or the pack to train from."""
  folder = options.pictures / f"folder-{options.count}"
  packed = options.pictures / f"pack-{options.count}"
  if not dist.is_initialized() or dist.get_rank() == 0:
    options.pictures.mkdir(parents=True, exist_ok=True)
    cut(folder, options.count)
    if options.pack and not packed.exists():
      data.pack(folder, packed)
  if dist.is_initialized():
    dist.barrier()
  return packed if options.pack else folder


def network(classes: int) -> nn.Module:
  layers, channels = [], 3
  for width in (16, 32, 64):
    layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.GroupNorm(4, width),
               nn.ReLU()]
    channels = width
  return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def mean_of_ranks(value: torch.Tensor) -> float:
  value = value.detach().double()
  if dist.is_initialized():
    dist.all_reduce(value)
    value /= dist.get_world_size()
  return float(value)


def save(path: Path, **state: object) -> None:
  """All or nothing: a run that is killed here still has the checkpoint before."""
  if not dist.is_initialized() or dist.get_rank() == 0:
    part = path.with_name(path.name + ".part")
    torch.save(state, part)
    os.replace(part, path)


def train(options: argparse.Namespace, source: Path) -> tuple[nn.Module, list[float]]:
  ranks = dist.get_world_size() if dist.is_initialized() else 1
  phases = [*PHASES[:-1], PHASES[-1] | {"epochs": max(1, options.epochs - PHASES[-1]["epoch"])}]
  torch.manual_seed(0)
  with data.ImageLoader(source, options.batch // ranks, phases=phases, framework="torch",
                        seed=options.seed, threads=options.threads) as loader:
    model = network(len(loader.dataset.classes))
    ddp = nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses: list[float] = []
    if options.checkpoint and options.checkpoint.exists():
      state = torch.load(options.checkpoint, weights_only=True)
      model.load_state_dict(state["model"])
      optimizer.load_state_dict(state["optimizer"])
      loader.load_state_dict(state["loader"])
      losses = state["losses"]
    while loader.epoch < options.epochs:
      for images, labels in loader:
        data.follow(loader, optimizer)
        loss = nn.functional.cross_entropy(ddp(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(mean_of_ranks(loss))
        if options.checkpoint and len(losses) % options.every == 0:
          save(options.checkpoint, model=model.state_dict(), optimizer=optimizer.state_dict(),
               loader=loader.state_dict(), losses=losses)
        if len(losses) == options.kill_after:
          os.kill(os.getpid(), 9)
      print_once(f"epoch {loader.epoch}: loss {losses[-1]:.4f}")
    stats = loader.stats()
    print_once(f"{stats['samples']} pictures; the training waited {stats['waited_seconds']:.2f} s "
               f"for them, and {stats['asked_seconds']:.2f} s they waited for it")
  return model, losses


@torch.no_grad()
def accuracy(model: nn.Module, source: Path, batch: int) -> float:
  """The share of all pictures, shown from their middle, that the model names right."""
  right = torch.zeros(2, dtype=torch.float64)
  model.eval()
  with data.ImageLoader(source, batch, PHASES[-1]["size"], train=False,
                        framework="torch") as loader:
    for images, labels, real in loader:
      right[0] += ((model(images).argmax(1) == labels) & real).sum()
      right[1] += real.sum()
  if dist.is_initialized():
    dist.all_reduce(right)
  return float(right[0] / right[1])


def print_once(text: str) -> None:
  if not dist.is_initialized() or dist.get_rank() == 0:
    print(text, flush=True)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--pictures", type=Path, default=Path("build/train-pictures"))
  parser.add_argument("--count", type=int, default=2400, help="of pictures")
  parser.add_argument("--pack", action="store_true", help="train from a pack of the folder")
  parser.add_argument("--epochs", type=int, default=4)
  parser.add_argument("--batch", type=int, default=64, help="of all ranks together")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--threads", type=int, help="that decode, of each rank")
  parser.add_argument("--checkpoint", type=Path, help="written while training; read at the start")
  parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints")
  parser.add_argument("--losses", type=Path, help="JSON file for the loss of each step")
  parser.add_argument("--kill-after", type=int, help="end like a lost machine after these steps")
  options = parser.parse_args()
  torch.set_num_threads(1)
  if int(os.environ.get("WORLD_SIZE", "1")) > 1:
    dist.init_process_group("gloo")
  source = prepare(options)
  model, losses = train(options, source)
  share = accuracy(model, source, options.batch)
  print_once(f"accuracy {share:.3f}")
  if options.losses and (not dist.is_initialized() or dist.get_rank() == 0):
    options.losses.write_text(json.dumps([loss.hex() for loss in losses]))
  if dist.is_initialized():
    # DDP holds the group, and a thread of Gloo that frees a tensor while Python ends would abort.
    del model
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
  main()
