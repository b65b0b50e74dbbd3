"""Single operators, one model each, against ONNX Runtime: an engine that read the same
specification. Every operator of the table, its attributes, and every opset in which it changed.

Not a number and infinities are the business of runtime/cases_test.cc: engines differ there."""

import re
import zlib
from pathlib import Path

import numpy as np
import pytest
from onnx import ValueInfoProto, helper, numpy_helper
from operator_cases import ALL, SEED, Draw
from stretto._model import Model

from stretto import _stretto

ort = pytest.importorskip("onnxruntime")

# Both engines compute in fp32 with approximations of their own; sums have a few hundred terms.
TOLERANCE = 2e-5


def model_for(case, opset, rng):
  """The model's bytes and what to feed it."""
  feeds, infos, initializers, names = {}, [], [], []
  for i, given in enumerate(case.inputs):
    name = "" if given is None else f"i{i}"
    names.append(name)
    if isinstance(given, Draw):
      feeds[name] = given.values(rng)
      dtype = helper.np_dtype_to_tensor_dtype(feeds[name].dtype)
      infos.append(helper.make_tensor_value_info(name, dtype, given.shape))
    elif given is not None:
      initializers.append(numpy_helper.from_array(np.ascontiguousarray(given).reshape(given.shape),
                                                  name))
  while names and not names[-1]:
    names.pop()
  outputs = [f"o{i}" for i in range(case.outputs)]
  node = helper.make_node(case.op, names, outputs, case.op.lower(), **case.attributes)
  graph = helper.make_graph([node], "single", infos,
                            [ValueInfoProto(name=o) for o in outputs], initializers)
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
  return model.SerializeToString(), feeds


def run_peer(data, feeds):
  options = ort.SessionOptions()
  options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
  options.log_severity_level = 4
  options.intra_op_num_threads = 1
  session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
  return session.run(None, feeds)


def optimized(data):
  """As stretto.optimize() does it, but without the seconds of timing for the report."""
  options = _stretto.Options()
  options.tuning, options.tuning_cache, options.threads = "off", "none", 1
  options.verify = options.profile = False
  return Model(_stretto.optimize(None, data, "model", options, {}, None))


def differences(case, opset):
  """What is wrong, as text; None when the peer cannot run the model."""
  rng = np.random.default_rng([SEED, zlib.crc32(case.op.encode()), opset])
  data, feeds = model_for(case, opset, rng)
  try:
    want = run_peer(data, feeds)
  except Exception as error:
    if "NOT_IMPLEMENTED" in str(error) or "opset" in str(error).lower():
      return None
    return f"the peer refuses the test's own model: {error}"
  try:
    model = optimized(data)
    got = model(feeds) if feeds else model()
  except Exception as error:
    return f"{type(error).__name__}: {error}"
  got = got if isinstance(got, tuple) else (got,)
  for name, a, b in zip((f"o{i}" for i in range(len(want))), got, want, strict=True):
    b = np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
      return f"{name}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
    if case.exact or a.dtype.kind not in "f":
      if not np.array_equal(a, b):
        return f"{name}: {a} != {b}"
    elif a.size:
      limit = TOLERANCE * max(np.abs(b).max(), 1e-6) if a.dtype != np.float16 else 1e-2
      if not np.abs(a - b).max() <= limit:
        at = np.unravel_index(np.abs(a - b).argmax(), a.shape)
        return f"{name}{list(at)}: {a[at]}, expected {b[at]}"
  return ""


@pytest.mark.parametrize("op", sorted({case.op for case in ALL}))
def test_an_operator_gives_what_onnxruntime_gives(op):
  compared, wrong, forms_seen = 0, [], set()
  for case in ALL:
    if case.op != op:
      continue
    # The newest opset always, the others once per form: older ones are rewritten when read.
    form = (case.since, case.until, tuple(sorted(case.attributes)))
    opsets = case.opsets()[-1:] if form in forms_seen else case.opsets()
    forms_seen.add(form)
    for opset in opsets:
      found = differences(case, opset)
      if found:
        forms = [i if i is None or isinstance(i, Draw) else i.shape for i in case.inputs]
        wrong.append(f"opset {opset} {case.attributes} {forms}, seed {SEED}: {found}")
      compared += found is not None
  assert not wrong, f"{op}: {len(wrong)} of {compared}\n" + "\n".join(wrong)
  if compared == 0:
    pytest.skip(f"this ONNX Runtime has no {op} to compare with")


def test_every_operator_is_compared():
  table = Path(__file__).parents[2] / "src/stretto/ir/cases/table.cc"
  known = set(re.findall(r'\{"(\w+)",', table.read_text()))
  random = {op for op in known if op.startswith("Random")}  # test_random.py
  assert random and known - random <= {case.op for case in ALL}
