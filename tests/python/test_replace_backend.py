"""What stretto.torch.replace_backend() replaces, in jobs of one rank."""

import os
import subprocess
import sys

import pytest
from conftest import free_port

pytest.importorskip("torch", reason="the backend is for torch, which is not installed")

SCRIPT = """
import sys

import stretto.torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

stretto.torch.replace_backend()
{line}
sys.stdout.write(f"backend {{dist.get_backend()}}")
dist.destroy_process_group()
"""


def backend_after(line):
  done = subprocess.run(
      [sys.executable, "-c", SCRIPT.format(line=line)], capture_output=True, text=True, timeout=300,
      env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": str(free_port())})
  assert done.returncode == 0, done.stderr[-3000:]
  return done.stdout.rpartition("backend ")[2]


def test_a_mesh_that_makes_the_default_group_gets_stretto():
  assert backend_after('init_device_mesh("cpu", (1,))') == "stretto"


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo,cuda:nccl", "cuda:nccl,cpu:gloo"])
def test_backends_by_device_are_replaced(backend):
  assert backend_after(f"dist.init_process_group({backend!r})") == "stretto"


def test_another_backend_stays():
  assert backend_after(
      "import torch.testing._internal.distributed.fake_pg\n"
      'dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=1)') == "fake"
