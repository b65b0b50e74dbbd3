"""Modules with dynamic shapes: `stretto.optimize(module, inputs, dynamic_shapes=...)`."""

import threading

import numpy as np
import pytest

import stretto

torch = pytest.importorskip("torch")
if not hasattr(torch.export, "default_decompositions"):
  pytest.skip("this PyTorch is too old to optimise modules", allow_module_level=True)

Dim = torch.export.Dim
QUICK = {"tuning": "off", "progress": False}


class Encoder(torch.nn.Module):
  """Reshapes by its input's sizes, and makes positions of its length."""

  def __init__(self):
    super().__init__()
    self.project = torch.nn.Linear(16, 16)
    self.layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)

  def forward(self, x, scale: float = 1.0):
    batch, length, width = x.shape
    y = self.project(x).reshape(batch * length, width).relu().view(batch, length, width)
    positions = torch.arange(length, dtype=torch.float32)[None, :, None]
    return {"y": self.layer(y * scale) + positions, "mean": x.mean(1)}


def encoder():
  torch.manual_seed(0)
  return Encoder().eval()


def close(got, expected):
  torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_other_shapes_run_and_are_right():
  module = encoder()
  model = stretto.optimize(module, torch.randn(3, 7, 16), dynamic_shapes=({0: Dim("batch", max=64),
                           1: Dim("length", min=2, max=512)},), **QUICK)
  assert model.inputs[0].shape == (3, 7, 16)
  assert model.inputs[0].sizes == "batch:1..64xlength:2..512x16"
  for shape in ((3, 7, 16), (1, 2, 16), (8, 100, 16), (3, 7, 16), (2, 9, 16)):
    x = torch.randn(shape)
    with torch.no_grad():
      got, expected = model(x), module(x)
    close(got["y"], expected["y"])
    close(got["mean"], expected["mean"])


def test_weights_are_shared():
  module = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).eval()
  model = stretto.optimize(module, torch.randn(32, 512), dynamic_shapes=({0: Dim("n", max=256)},),
                           threads=1, **QUICK)
  session = model._session
  for n in (33, 64, 200):
    close(model(torch.ones(n, 512)), module(torch.ones(n, 512)).detach())
    other = model._variants.of([torch.ones(n, 512)]).session
    assert other is not session
    assert other.shared_weight_bytes == session.shared_weight_bytes


@pytest.mark.parametrize("shape, words", [
  ((65, 7, 16), "input x: expected shape .*1..64x.*, got 65x7x16"),
  ((3, 1, 16), "got 3x1x16"), ((3, 7, 17), "got 3x7x17"), ((3, 7), "got 3x7"),
])
def test_what_is_not_allowed_is_refused(shape, words):
  model = stretto.optimize(encoder(), torch.randn(3, 7, 16), dynamic_shapes=(
    {0: Dim("batch", max=64), 1: Dim("length", min=2, max=512)},), **QUICK)
  with pytest.raises(stretto.InvalidArgumentError, match=words):
    model(torch.zeros(shape))


def test_one_dimension_of_two_inputs():
  class Add(torch.nn.Module):
    def forward(self, a, b):
      return a + b

  n = Dim("n", max=9)
  model = stretto.optimize(Add().eval(), (torch.ones(3, 2), torch.ones(3, 2)),
                           dynamic_shapes=({0: n}, {0: n}), **QUICK)
  assert model(torch.ones(5, 2), torch.ones(5, 2)).shape == (5, 2)
  with pytest.raises(stretto.InvalidArgumentError, match="dimensions of one name are equal"):
    model(torch.ones(5, 2), torch.ones(4, 2))


class Nested(torch.nn.Module):
  def forward(self, parts, *, scale, shift):
    return parts["left"] @ parts["both"][0] * scale + shift


def test_names_of_dimensions_in_containers():
  given = {"left": torch.randn(2, 3), "both": [torch.randn(3, 4)]}
  rows, columns = Dim("rows", max=9), Dim("columns", max=8)
  model = stretto.optimize(
    Nested().eval(), (given,), kwargs={"shift": torch.ones(2, 1), "scale": torch.ones(4)},
    dynamic_shapes={"parts": {"left": {0: rows}, "both": [(None, columns)]}, "scale": (columns,),
                    "shift": {0: rows}}, **QUICK)
  assert {spec.name: spec.sizes for spec in model.inputs} == {
    "parts_left": "rows:1..9x3", "parts_both_0": "3xcolumns:1..8", "scale": "columns:1..8",
    "shift": "rows:1..9x1"}


