"""Tensors of element types that NumPy lacks, given to models from files."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import stretto

torch = pytest.importorskip("torch")

OPTIONS = {"tuning": "off", "tuning_cache": "none", "threads": 1, "progress": False}


def test_a_model_of_bfloat16_takes_tensors_of_pytorch():
  face = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [2, 3]) for name in "xy"]
  graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", face[:1], face[1:])
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
  onnx.checker.check_model(model)
  x = torch.tensor([[1.5, -2, 0], [3, 0.25, 7]], dtype=torch.bfloat16)
  got = stretto.optimize(model, **OPTIONS)(x)
  assert np.array_equal(np.asarray(got, dtype=np.float32), -x.float().numpy())
