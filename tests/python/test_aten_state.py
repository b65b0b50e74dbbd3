"""PyTorch modules that change buffers or arguments when they run."""

import copy
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stretto.aten import _compile  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import stretto  # noqa: E402

SEED = 20261129
OPTIONS = {"tuning": "off", "tuning_cache": "none", "threads": 1}
CALLS = 4


class Counting(nn.Module):
  """Changes a buffer and its argument in place."""

  def __init__(self):
    super().__init__()
    self.register_buffer("calls", torch.zeros(()))

  def forward(self, x):
    self.calls.add_(1)
    x.mul_(2)
    return x + self.calls


class Stream(nn.Module):
  """A convolution over time that goes on from chunk to chunk. It puts new tensors in the place of
  its buffers, one of which belongs to a part of it."""

  def __init__(self):
    super().__init__()
    self.conv = nn.Conv1d(8, 8, 5)
    self.register_buffer("past", torch.zeros(1, 8, 4), persistent=False)
    self.inner = nn.Module()
    self.inner.register_buffer("chunks", torch.zeros(1, dtype=torch.int64))

  def forward(self, x):
    x = torch.cat([self.past, x], -1)
    self.past = x[..., -4:]
    self.inner.chunks += 1
    return {"y": self.conv(x).relu(), "chunks": self.inner.chunks}


class Cache(nn.Module):
  """Attention to keys in a cache of fixed size."""

  def __init__(self):
    super().__init__()
    self.project = nn.Linear(16, 16)
    self.register_buffer("keys", torch.zeros(1, 2, 16, 8))

  def forward(self, x, place):
    key = self.project(x).view(1, -1, 2, 8).transpose(1, 2)
    self.keys.index_copy_(2, place, key)
    return torch.softmax(key @ self.keys.transpose(-1, -2), -1)


CASES = {Counting: lambda i: (torch.randn(3),), Stream: lambda i: (torch.randn(1, 8, 10),),
         Cache: lambda i: (torch.randn(1, 1, 16), torch.tensor([i]))}


@pytest.fixture(autouse=True)
def seeded():
  print("seed", SEED)
  torch.manual_seed(SEED)
  torch._dynamo.reset()


@pytest.fixture(params=CASES, ids=lambda kind: kind.__name__)
def modules(request):
  """Two of them, and arguments by the number of the call."""
  module = request.param().eval()
  return module, copy.deepcopy(module), CASES[request.param]


def optimized(module, inputs, **options):
  return stretto.optimize(module, inputs, **{**OPTIONS, **options})


def assert_close(got, expected):
  got, expected = pytree.tree_leaves(got), pytree.tree_leaves(expected)
  assert [(x.dtype, x.shape) for x in got] == [(x.dtype, x.shape) for x in expected]
  for x, y in zip(got, expected):
    torch.testing.assert_close(x.detach(), y.detach(), rtol=1e-4, atol=1e-4)


def assert_same_calls(fast, module, buffers, arguments):
  """Several calls give the same results, buffers and arguments."""
  for i in range(CALLS):
    given = arguments(i)
    mine = copy.deepcopy(given)
    assert_close(fast(*mine), module(*given))
    assert_close(mine, given)
    assert_close(buffers(), list(module.buffers()))


def test_buffers_and_arguments_are_changed(modules):
  module, other, arguments = modules
  before = copy.deepcopy(list(other.buffers()))
  fast = optimized(other, arguments(0))
  assert_close(list(other.buffers()), before)  # until it is called
  assert_same_calls(fast, module, lambda: list(other.buffers()), arguments)


def test_programs_have_their_own_buffers(modules):
  module, other, arguments = modules
  program = torch.export.export(other, arguments(0))
  fast = optimized(program, None)
  tensors = {**program.state_dict, **program.constants}
  names = [name for name, _ in module.named_buffers()]
  assert_same_calls(fast, module, lambda: [tensors[name] for name in names], arguments)


def test_the_caller_may_change_buffers_between_calls():
  module = Counting().eval()
  fast = optimized(module, torch.zeros(3))
  fast(torch.zeros(3))
  module.calls.fill_(10)
  assert fast(torch.zeros(3)).tolist() == [11, 11, 11]
  module.calls = torch.tensor(20.0)  # another tensor
  assert fast(torch.zeros(3)).tolist() == [21, 21, 21] and module.calls == 21
  module.calls = torch.zeros(2)
  with pytest.raises(stretto.InvalidArgumentError, match=r"calls_in: expected shape \[\]"):
    fast(torch.zeros(3))


