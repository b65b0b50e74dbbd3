"""The public API is typed: a strict type checker accepts right programs and finds wrong ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stretto

PACKAGE = Path(stretto.__file__).parent

USER = """
from collections.abc import Callable
from pathlib import Path

import numpy as np

import stretto
from stretto import Model, Report, TensorSpec, media, ops


def show(stage: str, share: float) -> None:
  pass


x = np.zeros((1, 3, 16, 16), np.float32)
model: Model = stretto.optimize(
  Path("m.onnx"), {"x": x}, level="lossless", accuracy="strict", threads=2,
  shapes={"x": (1, 3, 16, 16)}, tuning=3.5, tuning_cache=Path("c.tsv"),
  report="r.html", peers=["onnxruntime"],
  disable=["fuse-epilogue"], force={"conv2d": "direct"}, verify=False, progress=show)
model = stretto.optimize(b"", peers="installed", progress=False)
model = stretto.optimize("m.onnx", preprocess=media.Imagenet(224, mean=0.5))
model = stretto.optimize("m.onnx", preprocess=[media.Resize((8, 9)), "to_layout(NHWC)"])
prepared = model.prepare("photo.jpg", np.zeros((8, 9, 3), np.uint8))
steps: str = model.preprocess
model = stretto.load("m.stretto", threads=2, verify=True)
y = model.run(x)["y"] + 1
z = model.run({"x": x})
mean: float = float(y.mean())
spec: TensorSpec = model.inputs[0]
shape: tuple[int, ...] = spec.shape
bytes_: int = model.weight_bytes + model.memory_bytes
report: Report = model.report
page: str = report.html()
report.save(Path("r.json"))
model.save("m.stretto")
files: list[str] = stretto.convert("m.pt2", Path("m.onnx"), shapes={"x": (1, 3)})
passes: list[tuple[str, str]] = stretto.list_passes()
version: str = stretto.__version__
context: ops.Context = ops.Context(threads=1, accuracy="strict", capacity=9, tuning_cache=Path("c"))
weights: ops.Constant = ops.constant(x)
conv: ops.Operator = context.Conv
doubled = ops.Add(x, x, out=x) + conv(x, weights, strides=[2, 2]) + ops.conv2d(x, weights, stride=2)
hits: int = context.statistics().hits
try:
  model(x)
except stretto.FormatError:
  pass
"""

TRAINING = """
from typing import Any
import numpy as np
import stretto.comm
options = stretto.comm.Options.from_environment()
options.streams = 2
engine = stretto.comm.Engine("host:1", 0, 2, options)
x = np.zeros(4, np.float32)
engine.all_reduce(x)
done: bool = engine.wait(engine.start_all_reduce(x, "sum"), 2.0)
group: int = engine.add_group("pair", [0, 1])
engine.broadcast(x, root=1, group=group)
engine.all_gather(np.zeros(8, np.float32), x)
engine.barrier()
engine.step()
counts: dict[str, Any] = engine.statistics()
reports: list[dict[str, Any]] = engine.non_finite()
gradients = stretto.comm.Gradients(engine, "g", [0, 1], codec="bf16")
gradients.close()
engine.close()
try:
  engine.barrier()
except stretto.CommError as error:
  rank: int = error.rank
"""

PICTURES = """
from pathlib import Path
from typing import Any
import numpy as np
from stretto import data

dataset: data.Dataset = data.open(Path("train"))
names: list[str] = [dataset.name(i) for i in range(len(dataset))] + dataset.classes
with data.ImageLoader(dataset, 64, (224, 192), train=True, crop=(0.3, 1), dtype="float16",
                      layout="NHWC", seed=3, rank=0, world=2, threads=4, last="wrap",
                      cache="decoded", cache_bytes=1 << 30, framework="torch", errors="skip",
                      phases=[{"epoch": 3, "size": 128, "lr": 0.1}], sampler=np.ones(9),
                      transforms=[lambda images, labels: (images, labels)]) as loader:
  state: dict[str, Any] = loader.state_dict()
  loader.load_state_dict(state)
  while loader.epoch < 9:
    for images, labels in loader:
      rate: float = loader.schedule()["lr"]
  loader.set_epoch(0)
  order: np.ndarray = loader.indices(3)
  skipped: int = loader.stats()["skipped"]
  batches: int = len(loader)
