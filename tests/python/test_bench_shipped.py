"""The tuning cache that ships: made from several runs, keeping the shortest time per problem."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench import shipped  # noqa: E402

A, B, OTHER = "conv2d a avx2/default/t1", "conv2d b avx2/default/t1", "conv2d a avx512/default/t1"


def test_the_shortest_time_of_all_runs_stays():
  runs = [{A: ("direct", "20.0"), B: ("direct", "5.0")}, {A: ("winograd", "9.5")}]
  assert shipped.fastest(runs) == {A: ("winograd", "9.5"), B: ("direct", "5.0")}


def test_targets_that_were_not_measured_keep_their_choices():
  old = {B: ("old", "1.0"), OTHER: ("old", "1.0")}
  new = [{A: ("new", "2.0")}]
  assert shipped.merge(old, new, add=False) == {A: ("new", "2.0"), OTHER: ("old", "1.0")}
  assert shipped.merge(old, new, add=True) == old | {A: ("new", "2.0")}


def test_one_command_writes_a_tuning_cache_that_stretto_reads(cnn_path, tmp_path):
  cache = tmp_path / "shipped.tsv"
  words = [sys.executable, "-m", "bench.shipped", str(cnn_path), "--isa", "portable,avx2",
           "--threads", "1", "--runs", "2", "--tuning", "1", "-o", str(cache)]
  done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  header, choices = shipped.parse(cache.read_text())
  assert header.startswith("stretto-tuning-cache ")
  assert any(key.startswith("conv2d ") for key in choices)
  assert {shipped.target(key).split("/")[0] for key in choices} <= {"portable", "avx2"}
  assert all(float(us) > 0 for _, us in choices.values())
  assert list(choices) == sorted(choices)
