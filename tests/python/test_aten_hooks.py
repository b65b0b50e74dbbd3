"""Modules that register hooks when they run for the first time."""

import pytest

import stretto

torch = pytest.importorskip("torch")
if not hasattr(torch.export, "default_decompositions"):
  pytest.skip("this PyTorch is too old to optimise modules", allow_module_level=True)

from torch import nn  # noqa: E402

QUICK = {"tuning": "off", "tuning_cache": "none", "threads": 1, "progress": False}


class Collecting(nn.Module):
  """Returns what its layers made, which hooks collect, as modules of transformers do."""

  def __init__(self, flag_from_the_start):
    super().__init__()
    self.layers = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    self.made = []
    if flag_from_the_start:
      self.hooked = False

  def forward(self, x):
    if not getattr(self, "hooked", False):
      for layer in self.layers:
        layer.register_forward_hook(lambda layer, given, result: self.made.append(result))
      self.hooked = True
    self.layers(x)
    made, self.made = self.made, []
    return torch.stack(made).sum(0)


@pytest.mark.parametrize("flag_from_the_start", [False, True])
@pytest.mark.parametrize("used_before", [False, True])
def test_hooks_of_a_run_are_taken_back(flag_from_the_start, used_before):
  torch.manual_seed(1)
  module, x = Collecting(flag_from_the_start).eval(), torch.randn(3, 8)
  first, second = module.layers
  with torch.no_grad():
    want = first(x) + second(first(x))
    if used_before:
      torch.testing.assert_close(module(x), want)
    model = stretto.optimize(module, x, **QUICK)
    torch.testing.assert_close(model(x), want)
    for _ in range(2):
      torch.testing.assert_close(module(x), want)
  assert len(first._forward_hooks) == 1
