"""The wheels, built as `./dev wheel` builds them and used where nothing else is installed."""

import email
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmake"))

import build_wheels  # noqa: E402

# Without a compiler cache, and beside other tests, a build takes a quarter of an hour.
pytestmark = pytest.mark.timeout(2400)
# The C and C++ run-time libraries and zlib, which every Linux has: manylinux allows these.
SYSTEM_LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread|z|stdc\+\+|gcc_s)\.so\.\d+|ld-linux.*")
USE = """
import sys
import numpy as np
import stretto
assert "site-packages" in stretto.__file__, stretto.__file__
model = stretto.optimize(sys.argv[1], tuning="off")
model.save("m.stretto")
x = np.arange(20, dtype=np.float32).reshape(1, 20)
for each in (model, stretto.load("m.stretto")):
  np.testing.assert_allclose(np.asarray(each(x)), x * x, rtol=1e-6)
from stretto import data
with data.ImageLoader(sys.argv[2], 1, 8, train=False, dtype="uint8") as loader:
  assert {images.shape for images, *_ in loader} == {(1, 3, 8, 8)} and len(loader) == 3
print(stretto.__version__, np.__version__)
"""
# A format for each of the libraries that are linked in.
PICTURES = ("ycc420.jpg", "rgb.png", "lossy.webp")


def run(*command, cwd=None):
  # Neither the build tree's package nor its settings may help.
  clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "STRETTO_BUILD")}
  done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd,
                        env=clean, timeout=1800)
  assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
  return done.stdout


def build(python, folder):
  # The build type of ./dev build: its compiled files are in the compiler cache.
  run(sys.executable, ROOT / "cmake/build_wheels.py", python, "--out", folder, "--build-type",
      "RelWithDebInfo", cwd=ROOT)
  (wheel,) = folder.glob("*.whl")
  return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
  return build(sys.executable, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def square(tmp_path_factory):
  shape = [1, 20]
  graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"], "square")], "g",
                            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
  path = tmp_path_factory.mktemp("model") / "square.onnx"
  onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
            path)
  return path


def use(python, wheel, square, folder, *packages):
  """Installs the wheel into a plain environment, and does there what a newcomer does."""
  run(python, "-m", "venv", folder / "venv")
  programs = folder / "venv/bin"
  run(programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel,
      *packages)
  pictures = folder / "pictures"
  pictures.mkdir()
  for name in PICTURES:
    shutil.copy(ROOT / "tests/fuzz/media" / name, pictures)
  said = run(programs / "python", "-W", "error", "-c", USE, square, pictures, cwd=folder)
  assert run(programs / "stretto", "--version", cwd=folder).split()[-1] in said
  assert "square" in run(programs / "stretto", "inspect", square, cwd=folder)


def test_a_plain_environment_runs_models_and_the_command(wheel, square, tmp_path):
  use(sys.executable, wheel, square, tmp_path)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="NumPy 1.23 is for Python 3.11 and older")
def test_the_oldest_numpy_is_enough(wheel, square, tmp_path):
  use(sys.executable, wheel, square, tmp_path, "numpy==1.23.5")


def test_it_needs_no_library_that_a_linux_may_lack(wheel, tmp_path):
  version = "".join(map(str, sys.version_info[:2]))
  tag = f"cp{version}-cp{version}" if sys.version_info < (3, 12) else "cp312-abi3"
  assert f"-{tag}-" in wheel.name
  assert re.search(r"-manylinux_2_\d+_\w+\.whl$", wheel.name), wheel.name
  with zipfile.ZipFile(wheel) as archive:
    libraries = [n for n in archive.namelist() if ".so" in n]
    archive.extractall(tmp_path, libraries)
  brought = {Path(name).name for name in libraries if name.startswith("stretto.libs/")}
  # Distributions compile libjpeg.a and libpng.a for programs only: auditwheel brings shared ones.
  assert len(libraries) == 1 + len(brought), libraries
  assert {name.split("-")[0] for name in brought} == {"libjpeg", "libpng16", "libwebp"}, brought
  for library in libraries:
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", tmp_path / library))
    assert needed and all(SYSTEM_LIBRARIES.fullmatch(name) or name in brought
                          for name in needed), needed
  shown = run(sys.executable, "-m", "auditwheel", "show", wheel)
  assert "manylinux_2_" in " ".join(shown.split()).split("consistent with")[1]


def test_it_holds_types_and_the_licence_and_no_sources(wheel):
  with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
  assert {"stretto/py.typed", "stretto/__init__.py", "stretto/_stretto.pyi"} <= set(names)
  assert any(name.endswith("licenses/LICENSE") for name in names)
  assert not [n for n in names if n.endswith((".cc", ".h")) or n.startswith(("tests/", "bench/"))]


def test_what_a_package_index_shows(wheel):
  with zipfile.ZipFile(wheel) as archive:
    (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
    data = email.message_from_bytes(archive.read(name))
  assert data["License-Expression"] == "Apache-2.0" and data["Requires-Python"] == ">=3.10"
  table = (ROOT / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1]
  extras = re.findall(r"^(\w+) = \[", table.split("\n[")[0], re.M)
  assert extras and sorted(data.get_all("Provides-Extra")) == sorted(extras)
  assert "numpy>=1.23" in data.get_all("Requires-Dist")
  labels = {url.split(",")[0] for url in data.get_all("Project-URL")}
  assert {"Documentation", "Repository", "Issues", "Changelog"} <= labels
  assert data["Summary"] and data.get_all("Classifier")
  # The page of the package stands alone: every link and image of the README is absolute.
  targets = re.findall(r"\]\(([^)\s]+)\)", data.get_payload())
  assert len(targets) >= 10 and all(target.startswith("https://") for target in targets), targets


def test_one_wheel_serves_python_3_12_and_later(square, tmp_path):
  python = build_wheels.find_python("3.12")
  if python is None:
    pytest.skip("no Python 3.12 with its headers on this machine")
  wheel = build(python, tmp_path)
  assert "-cp312-abi3-" in wheel.name, wheel.name
  newer = next(filter(None, map(build_wheels.find_python, ("3.14", "3.13"))), python)
  use(newer, wheel, square, tmp_path)
