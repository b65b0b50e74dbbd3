"""Every row of the table of ATen operators against PyTorch itself: run, and written to an ONNX file
that a peer runs."""

import functools
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

import aten_cases  # noqa: E402
import closeness  # noqa: E402
import written_onnx  # noqa: E402
from stretto.aten import (  # noqa: E402
  _complex,
  _decompositions,
  _export,
  _random,
  _table,
  _translate,
)
from torch.utils import _pytree as pytree  # noqa: E402

import stretto  # noqa: E402
from stretto import aten  # noqa: E402

# float32 sums and elementary functions in another order, relative to the largest value; matrix
# products of these sizes and Winograd's transforms stay below it too.
TOLERANCE = 2e-5
# Groups that no peer runs to the end: ONNX Runtime has no Cosh of float64, no Where of bfloat16,
# and an Erf of float64 with the digits of float32; onnx's evaluator fails in transposed
# convolutions with groups and in paddings that cut.
READ_AGAIN = {"complex_functions", "taken_apart", "factorised"}
# ONNX Runtime's transform of lengths that are no power of two loses so much in float32.
LONG_TRANSFORM = 1e-3
HALVES = {torch.float16: written_onnx.HALF_TOLERANCES[written_onnx.TensorProto.FLOAT16],
          torch.bfloat16: written_onnx.HALF_TOLERANCES[written_onnx.TensorProto.BFLOAT16]}


class Cases(torch.nn.Module):
  """One output per case."""

  def __init__(self, functions):
    super().__init__()
    self.functions = functions

  def forward(self, inputs):
    return {name: f(*inputs[name]) for name, f in self.functions.items()}


def as_array(tensor, widened=(torch.bfloat16,)):
  """Complex numbers as pairs, and types of 16 bits that are widened as float32."""
  tensor = tensor.detach()
  if tensor.is_complex():
    tensor = torch.view_as_real(tensor.resolve_conj())
  return (tensor.float() if tensor.dtype in widened else tensor).numpy()


def difference(got, expected):
  """None where a tensor is what PyTorch says it is, otherwise why not."""
  if got.dtype != expected.dtype or got.shape != expected.shape:
    return f"{got.dtype}{list(got.shape)} instead of {expected.dtype}{list(expected.shape)}"
  return closeness.difference(as_array(got), as_array(expected), TOLERANCE)


def run_written(path, group, inputs):
  """The results of the file at `path`, in order, and the names of its outputs."""
  model = written_onnx.checked(path)
  tensors = [t for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor)]
  feeds = {v.name: as_array(t, HALVES) for v, t in zip(model.graph.input, tensors, strict=True)}
  names = [v.name for v in model.graph.output]
  if group in READ_AGAIN:
    read = stretto.optimize(str(path), inputs=feeds, tuning="off", verify=False).run(feeds)
    return [read[name] for name in names], names
  try:
    return written_onnx.run_peer(path, feeds), names
  except Exception as error:
    if "NOT_IMPLEMENTED" not in str(error):
      raise
    # ONNX Runtime has no kernel for some type: the reference evaluator has all.
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(model).run(None, feeds), names


def wrong_in_file(path, group, inputs, expected):
  wrong = []
  tensors = [t for t in pytree.tree_leaves(expected) if isinstance(t, torch.Tensor)]
  for got, name, want in zip(*run_written(path, group, inputs), tensors, strict=True):
    tolerance = HALVES.get(want.dtype, written_onnx.TOLERANCE)
    if name.startswith("long "):
      tolerance = LONG_TRANSFORM
    if why := written_onnx.difference(got, as_array(want, HALVES), tolerance):
      wrong.append(f"{name}: {why}")
  return wrong


class Outcome(NamedTuple):
  wrong: list[str]  # what differs from PyTorch
  used: set[str]  # rows of the table
  wrong_in_file: list[str]


@functools.cache
def outcome(group):
  """Of a group. Its module is traced once, for running and for writing: that takes longest."""
  print("seed", aten_cases.SEED)
  torch.manual_seed(aten_cases.SEED)
  cases = aten_cases.GROUPS[group]()
  names = [name for name, _, _ in cases]
  assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
  module = Cases({name: f for name, f, _ in cases}).eval()
  parts = [f for _, f, _ in cases if isinstance(f, torch.nn.Module)]
  module.parts = torch.nn.ModuleList(parts).eval()  # torch.export looks for their weights there
  inputs = {name: x for name, _, x in cases}
  expected = module(inputs)
  used = set()

  def recorded(key, function):
    def build(*args, **kwargs):
      used.add(key)
      return function(*args, **kwargs)
    return build

  with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
    table = {key: recorded(key, function) for key, function in _table.TABLE.items()}
    patch.setattr(_translate, "TABLE", table)
    pairs = {key: recorded(f"complex {key}", function)
             for key, function in _complex.TABLE.items()}
    patch.setattr(_complex, "TABLE", pairs)
    apart = {key: recorded(f"taken apart {key}", function)
             for key, function in _decompositions.DECOMPOSITIONS.items()}
    patch.setattr(_export, "DECOMPOSITIONS", apart)
    traced = aten._traced_module(module, (inputs,), None, None)
    patch.setattr(aten, "_traced_module", lambda *_: traced)
    model = stretto.optimize(module, (inputs,), tuning="off", tuning_cache="none", verify=False,
                             threads=1)
    got = model(inputs)
    path = Path(folder, "cases.onnx")
    stretto.convert(module, path, (inputs,))
    in_file = wrong_in_file(path, group, inputs, expected)
  wrong = []
  for name in names:
    pairs = zip(pytree.tree_leaves(got[name]), pytree.tree_leaves(expected[name]))
    wrong += [f"{name}: {why}" for g, e in pairs if (why := difference(g, e))]
  return Outcome(wrong, used, in_file)


@pytest.mark.parametrize("group", aten_cases.GROUPS)
def test_cases_agree_with_pytorch(group):
  wrong = outcome(group).wrong
  assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("group", aten_cases.GROUPS)
def test_files_agree_with_pytorch(group):
  wrong = outcome(group).wrong_in_file
  assert not wrong, "\n".join(wrong)


def test_every_row_is_used_by_a_case():
  used = set().union(*(outcome(group).used for group in aten_cases.GROUPS))
  unused = sorted(set(_table.TABLE) - set(_random.TABLE) - used)  # test_aten_random.py
  unused += sorted({f"complex {key}" for key in _complex.TABLE} - used)
  unused += sorted({f"taken apart {key}" for key in _decompositions.DECOMPOSITIONS} - used)
  assert not unused, " ".join(unused)
