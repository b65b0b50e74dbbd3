"""What CMake says where a machine lacks what the build needs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_an_old_highway_is_refused_where_none_may_be_fetched(tmp_path):
  """Kernels did not compile with Highway 0.x, and nothing said why."""
  if not shutil.which("cmake"):
    pytest.skip("no cmake in PATH")
  headers = tmp_path / "old/hwy"
  headers.mkdir(parents=True)
  (headers / "base.h").write_text("")
  (headers / "highway.h").write_text("#define HWY_MAJOR 0\n#define HWY_MINOR 16\n")
  done = subprocess.run(
    ["cmake", "-S", ROOT, "-B", tmp_path / "build", "-DSTRETTO_FETCH_HIGHWAY=OFF",
     "-DSTRETTO_BUILD_TESTS=OFF", f"-DSTRETTO_HWY_INCLUDE={headers.parent}"],
    capture_output=True, text=True, env=os.environ, timeout=300)
  assert done.returncode != 0
  assert "needs Highway 1.0 or later" in " ".join(done.stderr.split())
