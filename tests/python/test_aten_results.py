"""Modules that return objects of classes that PyTorch does not know."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

import stretto  # noqa: E402


class Layer:
  """As in the caches of transformers: tensors among other attributes."""

  def __init__(self):
    self.is_initialized = False
    self.dtype = None

  def update(self, keys, values):
    self.keys, self.values = keys, values
    self.dtype, self.is_initialized = keys.dtype, True

  def grown(self, keys):
    return torch.cat([self.keys, keys], 1)


class Cache:
  __slots__ = ("__dict__",)

  def __init__(self, count):
    self.layers = [Layer() for _ in range(count)]
    self.seen = []


@dataclasses.dataclass
class Found:
  score: torch.Tensor
  parts: dict
  note: str = "none"
  above: "Found | None" = None


class Decoder(torch.nn.Module):
  def __init__(self, returns):
    super().__init__()
    self.projections = torch.nn.ModuleList([torch.nn.Linear(8, 16) for _ in range(2)])
    self.returns = returns

  def forward(self, x):
    cache = Cache(len(self.projections))
    for layer, projection in zip(cache.layers, self.projections):
      layer.update(*projection(x).chunk(2, -1))
      x = x + layer.keys * layer.values
    return self.returns(x, cache)


def optimized(module, x, **options):
  return stretto.optimize(module, x, tuning="off", tuning_cache="none", **options)


def test_a_cache_comes_back_as_an_object():
  torch.manual_seed(3)
  module, x = Decoder(lambda x, cache: (x, {"cache": cache})).eval(), torch.randn(2, 5, 8)
  model = optimized(module, x)
  assert [o.name for o in model.outputs] == [
    "output.0", *(f"output.1.cache.layers.{i}.{name}" for i in (0, 1)
                  for name in ("keys", "values"))]
  assert not module._forward_hooks  # of the caller's module
  got, want = model(x), module(x)
  torch.testing.assert_close(got[0], want[0])
  cache = got[1]["cache"]
  assert type(cache) is Cache and cache.seen == [] and len(cache.layers) == 2
  for ours, theirs in zip(cache.layers, want[1]["cache"].layers):
    assert type(ours) is Layer and list(vars(ours)) == list(vars(theirs))
    assert ours.dtype is torch.float32 and ours.is_initialized
    torch.testing.assert_close(ours.grown(x), theirs.grown(x))
  cache.seen.append(1)  # what the result owns is not that of the next
  cache.layers.pop()
  again = model(x)[1]["cache"]
  assert again.seen == [] and len(again.layers) == 2


def test_a_dataclass_comes_back_with_open_sizes():
  def returns(x, cache):
    inner = Found(x.mean(), {"last": x[:, -1]})
    return Found(x.sum(-1), {"keys": (cache.layers[0].keys, 7), 3: [x]}, "outer", inner)

  module, x = Decoder(returns).eval(), torch.randn(2, 5, 8)
  model = optimized(module, x, dynamic_shapes=({0: torch.export.Dim("batch", max=8),
                                                1: torch.export.Dim("length", min=2, max=9)},))
  for given in (x, torch.randn(3, 4, 8)):
    got, want = model(given), module(given)
    assert type(got) is Found and got.note == "outer" and type(got.above) is Found
    torch.testing.assert_close(got.score, want.score)
    torch.testing.assert_close(got.parts["keys"][0], want.parts["keys"][0])
    assert got.parts["keys"][1] == 7 and type(got.parts["keys"]) is tuple
    torch.testing.assert_close(got.parts[3], want.parts[3])
    torch.testing.assert_close(got.above.parts["last"], want.above.parts["last"])


def test_such_a_module_is_converted(tmp_path):
  onnx = pytest.importorskip("onnx")
  module = Decoder(lambda x, cache: cache).eval()
  stretto.convert(module, tmp_path / "m.onnx", torch.randn(2, 5, 8))
  graph = onnx.load(tmp_path / "m.onnx").graph
  assert [v.name for v in graph.output] == [
    f"layers.{i}.{name}" for i in (0, 1) for name in ("keys", "values")]


def test_an_object_without_tensors_is_named():
  module = Decoder(lambda x, cache: (x, Layer())).eval()
  with pytest.raises(stretto.UnsupportedError, match="Layer"):
    optimized(module, torch.randn(2, 5, 8))
