"""Trains the network of ../python/train_digits.py, and can be interrupted: on SIGTERM, which a
scheduler sends before it takes the chips away, all ranks finish the same step, rank 0 saves a
checkpoint, and the next start goes on from there. Nothing in it knows about a cluster:

  python examples/cluster/train_resumable.py
  stretto run -n 4 examples/cluster/train_resumable.py
  stretto cluster run -n 4 examples/cluster/train_resumable.py

Needs torch and scikit-learn.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import stretto.torch  # noqa: F401  registers the backend
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from train_digits import accuracy, data, network  # noqa: E402

ASKED_TO_END = 0  # the number of the signal


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--epochs", type=int, default=12)
  parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
  parser.add_argument("--pause-ms", type=float, default=0,
                      help="rest after each step, so that there is time to interrupt it")
  parser.add_argument("--checkpoint", type=Path, default=Path("digits.pt"))
  return parser.parse_args()


def note_signal(number: int, frame: Any) -> None:
  global ASKED_TO_END
  ASKED_TO_END = number


def anybody_asked() -> bool:
  """Signals arrive at different times; all ranks have to end after the same step."""
  asked = torch.tensor([float(ASKED_TO_END != 0)])
  dist.all_reduce(asked, op=dist.ReduceOp.MAX)
  return bool(asked)


def save(path: Path, epoch: int, step: int, model: nn.Module, optimizer: Any) -> None:
  """Whole or not at all: the signal may be followed by a kill."""
  part = path.with_suffix(".part")
  torch.save({"epoch": epoch, "step": step, "model": model.state_dict(),
              "optimizer": optimizer.state_dict()}, part)
  part.replace(path)


def main() -> None:
  args = arguments()
  signal.signal(signal.SIGTERM, note_signal)
  if "RANK" in os.environ:
    dist.init_process_group("stretto")
  else:
    dist.init_process_group("stretto", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
  rank = dist.get_rank()
  torch.manual_seed(0)
  train, test = data()
  sampler = DistributedSampler(train, seed=0)
  loader = DataLoader(train, args.batch, sampler=sampler, drop_last=True)
  model = DistributedDataParallel(network())
  optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
  first_epoch = first_step = 0
  if args.checkpoint.exists():
    kept = torch.load(args.checkpoint, weights_only=True)
    model.module.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    first_epoch, first_step = kept["epoch"], kept["step"]
    if rank == 0:
      print(f"goes on at epoch {first_epoch + 1}, step {first_step + 1}", flush=True)

  for epoch in range(first_epoch, args.epochs):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
      if epoch == first_epoch and step < first_step:
        continue  # seen before the interruption
      optimizer.zero_grad()
      nn.functional.cross_entropy(model(x), y).backward()
      optimizer.step()
      time.sleep(args.pause_ms / 1000)
      if anybody_asked():
        if rank == 0:
          save(args.checkpoint, epoch, step + 1, model.module, optimizer)
          print(f"saved epoch {epoch + 1}, step {step + 1}", flush=True)
        dist.destroy_process_group()
        sys.exit(128 + signal.SIGTERM)
    if rank == 0:
      print(f"epoch {epoch + 1:2}  accuracy {accuracy(model.module, test):.4f}", flush=True)
  if rank == 0:
    save(args.checkpoint, args.epochs, 0, model.module, optimizer)
  dist.destroy_process_group()


if __name__ == "__main__":
  main()
