"""PyTorch modules from end to end: what stretto.optimize makes of them, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import aten_modules  # noqa: E402
from stretto.aten import _conversions  # noqa: E402
from torch import nn  # noqa: E402

import stretto  # noqa: E402

SEED = 20261126
# Several float32 layers, each with sums in another order than PyTorch's, relative to the largest
# value.
TOLERANCE = 1e-4


def optimized(module, inputs, **options):
  options = {"tuning": "off", "tuning_cache": "none", "threads": 1, **options}
  return stretto.optimize(module, inputs, **options)


def assert_close(got, expected):
  assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
  assert not got.requires_grad
  expected = expected.detach()
  assert (got - expected).abs().max() <= TOLERANCE * expected.abs().max().clamp(1e-3)


def randomised(module):
  """With running statistics and weights that are not those of a fresh module."""
  torch.manual_seed(SEED)
  for part in module.modules():
    if isinstance(part, nn.BatchNorm2d):
      nn.init.uniform_(part.running_mean, -1, 1)
      nn.init.uniform_(part.running_var, 0.5, 2)
      nn.init.uniform_(part.weight, 0.5, 2)
  return module.eval()


class Scaled(nn.Module):
  def __init__(self):
    super().__init__()
    self.linear = nn.Linear(4, 3)

  def forward(self, x, scale=None):
    y = self.linear(x)
    return y if scale is None else y * scale


@pytest.fixture(scope="module")
def scaled():
  torch.manual_seed(SEED)
  module = Scaled().eval()
  return module, optimized(module, torch.zeros(2, 4))


@pytest.mark.parametrize("name", aten_modules.MODULES)
def test_modules_agree_with_pytorch(name):
  print("seed", SEED)
  make, inputs = aten_modules.MODULES[name]
  torch.manual_seed(SEED)
  module = randomised(make())
  args = tuple(f() for f in inputs)
  model = optimized(module, args)
  again = tuple(torch.randn_like(a) if a.is_floating_point() and len(args) == 1 else a
                for a in args)
  for given in (args, again):
    with torch.no_grad():
      expected, got = module(*given), model(*given)
    if isinstance(expected, tuple):
      assert isinstance(got, tuple) and len(got) == len(expected)
      for g, e in zip(got, expected):
        assert_close(g, e)
    else:
      assert_close(got, expected)


def test_containers_and_keywords():
  torch.manual_seed(SEED)
  module = aten_modules.Containers().eval()
  batch = {"x": torch.randn(2, 4)}
  pair = (torch.randn(3), torch.arange(4))
  mask = torch.tensor([True, False, True])
  model = optimized(module, (batch, pair), kwargs={"mask": mask, "scale": 2.0})
  got = model(batch, pair, scale=2.0, mask=mask)
  expected = module(batch, pair, scale=2.0, mask=mask)
  assert list(got) == list(expected) == ["logits", "parts", "count", "nothing"]
  assert_close(got["logits"], expected["logits"])
  assert isinstance(got["parts"], list) and isinstance(got["parts"][1], tuple)
  assert_close(got["parts"][0], expected["parts"][0])
  assert torch.equal(got["parts"][1][0], pair[1])
  assert got["parts"][1][0].data_ptr() != pair[1].data_ptr()  # a new tensor, not the input
  assert got["count"] == 3 and got["nothing"] is None
  assert [spec.name for spec in model.outputs][:1] == ["logits"]
  with pytest.raises(stretto.InvalidArgumentError, match=r"argument scale: .*2\.0, got 3\.0"):
    model(batch, pair, scale=3.0, mask=mask)
  with pytest.raises(stretto.InvalidArgumentError, match="expected arguments as the module"):
    model({"y": batch["x"]}, pair, scale=2.0, mask=mask)


def test_arguments_by_name_and_by_position(scaled):
  module, model = scaled
  x = torch.randn(2, 4)
  assert_close(model(x=x), module(x))
  both = optimized(module, x, kwargs={"scale": torch.tensor(2.0)})
  assert_close(both(x, torch.tensor(3.0)), 3 * module(x))
  assert_close(both(scale=torch.tensor(3.0), x=x), 3 * module(x))
  with pytest.raises(stretto.InvalidArgumentError, match="unexpected keyword argument 'y'"):
    both(x, y=x)


def test_inputs_as_a_dictionary(scaled):
  module, _ = scaled
  x = torch.randn(2, 4)
  model = optimized(module, {"x": x})
  assert_close(model(x=x), module(x))


def test_what_the_model_is(scaled, tmp_path):
  module, model = scaled
  x = torch.randn(2, 4)
  assert isinstance(model, stretto.Model) and model.name == "Scaled"
  assert [(s.name, s.dtype, s.shape) for s in model.inputs] == [("x", "float32", (2, 4))]
  assert [s.name for s in model.outputs] == ["output"]
  assert model.report["model"]["format"] == "pytorch"
  assert model.report["model"]["producer"].startswith("pytorch 2")
  assert model.report["model"]["opset"] is None and model.report["model"]["file"] is None
  assert model.report["inputs"][0]["source"] == "user"
  assert any(row["node"].startswith("linear") for row in model.report["operators"])
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto", verify=True)
  np.testing.assert_allclose(loaded(x.numpy()), model(x).numpy(), rtol=1e-6)
  assert list(model.run({"x": x.numpy()})) == ["output"]


def test_numpy_arrays_and_strided_tensors(scaled):
  module, model = scaled
  x = torch.randn(4, 2).t()
  assert not x.is_contiguous()
  assert_close(model(x), module(x))
  assert_close(model(x.numpy()), module(x))


def test_outputs_are_new_each_time(scaled):
  _, model = scaled
  x = torch.randn(2, 4)
  first = model(x)
  kept = first.clone()
  model(torch.randn(2, 4))
  assert torch.equal(first, kept)


def test_weights_that_change_later_do_not_change_the_model():
  torch.manual_seed(SEED)
  module = aten_modules.Embedder().eval()
  ids = torch.randint(0, 20, (2, 8))
  model = optimized(module, ids)
  expected = model(ids)
  with torch.no_grad():
    for parameter in module.parameters():
      parameter.zero_()
  assert torch.equal(model(ids), expected)
  del module
  assert torch.equal(model(ids), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
  torch.manual_seed(SEED)
  module = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).eval()
  x = torch.randn(3, 16)
  half = module.to(dtype)
  model = optimized(half, x.to(dtype))
  got = model(x.to(dtype))
  assert got.dtype == dtype
  exact = half.float()(x.to(dtype).float())
  # One rounding to the output's type; the rest was float32.
  assert (got.float() - exact).abs().max() <= torch.finfo(dtype).eps * exact.abs().max()
  assert any("float32" in note for note in model.report["notes"])


def test_weights_that_are_not_dense_rows():
  torch.manual_seed(SEED)
  module = nn.Linear(6, 4).eval()
  module.weight = nn.Parameter(torch.randn(6, 4).t())
  conv = nn.Conv2d(8, 4, 3).eval().to(memory_format=torch.channels_last)
  x, y = torch.randn(3, 6), torch.randn(1, 8, 6, 6).to(memory_format=torch.channels_last)
  assert_close(optimized(module, x)(x), module(x))
  assert_close(optimized(conv, y)(y), conv(y))


def test_exported_programs():
  torch.manual_seed(SEED)
  module = aten_modules.ResidualBlock().eval()
  x = torch.randn(1, 8, 8, 8)
  program = torch.export.export(module, (x,))
  model = optimized(program, None)
  assert_close(model(x), module(x))


# What is refused.


def refused(module, inputs, **options):
  with pytest.raises(stretto.Error) as error:
    optimized(module, inputs, **options)
  return error.type, str(error.value)


def test_training_mode_is_refused():
  module = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).eval()
  module[1].train()
  kind, text = refused(module, torch.zeros(1, 4))
  assert kind is stretto.InvalidArgumentError
  assert "Sequential.1 (Dropout) is in training mode; call module.eval()" in text


def test_a_module_that_converts_its_parts_when_it_runs():
  class Router(nn.Module):
    def __init__(self):
      super().__init__()
      self.classifier = nn.Linear(4, 3)

    def forward(self, x):
      self.classifier = self.classifier.to(x.dtype)
      return self.classifier.float()(x).softmax(-1)

  module, x = randomised(Router()), torch.randn(2, 4)
  assert_close(optimized(module, x)(x), module(x))
  apply = nn.Module._apply
  with pytest.raises(stretto.UnsupportedError, match="swap Linear.weight"):
    optimized(module, x.bfloat16())
  assert nn.Module._apply is apply
  one, other = _conversions.idle_conversions(), _conversions.idle_conversions()
  one.__enter__()
  other.__enter__()  # of another thread, which goes on longer
  one.__exit__(None, None, None)
  assert nn.Module._apply is not apply
  other.__exit__(None, None, None)
  assert nn.Module._apply is apply


def test_torchscript_is_refused_by_name():
  script = torch.jit.script(nn.Linear(4, 4).eval())
  for module, name in ((script, "RecursiveScriptModule"),
                       (nn.Sequential(script).eval(), "Sequential.0")):
    kind, text = refused(module, torch.zeros(1, 4))
    assert kind is stretto.UnsupportedError
    assert text.startswith(f"{name}: torch.export takes no TorchScript; give the module"), text


class Unknown(nn.Module):
  def forward(self, x):
    return torch.linalg.svdvals(x) + torch.linalg.eigvalsh(x)


def test_all_missing_operators_are_named_with_their_lines():
  kind, text = refused(Unknown().eval(), torch.randn(3, 3))
  assert kind is stretto.UnsupportedError
  assert "aten._linalg_svd.default" in text and "aten._linalg_eigh.default" in text
  assert "test_aten_modules.py:" in text


class Branching(nn.Module):
  def forward(self, x):
    return x if x.sum() > 0 else -x


def test_modules_that_cannot_be_traced():
  kind, text = refused(Branching().eval(), torch.zeros(3))
  assert kind is stretto.UnsupportedError and "Branching: the module decides by the values" in text
  assert 'torch.compile(module, backend="stretto")' in text


class Masked(nn.Module):
  def forward(self, x):
    return x[x > 0].sum()


def test_sizes_may_depend_on_values():
  model = optimized(Masked().eval(), torch.ones(3))
  for x in (torch.ones(3), torch.tensor([1.0, -1, 2]), -torch.ones(3)):
    assert torch.equal(model(x), Masked()(x))


@pytest.mark.parametrize("options, text", [
  ({"shapes": {"x": [1, 4]}}, "shapes"), ({"peers": ["onnxruntime"]}, "peers")])
def test_options_for_files_only(options, text):
  assert text in refused(Scaled().eval(), torch.zeros(1, 4), **options)[1]


def test_example_inputs_are_in_main_memory():
  assert "got one on meta" in refused(Scaled().eval(), torch.zeros(1, 4, device="meta"))[1]


def test_a_module_needs_inputs():
  assert "example inputs" in refused(Scaled().eval(), None)[1]


@pytest.mark.parametrize("given, text", [
  (lambda: (torch.zeros(3, 4),), r"input x: expected shape \[2, 4\], got \[3, 4\]"),
  (lambda: (torch.zeros(2, 4).double(),), "input x: expected torch.float32, got torch.float64"),
  (lambda: (torch.zeros(2, 4, requires_grad=True),), "input x requires gradients.*no_grad"),
  (lambda: ([[1.0] * 4] * 2,), "input x: expected a tensor, got list"),
  (lambda: ("x",), "input x: expected a tensor, got str"),
  (lambda: (torch.zeros(2, 4).to_sparse(),), "input x: expected a dense tensor"),
  (lambda: (torch.zeros(2, 4, device="meta"),), "input x: expected a dense tensor"),
  (lambda: (), "missing a required argument: 'x'")])
def test_wrong_arguments(scaled, given, text):
  with pytest.raises(stretto.InvalidArgumentError, match=text):
    scaled[1](*given())


def test_gradients_are_fine_where_they_are_not_recorded(scaled):
  module, model = scaled
  x = torch.randn(2, 4, requires_grad=True)
  with torch.no_grad():
    assert_close(model(x), module(x))
  with torch.inference_mode():
    assert_close(model(x), module(x))


def test_stretto_imports_without_torch():
  code = "import sys, stretto; assert 'torch' not in sys.modules; print(stretto.__version__)"
  subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("part, words", [
  (lambda x: x[:, ::2], "gaps in its memory"),
  (lambda x: x[1:], "beyond the tensor itself"),
])
def test_memory_outside_of_a_tensor_is_refused(part, words):
  class Strided(nn.Module):
    def forward(self, x):
      return part(x + 1).as_strided((2, 2), (1, 2), 0)

  kind, text = refused(Strided().eval(), torch.zeros(5, 4))
  assert kind is stretto.UnsupportedError
  assert words in text


def test_what_is_no_operator_is_refused_by_what_it_does():
  class Eigenvalues(nn.Module):
    def forward(self, x):
      return torch.linalg.eigh(x)

  class Size(nn.Module):
    def forward(self, x):
      return x + 1, x.shape[1]

  assert "linalg_eigh" in refused(Eigenvalues().eval(), torch.eye(3))[1]
  length = torch.export.Dim("length", min=4, max=64)
  kind, text = refused(Size().eval(), torch.ones(2, 5), dynamic_shapes=({1: length},))
  assert kind is stretto.UnsupportedError
  assert "returns a size that is open" in text


class Itself(nn.Module):
  def forward(self, x, y):
    return {"x": x, "y": y + 1, "again": x}


def test_results_are_new_tensors_even_of_arguments():
  model = optimized(Itself().eval(), (torch.zeros(3), torch.zeros(3)))
  x = torch.randn(3)
  got = model(x, torch.zeros(3))
  assert torch.equal(got["x"], x) and torch.equal(got["again"], x)
  got["x"].zero_()
  assert x.abs().sum() > 0 and torch.equal(got["again"], x)
