"""Timeouts of groups: every check of timeout_checks.py, in jobs of two and three ranks."""

from pathlib import Path

import pytest
import ranks

pytest.importorskip("torch", reason="the backend is for torch, which is not installed")

SCRIPT = Path(__file__).with_name("timeout_checks.py")
NAMES = [(size, name) for size in (2, 3) for name in ranks.names(SCRIPT)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
  """size -> per rank: check -> "" or a traceback."""
  done = {}

  def of(size):
    if size not in done:
      done[size] = ranks.run(SCRIPT, size, tmp_path_factory.mktemp("job"))
    return done[size]

  return of


@pytest.mark.parametrize("size, name", NAMES, ids=[f"{name[6:]}-{size}" for size, name in NAMES])
def test_check(outcomes, size, name):
  for rank, outcome in enumerate(outcomes(size)):
    assert outcome.get(name, f"not reached:\n{outcome['log']}") == "", f"rank {rank}"
