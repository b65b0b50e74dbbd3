"""All-reduces and training steps on CUDA tensors: Stretto beside Gloo, in one process per rank.

  torchrun --nproc-per-node 2 -m bench.comm.cuda

Every rank takes the GPU of its number, or shares one where there are fewer GPUs than ranks. Gloo
and Stretto both copy CUDA tensors through host memory, and take turns. `alone` is the step without
an exchange. Times are medians of rounds of several steps, which end with the GPU's work.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import stretto.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MEGABYTES = (0.004, 1, 25, 100)
MODELS = (("resnet50", 64), ("vit_b_16", 32))  # of torchvision, with the batch per rank
WARM_UP = 2


def turns(what: str, jobs: dict[str, Callable[[], None]], rounds: int, each: int) -> None:
  times: dict[str, list[float]] = {name: [] for name in jobs}
  for number in range(rounds + WARM_UP):
    for name, job in jobs.items():
      torch.cuda.synchronize()
      dist.barrier()
      start = time.perf_counter()
      for _ in range(each):
        job()
      torch.cuda.synchronize()
      if number >= WARM_UP:
        times[name].append((time.perf_counter() - start) / each)
  if dist.get_rank() == 0:
    row = "  ".join(f"{name} {1e3 * statistics.median(t):.3f} ms" for name, t in times.items())
    print(f"{what}: {row}", flush=True)


def all_reduces(groups: dict) -> None:
  for megabytes in MEGABYTES:
    x = torch.ones(int(megabytes * 1e6 / 4), device="cuda")
    for group in groups.values():
      dist.all_reduce(x.fill_(1), group=group)
      assert (x == dist.get_world_size()).all(), "a sum is wrong"
    jobs = {name: lambda x=x, group=group: dist.all_reduce(x, group=group)
            for name, group in groups.items()}
    turns(f"all_reduce of {megabytes:g} MB", jobs, 8, 20 if megabytes < 2 else 3)


def training(groups: dict, name: str, batch: int) -> None:
  import torchvision

  generator = torch.Generator("cuda").manual_seed(dist.get_rank())
  x = torch.randn(batch, 3, 224, 224, device="cuda", generator=generator)
  x = x.to(memory_format=torch.channels_last)
  y = torch.randint(0, 1000, (batch,), device="cuda", generator=generator)

  def job(group, codec: str = "", exchange: bool = True) -> Callable[[], None]:
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)().cuda().to(memory_format=torch.channels_last)
    model = DistributedDataParallel(model, process_group=group)
    if codec:
      stretto.torch.attach(model, codec=codec)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def backward() -> None:
      with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
      loss.backward()

    def step() -> None:
      optimizer.zero_grad(set_to_none=True)
      if exchange:
        backward()
      else:
        with model.no_sync():
          backward()
      optimizer.step()

    return step

  jobs = {name: job(group) for name, group in groups.items()}
  jobs["stretto/bf16"] = job(groups["stretto"], "bf16")
  jobs["alone"] = job(groups["stretto"], exchange=False)
  turns(f"DDP {name}, batch {batch}", jobs, 5, 4)


def main() -> None:
  torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
  torch.backends.cudnn.benchmark = True
  dist.init_process_group("gloo")
  groups = {"gloo": dist.group.WORLD, "stretto": dist.new_group(backend="stretto")}
  if dist.get_rank() == 0:
    print(f"{torch.cuda.get_device_name()}, {dist.get_world_size()} ranks, "
          f"torch {torch.__version__}", flush=True)
  all_reduces(groups)
  for name, batch in MODELS:
    training(groups, name, batch)
  dist.destroy_process_group()


if __name__ == "__main__":
  main()
