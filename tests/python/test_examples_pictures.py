"""The example train_pictures.py: the same losses from folder and pack, on ranks, after a kill."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/python/train_pictures.py"
SMALL = ["--count", "192", "--epochs", "2", "--batch", "16", "--every", "3"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
  return tmp_path_factory.mktemp("train") / "pictures"


def run(pictures, out, *arguments, ranks=1, code=0):
  """The losses of all steps; None where the run was killed."""
  command = [sys.executable, str(EXAMPLE)]
  if ranks > 1:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               f"--nproc-per-node={ranks}", str(EXAMPLE)]
  done = subprocess.run([*command, "--pictures", str(pictures), "--losses", str(out), *SMALL,
                         *arguments], capture_output=True, text=True, timeout=600,
                        env={**os.environ, "OMP_NUM_THREADS": "1"})
  assert (done.returncode == 0) == (code == 0), done.stdout + done.stderr
  if code:
    return None
  return np.array([float.fromhex(text) for text in json.loads(out.read_text())])


@pytest.fixture(scope="module")
def losses(pictures, tmp_path_factory):
  pytest.importorskip("torch")
  return run(pictures, tmp_path_factory.mktemp("one") / "losses.json")


def test_it_learns(losses):
  assert len(losses) == 24 and losses[-6:].mean() < losses[:6].mean()


def test_a_pack_gives_the_same_losses_to_the_bit(pictures, losses, tmp_path):
  packed = run(pictures, tmp_path / "l.json", "--pack", "--threads", "3")
  assert packed.tolist() == losses.tolist()


def test_killed_and_started_again_it_has_the_same_losses(pictures, losses, tmp_path):
  arguments = ["--checkpoint", str(tmp_path / "run.pt")]
  run(pictures, tmp_path / "l.json", *arguments, "--kill-after", "14", code=-9)
  # It goes on behind step 12, in the second epoch's first batch.
  assert run(pictures, tmp_path / "l.json", *arguments).tolist() == losses.tolist()


def test_two_ranks_killed_and_started_again(pictures, losses, tmp_path):
  arguments = ["--checkpoint", str(tmp_path / "run.pt")]
  whole = run(pictures, tmp_path / "a.json", ranks=2)
  # Sums in another order: 24 steps of float32.
  assert np.allclose(whole, losses, rtol=2e-3)
  run(pictures, tmp_path / "b.json", *arguments, "--kill-after", "8", ranks=2, code=1)
  assert run(pictures, tmp_path / "b.json", *arguments, ranks=2).tolist() == whole.tolist()
