"""Modules with dynamic shapes that are saved, and what their artefacts give."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import stretto

torch = pytest.importorskip("torch")
if not hasattr(torch.export, "default_decompositions"):
  pytest.skip("this PyTorch is too old to optimise modules", allow_module_level=True)

Dim = torch.export.Dim
F = torch.nn.functional
QUICK = {"tuning": "off", "progress": False}


class Encoder(torch.nn.Module):
  """Reshapes by its input's sizes, makes positions of its length, and masks of it."""

  def __init__(self):
    super().__init__()
    self.project = torch.nn.Linear(16, 16)
    self.layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    self.register_buffer("table", torch.randn(1, 512, 16))

  def forward(self, x, scale: float = 1.0):
    batch, length, width = x.shape
    y = self.project(x).reshape(batch * length, width).relu().view(batch, length, width)
    positions = torch.arange(length)
    y = self.layer(y * scale + self.table[:, :length]) + positions.float()[None, :, None] * 0.1
    heads = y.reshape(batch, length, 4, 4).transpose(1, 2)
    causal = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    near = (positions[None, :] - positions[:, None]).abs() < 5
    local = F.scaled_dot_product_attention(heads, heads, heads, attn_mask=near)
    infinite = torch.full((length, length), float("-inf")).triu(1)
    scores = (heads @ heads.transpose(2, 3) + infinite).softmax(-1)
    joined = (causal + local + scores @ heads).transpose(1, 2).reshape(batch, length, 16)
    return {"y": joined, "mean": x.mean(1), "last": joined[:, -1]}


class Pictures(torch.nn.Module):
  """Works on pictures of any size."""

  def __init__(self):
    super().__init__()
    self.first = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8),
                                     torch.nn.SiLU(), torch.nn.MaxPool2d(2))
    self.second = torch.nn.Conv2d(8, 8, 3, stride=2, padding=1)
    self.head = torch.nn.Linear(16, 4)

  def forward(self, x):
    y = self.first(x)
    z = F.interpolate(self.second(y), size=y.shape[2:], mode="bilinear")
    z = torch.cat([y, torch.roll(z, 3, 3)], 1)
    z = F.pad(z, (1, 2, 0, 1))
    flat = z.flatten(2).transpose(1, 2).flip(1)
    return self.head(flat).softmax(-1), F.adaptive_avg_pool2d(z, 1).flatten(1)


class Recurrent(torch.nn.Module):
  def __init__(self):
    super().__init__()
    self.lstm = torch.nn.LSTM(8, 12, batch_first=True, bidirectional=True)

  def forward(self, x):
    y, (h, _) = self.lstm(x)
    return y, h


def made(kind):
  torch.manual_seed(0)
  return kind().eval()


def close(got, expected):
  torch.testing.assert_close(torch.as_tensor(got), torch.as_tensor(expected), rtol=1e-4, atol=1e-4)


def encoder(**options):
  dims = {0: Dim("batch", max=64), 1: Dim("length", min=2, max=512)}
  return stretto.optimize(made(Encoder), torch.randn(3, 7, 16), dynamic_shapes=(dims,),
                          **{**QUICK, **options})


def test_a_loaded_encoder_takes_all_shapes(tmp_path):
  model, module = encoder(), made(Encoder)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto", verify=True)
  assert loaded.inputs[0].shape == (3, 7, 16)
  assert loaded.inputs[0].sizes == model.inputs[0].sizes
  for shape in ((3, 7, 16), (1, 2, 16), (1, 9, 16), (8, 100, 16), (16, 16, 16), (64, 2, 16)):
    x = torch.randn(shape)
    with torch.no_grad():
      expected = module(x)
    for name, array in loaded.run({"x": x.numpy()}).items():
      close(array, expected[name])


def test_the_same_shapes_are_refused(tmp_path):
  model = encoder()
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  for shape in ((65, 7, 16), (3, 1, 16), (3, 7, 17)):
    with pytest.raises(stretto.InvalidArgumentError) as before:
      model(torch.zeros(shape))
    with pytest.raises(stretto.InvalidArgumentError) as after:
      loaded.run({"x": np.zeros(shape, np.float32)})
    text = str(after.value)
    assert text.startswith("input x: expected shape ") and str(before.value).startswith(text)


def test_pictures_of_any_size(tmp_path):
  module = made(Pictures)
  model = stretto.optimize(module, torch.randn(2, 3, 32, 40), dynamic_shapes=(
    {0: Dim("n", max=4), 2: Dim("h", min=8, max=96), 3: Dim("w", min=8, max=96)},), **QUICK)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  for shape in ((1, 3, 32, 40), (2, 3, 33, 41), (4, 3, 96, 10), (1, 3, 8, 8), (3, 3, 24, 24)):
    x = torch.randn(shape)
    with torch.no_grad():
      expected = module(x)
    for got, wanted in zip(loaded.run({"x": x.numpy()}).values(), expected):
      close(got, wanted)