mixed = data.ImageLoader({"a": 0.7, Path("b"): 0.3}, 64, crop="iou", fit="letterbox",
                         targets="boxes+masks", min_visible=0.3, mask_dtype="int64",
                         epoch_size=1000)
joined: data.Dataset = data.concat([dataset, data.open("b")])
both = data.ImageLoader(["a", dataset], transforms=["mixup(0.2)"], classes=10)
for images, boxes, masks in mixed:
  left: float = boxes[0]["boxes"][0, 0]
for batch in data.DictIterator(loader):
  images = batch[0]["data"]
"""

WRONG = [
  'stretto.optimize("m.onnx", threads="two")',
  'stretto.optimize("m.onnx", colour="red")',
  "stretto.load(3)",
  'stretto.load("m.stretto").save(3)',
  'stretto.load("m.stretto").inputs[0].size',
  'stretto.load("m.stretto").run()[0]',
  'stretto.comm.Engine("host:1", 0, 2).wait("now")',
  "stretto.ops.conv2d(1, 2, stride='two')",
  "stretto.data.ImageLoader('train', threads='two')",
  "stretto.optimize('m.onnx', preprocess=stretto.media.Imagenet('large'))",
]


def check(text, tmp_path, *files):
  """Errors of a strict check, but for the generated stub, whose generics have no arguments."""
  pytest.importorskip("mypy")
  script = tmp_path / "script.py"
  script.write_text(text)
  done = subprocess.run(
    [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent",
     "--cache-dir", str(tmp_path / "cache"), str(script), *files],
    capture_output=True, text=True, cwd=tmp_path, timeout=300,
    env={**os.environ, "MYPYPATH": str(PACKAGE.parent)})
  assert done.returncode in (0, 1), done.stdout + done.stderr
  return [line for line in done.stdout.splitlines()
          if ": error:" in line and "_stretto.pyi" not in line]


@pytest.mark.parametrize("program", [USER, TRAINING, PICTURES],
                         ids=["inference", "training", "pictures"])
def test_a_program_that_uses_the_whole_api_is_accepted(program, tmp_path):
  assert check(program, tmp_path) == []


def test_wrong_programs_are_refused_line_by_line(tmp_path):
  modules = "import stretto.comm, stretto.data, stretto.media, stretto.ops\n"
  errors = check(modules + "\n".join(WRONG) + "\n", tmp_path)
  assert {int(line.split(":")[1]) for line in errors} == set(range(2, 2 + len(WRONG))), errors


def test_the_modules_behind_it_are_typed_throughout(tmp_path):
  names = ["__init__", "_arrays", "_checks", "_comm_arguments", "_completions", "_context",
           "_convert", "_decoder_module", "_errors", "_generate", "_model", "_optimize", "_paths",
           "_progress", "_random", "_report", "_sampling", "comm", "media", "data/__init__",
           "data/_adapters",
           "data/_arguments", "data/_dataset", "data/_host", "data/_host_server", "data/_job",
           "data/_loader", "data/_options", "data/_phases", "data/_sources", "data/_targets",
           "ops/__init__", "ops/_context", "ops/_functions"]
  assert check("", tmp_path, *(str(PACKAGE / f"{name}.py") for name in names)) == []


def test_the_package_ships_its_marker_and_the_generated_stub():
  assert (PACKAGE / "py.typed").exists()
  stub = (PACKAGE / "_stretto.pyi").read_text()
  from stretto import _stretto
  for name in dir(_stretto):
    if not name.startswith("_"):
      assert f"def {name}(" in stub or f"class {name}" in stub or f"\n{name}:" in stub, name