def test_arrays_are_changed_too():
  x = np.ones(3, np.float32)
  assert optimized(Counting().eval(), torch.zeros(3))(x).tolist() == [3, 3, 3]
  assert x.tolist() == [2, 2, 2]


def test_half_precision_keeps_its_type():
  module = Counting().eval().bfloat16()
  fast = optimized(module, torch.zeros(3, dtype=torch.bfloat16))
  x = torch.ones(3, dtype=torch.bfloat16)
  assert fast(x).dtype == x.dtype == module.calls.dtype == torch.bfloat16
  assert module.calls == 1 and x.tolist() == [2, 2, 2]


def assert_same_in_a_context(path, module, lengths):
  """What a file of Stream gives, chunk after chunk, is what the module gives."""
  model = stretto.load(path)
  context = model.context()
  for length in lengths:
    x = torch.randn(1, 8, length)
    results = dict(zip(context.outputs, model(x.numpy(), context=context)))
    expected = module(x)
    assert_close(torch.from_numpy(results["y"]), expected["y"])
    assert results["chunks"] == expected["chunks"]


def test_open_sizes(tmp_path):
  module = Stream().eval()
  fresh, other = copy.deepcopy(module), copy.deepcopy(module)
  fast = optimized(other, torch.randn(1, 8, 10),
                   dynamic_shapes={"x": {2: torch.export.Dim("time", min=5, max=64)}})
  assert [spec.sizes is None for spec in fast.inputs] == [True, True, False]
  assert_same_calls(fast, module, lambda: list(other.buffers()),
                    lambda i: (torch.randn(1, 8, 10 + 7 * i),))
  fast.save(tmp_path / "m.stretto")
  # The file begins with zeros, whatever the module has seen.
  assert_same_in_a_context(tmp_path / "m.stretto", fresh, (10, 5, 64, 23))


def test_files_carry_the_state_in_a_context(tmp_path):
  module = Stream().eval()
  fast = optimized(copy.deepcopy(module), torch.randn(1, 8, 10))
  assert [spec.name for spec in fast.inputs] == ["past_in", "inner.chunks_in", "x"]
  assert [spec.name for spec in fast.outputs] == ["past_out", "inner.chunks_out", "y", "chunks"]
  fast.save(tmp_path / "m.stretto")
  assert_same_in_a_context(tmp_path / "m.stretto", module, [10] * CALLS)


def test_onnx_has_the_state_as_inputs_and_outputs(tmp_path):
  module = Counting().eval()
  stretto.convert(module, tmp_path / "m.onnx", inputs=torch.zeros(3))
  assert module.calls == 0
  model = stretto.optimize(tmp_path / "m.onnx", **OPTIONS)
  results = model.run({"calls_in": np.float32(4), "x": np.ones(3, np.float32)})
  assert {name: array.tolist() for name, array in results.items()} == {
    "calls_out": 5, "x_changed": [2, 2, 2], "output": [7, 7, 7]}


class Adding(nn.Module):
  def forward(self, x, y):
    x.add_(y)
    return y * 2


def test_arguments_that_share_memory_are_refused_where_one_is_changed():
  fast = optimized(Adding().eval(), (torch.zeros(3), torch.zeros(3)))
  x = torch.arange(3.0)
  with pytest.raises(stretto.InvalidArgumentError, match="Adding: x.*y share memory"):
    fast(x, x.view(3))
  assert x.tolist() == [0, 1, 2]
  assert fast(x, torch.ones(3)).tolist() == [2, 2, 2] and x.tolist() == [1, 2, 3]


def test_threads_take_turns():
  """Those of two models of one module, too."""
  module = Counting().eval()
  models = [optimized(module, torch.zeros(3)) for _ in range(2)]
  threads = [threading.Thread(target=lambda f=f: [f(torch.zeros(3)) for _ in range(100)])
             for f in models * 2]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert module.calls == 400


# Buffers that get another tensor.


class Delay(nn.Module):
  """Each buffer becomes what was in the one before it."""

  def __init__(self):
    super().__init__()
    self.register_buffer("a", torch.zeros(3))
    self.register_buffer("b", torch.ones(3))

  def forward(self, x):
    self.b = self.a
    self.a = x
    return self.b * 2


