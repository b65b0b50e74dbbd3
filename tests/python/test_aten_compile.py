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

import stretto  # noqa: E402

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


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_traced(layer, parts):
  class Tagger(nn.Module):
    def __init__(self):
      super().__init__()
      self.layer = layer(8, 12, 2, batch_first=True, bidirectional=True)
      self.head = nn.Linear(24, 5)

    def forward(self, x):
      y, state = self.layer(x)
      return self.head(y), state

  torch._dynamo.utils.counters.clear()
  module = Tagger().eval()
  fast = compiled(module)
  with torch.no_grad():
    for length in (6, 9, 11):
      x = torch.randn(2, length, 8)
      got, expected = (torch.utils._pytree.tree_leaves(m(x)) for m in (fast, module))
      for g, e in zip(got, expected, strict=True):
        assert_close(g, e)
  assert parts
  # Of the first length and of any other; PyTorch unrolls what is no LSTM over its length.
  assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == (2 if layer is nn.LSTM else 3)


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


def test_pytorch_runs_what_cannot_be_made(parts, monkeypatch):
  """Whatever the reason is."""
  def broken(*args):
    raise ZeroDivisionError("on purpose")

  monkeypatch.setattr(_compile, "translate", broken)
  module = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
  fast, x = compiled(module), torch.randn(3, 4)
  with torch.no_grad():
    assert torch.equal(fast(x), module(x))
  assert parts == []


class Picked(nn.Module):
  def forward(self, x, i):
    return (x * 2).gather(1, i)


def test_pytorch_runs_calls_that_fail(parts):
  """And says itself what is wrong with them."""
  fast, x = compiled(Picked().eval()), torch.randn(3, 4)
  with torch.no_grad():
    for places in ([[0], [3], [1]], [[1], [0], [2]]):
      assert torch.equal(fast(x, torch.tensor(places)), (x * 2).gather(1, torch.tensor(places)))
      with pytest.raises(RuntimeError, match="index 9 is out of bounds"):
        fast(x, torch.tensor([[0], [1], [9]]))
  assert len(parts) == 1


class Views(nn.Module):
  def forward(self, x):
    return x.view(-1), x * 2


def test_memory_that_is_shared_stays_shared(parts):
  fast = compiled(Views())
  x, y = torch.ones(2, 3), torch.ones(2, 3)
  with torch.no_grad():
    got, expected = fast(x), Views()(y)
  for g, e in zip(got, expected):
    assert torch.equal(g, e)
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


