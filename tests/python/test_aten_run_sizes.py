"""Modules with sizes that only a run tells, against PyTorch."""

import functools

import pytest

torch = pytest.importorskip("torch")

from stretto.aten import _compile, _export  # noqa: E402
from stretto.aten._sizes import run_sizes  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import stretto  # noqa: E402


class Function(torch.nn.Module):
  def __init__(self, function):
    super().__init__()
    self.function = function

  def forward(self, *args):
    return self.function(*args)


def nonzero(x):
  return (x > 0).nonzero(), torch.where(x > 0.5)


def chosen(x, y):
  rows = x[x[:, 0] > 0]
  return rows @ y, x.masked_select(x > 0).exp(), x[x > 0] * 2, x.T[:, x[:, 1] > 0]


def kept_boxes(x, y):
  scores, places = x.max(-1)
  kept = scores > 0.3
  return x[kept], scores[kept], places[kept].float() * scores[kept]


def uniques(x, y):
  whole = (x * 2).round().long()
  values, inverse, counts = torch.unique(whole, return_inverse=True, return_counts=True)
  rows, places = torch.unique(whole.clamp(0, 1), dim=0, return_inverse=True)
  return values, inverse, counts, values[inverse], rows, places


def neighbours(x, y):
  flat = (x > 0).long().flatten()
  values, inverse, counts = torch.unique_consecutive(flat, return_inverse=True, return_counts=True)
  return values, inverse, counts


def repeated(x, y):
  counts = (x[:, 0] > 0).long() + 1
  return x.repeat_interleave(counts, 0), torch.repeat_interleave(counts)


def written(x, y):
  changed = x.clone()
  changed[x > 0] = x[x > 0] * 10
  rows = x.clone()
  rows[x[:, 0] > 0] = rows[x[:, 0] > 0] - 1
  one = x.clone()
  one[x[:, 0] > 0] = torch.arange(x.shape[1]).float()
  return changed, rows, one


def routed(x, y):
  """Experts that see their own tokens only."""
  result, choice = torch.zeros(x.shape[0], y.shape[1]), x.argmax(-1) % 2
  for expert in range(2):
    (places,) = torch.where(choice == expert)
    result = result.index_add(0, places, (x[places] @ y).relu() * (expert + 1))
  return result


def counted(x, y):
  n = (x[:, 0] > 0).sum().item()
  torch._check(n >= 0)
  torch._check(n <= x.shape[0])
  return torch.arange(n) * 2, torch.zeros(n, 3) + x.sum()


def normalised(x, y):
  rows = x[x[:, 0] > 0]
  return torch.softmax(rows, -1), rows.reshape(-1), rows.sum(0), torch.cat([rows, x]), rows[:, None]


FUNCTIONS = [chosen, kept_boxes, uniques, neighbours, repeated, written, routed, counted,
             normalised]


@functools.cache
def optimised(function, is_open):
  torch.manual_seed(3)
  rows = {0: Dim("rows", min=2, max=64)} if is_open else None
  return stretto.optimize(Function(function).eval(), (torch.randn(12, 4), torch.randn(4, 5)),
                          tuning="off", tuning_cache="none", threads=1,
                          dynamic_shapes=((rows, None),) if is_open else None)


def compare(got, expected):
  got, expected = pytree.tree_leaves(got), pytree.tree_leaves(expected)
  assert len(got) == len(expected)
  for g, e in zip(got, expected):
    assert g.dtype == e.dtype and g.shape == e.shape, (g.shape, e.shape)
    torch.testing.assert_close(g, e, rtol=2e-5, atol=2e-5)


def given(rows):
  """All kinds of counts: some rows, all of them, one, and none."""
  x, y = torch.randn(rows, 4), torch.randn(4, 5)
  one = -x.abs()
  one[1] = one[1].abs()
  return [(x, y), (torch.randn(rows, 4), y), (x.abs() + 0.6, y), (one, y), (-x.abs() - 0.1, y)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_in_pytorch(function):
  model = optimised(function, False)
  for inputs in given(12):
    compare(model(*inputs), function(*inputs))


@pytest.mark.parametrize("function", [chosen, routed, written, normalised],
                         ids=lambda f: f.__name__)
def test_with_open_sizes_too(function):
  model = optimised(function, True)
  for rows in (12, 5, 2, 33):
    for inputs in given(rows):
      compare(model(*inputs), function(*inputs))
  with pytest.raises(stretto.InvalidArgumentError, match="2..64x4, got 65x4"):
    model(torch.randn(65, 4), torch.randn(4, 5))


def test_one_argument():
  x = torch.randn(3, 4)
  model = stretto.optimize(Function(nonzero).eval(), x, tuning="off", tuning_cache="none")
  for given in (x, torch.zeros(3, 4), torch.ones(3, 4)):
    compare(model(given), nonzero(given))


def test_a_size_that_is_an_input():
  def first(x, n):
    count = n.item()
    torch._check(count >= 1)
    torch._check(count <= 6)
    return x[:count].mean(0), torch.ones(count) * 2

  x = torch.randn(6, 4)
  model = stretto.optimize(Function(first).eval(), (x, torch.tensor(3)), tuning="off",
                           tuning_cache="none")
  for n in (1, 3, 6):
    compare(model(x, torch.tensor(n)), first(x, torch.tensor(n)))


def test_artefact(tmp_path):
  model = optimised(chosen, False)
  model.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto")
  x, y = torch.randn(12, 4), torch.randn(4, 5)
  for got, expected in zip(loaded.run(x.numpy(), y.numpy()).values(), chosen(x, y)):
    torch.testing.assert_close(torch.from_numpy(got), expected)


def test_under_torch_compile():
  compiled = torch.compile(Function(routed).eval(), backend=_compile.backend,
                           options={"tuning": "off", "tuning_cache": "none"})
  with torch.no_grad():
    for inputs in given(12):
      compare(compiled(*inputs), routed(*inputs))


def test_two_masks_that_have_to_pick_out_equally_much():
  def both(x):
    return x[x[:, 0] > 0] + x[x[:, 0] <= 0]

  def rows(*signs):
    return torch.rand(len(signs), 4) * torch.tensor(signs)[:, None]

  x = rows(1, -1, -1, 1)
  model = stretto.optimize(Function(both).eval(), x, tuning="off", tuning_cache="none")
  for given in (x, rows(1, 1, -1, -1)):
    compare(model(given), both(given))
  with pytest.raises(stretto.Error):
    model(rows(1, 1, 1, 1))


def test_no_graph_for_all_sizes():
  def named(x):
    return x[x[:, 0] > 0].logcumsumexp(0)

  with pytest.raises(stretto.UnsupportedError, match="lacks 1 .*logcumsumexp.* depend on"):
    stretto.optimize(Function(named).eval(), torch.randn(4, 4), tuning="off")


def test_a_number_that_is_only_checked_is_no_size():
  def checked(x, lengths):
    torch._check(lengths.max().item() <= x.shape[1])
    return x * (torch.arange(x.shape[1]) < lengths[:, None])

  x, lengths = torch.randn(3, 5), torch.tensor([2, 5, 1])
  module = Function(checked).eval()
  program = _export.export(module, (x, lengths), {}, "Function")
  assert not run_sizes(program)
  model = stretto.optimize(module, (x, lengths), tuning="off", tuning_cache="none")
  assert torch.equal(model(x, lengths), checked(x, lengths))