class Swap(Delay):
  def forward(self, x):
    self.a, self.b = self.b, self.a
    return self.a + x


class Parts(nn.Module):
  """They belong to parts of it, one of which is used twice."""

  def __init__(self):
    super().__init__()
    self.conv_in, self.swap = Delay(), Swap()

  def forward(self, x):
    return self.conv_in(x) + self.conv_in(2 * x) + self.swap(x)


@pytest.mark.parametrize("kind", [Delay, Swap, Parts])
def test_buffers_get_other_tensors(kind):
  module = kind().eval()
  other = copy.deepcopy(module)
  fast = optimized(other, torch.zeros(3))
  assert type(other) is kind
  assert_same_calls(fast, module, lambda: list(other.buffers()), lambda i: (torch.randn(3),))


def test_contexts_find_the_state_of_parts(tmp_path):
  module = Parts().eval()
  model = optimized(module, torch.zeros(3))
  assert any("conv_in.b is not all zeros" in note for note in model.notes)
  model.save(tmp_path / "m.stretto")
  context = stretto.load(tmp_path / "m.stretto").context()
  assert context.inputs == ["x"] and context.outputs == ["output"]


class Typed(nn.Module):
  def __init__(self, buffer, new):
    super().__init__()
    self.register_buffer("kept", buffer)
    self.new = new

  def forward(self, x):
    self.kept = self.new(self.kept, x)
    return self.kept * 2


@pytest.mark.parametrize("buffer, new, text", [
  (torch.zeros(3, dtype=torch.int64), lambda kept, x: kept + 0.5, r"torch.float32\[3\]"),
  (torch.zeros(3), lambda kept, x: kept.sum(0, keepdim=True), r"torch.float32\[1\]"),
  (torch.zeros(3), lambda kept, x: torch.cat([kept, x]), r"torch.float32\[6\]")])
def test_shapes_and_types_of_buffers_stay(buffer, new, text):
  for module, path in ((Typed(buffer, new), "kept"),
                       (nn.Sequential(Typed(buffer, new)), "0.kept")):
    with pytest.raises(stretto.UnsupportedError, match=f"puts {text} .* its buffer {path}, which"):
      optimized(module.eval(), torch.zeros(3))


class Plain(nn.Module):
  """Has a tensor that is no buffer."""

  def __init__(self, forward):
    super().__init__()
    self.plain = torch.zeros(3)
    self.rule = forward

  def forward(self, x):
    return self.rule(self, x)


def written_in_place(module, x):
  module.plain.add_(x)
  return module.plain * 2


def replaced(module, x):
  module.plain = module.plain + x
  return module.plain * 2


def noted(module, x):
  module.plain = x * 2  # for whoever wants to look at it
  return module.plain + 1


@pytest.mark.parametrize("rule", [written_in_place, replaced])
def test_plain_tensors_that_are_state_are_named(rule):
  with pytest.raises(stretto.UnsupportedError, match="plain.*buffer"):
    optimized(Plain(rule).eval(), torch.zeros(3))


def cast(module, x):
  module.plain = module.plain.detach().type_as(x)  # which is of this type
  return module.plain + x + 2


@pytest.mark.parametrize("rule", [noted, cast])
def test_plain_tensors_may_be_set(rule):
  assert optimized(Plain(rule).eval(), torch.zeros(3))(torch.ones(3)).tolist() == [3, 3, 3]


class Cast(Counting):
  def forward(self, x):
    self.calls = self.calls.detach().type_as(x)
    return x + self.calls


def test_buffers_that_stay_what_they_are_stay_constants():
  for module in (Cast(), nn.Sequential(Cast())):
    assert len(optimized(module.eval(), torch.zeros(3)).inputs) == 1


class Twice(nn.Module):
  """A buffer that lies in a weight."""

  def __init__(self):
    super().__init__()
    self.linear = nn.Linear(3, 3)
    self.register_buffer("row", self.linear.weight.detach()[0])

  def forward(self, x):
    self.row.add_(1)
    return self.linear(x)


def test_state_that_lies_in_a_weight_is_refused():
  with pytest.raises(stretto.UnsupportedError, match="row.*linear.weight"):
    optimized(Twice().eval(), torch.zeros(3))


# What cannot be written to.


