"""Runs a script that insists on one accelerator per rank on CPUs: `on_cpus.py SCRIPT ARGUMENTS`.

The script stays as it is. torch says that there is an accelerator for each rank, calls it "cpu",
and puts on the CPU what a script sends to a device with a number. At the end each rank prints the
backend, the number of optimizer steps, and a hash of the parameters after each of them, so that two
runs can be compared bit by bit."""

import functools
import hashlib
import os
import runpy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader

CPU = torch.device("cpu")
SEEN = {"backend": None, "steps": 0, "hash": hashlib.sha256()}


def on_cpu(device):
  number = isinstance(device, int) and not isinstance(device, bool)
  named = isinstance(device, (str, torch.device)) and str(device).startswith(("cuda", "cpu:"))
  return CPU if number or named else device


def change(owner, name, arguments):
  """The method or function with arguments as arguments() makes them."""
  original = getattr(owner, name)

  @functools.wraps(original)
  def changed(*given, **words):
    given, words = arguments(list(given), words)
    return original(*given, **words)

  setattr(owner, name, changed)


def names_on_cpu(given, words):
  return given, {k: on_cpu(v) if k in ("device", "map_location") else v for k, v in words.items()}


def devices_on_cpu(given, words):
  return names_on_cpu([on_cpu(g) for g in given], words)


def not_pinned(given, words):
  return given, {**words, "pin_memory": False}


def no_device_ids(given, words):
  return given, {**words, "device_ids": None}


def known_backend(given, words):
  """Without `stretto run --replace-backend`, what asks for NCCL gets Gloo."""
  words.pop("device_id", None)
  if words.get("backend") == "nccl" and os.environ.get("STRETTO_REPLACE_BACKEND") != "1":
    words["backend"] = "gloo"
  return given, words


def note_step(optimizer, *_):
  SEEN["steps"] += 1
  for group in optimizer.param_groups:
    for p in group["params"]:
      p = p.to_local() if isinstance(p, DTensor) else p
      SEEN["hash"].update(p.detach().contiguous().view(torch.uint8).numpy().tobytes())


def note_backend(given, words):
  SEEN["backend"] = {"undefined": "gloo"}.get(dist.get_backend(), dist.get_backend())
  return given, words


def fill_what_is_empty():
  """The FSDP2 example leaves most weights as Module.to_empty() found the memory."""
  original = nn.Module.to_empty

  @functools.wraps(original)
  def changed(self, *given, **words):
    result = original(self, *given, **words)
    for p in self.parameters():
      p = (p.to_local() if isinstance(p, DTensor) else p).detach()
      p.copy_(torch.linspace(-0.05, 0.1, p.numel()).view_as(p))
    return result

  nn.Module.to_empty = changed


def apply():
  torch.accelerator.is_available = lambda: True
  torch.accelerator.device_count = lambda: int(os.environ["WORLD_SIZE"])
  # torch itself asks with check_available; it would call what only accelerators have.
  torch.accelerator.current_accelerator = (
      lambda check_available=False: None if check_available else CPU)
  torch.accelerator.set_device_index = torch.cuda.set_device = lambda *_: None
  change(nn.Module, "to", devices_on_cpu)
  change(nn.Module, "to_empty", devices_on_cpu)
  fill_what_is_empty()
  change(torch.Tensor, "to", devices_on_cpu)
  change(torch, "load", names_on_cpu)
  change(torch, "randint", names_on_cpu)
  change(DataLoader, "__init__", not_pinned)
  change(nn.parallel.DistributedDataParallel, "__init__", no_device_ids)
  change(dist, "init_process_group", known_backend)
  change(dist, "destroy_process_group", note_backend)
  register_optimizer_step_post_hook(note_step)


def main():
  apply()
  torch.manual_seed(int(os.environ["RANK"]))
  torch.set_num_threads(1)
  sys.argv = sys.argv[1:]
  sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
  runpy.run_path(sys.argv[0], run_name="__main__")
  print(f"\nrank {os.environ['RANK']} over {SEEN['backend']}: {SEEN['steps']} steps, "
        f"{SEEN['hash'].hexdigest()}\n", end="", flush=True)


if __name__ == "__main__":
  main()
