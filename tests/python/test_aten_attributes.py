"""PyTorch modules that remember something in attributes which are no buffers."""

import threading

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import stretto  # noqa: E402

OPTIONS = {"tuning": "off", "tuning_cache": "none", "threads": 1}


class Last(nn.Module):
  last = None

  def forward(self, x):
    y = x if self.last is None else x + self.last
    self.last = y
    return y


class Counter(nn.Module):
  def __init__(self):
    super().__init__()
    self.inner = nn.Module()
    self.inner.calls = 0

  def forward(self, x):
    self.inner.calls += 1
    return x * self.inner.calls


class Cache(nn.Module):
  def __init__(self):
    super().__init__()
    self.cache = {"keys": []}

  def forward(self, x):
    self.cache["keys"].append(x)
    return torch.cat(self.cache["keys"]).sum(0)


@pytest.mark.parametrize("kind, path", [(Last, "last"), (Counter, "inner.calls"), (Cache, "cache")])
def test_what_the_next_run_depends_on_is_named(kind, path):
  module = kind().eval()
  with pytest.raises(stretto.UnsupportedError, match=f"changes {path} .*register_buffer"):
    stretto.optimize(module, torch.ones(2, 3), **OPTIONS)
  # It is as it was.
  torch.testing.assert_close(module(torch.ones(1, 3)).flatten(), torch.ones(3))


class Rotary(nn.Module):
  """Computes a table once, and counts its calls for whoever wants to know."""

  def __init__(self):
    super().__init__()
    self.table, self.calls, self.shapes = None, 0, []
    self.register_buffer("seen", torch.zeros(1))

  def forward(self, x):
    self.calls += 1
    self.shapes.append(x.shape)
    self.seen.add_(1)
    if self.table is None or len(self.table) < len(x):
      self.table = torch.arange(len(x), dtype=torch.float32)
    return x * self.table[:len(x), None] + self.seen


def test_what_is_computed_once_may_stay():
  model = stretto.optimize(Rotary().eval(), torch.ones(2, 3), **OPTIONS)
  reference, x = Rotary().eval(), torch.randn(2, 3)
  for _ in range(3):
    torch.testing.assert_close(model(x), reference(x))


class Locked(nn.Module):
  def __init__(self):
    super().__init__()
    self.lock, self.calls = threading.Lock(), 0

  def forward(self, x):
    self.calls += 1
    return x


def test_a_module_that_cannot_be_copied_is_named():
  with pytest.raises(stretto.UnsupportedError, match="changes calls .* cannot be copied"):
    stretto.optimize(Locked().eval(), torch.ones(2, 3), **OPTIONS)