def test_a_recurrent_module(tmp_path):
  module = made(Recurrent)
  model = stretto.optimize(module, torch.randn(2, 5, 8), dynamic_shapes=({0: Dim("n", max=3)},),
                           **QUICK)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  for batch in (1, 2, 3):
    x = torch.randn(batch, 5, 8)
    with torch.no_grad():
      y, h = module(x)
    got = list(loaded.run({"x": x.numpy()}).values())
    close(got[0], y)
    close(got[1], h)


def test_weights_are_in_the_file_as_they_are_packed(tmp_path):
  module = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).eval()
  model = stretto.optimize(module, torch.randn(32, 512), dynamic_shapes=({0: Dim("n", max=256)},),
                           threads=1, **QUICK)
  model.save(tmp_path / "m.stretto")
  weights = 4 * 512 * 513 * 4
  assert (tmp_path / "m.stretto").stat().st_size < 2.05 * weights + 65536  # plain, and packed
  loaded = stretto.load(tmp_path / "m.stretto")
  before = loaded._session.shared_weight_bytes
  for n in (32, 33, 77, 256):
    x = torch.randn(n, 512)
    close(loaded.run({"input": x.numpy()})["output"], module(x).detach())
  # Nothing that the first shape did not need; what it needs is in the file.
  assert loaded._session.shared_weight_bytes == before


def test_half_precision_and_two_inputs_of_one_size(tmp_path):
  class Two(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.linear = torch.nn.Linear(16, 8)

    def forward(self, a, b):
      return self.linear(a) + b.mean(0, keepdim=True)

  n = Dim("n", min=2, max=9)
  module = made(Two).half()
  model = stretto.optimize(module, (torch.ones(3, 16).half(), torch.ones(3, 8).half()),
                           dynamic_shapes=({0: n}, {0: n}), **QUICK)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  a, b = torch.randn(5, 16).half(), torch.randn(5, 8).half()
  got = loaded.run({"a": a.float().numpy(), "b": b.float().numpy()})["output"]
  torch.testing.assert_close(torch.as_tensor(got), module(a, b).detach().float(), rtol=1e-2,
                             atol=1e-2)
  with pytest.raises(stretto.InvalidArgumentError, match="input b: dimension .* is 4 here and 5"):
    loaded.run({"a": np.ones((5, 16), np.float32), "b": np.ones((4, 8), np.float32)})


def test_it_is_loaded_without_pytorch(tmp_path):
  encoder().save(tmp_path / "m.stretto")
  x = torch.randn(5, 11, 16)
  with torch.no_grad():
    expected = made(Encoder)(x)["y"].numpy()
  np.savez(tmp_path / "x.npz", x=x.numpy(), y=expected)
  program = """
import sys
sys.modules["torch"] = None
import numpy as np, stretto
data = np.load("x.npz")
y = stretto.load("m.stretto").run({"x": data["x"]})["y"]
np.testing.assert_allclose(y, data["y"], rtol=1e-4, atol=1e-4)
print("equal")
"""
  done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=dict(os.environ),
                        capture_output=True, text=True, timeout=120)
  assert done.stdout == "equal\n", done.stderr


class Squares(torch.nn.Module):
  def forward(self, x):
    return (x[:, :, None] * x[:, None]).reshape(x.shape[0], -1)


@pytest.mark.parametrize("most", [2, 3, None])
def test_narrow_and_endless_ranges(tmp_path, most):
  model = stretto.optimize(made(Squares), torch.randn(2, 5), dynamic_shapes=(
    {0: Dim("n", max=most), 1: Dim("m")},), **QUICK)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  for shape in ((1, 1), (1, 7), (2, 5), (most or 50, 30)):
    x = torch.randn(shape)
    close(loaded.run({"x": x.numpy()})["output"], made(Squares)(x))


def test_an_exported_program_is_saved(tmp_path):
  module = made(Encoder)
  program = torch.export.export(module, (torch.randn(3, 7, 16),), dynamic_shapes=(
    {0: Dim("batch", max=64)},))
  stretto.optimize(program, torch.randn(1, 7, 16), **QUICK).save(tmp_path / "m.stretto")
  x = torch.randn(6, 7, 16)
  with torch.no_grad():
    close(stretto.load(tmp_path / "m.stretto").run({"x": x.numpy()})["y"], module(x)["y"])