class Sentence(nn.Module):
  """Attention over words, with sizes as numbers too."""

  def __init__(self):
    super().__init__()
    self.words = nn.Embedding(50, 16)
    self.queries, self.norm = nn.Linear(16, 48), nn.LayerNorm(16)
    self.head = nn.Linear(16, 3)

  def forward(self, ids):
    x = self.words(ids) + torch.arange(ids.shape[1]).unsqueeze(1) / ids.shape[1]
    q, k, v = self.queries(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
    read = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    x = self.norm(x + read)
    return self.head(x).reshape(ids.shape[0] * ids.shape[1], 3), x.mean(1) * ids.shape[0]


@pytest.fixture
def optimized(monkeypatch):
  """The models that were optimised with measurements and weights of their own."""
  made = []
  original = _compile._stretto.optimize_graph

  def optimize_graph(*args):
    made.append(original(*args))
    return made[-1]

  monkeypatch.setattr(_compile._stretto, "optimize_graph", optimize_graph)
  return made


def assert_same(fast, module, *inputs):
  with torch.no_grad():
    got, expected = fast(*inputs), module(*inputs)
    for g, e in zip(got, expected) if isinstance(got, tuple) else [(got, expected)]:
      assert_close(g, e)


@pytest.mark.parametrize("how", ["dynamic", "mark_dynamic", "by itself"])
def test_open_sizes_share_measurements_and_weights(how, parts, optimized):
  module = Sentence().eval()
  fast = torch.compile(module, backend=_compile.backend, options=OPTIONS,
                       dynamic=True if how == "dynamic" else None)
  for batch, length in ((2, 5), (3, 9), (2, 12), (4, 5), (2, 5), (3, 9)):
    ids = torch.randint(50, (batch, length))
    if how == "mark_dynamic":
      torch._dynamo.mark_dynamic(ids, 0)
      torch._dynamo.mark_dynamic(ids, 1)
    assert_same(fast, module, ids)
  # PyTorch leaves sizes open by itself once they have changed.
  assert len(optimized) == (2 if how == "by itself" else 1)
  assert len(parts) == 4 + (how == "by itself")


class Scaled(nn.Module):
  scale = 1.5

  def forward(self, x):
    return torch.relu(x) * self.scale


def test_numbers_that_change_are_noticed(parts, optimized):
  module = Scaled().eval()
  fast = torch.compile(module, backend=_compile.backend, options=OPTIONS, dynamic=True)
  for module.scale, rows in ((1.5, 3), (1.5, 5), (-2.5, 5), (-2.5, 3), (-2.5, 7)):
    assert_same(fast, module, torch.randn(rows, 4))
  assert len(parts) == 5
  assert len(optimized) == 2


def test_many_open_sizes_are_no_reason_to_stop(parts, optimized):
  module = nn.Linear(4, 4).eval()
  fast = torch.compile(module, backend=_compile.backend, options=OPTIONS, dynamic=True)
  for rows in range(2, 26):
    for _ in range(4):
      assert_same(fast, module, torch.randn(rows, 4))
  assert len(optimized) == 1
  assert len(parts) == 24


def test_sizes_that_never_come_again_are_left_to_pytorch(parts, caplog):
  module = nn.Linear(4, 4).eval()
  fast = torch.compile(module, backend=_compile.backend, options=OPTIONS, dynamic=True)
  with caplog.at_level(logging.WARNING, "stretto"):
    for rows in range(2, 62):
      assert_same(fast, module, torch.randn(rows, 4))
  assert 16 < len(parts) < 40
  assert [r for r in caplog.records if "most calls bring new shapes" in r.getMessage()]


def test_open_sizes_beside_pytorch(parts, optimized):
  module = Mixed().eval()
  fast = torch.compile(module, backend=_compile.backend, options=OPTIONS, dynamic=True)
  for rows in (3, 5, 8):
    assert_same(fast, module, torch.randn(rows, 8))
  assert len(parts) == 6
  assert len(optimized) == 2


def test_weights_may_change_between_open_sizes(parts, optimized):
  module = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
  fast = torch.compile(module, backend=_compile.backend, options=OPTIONS, dynamic=True)
  with torch.no_grad():
    for rows in (3, 5, 3, 7):
      assert_same(fast, module, torch.randn(rows, 4))
      assert_same(fast, module, torch.randn(rows + 1, 4))
      module[0].weight.mul_(-2)
  assert len(parts) == 8
  assert len(optimized) == 4


SENT = []


def _send(x: torch.Tensor) -> torch.Tensor:
  SENT.append(x.shape)
  if len(SENT) == 1:
    raise stretto.CommError("rank 1 is gone")
  return x.clone()


send = torch.library.custom_op("tests::send", _send, mutates_args=())
send.register_fake(torch.empty_like)


class Sends(nn.Module):
  def __init__(self):
    super().__init__()
    self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

  def forward(self, x):
    return self.last(send(self.first(x)))


def test_what_pytorch_runs_is_not_run_again_after_an_error():
  fast = torch.compile(Sends().eval(), backend=_compile.backend, options=OPTIONS)
  SENT.clear()
  with torch.no_grad():
    with pytest.raises(stretto.CommError, match="rank 1 is gone"):
      fast(torch.randn(2, 8))
    assert len(SENT) == 1
    fast(torch.randn(2, 8))
  assert len(SENT) == 2


def test_options_of_another_type_are_refused():
  with pytest.raises(Exception, match="options: threads"), torch.no_grad():
    torch.compile(nn.Linear(2, 2), backend=_compile.backend,
                  options={"threads": "two"})(torch.zeros(1, 2))


def test_unknown_options_are_refused():
  with pytest.raises(Exception, match="options: speed is unknown"), torch.no_grad():
    torch.compile(nn.Linear(2, 2), backend=_compile.backend,
                  options={"speed": 9})(torch.zeros(1, 2))
