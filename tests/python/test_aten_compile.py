"""torch.compile(module, backend="stretto")."""

import importlib
import logging
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import aten_modules  # noqa: E402
from stretto.aten import _compile  # noqa: E402
from torch import nn  # noqa: E402

SEED = 20261127
# As in test_aten_modules.py.
TOLERANCE = 1e-4
OPTIONS = {"tuning": "off", "tuning_cache": "none", "threads": 1, "verify": False}


@pytest.fixture(autouse=True)
def fresh():
  print("seed", SEED)
  torch.manual_seed(SEED)
  torch._dynamo.reset()


@pytest.fixture
def parts(monkeypatch):
  """The models that were made, in order."""
  made = []

  class Part(_compile._Part):
    def __init__(self, *args):
      super().__init__(*args)
      made.append(self)

  monkeypatch.setattr(_compile, "_Part", Part)
  return made


def compiled(module):
  return torch.compile(module, backend=_compile.backend, options=OPTIONS)


def assert_close(got, expected):
  assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
  assert (got - expected).abs().max() <= TOLERANCE * expected.abs().max().clamp(1e-3)


def test_the_entry_point_names_the_backend():
  text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
  module, name = re.search(r'torch_dynamo_backends\]\nstretto = "([\w.]+):(\w+)"', text).groups()
  assert getattr(importlib.import_module(module), name) is _compile.backend


def test_a_whole_module_is_one_model(parts):
  module = aten_modules.ResidualBlock().eval()
  fast = compiled(module)
  with torch.no_grad():
    for _ in range(2):
      x = torch.randn(2, 8, 8, 8)
      assert_close(fast(x), module(x))
  assert len(parts) == 1
  assert [spec.dtype for spec in parts[0].inputs] == [torch.float32]  # weights are constants


def test_weights_that_change_are_noticed(parts):
  module = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
  fast = compiled(module)
  x = torch.randn(3, 4)
  with torch.no_grad():
    assert_close(fast(x), module(x))
    module[0].weight.mul_(-2)
    assert_close(fast(x), module(x))
    module[0].bias.data = torch.randn(4)
    assert_close(fast(x), module(x))
  assert len(parts) == 3


class Mixed(nn.Module):
  def __init__(self):
    super().__init__()
    self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

  def forward(self, x):
    y = torch.relu(self.first(x))
    z = torch.linalg.svdvals(y.mT @ y)
    return torch.relu(self.second(z)) + y


def test_pytorch_runs_what_stretto_lacks(parts):
  module = Mixed().eval()
  fast = compiled(module)
  with torch.no_grad():
    for _ in range(2):
      x = torch.randn(3, 8)
      assert_close(fast(x), module(x))
  assert len(parts) == 2


def test_pytorch_runs_what_needs_gradients(parts):
  module = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
  fast = compiled(module)
  x = torch.randn(3, 4)
  fast(x).sum().backward()
  assert module[0].weight.grad.abs().sum() > 0
  assert parts == []
  with torch.no_grad():
    assert_close(fast(x), module(x))
  assert len(parts) == 1


class Views(nn.Module):
  def forward(self, x):
    return x.view(-1), x * 2


class Writes(nn.Module):
  def forward(self, x):
    x.add_(1)
    return x * 2


@pytest.mark.parametrize("module", [Views, Writes])
def test_memory_that_is_shared_stays_shared(module, parts):
  fast = compiled(module())
  x, y = torch.ones(2, 3), torch.ones(2, 3)
  with torch.no_grad():
    got, expected = fast(x), module()(y)
  for g, e in zip(got, expected):
    assert torch.equal(g, e)
  assert torch.equal(x, y)
  if module is Views:
    got[0].zero_()
    assert x.abs().sum() == 0
  assert parts == []


def test_shapes_may_change_a_few_times(parts, caplog):
  module = nn.Linear(4, 4).eval()
  fast = compiled(module)
  with torch.no_grad(), caplog.at_level(logging.WARNING, "stretto"):
    for rows in range(2, 14):
      x = torch.randn(rows, 4)
      assert_close(fast(x), module(x))
  assert 1 <= len(parts) <= 2 * _compile._MOST


def test_unknown_options_are_refused():
  with pytest.raises(Exception, match="options: speed is unknown"), torch.no_grad():
    torch.compile(nn.Linear(2, 2), backend=_compile.backend,
                  options={"speed": 9})(torch.zeros(1, 2))