@pytest.mark.parametrize("make, text", [
  (lambda: np.zeros(3, np.float32), None),
  (lambda: np.frombuffer(bytes(12), np.float32), "x, which the module changes, is read-only"),
  (lambda: torch.zeros(1).expand(3), "x, which the module changes, is expanded"),
  (lambda: np.zeros(3, object), "input x"), (lambda: 3.0, "input x: expected a tensor"),
  (lambda: torch.zeros(3).to_sparse(), "input x: expected a dense tensor")])
def test_nothing_is_changed_where_something_cannot_be(make, text):
  module = Counting().eval()
  fast = optimized(module, torch.zeros(3))
  if text is None:
    fast(make())
  else:
    with pytest.raises(stretto.InvalidArgumentError, match=text):
      fast(make())
  assert module.calls == (text is None)


def test_tensors_of_inference_mode():
  module = Counting().eval()
  fast = optimized(module, torch.zeros(3))
  with torch.inference_mode():
    x = torch.zeros(3)
    fast(x)
  with pytest.raises(stretto.InvalidArgumentError, match="inference_mode"):
    fast(x)
  assert module.calls == 1


def test_a_buffer_that_is_gone_is_named():
  module = Counting().eval()
  fast = optimized(module, torch.zeros(3))
  module.calls = None
  with pytest.raises(stretto.InvalidArgumentError, match="Counting: its buffer calls is None"):
    fast(torch.zeros(3))


def test_parts_of_one_array():
  fast = optimized(Adding().eval(), (torch.zeros(3), torch.zeros(3)))
  array = np.arange(6, dtype=np.float32)
  with pytest.raises(stretto.InvalidArgumentError, match="share memory"):
    fast(array[:3], array[1:4])
  fast(array[:3], array[3:])
  fast(array[2::-1], array[3:])
  assert array.tolist() == [8, 9, 10, 3, 4, 5]


# torch.compile


@pytest.fixture
def programs(monkeypatch):
  made = []

  class Program(_compile.Compiled):
    def __init__(self, *args):
      super().__init__(*args)
      made.append(self)

  monkeypatch.setattr(_compile, "Compiled", Program)
  return made


def compiled(module):
  return torch.compile(module, backend=_compile.backend, options={**OPTIONS, "verify": False})


def test_compiled_modules_change_the_same(modules, programs):
  module, other, arguments = modules
  with torch.no_grad():
    assert_same_calls(compiled(other), module, lambda: list(other.buffers()), arguments)
  program, = programs
  assert program.current.function is not None and program.current.left == []
  made = program.made.copy()
  with torch.no_grad():
    compiled(other)(*arguments(0))
  assert program.made == made, "one that changes at each call is an input at last"


def test_weights_that_are_set_anew_stay_constants(programs):
  module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
  fast = compiled(module)
  x = torch.randn(1, 3, 8, 8)
  for _ in range(4):
    with torch.no_grad():
      for tensor in module.state_dict().values():
        tensor.add_(1)
      assert_close(fast(x), module(x))
  part, = programs[0].current.parts
  assert len(part.inputs) == 1


class Passing(nn.Module):
  """Returns its arguments as they are, and one that it changes."""

  def forward(self, x, y):
    y.add_(1)
    return x, y, x * y


def test_compiled_results_that_are_arguments(programs):
  fast = compiled(Passing())
  x, y = torch.ones(3), torch.ones(3)
  with torch.no_grad():
    first, second, product = fast(x, y)
  assert first is x and second is y
  assert y.tolist() == [2, 2, 2] and product.tolist() == [2, 2, 2]
  assert programs[0].current.function is not None


def test_compiled_arguments_that_share_memory(programs):
  fast = compiled(Adding())
  with torch.no_grad():
    assert fast(torch.zeros(3), torch.ones(3)).tolist() == [2, 2, 2]
    x = torch.arange(3.0)
    assert fast(x, x.view(3)).tolist() == [0, 4, 8] and x.tolist() == [0, 2, 4]


class Weighted(nn.Module):
  def __init__(self):
    super().__init__()
    self.register_buffer("weight", torch.ones(3))

  def forward(self, x):
    x.add_(1)
    return x * self.weight


def test_compiled_arguments_that_lie_in_a_weight(programs):
  module = Weighted()
  fast = compiled(module)
  with torch.no_grad():
    assert fast(torch.zeros(3)).tolist() == [1, 1, 1]
    assert fast(module.weight.view(3)).tolist() == [4, 4, 4]
