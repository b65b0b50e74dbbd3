"""Trains a small convolutional network on scikit-learn's handwritten digits, data parallel, and
keeps loss and accuracy for curves.py to draw. An ordinary DistributedDataParallel script: Stretto
appears in one import and one word.

  stretto run -n 2 examples/python/train_digits.py
  stretto run -n 2 --codec int8 examples/python/train_digits.py --out build/digits/int8.json
  torchrun --nproc-per-node 2 examples/python/train_digits.py --backend gloo \\
      --out build/digits/gloo.json
  python examples/python/curves.py build/digits/*.json -o build/digits/curves.html

Needs torch and scikit-learn, which brings the 1,797 images.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--epochs", type=int, default=12)
  parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
  parser.add_argument("--lr", type=float, default=0.02)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--backend", default="stretto", help="stretto or gloo")
  parser.add_argument("--out", type=Path, default=Path("build/digits/stretto.json"),
                      help="where rank 0 writes the curves")
  return parser.parse_args()


def network() -> nn.Module:
  return nn.Sequential(
      nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 16, 256), nn.ReLU(), nn.Linear(256, 10))


def data() -> tuple[TensorDataset, TensorDataset]:
  """Every fifth image is for testing."""
  images, labels = load_digits(return_X_y=True)
  x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
  y = torch.tensor(labels)
  test = torch.arange(len(y)) % 5 == 0
  return TensorDataset(x[~test], y[~test]), TensorDataset(x[test], y[test])


@torch.no_grad()
def accuracy(model: nn.Module, test: TensorDataset) -> float:
  x, y = test.tensors
  return float((model(x).argmax(1) == y).float().mean())


def main() -> None:
  args = arguments()
  if args.backend == "stretto":
    import stretto.torch  # noqa: F401  registers the backend
  dist.init_process_group(args.backend)
  rank, size = dist.get_rank(), dist.get_world_size()
  torch.manual_seed(args.seed)
  train, test = data()
  sampler = DistributedSampler(train, seed=args.seed)
  loader = DataLoader(train, args.batch, sampler=sampler, drop_last=True)
  model = DistributedDataParallel(network())
  optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
  loss_of = nn.CrossEntropyLoss()

  losses: list[float] = []
  accuracies: list[float] = []
  began = time.perf_counter()
  for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    total = torch.zeros(2)
    for x, y in loader:
      optimizer.zero_grad()
      loss = loss_of(model(x), y)
      loss.backward()
      optimizer.step()
      total += torch.tensor([float(loss.detach()), 1.0])
    dist.all_reduce(total)  # of all ranks
    losses.append(float(total[0] / total[1]))
    accuracies.append(accuracy(model.module, test))
    if rank == 0:
      print(f"epoch {epoch + 1:2}  loss {losses[-1]:.4f}  accuracy {accuracies[-1]:.4f}",
            flush=True)
  seconds = time.perf_counter() - began
  if rank == 0:
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(
        {"backend": args.backend, "codec": os.environ.get("STRETTO_CODEC", "none"), "ranks": size,
         "seed": args.seed, "seconds": seconds, "loss": losses, "accuracy": accuracies}, indent=1))
    print(f"{seconds:.1f} s on {size} ranks; curves: {args.out}")
  dist.destroy_process_group()


if __name__ == "__main__":
  main()
