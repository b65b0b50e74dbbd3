"""Libraries over torch.distributed and its own ways to divide models, on two or four ranks: every
script of clients/ learns its problem."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the backend is for torch, which is not installed")

HERE = Path(__file__).parent / "clients"
TIMEOUT_S = 300  # a guard against hanging for ever; importing these libraries takes long

REPLACED = ["--replace-backend"]
RANKS = {"tensor parallelism and FSDP2": 4}

# Script and its arguments, options of stretto run, package.
CLIENTS = {
  "lightning": (["lightning_ddp.py"], [], "lightning"),
  "accelerate": (["accelerate_loop.py"], REPLACED, "accelerate"),
  "accelerate, by a line": (["accelerate_loop.py", "line"], [], "accelerate"),
  "trainer": (["transformers_trainer.py"], REPLACED, "transformers"),
  "trainer, by a line": (["transformers_trainer.py", "line"], [], "transformers"),
  "deepspeed, ZeRO 1": (["deepspeed_zero.py", "1"], [], "deepspeed"),
  "deepspeed, ZeRO 2": (["deepspeed_zero.py", "2"], [], "deepspeed"),
  "deepspeed, ZeRO 3": (["deepspeed_zero.py", "3"], [], "deepspeed"),
  "embeddings": (["embeddings.py"], [], "torch"),
  "FSDP2": (["fully_sharded.py"], REPLACED, "torch"),
  "tensor parallelism": (["tensor_parallel.py"], REPLACED, "torch"),
  "tensor parallelism and FSDP2": (["tensor_parallel.py"], REPLACED, "torch"),
  "pipeline": (["pipeline.py", "Schedule1F1B"], REPLACED, "torch"),
  "pipeline, interleaved": (["pipeline.py", "ScheduleInterleaved1F1B"], REPLACED, "torch"),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_learns(client):
  script, options, package = CLIENTS[client]
  if importlib.util.find_spec(package) is None:
    pytest.skip(f"{package} is not installed")
  ranks = RANKS.get(client, 2)
  done = subprocess.run(
    [sys.executable, "-m", "stretto", "run", "-n", str(ranks), *options, str(HERE / script[0]),
     *script[1:]], capture_output=True, text=True, timeout=TIMEOUT_S,
    env={**os.environ, "HF_HUB_OFFLINE": "1"})
  for rank in range(ranks):
    assert f"rank {rank} over stretto learnt, True operations" in done.stdout, \
      done.stdout[-3000:] + done.stderr[-3000:]
  assert done.returncode == 0, done.stderr[-3000:]
