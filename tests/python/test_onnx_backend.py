"""ONNX's own test cases through stretto.onnx_backend, and that module's rules.

onnx_backend_refusals.txt lists every case that Stretto refuses, with the reason: this file fails if
a listed case passes, and if another is refused. After a change,
`python tests/python/test_onnx_backend.py` writes the list again; it keeps the differences, which a
person has to explain."""

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import stretto.onnx_backend as backend  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from onnx.backend.test.case.test_case import TestCase  # noqa: E402
from onnx.backend.test.runner import Runner, _normalize_tensor  # noqa: E402

LIST = Path(__file__).with_name("onnx_backend_refusals.txt")
# Cases of one node, and whole models.
KINDS = (("node",), ("simple", "pytorch-converted", "pytorch-operator", "real"))
DIFFERENCE = "differs: "  # how the reasons of listed cases begin whose outputs are not ONNX's


def reason(model_name, error):
  """Why a model is refused, without the names that its writer chose."""
  text = str(error)
  operators = re.findall(r"^  (\S+) \(", text, re.MULTILINE)
  if operators:
    return "operators: " + ", ".join(operators)
  text = text.removeprefix(model_name).split("\n")[0]
  text = re.sub(r"^( \(byte \d+\))?: ", "", text)
  text = re.sub(r' "[^"]*"', "", text)
  return text


def comparable(value):
  """The suite cannot compare scalars within sequences."""
  if isinstance(value, list):
    return [np.atleast_1d(comparable(element)) for element in value]
  return _normalize_tensor(value)


def outcome(name, model, data_sets, rtol, atol):
  """What became of a case: "" for a pass, else why it was refused, or how it differs."""
  try:
    prepared = backend.prepare(model)
    for inputs, outputs in data_sets:
      got = prepared.run([_normalize_tensor(array) for array in inputs])
      try:
        Runner.assert_similar_outputs([comparable(array) for array in outputs],
                                      [comparable(array) for array in got], rtol, atol)
      except (AssertionError, AttributeError) as error:
        return DIFFERENCE + " ".join(str(error).split())[:200]
  except Exception as error:
    return reason(name, error)
  return ""


def loaded(path, kind):
  """What a file of a data set holds, whose type is that of an input or output of the model."""
  content = path.read_bytes()
  if kind.HasField("sequence_type"):
    return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(content))
  if kind.HasField("optional_type"):
    return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
  return onnx.numpy_helper.to_array(TensorProto.FromString(content))


def files(folder, prefix):
  """The files of a data set in the order of the model's inputs or outputs."""
  return [folder / f"{prefix}_{i}.pb" for i in range(len(list(folder.glob(f"{prefix}_*.pb"))))]


def ramp(value):
  """What the suite feeds the models that come without inputs: i / n."""
  shape = [dimension.dim_value or 1 for dimension in value.type.tensor_type.shape.dim]
  count = int(np.prod(shape))
  return (np.arange(count).reshape(shape) / count).astype(np.float32)


def model_of(case):
  """Model and data sets of a case that is files."""
  if case.model_dir is None:  # a network of the package whose weights are drawn when it runs
    path = Path(*onnx.__path__).parent / case.url
    model = onnx.load(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [ramp(value) for value in model.graph.input if value.name not in constants]
    outputs = [loaded(file, value.type) for file, value in zip(
      files(path.parent, path.stem + "_output"), model.graph.output)]
    return model, [(inputs, outputs)]
  model = onnx.load(Path(case.model_dir) / "model.onnx")
  return model, [
    [[loaded(file, value.type) for file, value in zip(files(folder, prefix), values)]
     for prefix, values in (("input", model.graph.input), ("output", model.graph.output))]
    for folder in sorted(Path(case.model_dir).glob("test_data_set*"))]


def all_outcomes(kinds):
  from onnx.backend.test.loader import load_model_tests

  outcomes = {}
  for kind in kinds:
    for case in load_model_tests(kind=kind):
      model, data_sets = (case.model, case.data_sets) if kind == "node" else model_of(case)
      outcomes[case.name] = outcome(case.name, model, data_sets, case.rtol, case.atol)
  return outcomes


def read_list():
  """Reasons by case, by the kinds of cases that the headings of the list name."""
  listed = defaultdict(dict)
  kinds = ()
  for line in LIST.read_text().splitlines():
    if line.startswith("["):
      kinds = tuple(line.strip("[]").split(", "))
    elif line and not line.startswith("#"):
      name, why = line.split("\t")
      listed[kinds][name] = why
  return listed


def table(outcomes):
  """Refusals by reason, the most frequent first."""
  by_reason = defaultdict(list)
  for name, why in outcomes.items():
    if why:
      by_reason[why].append(name)
  lines = [f"{len(names):5} {why}: {names[0]}"
           for why, names in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))]
  passed = sum(not why for why in outcomes.values())
  share = 100 * passed / len(outcomes)
  return "\n".join([*lines, f"{passed:5} of {len(outcomes)} cases pass, {share:.1f} %"])


