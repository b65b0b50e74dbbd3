"""The gradient engine in C: the example built against an install tree, and NumPy by ctypes."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from test_install import ROOT, build_example, tree  # noqa: F401  (a fixture)

TIMEOUT_S = 300  # against hanging for ever


@pytest.fixture(scope="module")
def train_c(tree, tmp_path_factory):  # noqa: F811
  return build_example("c", "train_c", tree, tmp_path_factory.mktemp("build"))


def run_ranks(command, size, address, **environment):
  """Standard output of the ranks, which all have to end well."""
  ranks = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "STRETTO_RANK": str(rank), "STRETTO_SIZE": str(size),
                                 "STRETTO_ADDRESS": address, **environment})
           for rank in range(size)]
  try:
    said = [rank.communicate(timeout=TIMEOUT_S) for rank in ranks]
  finally:
    for rank in ranks:
      rank.kill()
      rank.wait()
  assert [rank.returncode for rank in ranks] == [0] * size, said
  return "".join(out for out, _ in said).strip()


def free_port():
  with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    return probe.getsockname()[1]


@pytest.mark.parametrize("size", [1, 3])
def test_c_ranks_train_over_an_address(train_c, size):
  said = run_ranks([train_c], size, f"127.0.0.1:{free_port()}")
  assert said == f"{size} ranks, loss below 0.001, weights the same"


def test_c_ranks_train_over_a_folder(train_c, tmp_path):
  said = run_ranks([train_c], 2, str(tmp_path / "meet"))
  assert said == "2 ranks, loss below 0.001, weights the same"


def test_c_says_what_is_missing(train_c):
  environment = {k: v for k, v in os.environ.items() if not k.startswith("STRETTO_")}
  done = subprocess.run([train_c], env=environment, capture_output=True, text=True,
                        timeout=TIMEOUT_S)
  assert done.returncode == 1 and "STRETTO_RANK is not set" in done.stderr


def test_numpy_through_ctypes(tree):  # noqa: F811
  pytest.importorskip("numpy")
  library = next(Path(tree).rglob("libstretto_c.so"))
  said = run_ranks([sys.executable, str(ROOT / "examples/python/average_numpy.py")], 2,
                   f"localhost:{free_port()}", STRETTO_C_LIBRARY=str(library))
  assert said == "2 ranks, error below 0.001, weights the same"
