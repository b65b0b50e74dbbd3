"""Trains a small network on scikit-learn's handwritten digits, and goes on when ranks are killed or
new ones come. The batch of a step is the same for any number of ranks, so the loss falls as if
nothing had happened. Rank 0 writes the curve and a page that shows it.

  stretto run --elastic 1:3 --max-restarts 1 examples/python/train_elastic.py
  kill -9 PID                      # of one of the ranks that it prints

--wait-for 100:2,200:3 waits at step 100 until the job has 2 ranks, and at step 200 until it has 3,
so that a test or a demonstration has its changes at these steps.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import stretto.horovod as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn

COLOURS = ("#2563a8", "#c2571a", "#2e8540", "#8a3ba8", "#b00020", "#5f6368", "#0f9bb3", "#b59400")
WIDTH, HEIGHT, LEFT, BOTTOM = 760, 320, 46, 28


def sizes_at_steps(text: str) -> dict[int, int]:
  return {int(step): int(size) for step, size in (word.split(":") for word in text.split(","))}


def arguments() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--steps", type=int, default=300)
  parser.add_argument("--batch", type=int, default=96, help="images per step of the job")
  parser.add_argument("--lr", type=float, default=0.05)
  parser.add_argument("--wait-for", type=sizes_at_steps, default={}, metavar="STEP:RANKS,...")
  parser.add_argument("--out", type=Path, default=Path("build/digits/elastic.json"),
                      help="where rank 0 writes the curve, and the page beside it")
  return parser.parse_args()


def network() -> nn.Module:
  torch.manual_seed(0)
  return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def my_share(x: torch.Tensor, y: torch.Tensor, step: int,
             batch: int) -> tuple[torch.Tensor, torch.Tensor]:
  """Of the images of a step, which depend on nothing but its number."""
  order = torch.randperm(len(x), generator=torch.Generator().manual_seed(step))[:batch]
  mine = order[hvd.rank()::hvd.size()]
  return x[mine], y[mine]


def page(curve: list[dict]) -> str:
  """The loss by step, a colour for each number of ranks."""
  low, high = 0.0, max(point["loss"] for point in curve)

  def x(step: int) -> float:
    return LEFT + (WIDTH - LEFT - 10) * step / max(len(curve) - 1, 1)

  def y(loss: float) -> float:
    return 10 + (HEIGHT - BOTTOM - 10) * (high - loss) / ((high - low) or 1.0)

  parts = []
  for k in range(5):
    loss = low + (high - low) * k / 4
    parts.append(f"<line x1='{LEFT}' x2='{WIDTH - 10}' y1='{y(loss):.1f}' y2='{y(loss):.1f}' "
                 f"class='grid'/><text x='{LEFT - 6}' y='{y(loss) + 4:.1f}' "
                 f"text-anchor='end'>{loss:.2f}</text>")
  for step in range(0, len(curve), max(1, len(curve) // 6)):
    parts.append(f"<text x='{x(step):.1f}' y='{HEIGHT - 8}' text-anchor='middle'>{step}</text>")
  begin = 0
  for end in range(1, len(curve) + 1):
    if end < len(curve) and curve[end]["ranks"] == curve[begin]["ranks"]:
      continue
    ranks = curve[begin]["ranks"]
    points = " ".join(f"{x(i):.1f},{y(curve[i]['loss']):.1f}"
                      for i in range(begin, min(end + 1, len(curve))))
    parts.append(f"<polyline points='{points}' stroke='{COLOURS[(ranks - 1) % len(COLOURS)]}'/>"
                 f"<text x='{x(begin) + 4:.1f}' y='22'>{ranks} ranks</text>")
    if begin:
      parts.append(f"<line x1='{x(begin):.1f}' x2='{x(begin):.1f}' y1='10' "
                   f"y2='{HEIGHT - BOTTOM}' class='change'/>")
    begin = end
  return ("<!doctype html><meta charset=utf-8><title>Elastic training</title><style>"
          "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}"
          "svg{max-width:100%}text{font-size:11px;fill:#555}.grid{stroke:#ddd}"
          ".change{stroke:#999;stroke-dasharray:4 3}polyline{fill:none;stroke-width:1.6}</style>"
          "<h1>Loss by step, while ranks are lost and taken in</h1>"
          f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' role='img'>" + "".join(parts)
          + "</svg>\n")


def main() -> None:
  args = arguments()
  hvd.init()
  images, labels = load_digits(return_X_y=True)
  x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
  model = network()
  optimizer = hvd.DistributedOptimizer(
      torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9), model.named_parameters())
  print(f"rank {hvd.rank()} of {hvd.size()}: process {os.getpid()}", flush=True)

  @hvd.elastic.run
  def train(state) -> None:
    while state.step < args.steps:
      while args.wait_for.get(state.step, hvd.size()) != hvd.size():
        time.sleep(0.02)
        state.check_host_updates()
      images, labels = my_share(x, y, state.step, args.batch)
      optimizer.zero_grad()
      loss = nn.functional.cross_entropy(model(images), labels)
      loss.backward()
      optimizer.step()
      mean = float(hvd.allreduce(loss.detach(), name="loss"))
      state.curve.append({"step": state.step, "loss": mean, "ranks": hvd.size()})
      state.step += 1
      if hvd.rank() == 0 and state.step % 20 == 0:
        print(f"step {state.step}: loss {mean:.4f} on {hvd.size()} ranks", flush=True)
      state.commit()

  state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, curve=[])
  state.register_reset_callbacks(
      [lambda: print(f"now rank {hvd.rank()} of {hvd.size()}: process {os.getpid()}", flush=True)])
  train(state)
  if hvd.rank() == 0:
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(state.curve, indent=1))
    args.out.with_suffix(".html").write_text(page(state.curve))
    print(f"curve: {args.out}, page: {args.out.with_suffix('.html')}", flush=True)
  hvd.shutdown()


if __name__ == "__main__":
  main()
