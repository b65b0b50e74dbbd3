"""The c10d backend and the Horovod-shaped API: every check of the files below, in jobs of two and
three ranks. One job runs all checks of a script."""

from pathlib import Path

import pytest
import ranks

torch = pytest.importorskip("torch", reason="the backend is for torch, which is not installed")

# A job's script, and the other files whose checks it runs.
FILES = {"torch_checks.py": ["future_checks.py", "nan_checks.py", "segment_checks.py",
                              "wait_checks.py"],
         "gradient_checks.py": [],
         "horovod_checks.py": ["horovod_optimizer_checks.py"],
         "share_checks.py": ["share_loader_checks.py"],
         "place_checks.py": []}
HERE = Path(__file__).parent
JOBS = [(HERE / script, size) for script in FILES for size in (2, 3)]
NAMES = [(job, name) for job in JOBS for file in [job[0].name, *FILES[job[0].name]]
         for name in ranks.names(HERE / file)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
  """(script, size) -> per rank: check -> "" or a traceback."""
  done = {}

  def of(script, size):
    if (script, size) not in done:
      done[script, size] = ranks.run(script, size, tmp_path_factory.mktemp("job"))
    return done[script, size]

  return of


@pytest.mark.parametrize("job, name", NAMES,
                         ids=[f"{job[0].stem.removesuffix('_checks')}-{name[6:]}-{job[1]}"
                              for job, name in NAMES])
def test_check(outcomes, job, name):
  for rank, outcome in enumerate(outcomes(*job)):
    assert outcome.get(name, f"not reached:\n{outcome['log']}") == "", f"rank {rank}"


@pytest.mark.parametrize("job", JOBS, ids=[f"{job[0].stem}-{job[1]}" for job in JOBS])
def test_ranks_end_well(outcomes, job):
  for rank, outcome in enumerate(outcomes(*job)):
    assert outcome["code"] == 0, f"rank {rank}:\n{outcome['log']}"
    assert "leaked" not in outcome["log"], f"rank {rank}: of the extension module"
