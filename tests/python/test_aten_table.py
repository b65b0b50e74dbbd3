"""Every row of the table of ATen operators against PyTorch itself."""

import functools

import pytest

torch = pytest.importorskip("torch")

import aten_cases  # noqa: E402
import closeness  # noqa: E402
from stretto.aten import _complex, _decompositions, _export, _table, _translate  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import stretto  # noqa: E402

# float32 sums and elementary functions in another order, relative to the largest value; matrix
# products of these sizes and Winograd's transforms stay below it too.
TOLERANCE = 2e-5


class Cases(torch.nn.Module):
  """One output per case."""

  def __init__(self, functions):
    super().__init__()
    self.functions = functions

  def forward(self, inputs):
    return {name: f(*inputs[name]) for name, f in self.functions.items()}


def difference(got, expected):
  """None where a tensor is what PyTorch says it is, otherwise why not."""
  if got.dtype != expected.dtype or got.shape != expected.shape:
    return f"{got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}"

  def array(x):
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()

  return closeness.difference(array(got), array(expected), TOLERANCE)


@functools.cache
def outcome(group):
  """What is wrong with the results of a group, and the rows of the table that it used."""
  print("seed", aten_cases.SEED)
  torch.manual_seed(aten_cases.SEED)
  cases = aten_cases.GROUPS[group]()
  names = [name for name, _, _ in cases]
  assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
  module = Cases({name: f for name, f, _ in cases}).eval()
  parts = [f for _, f, _ in cases if isinstance(f, torch.nn.Module)]
  module.parts = torch.nn.ModuleList(parts).eval()  # torch.export looks for their weights there
  inputs = {name: x for name, _, x in cases}
  used = set()

  def recorded(key, function):
    def build(*args, **kwargs):
      used.add(key)
      return function(*args, **kwargs)
    return build

  with pytest.MonkeyPatch.context() as patch:
    table = {key: recorded(key, function) for key, function in _table.TABLE.items()}
    patch.setattr(_translate, "TABLE", table)
    pairs = {key: recorded(f"complex {key}", function)
             for key, function in _complex.TABLE.items()}
    patch.setattr(_complex, "TABLE", pairs)
    apart = {key: recorded(f"taken apart {key}", function)
             for key, function in _decompositions.DECOMPOSITIONS.items()}
    patch.setattr(_export, "DECOMPOSITIONS", apart)
    model = stretto.optimize(module, (inputs,), tuning="off", tuning_cache="none", verify=False,
                             threads=1)
  expected, got = module(inputs), model(inputs)
  wrong = []
  for name in names:
    pairs = zip(pytree.tree_leaves(got[name]), pytree.tree_leaves(expected[name]))
    wrong += [f"{name}: {why}" for g, e in pairs if (why := difference(g, e))]
  return wrong, used


@pytest.mark.parametrize("group", aten_cases.GROUPS)
def test_cases_agree_with_pytorch(group):
  wrong, _ = outcome(group)
  assert not wrong, "\n".join(wrong)


def test_every_row_is_used_by_a_case():
  used = set().union(*(outcome(group)[1] for group in aten_cases.GROUPS))
  unused = sorted(set(_table.TABLE) - used)
  unused += sorted({f"complex {key}" for key in _complex.TABLE} - used)
  unused += sorted({f"taken apart {key}" for key in _decompositions.DECOMPOSITIONS} - used)
  assert not unused, " ".join(unused)
