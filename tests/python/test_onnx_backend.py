"""ONNX's own test cases of single nodes through stretto.onnx_backend, and that module's rules.

onnx_backend_refusals.txt lists every case that Stretto refuses, with the reason: this file fails if
a listed case passes, and if another is refused. After a change,
`python tests/python/test_onnx_backend.py` writes the list again; it keeps the differences, which a
person has to explain."""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import stretto.onnx_backend as backend  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from onnx.backend.test.case.test_case import TestCase  # noqa: E402
from onnx.backend.test.runner import Runner, _normalize_tensor  # noqa: E402

LIST = Path(__file__).with_name("onnx_backend_refusals.txt")
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


def outcome(case):
  """What became of a case: "" for a pass, else why it was refused, or how it differs."""
  try:
    prepared = backend.prepare(case.model)
    for inputs, outputs in case.data_sets:
      got = prepared.run([_normalize_tensor(array) for array in inputs])
      try:
        Runner.assert_similar_outputs([_normalize_tensor(array) for array in outputs], got,
                                      case.rtol, case.atol)
      except (AssertionError, AttributeError) as error:
        return DIFFERENCE + " ".join(str(error).split())[:200]
  except Exception as error:
    return reason(case.name, error)
  return ""


def all_outcomes():
  from onnx.backend.test.loader import load_model_tests

  return {case.name: outcome(case) for case in load_model_tests(kind="node")}


def read_list():
  lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
  return dict(line.split("\t") for line in lines)


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
def test_cases_of_onnx_pass_or_are_listed(capsys):
  outcomes, listed = all_outcomes(), read_list()
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
  node = helper.make_node("StringConcat", ["x", "x"], ["y"])
  with pytest.raises(NotImplementedError, match="StringConcat"):
    backend.prepare(single_node_model(node, [np.zeros(2, np.float32)]))
  with pytest.raises(ValueError, match="device: expected CPU"):
    backend.prepare(single_node_model(node, [np.zeros(2, np.float32)]), "CUDA")
  assert backend.supports_device("CPU") and not backend.supports_device("CUDA:0")


if __name__ == "__main__":
  known, found = read_list() if LIST.exists() else {}, all_outcomes()
  print(table(found))
  lines = ["# Cases of ONNX's tests that Stretto refuses: case, tab, reason. Written by",
           "# python tests/python/test_onnx_backend.py"]
  for name, why in sorted(found.items(), key=lambda item: (item[1], item[0])):
    if why.startswith(DIFFERENCE) and not known.get(name, "").startswith(DIFFERENCE):
      print(f"not listed, for it is no refusal: {name}: {why}")
    elif why:
      lines.append(f"{name}\t{known[name] if why.startswith(DIFFERENCE) else why}")
  LIST.write_text("\n".join(lines) + "\n")
  print(Counter(why.split(":")[0] for why in found.values() if why).most_common(5), file=sys.stderr)
