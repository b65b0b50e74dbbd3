"""ONNX's own test cases of single nodes through stretto.ops: every one that stretto.onnx_backend
runs, with the node's inputs and attributes as arguments of the function."""

from collections import Counter

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import AttributeProto, TensorProto, helper, numpy_helper  # noqa: E402
from onnx.backend.test.runner import Runner, _normalize_tensor  # noqa: E402
from test_onnx_backend import KINDS, read_list  # noqa: E402

from stretto import ops  # noqa: E402

PLAIN = {AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING, AttributeProto.FLOATS,
         AttributeProto.INTS, AttributeProto.STRINGS, AttributeProto.TENSOR}


def left_out(case, refused):
  """Why a case is no call of a function; "" for one that is."""
  model = case.model
  if case.name in refused:
    return "the backend refuses it, or differs"
  if len(model.graph.node) != 1 or len(model.functions):
    return "several nodes"
  node = model.graph.node[0]
  if node.op_type in ("Scatter", "Upsample"):
    return "operators that the newest opset does not have"
  if any(o.domain in ("", "ai.onnx") and o.version < 6 for o in model.opset_import):
    return "an opset before 6"
  if any(a.type not in PLAIN for a in node.attribute):
    return "a graph as attribute"
  values = [*model.graph.input, *model.graph.output]
  if not all(v.type.HasField("tensor_type") for v in values):
    return "values that are no tensors"
  if any(v.type.tensor_type.elem_type == TensorProto.STRING for v in values):
    return "strings"
  if node.op_type not in ops.__dir__():
    return "operators on strings and the like, which calls do not have"
  if node.op_type in ("Constant", "OptionalHasElement", "OptionalGetElement"):
    return "no inputs that are tensors"
  if [name for name in node.output if name] != [v.name for v in model.graph.output]:
    return "outputs that are not the node's"
  return ""


def value_of(attribute):
  value = helper.get_attribute_value(attribute)
  if attribute.type == AttributeProto.TENSOR:
    return numpy_helper.to_array(value)
  if attribute.type == AttributeProto.STRING:
    return value.decode()
  if attribute.type == AttributeProto.STRINGS:
    return [v.decode() for v in value]
  return value


def call(context, case, inputs):
  """The outputs that the case names, in their order."""
  model, node = case.model, case.model.graph.node[0]
  opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), None)
  given = dict(zip([v.name for v in model.graph.input], inputs))
  given |= {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
  outputs = len(node.output)
  result = getattr(context, node.op_type)(
    *[given[name] if name else None for name in node.input], outputs=outputs,
    **({} if opset is None else {"opset": opset}),
    **{a.name: value_of(a) for a in node.attribute})
  result = (result,) if outputs == 1 else result
  # The engine gives types that NumPy lacks as wider ones.
  types = {v.name: helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type)
           for v in model.graph.output}
  return [a.astype(types[name], copy=False) for a, name in zip(result, node.output) if name]


@pytest.mark.filterwarnings("ignore")  # onnx's generators divide by zero on purpose
@pytest.mark.timeout(900)
def test_cases_of_onnx_pass_as_calls(capsys):
  from onnx.backend.test.loader import load_model_tests

  context = ops.Context(threads=1, tuning_cache="none")
  refused = read_list()[KINDS[0]]
  why, wrong, ran = Counter(), [], 0
  for case in load_model_tests(kind="node"):
    if reason := left_out(case, refused):
      why[reason] += 1
      continue
    ran += 1
    for inputs, want in case.data_sets:
      try:
        got = call(context, case, [_normalize_tensor(a) for a in inputs])
        Runner.assert_similar_outputs([_normalize_tensor(a) for a in want], got, case.rtol,
                                      case.atol)
      except Exception as error:
        wrong.append(f"{case.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
  with capsys.disabled():
    print(f"\n{ran} cases ran as calls; left out: "
          + ", ".join(f"{count} ({text})" for text, count in why.items()))
  assert not wrong, "\n".join([f"{len(wrong)} of {ran}:", *wrong[:200]])
  assert ran > 900 and np.isfinite(ran)
