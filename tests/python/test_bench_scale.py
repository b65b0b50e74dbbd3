"""A small job of bench.comm.scale: ranks in namespaces start, sum, and all name the one that is
killed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.comm.network import Network, unavailable  # noqa: E402

HOSTS, EACH = 4, 2
# What is promised for a process that is killed; the bench gives 0.1 s on an idle machine.
BROKEN_S = 5.0
TIMEOUT_S = 200  # a guard against hanging for ever; the job takes 5 s


def test_ranks_of_several_hosts_start_sum_and_name_the_killed_one(tmp_path):
  reason = unavailable(Network(HOSTS, rails_mbit=(0,)))
  if reason:
    pytest.skip(f"no network namespaces: {reason}")
  file = tmp_path / "scale.json"
  done = subprocess.run(
    [sys.executable, "-m", "bench.comm.scale", "--hosts", str(HOSTS), "--ranks-per-host", str(EACH),
     "--json", str(file)], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
  assert done.returncode == 0, done.stdout + done.stderr  # it compares every sum
  result = json.loads(file.read_text())
  assert result["ranks"] == HOSTS * EACH
  for count in result["after_start"]:
    assert count["links"] == HOSTS * EACH - 1
  assert [row["bytes"] for row in result["all_reduce"]] == [4, 4 << 10, 256 << 10, 1 << 20]
  victim = result["kill"]["victim"]
  # The bench fails unless all others say the same.
  assert result["kill"]["text"].startswith(f"rank {victim} is lost")
  assert result["kill"]["seconds"] < BROKEN_S
