"""The installed library from outside: find_package(stretto) from C++ and C, without Python."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
  build = os.environ.get("STRETTO_BUILD")
  if not build:
    pytest.skip("STRETTO_BUILD names no build folder (./dev test sets it)")
  if not shutil.which("cmake"):
    pytest.skip("no cmake in PATH")
  prefix = tmp_path_factory.mktemp("prefix")
  run("cmake", "--install", build, "--prefix", str(prefix))
  return prefix


@pytest.fixture(scope="module")
def artefact(tree, tmp_path_factory):
  onnx = pytest.importorskip("onnx")
  from onnx import TensorProto, helper

  folder = tmp_path_factory.mktemp("model")
  node = helper.make_node("Mul", ["x", "x"], ["y"], "square")
  shape = [1, 20]
  graph = helper.make_graph([node], "g",
                            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
  onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
            folder / "m.onnx")
  run(str(tree / "bin" / "stretto"), "optimize", str(folder / "m.onnx"), "-o",
      str(folder / "m.stretto"), "--tuning", "off", "--threads", str(os.cpu_count() + 1))
  return folder / "m.stretto"


def run(*command, code=0):
  done = subprocess.run(command, capture_output=True, text=True, timeout=300)
  assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
  return done


def build_example(name, program, tree, folder):
  generator = ["-G", "Ninja"] if shutil.which("ninja") else []
  run("cmake", "-S", str(ROOT / "examples" / name), "-B", str(folder), *generator,
      f"-DCMAKE_PREFIX_PATH={tree}", "-DCMAKE_BUILD_TYPE=Release")
  run("cmake", "--build", str(folder))
  return str(folder / program)


# Inputs are a ramp of i % 17 / 17, so the largest square is (16 / 17)^2, first reached at 16.
EXPECTED = "y[16] = 0.885813"


@pytest.mark.parametrize("name, program", [("cpp", "classify"), ("c", "classify_c")])
def test_an_example_builds_against_the_install_tree_and_runs(name, program, tree, artefact,
                                                             tmp_path):
  built = build_example(name, program, tree, tmp_path)
  done = run(built, str(artefact))
  assert done.stdout.strip() == EXPECTED
  assert "usable core" in done.stderr  # the artefact asks for more threads than there are cores
  assert "nowhere.stretto" in run(built, "nowhere.stretto", code=1).stderr
  run(built, code=2)


def test_pictures_are_loaded_from_c_plus_plus(tree, tmp_path):
  image = pytest.importorskip("PIL.Image")
  pictures = tmp_path / "pictures"
  for label, name in enumerate(("cats", "dogs")):
    (pictures / name).mkdir(parents=True)
    for i in range(10):
      grey = 100 + 10 * label + i
      image.new("RGB", (90 + i, 80), (grey, grey, grey)).save(pictures / name / f"{i}.jpg")
  built = build_example("cpp", "load_pictures", tree, tmp_path / "build")
  said = run(built, str(pictures)).stdout
  assert said.startswith("20 pictures, labels add up to 10, mean value ")
  assert said == run(built, str(pictures)).stdout  # the same crops and operators
  (pictures / "dogs" / "3.jpg").write_bytes(b"no picture")
  assert "3.jpg" in run(built, str(pictures), code=1).stderr
  run(built, code=2)


def test_the_c_library_needs_no_python_and_shows_only_its_own_names(tree):
  library = next(tree.glob("lib*/**/libstretto_c.so"), None) or next(tree.rglob("libstretto_c.so"))
  needed = run("readelf", "-d", str(library)).stdout
  assert "python" not in needed.lower()
  symbols = run("nm", "-D", "--defined-only", str(library)).stdout.split("\n")
  names = [line.split()[-1] for line in symbols if " T " in line]
  assert names and all(name.startswith("stretto_") for name in names), names
