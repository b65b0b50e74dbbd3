"""stretto.convert: what is written passes onnx's checker and computes what it was made from, in
ONNX Runtime and in onnx's reference evaluator."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from written_onnx import HALF_TOLERANCES, TOLERANCE, checked, difference, run_peer  # noqa: E402

import stretto  # noqa: E402
from stretto import _stretto  # noqa: E402

# Cases whose expected values ONNX writes with four digits.
FOUR_DIGITS = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3}
# ONNX Runtime counts places in another map there, in the case's own model too.
ONLY_REFERENCE = {"test_maxunpool_export_with_output_shape"}
# Becomes float32 when it is read, as tests/python/test_onnx_backend.py does not see.
WIDENED = {"test_range_bfloat16_type_positive_delta"}


def tolerance_of(model):
  """For a model that may round to 16 bits."""
  types = {v.type.tensor_type.elem_type for v in [*model.graph.input, *model.graph.output]}
  types |= {a.i for n in model.graph.node if n.op_type == "Cast" for a in n.attribute}
  return max([TOLERANCE, *(HALF_TOLERANCES[t] for t in types if t in HALF_TOLERANCES)])


@pytest.fixture
def module():
  torch = pytest.importorskip("torch")
  torch.manual_seed(5)
  return torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.GELU(),
    torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(32, 10)).eval()


def test_a_module_becomes_a_file(module, tmp_path):
  import torch

  x = torch.randn(2, 3, 16, 16)
  path = tmp_path / "m.onnx"
  assert stretto.convert(module, path, x) == [str(path)]
  model = checked(path)
  assert model.opset_import[0].version == 21 and model.ir_version == 10
  assert model.producer_name == "stretto"
  got, = run_peer(path, {model.graph.input[0].name: x.numpy()})
  with torch.no_grad():
    assert difference(got, module(x).numpy()) is None
  assert difference(stretto.optimize(path, tuning="off", tuning_cache="none")(x.numpy()),
                    got) is None


def dimensions(value):
  """Names of open dimensions, and sizes of fixed ones; "" where there is neither."""
  return [d.dim_value if d.HasField("dim_value") else d.dim_param
          for d in value.type.tensor_type.shape.dim]


def test_a_program_is_converted_from_memory_and_from_its_file(module, tmp_path, caplog):
  import torch

  x = torch.randn(2, 3, 16, 16)
  batch = torch.export.Dim("batch", max=8)
  program = torch.export.export(module, (x,), dynamic_shapes=({0: batch},))
  torch.export.save(program, tmp_path / "m.pt2")
  for source in (program, tmp_path / "m.pt2", str(tmp_path / "m.pt2")):
    stretto.convert(source, tmp_path / "m.onnx")
    assert "dimensions are fixed" not in caplog.text
    graph = checked(tmp_path / "m.onnx").graph
    name = dimensions(graph.input[0])[0]
    assert name and dimensions(graph.input[0]) == [name, 3, 16, 16]
    assert dimensions(graph.output[0]) == [name, 10]
  for size in (1, 2, 5):
    x = torch.randn(size, 3, 16, 16)
    with torch.no_grad():
      want = module(x).numpy()
    got, = run_peer(tmp_path / "m.onnx", {graph.input[0].name: x.numpy()})
    assert difference(got, want) is None


def test_dynamic_shapes_stay_open(tmp_path):
  torch = pytest.importorskip("torch")

  class Halves(torch.nn.Module):
    def forward(self, x, y):
      z = torch.cat([x, y], 1).reshape(x.shape[0], -1, 2)
      return z.mean(2), z.flip(1).sum()

  batch, length = torch.export.Dim("batch", max=9), torch.export.Dim("length", max=99)
  module, path = Halves().eval(), tmp_path / "m.onnx"
  stretto.convert(module, path, (torch.randn(2, 6), torch.randn(2, 4)),
                  dynamic_shapes=({0: batch}, {0: batch}))
  graph = checked(path).graph
  assert [dimensions(v) for v in graph.input] == [["batch", 6], ["batch", 4]]
  assert [dimensions(v) for v in graph.output] == [["batch", 5], []]
  for size in (1, 2, 7):
    given = torch.randn(size, 6), torch.randn(size, 4)
    feeds = {v.name: x.numpy() for v, x in zip(graph.input, given)}
    for got in (run_peer(path, feeds), stretto.optimize(path, tuning="off", tuning_cache="none",
                                                        inputs=feeds).run(feeds).values()):
      for g, w in zip(got, module(*given), strict=True):
        assert difference(g, w.numpy()) is None
  with pytest.raises(stretto.UnsupportedError, match="computed from.*with fixed shapes"):
    stretto.convert(module, path, (torch.randn(2, 6), torch.randn(2, 4)),
                    dynamic_shapes=({0: batch, 1: 2 * length}, {0: batch}))


def test_a_program_without_a_graph_for_all_sizes_is_fixed(tmp_path, caplog):
  torch = pytest.importorskip("torch")

  class Doubled(torch.nn.Module):
    def forward(self, x):
      return x + 1

  length = torch.export.Dim("length", max=99)
  x, path = torch.randn(6), tmp_path / "m.onnx"
  program = torch.export.export(Doubled().eval(), (x,), dynamic_shapes=({0: 2 * length},))
  stretto.convert(program, path)
  assert "dimensions are fixed to those of its inputs" in caplog.text
  assert "computed from" in caplog.text
  assert dimensions(checked(path).graph.input[0]) == [6]


def test_sizes_of_values_are_open(tmp_path):
  torch = pytest.importorskip("torch")

  class Picked(torch.nn.Module):
    def forward(self, x):
      found = x[x > 0]
      return found, found.sum(), (x > 1).nonzero() * 2, x + 1

  x, path = torch.randn(3, 7), tmp_path / "m.onnx"
  stretto.convert(Picked().eval(), path, x)
  graph = checked(path).graph
  assert dimensions(graph.input[0]) == [3, 7]
  found, whole, places, fixed = (dimensions(v) for v in graph.output)
  assert len(found) == 1 and isinstance(found[0], str) and found[0]
  assert whole == [] and places[1] == 2 and places[0] != found[0] and fixed == [3, 7]
  for given in (x, -x, torch.full((3, 7), -1.0), torch.full((3, 7), 2.0)):
    feeds = {graph.input[0].name: given.numpy()}
    model = stretto.optimize(path, tuning="off", tuning_cache="none", inputs=feeds)
    for got in (run_peer(path, feeds), model.run(feeds).values()):
      for g, w in zip(got, Picked()(given), strict=True):
        assert difference(g, w.numpy()) is None


def test_the_command_converts(module, cnn_path, tmp_path):
  import torch

  torch.export.save(torch.export.export(module, (torch.randn(2, 3, 16, 16),)), tmp_path / "m.pt2")
  for source in (tmp_path / "m.pt2", cnn_path):
    done = subprocess.run([sys.executable, "-m", "stretto", "convert", str(source), "-o",
                           str(tmp_path / "to.onnx")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"wrote {tmp_path / 'to.onnx'}" in done.stdout
    checked(tmp_path / "to.onnx")
  for source, to, text in ((cnn_path, "m.stretto", "stretto optimize"),
                           (cnn_path, "m.txt", "ends in .onnx"),
                           (tmp_path / "m.txt", "to.onnx", r"*.onnx or *.pt2"),
                           (tmp_path / "none.onnx", "to.onnx", "none.onnx"),
                           (tmp_path / "none.pt2", "to.onnx", "none.pt2")):
    done = subprocess.run([sys.executable, "-m", "stretto", "convert", str(source), "-o",
                           str(tmp_path / to)], capture_output=True, text=True)
    assert done.returncode in (1, 2) and text in done.stderr, (source, to, done.stderr)


def test_a_model_of_an_older_opset_becomes_one_of_a_newer(tmp_path):
  nodes = [helper.make_node("Unsqueeze", ["x"], ["u"], axes=[0]),
           helper.make_node("Upsample", ["u"], ["y"], mode="nearest", scales=[1.0, 1.0, 2.0])]
  graph = helper.make_graph(nodes, "old", [helper.make_tensor_value_info("x", 1, ["n", 4])],
                            [helper.make_tensor_value_info("y", 1, None)])
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)
  stretto.convert(model, tmp_path / "new.onnx", shapes={"x": (3, 4)})
  written = checked(tmp_path / "new.onnx")
  assert [n.op_type for n in written.graph.node] == ["Unsqueeze", "Resize"]
  x = np.arange(12, dtype=np.float32).reshape(3, 4)
  got, = run_peer(tmp_path / "new.onnx", {"x": x})
  assert np.array_equal(got, np.repeat(x, 2, 1)[None])


def test_large_weights_go_to_a_file_beside(tmp_path):
  rng = np.random.default_rng(1)
  weights = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(3)]
  nodes = [helper.make_node("MatMul", [f"x{i}" if i else "x", f"w{i}"], [f"x{i + 1}"])
           for i in range(3)]
  nodes.append(helper.make_node("Reshape", ["x3", "shape"], ["y"]))
  constants = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
  constants.append(numpy_helper.from_array(np.array([2, -1]), "shape"))
  graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [3, 64])],
                            [helper.make_tensor_value_info("y", 1, None)], constants)
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
  path = str(tmp_path / "big.onnx")
  opset, files = _stretto.convert_onnx(None, model.SerializeToString(), {}, path, 4096)
  assert opset == 21 and files == [path + ".data", path]
  checked(path)
  raw = onnx.load(path, load_external_data=False)
  where = {t.name: {e.key: e.value for e in t.external_data} for t in raw.graph.initializer}
  assert where["shape"] == {} and where["w1"]["location"] == "big.onnx.data"
  assert int(where["w2"]["offset"]) % 4096 == 0
  x = rng.standard_normal((3, 64)).astype(np.float32)
  want = (x @ weights[0] @ weights[1] @ weights[2]).reshape(2, -1)
  assert difference(run_peer(path, {"x": x})[0], want) is None
  assert difference(stretto.optimize(path, tuning="off", tuning_cache="none")(x), want) is None


@pytest.mark.parametrize("call, text", [
  (lambda m, p: stretto.convert(m, p / "m.stretto"), "artefacts are optimised for a machine"),
  (lambda m, p: stretto.convert(m, p / "m.txt"), r"path: expected a file called \*.onnx"),
  (lambda m, p: stretto.convert(m, p / "none" / "m.onnx"), "none"),
  (lambda m, p: stretto.convert(p / "none.pt2", p / "m.onnx"), "no such file"),
  (lambda m, p: stretto.convert("m.stretto", p / "m.onnx"), "source: an artefact holds"),
  (lambda m, p: stretto.convert(3, p / "m.onnx"), "source: expected a path"),
  (lambda m, p: stretto.convert(m, p / "m.onnx"), "inputs: a PyTorch module is traced"),
  (lambda m, p: stretto.convert(b"", p / "m.onnx", np.ones(3)), "inputs: only a PyTorch module"),
  (lambda m, p: stretto.convert(b"", p / "m.onnx", dynamic_shapes={}), "dynamic_shapes: only a"),
])
def test_errors(module, tmp_path, call, text):
  with pytest.raises(stretto.Error, match=text):
    call(module, tmp_path)
  assert not (tmp_path / "m.onnx").exists()


def test_a_file_is_not_written_over_what_is_read(cnn_path, tmp_path):
  path = tmp_path / "cnn.onnx"
  path.write_bytes(cnn_path.read_bytes())
  with pytest.raises(ValueError, match="is the file that is read"):
    stretto.convert(path, path)
  assert path.read_bytes() == cnn_path.read_bytes()


def test_a_file_that_is_no_program_is_refused(tmp_path):
  pytest.importorskip("torch")
  (tmp_path / "m.pt2").write_bytes(b"no program")
  with pytest.raises(stretto.FormatError, match=r"m\.pt2: expected a file of torch.export.save"):
    stretto.convert(tmp_path / "m.pt2", tmp_path / "m.onnx")


@pytest.mark.parametrize("name", ["mobilenet_v2", "efficientnet_b0", "resnet50", "lstm_2x512"])
def test_models_of_the_benchmarks(name, tmp_path, monkeypatch):
  """Those of the list that are quick to make."""
  torch = pytest.importorskip("torch")
  monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
  from bench.models import definition, find

  torch.manual_seed(6)
  row = find(name)
  module = definition(row).eval()
  inputs = tuple(torch.randn(i.shape) for i in row.inputs)
  path = tmp_path / "m.onnx"
  stretto.convert(module, path, inputs)
  model = checked(path)
  got = run_peer(path, {v.name: x.numpy() for v, x in zip(model.graph.input, inputs, strict=True)})
  with torch.no_grad():
    want = module(*inputs)
  want = want if isinstance(want, tuple) else (want,)
  for g, w in zip(got, want, strict=True):
    assert difference(g, w.numpy()) is None


# --- every operator of ONNX; those of PyTorch are in test_aten_table.py


def written_case(model, given, path):
  """Writes a model with fixed shapes. Inputs that decide shapes become constants, as few as it
  takes. None where it went well, otherwise the error."""
  names = list(given)
  small = [n for n in names if given[n].ndim <= 1 and given[n].size <= 64]
  integers = [n for n in small if given[n].dtype.kind in "iu" and n != names[0]]
  problem = ""
  for bound in ([], integers, small, names):
    try:
      closed = onnx.ModelProto()
      closed.CopyFrom(model)
      closed.graph.initializer.extend(numpy_helper.from_array(given[n], n) for n in bound)
      _stretto.convert_onnx(None, closed.SerializeToString(),
                            {n: list(a.shape) for n, a in given.items() if n not in bound}, path)
      return None
    except stretto.Error as error:
      problem = " ".join(str(error).split())[:300]
      if "known" not in problem:
        break
  return problem


@pytest.mark.filterwarnings("ignore")  # onnx's generators divide by zero on purpose
@pytest.mark.timeout(1800)
def test_cases_of_onnx_come_back(tmp_path, capsys):
  """Node cases: read, written, checked, and run by ONNX Runtime or the reference evaluator."""
  from collections import Counter

  from onnx.backend.test.loader import load_model_tests
  from onnx.backend.test.runner import _normalize_tensor
  from onnx.reference import ReferenceEvaluator
  from test_onnx_backend import KINDS, read_list

  refused = read_list()[KINDS[0]]
  counts, wrong = Counter(), []
  path = str(tmp_path / "m.onnx")
  for case in load_model_tests(kind="node"):
    if case.name in refused or case.name in WIDENED:
      continue
    inputs, want = case.data_sets[0]
    inputs = [_normalize_tensor(a) for a in inputs]
    want = [_normalize_tensor(a) for a in want]
    given = dict(zip([v.name for v in case.model.graph.input], inputs))
    if not all(isinstance(a, np.ndarray) for a in given.values()):
      counts["left out: no arrays"] += 1
      continue
    if (problem := written_case(case.model, given, path)) is not None:
      if "no tensor" in problem or "string tensors" in problem:
        counts["left out: strings and sequences"] += 1
        continue
      wrong.append(f"{case.name}: {problem}")
      continue
    try:
      model = checked(path)
      feeds = {v.name: given[v.name] for v in model.graph.input}
      try:
        if case.name in ONLY_REFERENCE:
          raise RuntimeError("see there")
        got = run_peer(path, feeds)
        counts["ONNX Runtime"] += 1
      except Exception:
        got = ReferenceEvaluator(model).run(None, feeds)
        counts["reference evaluator"] += 1
      for v, g, w in zip(model.graph.output, got, want, strict=True):
        if why := difference(g, w, FOUR_DIGITS.get(case.name, tolerance_of(model))):
          wrong.append(f"{case.name}: {v.name}: {why[:300]}")
    except Exception as error:
      wrong.append(f"{case.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
  with capsys.disabled():
    print("\n" + ", ".join(f"{n} {what}" for what, n in counts.items()))
  assert not wrong, "\n".join([f"{len(wrong)}:", *wrong[:300]])
  assert TensorProto.FLOAT == 1 and counts["ONNX Runtime"] > 900
