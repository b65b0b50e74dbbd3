"""Libraries over torch.distributed and its own ways to divide models, on two or four ranks: every
script of clients/ learns its problem."""

import importlib.util
import os
import re
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

# Scripts of github.com/pytorch/examples: file below distributed/, arguments, packages.
SMALL_GPT = [
  "data_config.path={folder}/minGPT-ddp/mingpt/data/input.txt", "data_config.truncate=0.002",
  "data_config.block_size=16", "gpt_config.n_layer=1", "gpt_config.n_head=2",
  "gpt_config.n_embd=16", "trainer_config.max_epochs=1", "trainer_config.batch_size=64",
  "trainer_config.data_loader_workers=0", "trainer_config.use_amp=False",
  "trainer_config.save_every=1"]
OF_PYTORCH = {
  "DDP": ("ddp/example.py", [], []),
  "DDP with snapshots": ("ddp-tutorial-series/multigpu_torchrun.py", ["2", "1"], []),
  "minGPT": ("minGPT-ddp/mingpt/main.py", SMALL_GPT, ["hydra", "boto3", "fsspec"]),
  "FSDP2": ("FSDP2/example.py", [], []),
  "tensor parallelism": ("tensor_parallelism/tensor_parallel_example.py", [], []),
}


@pytest.mark.parametrize("name", OF_PYTORCH)
def test_a_script_of_pytorch_steps_as_over_gloo(name, tmp_path):
  """The files as they are, on CPUs: every parameter has the same bits after every step."""
  if "STRETTO_PYTORCH_EXAMPLES" not in os.environ:
    pytest.skip("STRETTO_PYTORCH_EXAMPLES names no checkout of github.com/pytorch/examples")
  script, arguments, packages = OF_PYTORCH[name]
  for package in packages:
    pytest.importorskip(package)
  folder = Path(os.environ["STRETTO_PYTORCH_EXAMPLES"]).absolute() / "distributed"
  ends = {}
  for backend, options in (("gloo", []), ("stretto", REPLACED)):
    place = tmp_path / backend  # for snapshots
    place.mkdir()
    done = subprocess.run(
      [sys.executable, "-m", "stretto", "run", "-n", "2", *options, str(HERE / "on_cpus.py"),
       str(folder / script), *(a.format(folder=folder) for a in arguments)],
      capture_output=True, text=True, timeout=TIMEOUT_S, cwd=place)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    ends[backend] = sorted(re.findall(
        rf"^rank (\d) over {backend}: ([1-9]\d*) steps, (\w+)$", done.stdout, re.MULTILINE))
    assert [end[0] for end in ends[backend]] == ["0", "1"], done.stdout[-3000:]
  assert ends["gloo"] == ends["stretto"]
