"""Modules whose operators all have kernels: none is left to the reference interpreter."""

import pytest

torch = pytest.importorskip("torch")

import stretto  # noqa: E402


class Sums(torch.nn.Module):

  def forward(self, x):
    return x.cumsum(1), x.int().cumsum(-1), x.flip(2).cumsum(2).flip(2)


CASES = {
  "cumulative sums": (Sums(), (3, 5, 7), "cumsum"),
  "a pool whose indices nothing reads": (
    torch.nn.AdaptiveMaxPool1d(1), (2, 5, 40), "global_pool"),
  "a window as large as the image": (torch.nn.AvgPool2d(7), (2, 5, 7, 7), "global_pool"),
  "a window as large as the volume": (
    torch.nn.MaxPool3d((3, 4, 5)), (2, 5, 3, 4, 5), "global_pool"),
}


@pytest.mark.parametrize("name", CASES)
def test_every_step_has_a_kernel(name):
  module, shape, family = CASES[name]
  x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
  model = stretto.optimize(module.eval(), (x,), tuning="off", threads=1)
  torch.testing.assert_close(model(x), module(x), rtol=1e-5, atol=1e-5)
  steps = model.report["operators"]
  assert "reference" not in [step.get("kernel") for step in steps]
  assert family in [step.get("family") for step in steps]


@pytest.mark.parametrize("half", ["FLOAT16", "BFLOAT16"])
def test_casts_to_16_bit_floats_have_a_kernel(half, tmp_path):
  onnx = pytest.importorskip("onnx")
  dtype, single = getattr(onnx.TensorProto, half), onnx.TensorProto.FLOAT
  tensor = onnx.helper.make_tensor_value_info
  nodes = [onnx.helper.make_node("Cast", ["x"], ["half"], to=dtype),
           onnx.helper.make_node("Cast", ["half"], ["y"], to=single)]
  graph = onnx.helper.make_graph(nodes, "casts", [tensor("x", single, [3, 7])],
                                 [tensor("y", single, [3, 7])])
  path = str(tmp_path / "casts.onnx")
  opsets = [onnx.helper.make_opsetid("", 20)]
  onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
  model = stretto.optimize(path, tuning="off", threads=1)
  x = torch.randn(3, 7, generator=torch.Generator().manual_seed(1))
  expected = x.to(getattr(torch, half.lower())).float()
  torch.testing.assert_close(torch.from_numpy(model(x.numpy())), expected, rtol=0, atol=0)
  assert [step.get("family") for step in model.report["operators"]] == ["elementwise"] * 2