class Adaptive(torch.nn.Module):
  def forward(self, x):
    return F.adaptive_avg_pool2d(x, 4)


class Scaled(torch.nn.Module):
  def forward(self, x):
    return x.var(1)


class Rolled(torch.nn.Module):
  def forward(self, x):
    return torch.roll(x, 5, 1)  # by the rest of 5, which shows for small sizes only


@pytest.mark.parametrize("kind, shape, words", [
  (Rolled, (2, 7), "roll has a number that depends on dynamic sizes in a way"),
  (Adaptive, (2, 3, 16, 16), "of adaptive_avg_pool2d has attributes or tables that depend on"),
  (Scaled, (2, 7), "var has a number that depends on dynamic sizes in a way"),
])
def test_what_cannot_be_stored_is_refused(tmp_path, kind, shape, words):
  module = made(kind)
  axis = len(shape) - 1
  model = stretto.optimize(module, torch.randn(shape), dynamic_shapes=(
    {axis: Dim("n", min=4, max=400)},), **QUICK)
  with pytest.raises(stretto.UnsupportedError, match=words) as caught:
    model.save(tmp_path / "m.stretto")
  assert "optimise the module with fixed shapes to save it" in str(caught.value)
  assert not list(tmp_path.iterdir())
  x = torch.randn(*shape[:-1], 23)
  close(model(x), module(x))


def test_changed_weights_are_not_saved(tmp_path):
  module = torch.nn.Linear(16, 16).eval()
  model = stretto.optimize(module, torch.randn(2, 16), dynamic_shapes=({0: Dim("n")},), **QUICK)
  with torch.no_grad():
    module.weight.mul_(2)
  with pytest.raises(stretto.UnsupportedError, match="were changed after it was optimised"):
    model.save(tmp_path / "m.stretto")


class Limited(torch.nn.Module):
  def forward(self, x):
    return x.sum(1) / torch.sym_min(x.shape[1], 200)


class Averaged(torch.nn.Module):
  def forward(self, x):
    return x.sum(1) / torch.sym_max(x.shape[1], 3000)


@pytest.mark.parametrize("kind", [Limited, Averaged])
@pytest.mark.parametrize("most", [None, 5000])
def test_limits_far_from_the_smallest_sizes(tmp_path, kind, most):
  module = made(kind)
  model = stretto.optimize(module, torch.randn(2, 16), dynamic_shapes=(
    {1: Dim("n", max=most) if most else Dim("n")},), **QUICK)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  for n in (1, 50, 199, 201, 400, 2999, 3001, 5000):
    x = torch.rand(2, n)
    close(loaded.run({"x": x.numpy()})["output"], module(x))


class Doubled(torch.nn.Module):
  def forward(self, x):
    return x * 2.0


def mul(b, x, factor):
  doubled = b.node("Mul", x, b.scalar(factor, b.dtype))
  return doubled if x.shape[0] > 2 else b.node("Add", doubled, doubled)  # wrong below 3


def large(b, x, factor):
  doubled = b.node("Mul", x, b.scalar(factor, b.dtype))
  return doubled if x.shape[0] < 3000 else b.node("Add", doubled, doubled)


def right(b, x, factor):
  return b.node("Mul", x, b.scalar(factor, b.dtype)) if x.shape[0] > 2 else b.node("Add", x, x)


@pytest.mark.parametrize("function, most, words", [
  (mul, None, "a graph for all of them gives other results with .* = [12];"),
  (large, None, "a graph for all of them gives other results with .* = 4099"),
  (large, 4000, "a graph for all of them gives other results with .* = 4000"),
  (right, None, None),
])
def test_sizes_with_other_operators_are_tried(tmp_path, monkeypatch, function, most, words):
  from stretto.aten import _table

  monkeypatch.setitem(_table.TABLE, "mul.Tensor", function)
  model = stretto.optimize(made(Doubled), torch.randn(7, 5), dynamic_shapes=(
    {0: Dim("n", max=most) if most else Dim("n")},), **QUICK)
  if words is None:
    model.save(tmp_path / "m.stretto")
    x = torch.randn(2, 5)
    close(stretto.load(tmp_path / "m.stretto").run({"x": x.numpy()})["output"], 2 * x)
  else:
    with pytest.raises(stretto.UnsupportedError, match=words):
      model.save(tmp_path / "m.stretto")
    assert not list(tmp_path.iterdir())


