"""Starts the processes of a script as PyTorch's tutorials do: by torch.multiprocessing.spawn, which
meet at a port. `SCRIPT BACKEND SIZE PORT`. Rank 0 prints a line of JSON for each result."""

import json
import os
import sys

import stretto.torch  # noqa: F401  registers the backend
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def enter(rank, backend, size, port, body):
  os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
  torch.set_num_threads(1)
  dist.init_process_group(backend, rank=rank, world_size=size)
  assert dist.get_backend() == backend
  body(rank, size)
  dist.destroy_process_group()


def main(body):
  backend, size, port = sys.argv[1], int(sys.argv[2]), sys.argv[3]
  mp.spawn(enter, args=(backend, size, port, body), nprocs=size)


def say(rank, name, values):
  if rank == 0:
    print(json.dumps({"name": name, "values": [round(float(v), 6) for v in values]}), flush=True)
