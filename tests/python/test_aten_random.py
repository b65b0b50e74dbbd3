"""Modules that draw random numbers: the distributions of what they draw, and where it is done."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stretto.aten import _random  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import stretto  # noqa: E402

MANY = 100_000
ATEN = torch.ops.aten


class Drawn(torch.nn.Module):
  def __init__(self, function):
    super().__init__()
    self.function = function

  def forward(self, x):
    return self.function(x)


def optimized(function, x, **options):
  model = stretto.optimize(Drawn(function).eval(), x, **{"tuning": "off", "tuning_cache": "none",
                                                         "threads": 1, "verify": False, **options})
  return model


# What it draws for MANY elements, and the mean and the standard deviation of a function of them.
CASES = {
  "rand": (lambda x: torch.rand(x.shape), None, 0.5, 12 ** -0.5),
  "rand_like": (lambda x: torch.rand_like(x), None, 0.5, 12 ** -0.5),
  "rand float64": (lambda x: torch.rand(MANY, dtype=torch.float64), None, 0.5, 12 ** -0.5),
  "rand half": (lambda x: torch.rand(MANY, dtype=torch.bfloat16).float(), None, 0.5, 12 ** -0.5),
  "randn": (lambda x: torch.randn(MANY), None, 0, 1),
  "randn squared": (lambda x: torch.randn(MANY), torch.square, 1, 2 ** 0.5),
  "randn_like": (lambda x: torch.randn_like(x), None, 0, 1),
  "normal_": (lambda x: x.clone().normal_(3, 2), None, 3, 2),
  "uniform_": (lambda x: x.clone().uniform_(-1, 3), None, 1, 4 * 12 ** -0.5),
  "bernoulli": (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), None, 0.3, 0.21 ** 0.5),
  "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.3), None, 0.3, 0.21 ** 0.5),
  "dropout": (lambda x: F.dropout(x + 1, 0.25, True), None, 1, (1 / 0.75 - 1) ** 0.5),
  "dropout all": (lambda x: F.dropout(x + 1, 1.0, True), None, 0, 1e-9),
  "dropout of channels": (lambda x: F.dropout1d(x[None, :, None] + 1, 0.25, True), None, 1,
                          (1 / 0.75 - 1) ** 0.5),
  "alpha dropout": (lambda x: F.alpha_dropout(torch.randn_like(x), 0.2, True), None, 0, 1),
  "randint": (lambda x: torch.randint(-3, 9, (MANY,)), None, 2.5, (143 / 12) ** 0.5),
  "randint below": (lambda x: torch.randint(7, (MANY,)), None, 3, 2),
  "randint_like": (lambda x: torch.randint_like(x, 2, 7), None, 4, 2 ** 0.5),
  "randint_like below": (lambda x: torch.randint_like(x, 7), None, 3, 2),
  "rand generator": (lambda x: torch.rand(MANY, generator=None), None, 0.5, 12 ** -0.5),
  "randn generator": (lambda x: torch.randn(MANY, generator=None), None, 0, 1),
  "randint generator": (lambda x: torch.randint(7, (MANY,), generator=None), None, 3, 2),
  "randint low generator": (lambda x: torch.randint(-1, 6, (MANY,), generator=None), None, 2, 2),
  "rand_like generator": (lambda x: ATEN.rand_like.generator(x, generator=None), None, 0.5,
                          12 ** -0.5),
  "randn_like generator": (lambda x: ATEN.randn_like.generator(x, generator=None), None, 0, 1),
  "randint_like generator": (lambda x: ATEN.randint_like.generator(x, 7, generator=None), None, 3,
                             2),
  "randint_like low generator": (lambda x: ATEN.randint_like.low_generator_dtype(
    x, 2, 9, generator=None), None, 5, 2),
  "exponential_": (lambda x: torch.empty_like(x).exponential_(2.0), None, 0.5, 0.5),
  "cauchy_": (lambda x: x.clone().cauchy_(1.0, 2.0), lambda y: (y < -1).double(), 0.25,
              0.1875 ** 0.5),
  "log_normal_": (lambda x: x.clone().log_normal_(0.5, 0.25), torch.log, 0.5, 0.25),
  "geometric_": (lambda x: x.clone().geometric_(0.25), None, 4, 12 ** 0.5),
  "normal tensors": (lambda x: torch.normal(x + 2, x + 3), None, 2, 3),
  "normal tensor": (lambda x: torch.normal(x + 2, 3.0), None, 2, 3),
  "normal around": (lambda x: torch.normal(2.0, x + 3), None, 2, 3),
  "Normal": (lambda x: torch.distributions.Normal(x + 2, x + 3, validate_args=False).rsample(),
             None, 2, 3),
  "multinomial again": (lambda x: torch.multinomial(torch.tensor([1.0, 0, 3]), MANY, True), None,
                        1.5, 0.75 ** 0.5),
  "multinomial of rows": (lambda x: torch.multinomial(
    torch.tensor([1.0, 0, 3]).expand(MANY, 3), 1), None, 1.5, 0.75 ** 0.5),
  "Categorical": (lambda x: torch.distributions.Categorical(
    logits=torch.tensor([0.0, math.log(3)]).expand(MANY, 2), validate_args=False).sample(), None,
    0.75, 0.1875 ** 0.5),
  "gumbel_softmax": (lambda x: F.gumbel_softmax(
    torch.tensor([0.0, math.log(3)]).expand(MANY, 2), hard=True)[:, 1], None, 0.75,
    0.1875 ** 0.5),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_have_their_distribution(case):
  function, of, mean, deviation = CASES[case]
  x = torch.zeros(MANY)
  model = optimized(function, x)
  y = model(x)
  expected = function(x)
  assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
  values = y.double() if of is None else of(y.double())
  assert abs(values.mean().item() - mean) < 5.5 * deviation / MANY ** 0.5
  if deviation > 1e-6:
    assert not torch.equal(model(x), y)


def test_ranges_and_values_are_pytorchs():
  x = torch.zeros(MANY)
  whole = optimized(lambda x: (torch.randint(-3, 2, (MANY,)), x.clone().geometric_(0.9),
                               torch.rand_like(x), F.dropout(x + 3, 0.25, True)), x)(x)
  assert set(whole[0].tolist()) == {-3, -2, -1, 0, 1}
  assert whole[1].min() == 1 and torch.equal(whole[1], whole[1].round())
  assert whole[2].min() >= 0 and whole[2].max() < 1
  assert set(whole[3].tolist()) == {0, 4}


def test_permutations_and_samples_without_replacement():
  weights = torch.tensor([[1.0, 2, 0, 4], [1, 1, 1, 1]])
  model = optimized(lambda w: (torch.randperm(50), torch.multinomial(w, 3)), weights)
  orders, samples = zip(*(model(weights) for _ in range(200)))
  assert all(sorted(order.tolist()) == list(range(50)) for order in orders)
  assert len({tuple(order.tolist()) for order in orders}) == 200
  firsts = np.mean([sample[0, 0].item() == 3 for sample in samples])
  assert abs(firsts - 4 / 7) < 0.2
  for sample in samples:
    assert set(sample[0].tolist()) == {0, 1, 3} and len(set(sample[1].tolist())) == 3


class Sampled(torch.nn.Module):
  """An auto-encoder that samples between its halves."""

  def __init__(self):
    super().__init__()
    self.encode, self.decode = torch.nn.Linear(6, 8), torch.nn.Linear(4, 6)

  def forward(self, x):
    mean, log_variance = self.encode(x).chunk(2, -1)
    latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
    return self.decode(latent), mean


def test_an_auto_encoder_is_verified_saved_and_written(tmp_path):
  torch.manual_seed(3)
  module, x = Sampled().eval(), torch.randn(5, 6)
  batch = torch.export.Dim("batch", max=64)
  options = {"tuning": "off", "tuning_cache": "none", "threads": 1}
  model = stretto.optimize(module, x, dynamic_shapes=({0: batch},), **options)
  assert model.report["errors"]
  for size in (5, 1, 9):
    x = torch.randn(size, 6)
    with torch.no_grad():
      mean = module(x)[1]
    assert torch.allclose(model(x)[1], mean, atol=1e-5)
    assert not torch.equal(model(x)[0], model(x)[0])
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  name = loaded.inputs[0].name
  assert loaded.run({name: x.numpy()})[loaded.outputs[0].name].shape == (9, 6)
  stretto.convert(module, tmp_path / "m.onnx", (x,), dynamic_shapes=({0: batch},))
  ort = pytest.importorskip("onnxruntime")
  session = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
  for size in (1, 7):
    x = torch.randn(size, 6)
    drawn, mean = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
      assert np.allclose(mean, module(x)[1].numpy(), atol=1e-5)
    assert drawn.shape == (size, 6)


def test_a_compiled_module_follows_the_seed_of_pytorch():
  from stretto.aten._compile import backend

  torch.manual_seed(3)
  module, x = Sampled().eval(), torch.randn(5, 6)
  compiled = torch.compile(module, backend=backend)
  with torch.no_grad():
    torch.manual_seed(8)
    expected = module(x)
    torch.manual_seed(8)
    got = compiled(x)
  for a, b in zip(got, expected):
    assert torch.allclose(a, b, atol=1e-5)


def test_every_row_is_drawn_by_a_case(monkeypatch):
  from stretto.aten import _translate

  used = set()

  def recorded(key, function):
    def build(*args, **kwargs):
      used.add(key)
      return function(*args, **kwargs)
    return build

  table = {key: recorded(key, function) if key in _random.TABLE else function
           for key, function in _translate.TABLE.items()}
  monkeypatch.setattr(_translate, "TABLE", table)
  x = torch.zeros(MANY)
  functions = [case[0] for case in CASES.values()]
  functions += [lambda x: torch.randperm(5), lambda x: torch.randperm(5, generator=None)]
  optimized(lambda x: [f(x) for f in functions], x)
  assert set(_random.TABLE) <= used, set(_random.TABLE) - used