def test_a_dimension_may_be_computed_from_another(tmp_path):
  module, length = torch.nn.AvgPool1d(2).eval(), Dim("length", min=2, max=50)
  model = stretto.optimize(module, torch.randn(3, 8), dynamic_shapes=({1: 2 * length},), **QUICK)
  for n in (8, 4, 100):
    x = torch.randn(3, n)
    close(model(x), module(x))
  for n in (2, 7, 102):
    with pytest.raises(stretto.InvalidArgumentError, match=f"expected shape 3x2.length.*got 3x{n}"):
      model(torch.randn(3, n))
  with pytest.raises(stretto.UnsupportedError, match=r"dimension 2\*length .* is computed"):
    model.save(tmp_path / "m.stretto")


def test_convolutions_of_any_size():
  torch.manual_seed(1)
  module = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
    torch.nn.MaxPool2d(2), torch.nn.Conv2d(8, 16, 3), torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(), torch.nn.Linear(16, 4)).eval()
  model = stretto.optimize(module, torch.randn(2, 3, 32, 40), dynamic_shapes=(
    {0: Dim("n", max=16), 2: Dim("h", min=16, max=64), 3: Dim("w", min=16, max=64)},), **QUICK)
  for shape in ((1, 3, 16, 16), (3, 3, 33, 47), (2, 3, 64, 20)):
    x = torch.randn(shape)
    close(model(x), module(x).detach())


def test_an_exported_program_brings_its_shapes():
  module = encoder()
  program = torch.export.export(module, (torch.randn(3, 7, 16),), dynamic_shapes=(
    {0: Dim("batch", max=64)},))
  model = stretto.optimize(program, torch.randn(3, 7, 16), **QUICK)
  x = torch.randn(5, 7, 16)
  close(model(x)["y"], module(x)["y"].detach())
  with pytest.raises(stretto.InvalidArgumentError, match="dynamic_shapes: an exported program has"):
    stretto.optimize(program, dynamic_shapes=({0: Dim("batch")},), **QUICK)


def test_a_half_precision_module_keeps_its_weights():
  module = torch.nn.Linear(256, 256).half().eval()
  model = stretto.optimize(module, torch.ones(64, 256).half(), dynamic_shapes=({0: Dim("n")},),
                           **QUICK)
  before = model._session.shared_weight_bytes
  x = torch.randn(100, 256).half()
  torch.testing.assert_close(model(x), module(x).detach(), rtol=1e-2, atol=1e-2)
  assert model._session.shared_weight_bytes == before


def test_dynamic_shapes_are_for_modules(cnn_path):
  with pytest.raises(stretto.InvalidArgumentError, match="dynamic_shapes: only a PyTorch module"):
    stretto.optimize(cnn_path, dynamic_shapes=({0: 1},), tuning="off")


def test_many_shapes_and_callers_at_once():
  module = encoder()
  model = stretto.optimize(module, torch.randn(3, 7, 16),
                           dynamic_shapes=({0: Dim("batch", max=64)},), threads=1, **QUICK)
  failures = []

  def call(first):
    try:
      for batch in range(first, 25, 2):
        x = torch.full((batch, 7, 16), 0.1 * batch)
        with torch.no_grad():
          np.testing.assert_allclose(model(x)["mean"], module(x)["mean"], rtol=1e-4)
    except Exception as error:  # noqa: BLE001
      failures.append(error)

  threads = [threading.Thread(target=call, args=(first,)) for first in (1, 2, 1)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert not failures


class Ranks(torch.nn.Module):
  def forward(self, x):
    return {"most": x.cummax(0)[0], "middle": x.median(0)[0], "usual": torch.mode(x, 1)[0]}


def test_rare_operators_with_open_sizes():
  """And a scan along an open size is refused: for another size it would take other steps."""
  model = stretto.optimize(Ranks().eval(), torch.randn(4, 6),
                           dynamic_shapes=({1: Dim("n", min=2, max=20)},), **QUICK)
  for size in (6, 2, 9):
    x = torch.randn(4, size).round(decimals=1)
    got = model(x)
    for name, value in Ranks()(x).items():
      close(got[name], value)
  with pytest.raises(stretto.UnsupportedError, match="aten.cummax"):
    stretto.optimize(Ranks().eval(), torch.randn(4, 6),
                     dynamic_shapes=({0: Dim("n", min=2, max=20)},), **QUICK)
