"""Libraries over torch.distributed, on two ranks: every script of clients/ learns its problem."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the backend is for torch, which is not installed")

HERE = Path(__file__).parent / "clients"
TIMEOUT_S = 300  # a guard against hanging for ever; importing these libraries takes long

# Script and its arguments, options of stretto run, package.
CLIENTS = {
  "lightning": (["lightning_ddp.py"], [], "lightning"),
  "accelerate": (["accelerate_loop.py"], ["--replace-backend"], "accelerate"),
  "accelerate, by a line": (["accelerate_loop.py", "line"], [], "accelerate"),
  "trainer": (["transformers_trainer.py"], ["--replace-backend"], "transformers"),
  "trainer, by a line": (["transformers_trainer.py", "line"], [], "transformers"),
  "deepspeed, ZeRO 1": (["deepspeed_zero.py", "1"], [], "deepspeed"),
  "deepspeed, ZeRO 2": (["deepspeed_zero.py", "2"], [], "deepspeed"),
  "deepspeed, ZeRO 3": (["deepspeed_zero.py", "3"], [], "deepspeed"),
  "embeddings": (["embeddings.py"], [], "torch"),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_learns(client):
  script, options, package = CLIENTS[client]
  if importlib.util.find_spec(package) is None:
    pytest.skip(f"{package} is not installed")
  done = subprocess.run(
    [sys.executable, "-m", "stretto", "run", "-n", "2", *options, str(HERE / script[0]),
     *script[1:]], capture_output=True, text=True, timeout=TIMEOUT_S,
    env={**os.environ, "HF_HUB_OFFLINE": "1"})
  for rank in range(2):
    assert f"rank {rank} over stretto learnt, True operations" in done.stdout, \
      done.stdout[-3000:] + done.stderr[-3000:]
  assert done.returncode == 0, done.stderr[-3000:]
