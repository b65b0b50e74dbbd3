"""torch.cond in modules."""

import pytest

torch = pytest.importorskip("torch")

from stretto.aten import _compile  # noqa: E402
from torch import nn  # noqa: E402

import stretto  # noqa: E402

SEED = 20261129
TOLERANCE = 1e-4  # of sums of five products in float32, and a few operators after them
OPTIONS = {"tuning": "off", "tuning_cache": "none", "threads": 1, "verify": False}


class Branches(nn.Module):
  """Several results, a condition of one dimension, and branches in a branch."""

  def __init__(self):
    super().__init__()
    self.left, self.right = nn.Linear(5, 5), nn.Linear(5, 5)

  def forward(self, x):
    y, z = torch.cond(x.sum() > 0, lambda v: (self.left(v).relu(), v + 1),
                      lambda v: (self.right(v).tanh() - 1, v * v.sin()), (x,))

    def inner(y, z):
      return torch.cond(z.max() > 2, lambda q: q * 2, lambda q: q / 2, (y,))

    return {"y": torch.cond((y.mean() > 0).reshape(1), inner, lambda y, z: y - z, (y, z)), "z": z}


@pytest.fixture
def module():
  print("seed", SEED)
  torch.manual_seed(SEED)
  torch._dynamo.reset()
  return Branches().eval()


def check(function, module, rows=(3,)):
  for count in rows:
    for shift in (-3, -0.5, 0, 0.5, 3):
      x = torch.randn(count, 5) + shift
      with torch.no_grad():
        got, expected = function(x), module(x)
      assert got.keys() == expected.keys()
      for name, value in expected.items():
        assert (got[name] - value).abs().max() <= TOLERANCE * value.abs().max().clamp(1e-3)


def test_the_condition_chooses(module):
  check(stretto.optimize(module, torch.zeros(3, 5), progress=False, **OPTIONS), module)


def test_branches_of_open_sizes(module):
  rows = torch.export.Dim("rows", min=2, max=9)
  model = stretto.optimize(module, torch.zeros(3, 5), dynamic_shapes=({0: rows},), progress=False,
                           **OPTIONS)
  check(model, module, (3, 2, 9))


def test_branches_of_compiled_modules(module):
  made = []

  def backend(program, examples):
    made.append(_compile.Compiled(program, examples, OPTIONS))
    return made[-1]

  check(torch.compile(module, backend=backend), module)
  assert [len(program.current.parts) for program in made] == [1]
  assert not made[0].current.left
