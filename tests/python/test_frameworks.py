"""Named operations on NumPy arrays, stretto.jax, stretto.tensorflow and stretto.keras: every check
of the scripts, in jobs of two or three ranks. One job runs all checks of a script."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import ranks

HERE = Path(__file__).parent
LEARNT = 0.95  # from the fourth of twelve epochs on it is above 0.99; a third is a guess
SCRIPTS = {"named_checks.py": None, "keras_checks.py": None, "jax_checks.py": "jax",
           "tensorflow_checks.py": "tensorflow", "keras_fit_checks.py": "keras"}
JOBS = [("named_checks.py", 2), ("named_checks.py", 3), ("keras_checks.py", 2),
         ("jax_checks.py", 3), ("tensorflow_checks.py", 2), ("keras_fit_checks.py", 2, "torch"),
         ("keras_fit_checks.py", 2, "jax"), ("keras_fit_checks.py", 2, "tensorflow")]
NAMES = [(job, name) for job in JOBS for name in [*ranks.names(HERE / job[0]), "code"]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
  """(script, size, Keras's backend) -> per rank: check -> "" or a traceback."""
  done = {}

  def of(script, size, backend=""):
    for framework in filter(None, (SCRIPTS[script], backend)):
      if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    if (script, size, backend) not in done:
      environment = {"KERAS_BACKEND": backend} if backend else {}
      done[script, size, backend] = ranks.run(HERE / script, size, tmp_path_factory.mktemp("job"),
                                              **environment)
    return done[script, size, backend]

  return of


@pytest.mark.parametrize("job, name", NAMES, ids=[
    "-".join([job[0].removesuffix("_checks.py"), name.removeprefix("check_"), *map(str, job[1:])])
    for job, name in NAMES])
def test_check(outcomes, job, name):
  for rank, outcome in enumerate(outcomes(*job)):
    if name == "code":
      assert outcome["code"] == 0, f"rank {rank} did not end well:\n{outcome['log']}"
      assert "leaked" not in outcome["log"], f"rank {rank}: of the extension module"
    else:
      assert outcome.get(name, f"not reached:\n{outcome['log']}") == "", f"rank {rank}"


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_examples(framework, tmp_path):
  if importlib.util.find_spec(framework) is None:
    pytest.skip(f"{framework} is not installed")
  script = HERE.parent.parent / f"examples/python/train_{framework}.py"
  done = subprocess.run([sys.executable, "-m", "stretto._launch", "-n", "2", "--codec", "int8",
                         str(script)], capture_output=True, text=True, timeout=ranks.TIMEOUT_S,
                        cwd=tmp_path)
  assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
  lines = [line for line in done.stdout.splitlines() if line.startswith("epoch")]
  assert len(lines) == 12
  assert float(lines[-1].split()[-1]) > LEARNT


ENDS = """
import os, sys, numpy as np
from stretto import _named_job as named_job
folder, rank, how = sys.argv[1], sys.argv[2], sys.argv[3]
os.environ |= {"STRETTO_RANK": rank, "STRETTO_SIZE": "2", "STRETTO_ADDRESS": folder + "/meet"}
named_job.init()
job, one = named_job.job(), np.ones(2)
job.all_reduce([one], ["first"])
if rank == "1" and how == "fails":
  raise RuntimeError("boom")
if how != "ends":
  job.all_reduce([one], ["second"])
"""


@pytest.mark.parametrize("how, codes", [("ends", [0, 0]), ("goes on", [0, 0]), ("fails", [1, 1])])
def test_ends_without_shutdown(tmp_path, how, codes):
  """Every rank waits for the others, but one that has failed tells them."""
  both = [subprocess.Popen([sys.executable, "-c", ENDS, str(tmp_path), str(rank), how],
                           stderr=subprocess.PIPE, text=True) for rank in range(2)]
  errors = [rank.communicate(timeout=ranks.TIMEOUT_S)[1] for rank in both]
  assert [rank.returncode for rank in both] == codes, errors
  if how == "fails":
    assert "CommError: rank 1 has gone without leaving" in errors[0], errors[0]
    assert "boom" in errors[1]
  else:
    assert errors == ["", ""]
