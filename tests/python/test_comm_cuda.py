"""The c10d backend on CUDA tensors: the checks of test_comm_torch.py with tensors of a GPU, and
those of cuda_checks.py, in jobs of two ranks that share the GPU."""

from pathlib import Path

import pytest
import ranks

torch = pytest.importorskip("torch", reason="the backend is for torch, which is not installed")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

HERE = Path(__file__).parent
FILES = {"cuda_checks.py": [],
         "torch_checks.py": ["future_checks.py", "nan_checks.py", "segment_checks.py",
                             "wait_checks.py"],
         "gradient_checks.py": []}
NAMES = [(script, name) for script, more in FILES.items() for file in [script, *more]
         for name in ranks.names(HERE / file)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
  """script -> per rank: check -> "" or a traceback."""
  done = {}

  def of(script):
    if script not in done:
      with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRETTO_TEST_DEVICE", "cuda")
        done[script] = ranks.run(HERE / script, 2, tmp_path_factory.mktemp("job"))
    return done[script]

  return of


@pytest.mark.parametrize("script, name", NAMES, ids=[f"{s[:-10]}-{n[6:]}" for s, n in NAMES])
def test_check(outcomes, script, name):
  for rank, outcome in enumerate(outcomes(script)):
    assert outcome.get(name, f"not reached:\n{outcome['log']}") == "", f"rank {rank}"
