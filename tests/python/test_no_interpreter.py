"""Modules whose operators all have kernels: none is left to the reference interpreter."""

import pytest

torch = pytest.importorskip("torch")

import stretto  # noqa: E402

CASES = {
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