def test_folded_weights_are_those_of_the_file(tmp_path):
  module = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16, eps=0.7)).eval()
  module[1].running_var.uniform_(0.5, 1.5)
  x = torch.randn(2, 3, 9, 8)
  model = stretto.optimize(module, x, dynamic_shapes=({0: Dim("n")},), **QUICK)
  model.save(tmp_path / "m.stretto")
  close(next(iter(stretto.load(tmp_path / "m.stretto").run({"input": x.numpy()}).values())),
        module(x).detach())


class Experts(torch.nn.Module):
  """A product per expert, of rows that are sorted by their experts and put back in order."""

  def __init__(self):
    super().__init__()
    self.register_buffer("weights", torch.randn(4, 8, 12))

  def forward(self, x, scores):
    expert, order = scores.argmax(-1).sort()
    ends = torch.histc(expert.float(), bins=4, min=0, max=3).cumsum(0, dtype=torch.int32)
    y = torch.ops.transformers.grouped_mm_fallback(x[order], self.weights, ends)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.shape[0])
    return y[back]


def test_groups_of_rows_are_saved(tmp_path):
  import aten_cases_rare  # noqa: F401  registers what transformers calls

  module = made(Experts)
  rows = Dim("rows", min=2)
  model = stretto.optimize(module, (torch.randn(9, 8), torch.randn(9, 4)),
                           dynamic_shapes=({0: rows}, {0: rows}), **QUICK)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  for count in (9, 2, 40):
    x, scores = torch.randn(count, 8), torch.randn(count, 4)
    want = module(x, scores)
    close(model(x, scores), want)
    close(loaded.run({"x": x.numpy(), "scores": scores.numpy()})["output"], want)


class Looked(torch.nn.Module):
  def __init__(self):
    super().__init__()
    self.linear = torch.nn.Linear(40, 16)
    self.register_buffer("places", torch.arange(40).flip(0))

  def forward(self, x):
    return self.linear(x[:, self.places])


@pytest.mark.parametrize("change", [
  lambda module: module.linear.weight.data.mul_(1 + 1e-6),
  lambda module: module.linear.bias.data.__setitem__(3, 7),
  lambda module: module.places.data.__setitem__(3, 7),
])
def test_weights_changed_behind_pytorch_are_not_saved(tmp_path, change):
  module = made(Looked)
  model = stretto.optimize(module, torch.randn(2, 40), dynamic_shapes=({0: Dim("n")},), **QUICK)
  model.save(tmp_path / "before.stretto")
  change(module)
  with pytest.raises(stretto.UnsupportedError, match="weights of .* are not those"):
    model.save(tmp_path / "after.stretto")
  assert not (tmp_path / "after.stretto").exists()


def test_numbers_are_found_among_sizes():
  from stretto.aten._expressions import Expression, find

  a, b = Expression("size", ("a",)), Expression("size", ("b",))
  known = [(a, [3, 5, 8]), (b, [7, 2, 4])]
  assert find([6, 6, 6], known) == 6
  assert find([7, 2, 4], known) == b
  assert find([-4, -6, -9], known) == Expression("Add", (Expression("Mul", (a, -1)), -1))
  assert find([42, 20, 64], known) == Expression("Mul", (Expression("Mul", (a, b)), 2))
  assert find([3.0, 5.0, 8.0], known) == a
  assert find([3.5, 5.5, 8.5], known) is None
  assert find([float("inf"), 5.0, 8.0], known) is None
  assert math.isnan(find([float("nan")] * 3, known))
  assert find([3, 5, 9], known) is None
  assert find([True, False, True], known) is None


def test_a_size_that_is_the_sum_of_others(tmp_path):
  class Masked(torch.nn.Module):
    def forward(self, past, new, mask):
      return torch.cat([past, new]) * mask[:, None], mask.sum()

  module, open_ = Masked().eval(), Dim.DYNAMIC
  model = stretto.optimize(
    module, (torch.randn(5, 4), torch.randn(3, 4), torch.ones(8)),
    dynamic_shapes=({0: Dim("past")}, {0: Dim("new")}, {0: open_}), **QUICK)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  assert [spec.sizes for spec in loaded.inputs] == ["past:1..x4", "new:1..x4", "1.."]
  for past, new in ((5, 3), (1, 1), (7, 40)):
    given = torch.randn(past, 4), torch.randn(new, 4), torch.randn(past + new)
    got = loaded.run({spec.name: x.numpy() for spec, x in zip(loaded.inputs, given)})
    for value, same, want in zip(got.values(), model(*given), module(*given), strict=True):
      close(value, want)
      close(same, want)
  with pytest.raises(stretto.InvalidArgumentError, match="input 7 has 7 elements, 8x1 has 8"):
    loaded.run({"past": np.ones((5, 4), np.float32), "new": np.ones((3, 4), np.float32),
                "mask": np.ones(7, np.float32)})
