"""torch's scan, map and while_loop in modules."""

import pytest

torch = pytest.importorskip("torch")

from stretto.aten import _compile  # noqa: E402
from torch import nn  # noqa: E402

import stretto  # noqa: E402

higher = pytest.importorskip("torch._higher_order_ops")
SEED = 20261130
TOLERANCE = 1e-4  # of some products and sums of five numbers in float32
OPTIONS = {"tuning": "off", "tuning_cache": "none", "threads": 1, "verify": False}


class Scan(nn.Module):
  """A recurrent cell whose weights are the module's, backwards, with a branch in its body."""

  def __init__(self):
    super().__init__()
    self.cell = nn.Linear(5, 5)

  def forward(self, x):
    def step(state, row):
      state = torch.cond(row.sum() > 0, lambda s: s.sin(), lambda s: -s, (state,))
      state = (self.cell(state) + row).tanh()
      return state, state * 2
    last, rows = higher.scan(step, x.new_zeros(5), x, dim=0, reverse=True)
    return last, rows


class Map(nn.Module):
  def forward(self, x):
    return higher.map(lambda row, whole: (row * whole.sum(0), row.amax()), x, x * 2)


class Count(nn.Module):
  """while_loop whose counter is a constant."""

  def forward(self, x):
    _, y = higher.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 0.5 + i),
                             (torch.tensor(0), x))
    return y


class Until(nn.Module):
  """while_loop that ends when its values say so."""

  def forward(self, x):
    return higher.while_loop(lambda y: y.sum() < 9, lambda y: (y + 1,), (x,))[0]


MODULES = [Scan, Map, Count]


def check(function, module, rows=(3,)):
  for count in rows:
    for shift in (-1, 0, 1):
      x = torch.randn(count, 5) + shift
      with torch.no_grad():
        got, expected = function(x), module(x)
      got = got if isinstance(got, (list, tuple)) else [got]
      expected = expected if isinstance(expected, (list, tuple)) else [expected]
      assert len(got) == len(expected)
      for g, e in zip(got, expected):
        assert g.shape == e.shape
        assert (g - e).abs().max() <= TOLERANCE * e.abs().max().clamp(1e-3)


@pytest.fixture(autouse=True)
def seeded():
  print("seed", SEED)
  torch.manual_seed(SEED)
  torch._dynamo.reset()


@pytest.mark.parametrize("kind", MODULES)
def test_loops_are_unrolled(kind):
  module = kind().eval()
  check(stretto.optimize(module, torch.zeros(3, 5), progress=False, **OPTIONS), module)


def test_loops_of_one_turn_and_of_none():
  for kind in (Scan, Map):
    module = kind().eval()
    check(stretto.optimize(module, torch.zeros(1, 5), progress=False, **OPTIONS), module, (1,))


def test_loops_over_open_sizes_of_other_axes():
  """The number of turns is fixed, and the rows are not."""
  columns = torch.export.Dim("columns", min=2, max=9)
  model = stretto.optimize(Map().eval(), torch.zeros(3, 5), dynamic_shapes=({1: columns},),
                           progress=False, **OPTIONS)
  for size in (5, 2):
    x = torch.randn(3, size)
    for got, expected in zip(model(x), Map()(x)):
      assert torch.allclose(got, expected)


def test_loops_that_only_a_run_ends_are_refused_by_name():
  with pytest.raises(stretto.UnsupportedError, match=r"lacks 1 of .*: while_loop at "):
    stretto.optimize(Until().eval(), torch.zeros(3, 5), progress=False, **OPTIONS)


@pytest.mark.parametrize("kind", [*MODULES, Until])
def test_loops_of_compiled_modules(kind):
  made = []

  def backend(program, examples):
    made.append(_compile.Compiled(program, examples, OPTIONS))
    return made[-1]

  module = kind().eval()
  check(torch.compile(module, backend=backend), module)


class Late(nn.Module):
  """A loop behind many layers, each of which uses the one before twice."""

  def forward(self, x):
    for _ in range(300):
      x = x * 0.5 + x.sin()
    return higher.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + 1),
                             (torch.tensor(0), x))[1]


def test_what_stands_before_a_loop_is_looked_at_once():
  x = torch.rand(3, 4)
  fast = stretto.optimize(Late().eval(), (x,), tuning="off", threads=1)
  torch.testing.assert_close(fast(x), Late()(x), rtol=TOLERANCE, atol=TOLERANCE)