@pytest.mark.filterwarnings("ignore")  # onnx's generators divide by zero on purpose
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kinds", KINDS, ids=", ".join)
def test_cases_of_onnx_pass_or_are_listed(kinds, capsys):
  outcomes, listed = all_outcomes(kinds), read_list()[kinds]
  with capsys.disabled():
    print("\n" + table(outcomes))
  wrong = []
  for name, why in outcomes.items():
    expected = listed.get(name, "")
    if why.startswith(DIFFERENCE) and expected.startswith(DIFFERENCE):
      continue
    if why != expected:
      wrong.append(f"{name}: {why or 'passes'}; the list says: {expected or 'passes'}")
  wrong += [f"{name}: listed, but no such case" for name in listed.keys() - outcomes.keys()]
  assert not wrong, "\n".join([f"{len(wrong)} cases differ from {LIST.name}:", *wrong[:100]])


def test_the_suite_of_onnx_takes_the_module():
  class Cases(Runner):
    def __init__(self):  # does not make all cases, which takes half a minute
      self.backend, self._parent_module, self._test_kwargs = backend, __name__, {}
      self._include_patterns, self._exclude_patterns, self._xfail_patterns = set(), set(), set()
      self._test_items = defaultdict(dict)

  node = helper.make_node("Relu", ["x"], ["y"])
  x = np.array([-1, 2], np.float32)
  case = TestCase("test_relu", "relu", None, None, single_node_model(node, [x]),
                  [([x], [np.maximum(x, 0)])], "node", 1e-3, 1e-7)
  runner = Cases()
  runner._add_model_test(case, "Node")
  (tests,) = runner.test_cases.values()
  tests("test_relu_cpu").debug()
  assert tests("test_relu_cuda").run().skipped


def single_node_model(node, arrays, opset=24):
  infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
           for name, a in zip(node.input, arrays)]
  outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
  graph = helper.make_graph([node], "one", infos, outputs)
  return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def test_shapes_that_are_inputs_may_change_between_runs():
  node = helper.make_node("Reshape", ["x", "shape"], ["y"])
  x = np.arange(6, dtype=np.float32)
  prepared = backend.prepare(single_node_model(node, [x, np.zeros(2, np.int64)]))
  for shape in ((2, 3), (3, 2), (2, 3)):
    assert prepared.run([x, np.array(shape)])[0].shape == shape
  assert prepared.run({"shape": np.array([1, 6]), "x": x}).y.shape == (1, 6)
  with pytest.raises(ValueError, match="input shape is missing"):
    prepared.run([x])


def test_a_node_runs_alone():
  x = np.array([[1, 2], [3, 4]], np.float32)
  y, = backend.run_node(helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0]), [x])
  assert np.array_equal(y, x.T)
  y, = backend.run_node(helper.make_node("ReduceSum", ["x"], ["y"], axes=[0]), [x], opset=11)
  assert np.array_equal(y, [[4, 6]])


def test_open_shapes_are_closed_by_the_arrays():
  node = helper.make_node("Relu", ["x"], ["y"])
  graph = helper.make_graph(
    [node], "open", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])],
    [onnx.ValueInfoProto(name="y")])
  prepared = backend.prepare(helper.make_model(graph))
  for shape in ((2, 3), (4, 1)):
    assert np.array_equal(prepared.run([np.ones(shape, np.float32)])[0], np.ones(shape))


def test_what_stretto_lacks_is_refused_at_once():
  node = helper.make_node("ImageDecoder", ["x"], ["y"])
  with pytest.raises(NotImplementedError, match="ImageDecoder"):
    backend.prepare(single_node_model(node, [np.zeros(2, np.float32)]))
  with pytest.raises(ValueError, match="device: expected CPU"):
    backend.prepare(single_node_model(node, [np.zeros(2, np.float32)]), "CUDA")
  assert backend.supports_device("CPU") and not backend.supports_device("CUDA:0")


if __name__ == "__main__":
  known = read_list() if LIST.exists() else {}
  lines = ["# Cases of ONNX's tests that Stretto refuses, by their kinds: case, tab, reason.",
           "# Written by python tests/python/test_onnx_backend.py"]
  for some_kinds in KINDS:
    found, listed_ones = all_outcomes(some_kinds), known.get(some_kinds, {})
    print(table(found))
    lines.append(f"[{', '.join(some_kinds)}]")
    for case_name, why in sorted(found.items(), key=lambda item: (item[1], item[0])):
      if why.startswith(DIFFERENCE) and not listed_ones.get(case_name, "").startswith(DIFFERENCE):
        print(f"not listed, for it is no refusal: {case_name}: {why}")
      elif why:
        reason_listed = listed_ones[case_name] if why.startswith(DIFFERENCE) else why
        lines.append(f"{case_name}\t{reason_listed}")
  LIST.write_text("\n".join(lines) + "\n")
