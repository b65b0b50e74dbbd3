"""Trains a small convolutional network on scikit-learn's handwritten digits, on ranks whose chips
are of unlike speed.

  stretto run -n 2 examples/cluster/train_unlike.py --shares proportional
  stretto run -n 2 examples/cluster/train_unlike.py --shares equal
  python examples/cluster/train_unlike.py               # one process, the same losses

With proportional shares each rank measures its own speed first, gets its part of each batch by it,
and samples move if a rank becomes slower. Losses are those of whole batches in every case. Needs
torch and scikit-learn, which brings the images.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import stretto.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--shares", choices=["equal", "proportional"], default="proportional",
                      help="how a batch is divided among ranks")
  parser.add_argument("--batch", type=int, default=256, help="images per step, of all ranks")
  parser.add_argument("--epochs", type=int, default=6)
  parser.add_argument("--lr", type=float, default=0.05)
  parser.add_argument("--width", type=int, default=32, help="channels of the first layer")
  parser.add_argument("--interval", type=int, default=20,
                      help="batches between two moments at which ranks compare their times")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--probe", type=Path, help="JSON file that keeps the measured speeds")
  parser.add_argument("--chip", default="", help="this rank's name for its chip in that file")
  parser.add_argument("--out", type=Path, help="where rank 0 writes losses and times, as JSON")
  return parser.parse_args()


def network(width: int) -> nn.Module:
  return nn.Sequential(
      nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, padding=1),
      nn.ReLU(), nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
      nn.Flatten(), nn.Linear(8 * width, 10))


def data() -> tuple[TensorDataset, TensorDataset]:
  """Every fifth image is for testing."""
  images, labels = load_digits(return_X_y=True)
  x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
  y = torch.tensor(labels)
  test = torch.arange(len(y)) % 5 == 0
  return TensorDataset(x[~test], y[~test]), TensorDataset(x[test], y[test])


def speed_of(model: nn.Module, train: TensorDataset, args: argparse.Namespace) -> dict[int, float]:
  """Samples per second of this rank."""
  x, y = train.tensors

  def step(samples: int) -> None:
    nn.functional.cross_entropy(model(x[:samples]), y[:samples]).backward()

  most = min(args.batch, len(train))
  speed = stretto.torch.probe(step, sorted({max(1, most // 8), max(1, most // 2)}), model,
                              args.probe, chip=args.chip, seconds=0.5)
  model.zero_grad()
  return speed


def sums(values: torch.Tensor) -> torch.Tensor:
  if dist.is_initialized():
    dist.all_reduce(values)
  return values


def main() -> None:
  args = arguments()
  ranks = int(os.environ.get("WORLD_SIZE", "1"))
  if ranks > 1:
    dist.init_process_group("stretto")
  first = not dist.is_initialized() or dist.get_rank() == 0
  torch.manual_seed(args.seed)
  train, test = data()
  model = network(args.width)
  proportional = args.shares == "proportional" and ranks > 1
  speed = speed_of(model, train, args) if proportional else None
  ddp = DistributedDataParallel(model) if ranks > 1 else model
  shares = stretto.torch.Shares(args.batch, speed, module=ddp if proportional else None,
                                interval=args.interval)
  sampler = stretto.torch.ShareSampler(train, shares, seed=args.seed)
  loader = DataLoader(train, batch_sampler=sampler)
  optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)

  losses: list[float] = []
  seconds: list[float] = []
  for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    began = time.perf_counter()
    parts = []
    for x, y in shares.batches(loader):
      optimizer.zero_grad()
      loss = nn.functional.cross_entropy(ddp(x), y) * shares.weight
      loss.backward()
      optimizer.step()
      parts.append(loss.detach())
    # Weighted losses of ranks have the loss of the whole batch as their mean.
    losses += (sums(torch.stack(parts).double()) / ranks).tolist()
    seconds.append(time.perf_counter() - began)
    if first:
      print(f"epoch {epoch + 1:2}  loss {losses[-1]:.4f}  {len(train) / seconds[-1]:7.0f} "
            "samples/s", flush=True)
  with torch.no_grad():
    right = float((model(test.tensors[0]).argmax(1) == test.tensors[1]).float().mean())
  if first:
    print(f"accuracy {right:.3f} on {ranks} rank{'s' if ranks > 1 else ''}\n{shares.report()}")
    if args.out:
      args.out.parent.mkdir(parents=True, exist_ok=True)
      part = args.out.with_name(args.out.name + ".part")
      part.write_text(json.dumps(
          {"shares": args.shares, "ranks": ranks, "batch": args.batch, "samples": len(train),
           "epoch_seconds": seconds, "loss": losses, "accuracy": right,
           "history": shares.history}, indent=1))
      os.replace(part, args.out)
  if dist.is_initialized():
    dist.destroy_process_group()


if __name__ == "__main__":
  main()
