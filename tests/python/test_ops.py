"""stretto.ops: operators one by one, from arrays of NumPy and PyTorch."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import stretto
from stretto import ops

SEED = 11
# fp32 sums of a few hundred products in another order, relative to the largest value.
TOLERANCE = 2e-5


@pytest.fixture
def rng():
  return np.random.default_rng(SEED)


@pytest.fixture
def context():
  return ops.Context(threads=2, tuning_cache="none")


def normal(rng, *shape):
  return rng.standard_normal(shape).astype(np.float32)


def assert_near(got, want, tolerance=TOLERANCE):
  got, want = np.asarray(got), np.asarray(want)
  assert got.shape == want.shape and got.dtype == want.dtype
  assert np.abs(got - want).max() <= tolerance * np.abs(want).max()


# --- what comes and goes


def test_arrays_come_out_as_they_went_in(context, rng):
  torch = pytest.importorskip("torch")
  x = normal(rng, 3, 5)
  y = context.Relu(x)
  assert isinstance(y, np.ndarray) and np.array_equal(y, np.maximum(x, 0))
  z = context.Relu(torch.from_numpy(x))
  assert isinstance(z, torch.Tensor) and torch.equal(z, torch.from_numpy(y))
  assert z.requires_grad is False
  half = context.Add(torch.ones(4, dtype=torch.bfloat16), torch.ones(4, dtype=torch.bfloat16))
  assert half.dtype == torch.bfloat16 and half.tolist() == [2] * 4


def test_lists_are_what_numpy_makes_of_them(context):
  assert context.Relu([[0.5, -1.5]]).tolist() == [[0.5, 0]]
  assert context.Neg([np.float32(0.5)]).tolist() == [-0.5]
  assert context.Neg([1, 2]).dtype == np.int64
  a = np.ones((2, 2), np.float32)
  for call in (lambda: context.Concat([a, a], axis=0), lambda: context.Max([a, a])):
    with pytest.raises(stretto.InvalidArgumentError, match="inputs are given one by one"):
      call()
  with pytest.raises(stretto.InvalidArgumentError, match="one by one"):
    context.Concat(inputs=[a, a], axis=0)
  assert context.Relu(a, outputs=None, opset=None).shape == (2, 2)


def test_results_go_to_the_given_array_or_nowhere(context, tmp_path):
  x = np.full((3, 2), -1, np.float32)
  file = np.memmap(tmp_path / "m", np.float32, "w+", shape=(2, 3))
  for out in (file.T, np.zeros((2, 3), np.float32).view(np.matrix).T):
    with pytest.raises(stretto.InvalidArgumentError, match="out"):
      context.Neg(x, out=out)
  out = np.memmap(tmp_path / "n", np.float32, "w+", shape=(3, 2))
  context.Neg(x, out=out)
  assert (np.asarray(out) == 1).all()


def test_results_go_to_arrays_of_ml_dtypes(context):
  ml_dtypes = pytest.importorskip("ml_dtypes")
  x = np.array([1.5, -2], np.float32)
  for name in ("bfloat16", "float8_e4m3fn"):
    out = np.zeros(2, getattr(ml_dtypes, name))
    assert context.Cast(x, to=name, out=out) is out
    assert out.astype(np.float32).tolist() == [1.5, -2]
    out.flags.writeable = False
    with pytest.raises(ValueError, match="Cast: out 0: the array is read-only"):
      context.Cast(x, to=name, out=out)
  with pytest.raises(ValueError, match="Cast: out 0: element type int4 is not one that results"):
    context.Cast(x, to="int4", out=np.zeros(2, ml_dtypes.int4))
  with pytest.raises(ValueError, match="Cast: out 0: the array is not C-contiguous"):
    context.Cast(x, to="bfloat16", out=np.zeros(4, ml_dtypes.bfloat16)[::2])


def test_pytorch_hears_that_out_was_written(context):
  torch = pytest.importorskip("torch")
  x = torch.ones(2, requires_grad=True)
  y = torch.ones(2)
  product = x * y  # the gradient needs this y
  before = y._version
  context.Neg(torch.ones(2), out=y)
  assert y._version > before
  with pytest.raises(RuntimeError, match="modified by an inplace operation"):
    product.sum().backward()


def test_results_of_constants_are_of_their_framework(context, rng):
  torch = pytest.importorskip("torch")
  constant = ops.constant(torch.ones(3))
  assert isinstance(context.Relu(constant), torch.Tensor)
  assert isinstance(context.Add(constant, np.ones(3, np.float32)), np.ndarray)
  assert len(context.Split(normal(rng, 2, 4), ops.constant(np.array([1, 1])))) == 2


def test_constants_have_to_be_made(context):
  class Other(ops.Constant):
    def __init__(self, values):
      self.values = values

  with pytest.raises(stretto.InvalidArgumentError, match=r"call super\(\).__init__"):
    context.Relu(Other(3))


def test_a_constant_does_not_keep_what_every_call_makes():
  resource = pytest.importorskip("resource")
  context = ops.Context(threads=1, tuning_cache="none", capacity=4)
  weights = ops.constant(np.ones((512, 1024), np.float32))
  peaks = []
  for i in range(120):
    context.Mul(weights, float(i) + 0.5)
    if i in (59, 119):
      peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
  assert peaks[1] - peaks[0] < 60 * 1024, peaks  # 2 MB each would be 120 MB; KiB


def test_results_belong_to_the_caller(context, rng):
  torch = pytest.importorskip("torch")
  for make in (lambda a: a, torch.from_numpy):
    for size in (4, 40_000):  # large results of NumPy lie within larger arrays
      first = context.Neg(make(np.full(size, 1, np.float32)))
      second = context.Neg(make(np.full(size, 2, np.float32)))
      gc.collect()
      assert (np.asarray(first) == -1).all() and (np.asarray(second) == -2).all()


@pytest.mark.parametrize("view", ["transposed", "strided", "reversed", "unaligned", "scalar",
                                  "empty", "fortran"])
def test_arrays_may_lie_in_any_way(context, rng, view):
  a = normal(rng, 6, 8)
  x = {"transposed": a.T, "strided": a[::2, 1::3], "reversed": a[::-1], "scalar": a[0, 0, None][0:1]
       .reshape(()), "empty": a[:0], "fortran": np.asfortranarray(a),
       "unaligned": np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32)}[view]
  assert np.array_equal(context.Neg(x), -x)
  torch = pytest.importorskip("torch")
  if view not in ("reversed", "unaligned"):  # PyTorch has no such views
    t = torch.from_numpy(x.copy() if view == "scalar" else x)
    assert torch.equal(context.Neg(t), -t)


def test_other_arrays_are_taken(context):
  assert np.array_equal(context.Neg(np.float32(3)), np.float32(-3))
  big_endian = np.arange(4, dtype=">f4")
  assert np.array_equal(context.Neg(big_endian), -np.arange(4, dtype=np.float32))
  read_only = np.arange(4, dtype=np.float32)
  read_only.flags.writeable = False
  assert np.array_equal(context.Neg(read_only), -read_only)
  ml_dtypes = pytest.importorskip("ml_dtypes")
  assert np.array_equal(context.Cast(np.array([1.5, -2], ml_dtypes.float8_e4m3fn), to="float32"),
                        [1.5, -2])
  assert np.array_equal(context.Cast(np.array([3, -2], ml_dtypes.int4), to=np.int32), [3, -2])


def test_numbers_take_the_type_of_the_arrays(context):
  x = np.array([-1, 0.5, 9], np.float32)
  assert context.Add(x, 1).dtype == np.float32
  assert np.array_equal(context.Clip(x, 0, max=6.0), [0, 0.5, 6])
  assert np.array_equal(context.Mul(np.array([1, 2], np.int32), 3), np.array([3, 6], np.int32))
  assert np.array_equal(context.Reshape(x, [3, 1]), x[:, None])
  assert np.array_equal(context.Slice(x, [1], [3]), x[1:])
  assert np.array_equal(context.Gather(x, [2, 0]), x[[2, 0]])
  assert np.array_equal(context.Range(0, 6, 2), [0, 2, 4])
  assert np.array_equal(context.Resize(x.reshape(1, 1, 3), scales=[1.0, 1.0, 2.0])[0, 0],
                        np.repeat(x, 2))


def test_numbers_take_the_type_of_the_inputs_that_share_it(context):
  x = np.array([-1, 0.5, 9], np.float32)
  condition = x > 0
  assert context.Where(condition, x, 0).dtype == np.float32
  assert context.Where(condition, 0, x).tolist() == [-1, 0, 0]
  assert context.Where(condition, 1, 0).dtype == np.int64
  assert context.Where(condition, 1, 0.5).tolist() == [0.5, 1, 1]
  assert context.Where(condition, x.astype(np.float16), 2.5).dtype == np.float16
  assert np.array_equal(context.Range(0, 1.0, .25), np.arange(0, 1, .25, np.float32))
  assert context.Max(1, x, 2).dtype == np.float32
  assert context.OneHot(np.array([1, 0]), 2, [0, 2.5]).tolist() == [[0, 2.5], [2.5, 0]]


def test_numbers_do_not_compile_again(context):
  x = np.array([-1, 0.5, 9], np.float32)
  for i in range(20):
    assert context.Add(x, float(i)).tolist() == (x + np.float32(i)).tolist()
    assert context.Gather(x, [i % 3]).tolist() == [x[i % 3]]
  assert context.statistics().misses == 2
  for most in (1.0, 2.0):  # a kernel takes limits that it knows
    assert context.Clip(x, 0, most).max() == most
  assert context.statistics().misses == 4


def test_out_is_written(context, rng):
  torch = pytest.importorskip("torch")
  x, w = normal(rng, 4, 6), normal(rng, 6, 5)
  out = np.empty((4, 5), np.float32)
  assert context.MatMul(x, w, out=out) is out
  assert_near(out, x @ w)
  to = torch.empty(4, 5)
  assert context.MatMul(torch.from_numpy(x), torch.from_numpy(w), out=to) is to
  assert_near(to, x @ w)
  doubled = x.copy()
  context.Add(doubled, doubled, out=doubled)  # over its own inputs
  assert np.array_equal(doubled, 2 * x)
  a, b = np.empty((4, 3), np.float32), np.empty((4, 3), np.float32)
  assert context.Split(x, axis=1, out=(a, b)) == (a, b)
  assert np.array_equal(np.concatenate([a, b], 1), x)


@pytest.mark.parametrize("out, text", [
  (np.empty((4, 4), np.float32), r"MatMul: out 0: expected float32 4x5, got float32 4x4"),
  (np.empty((4, 5)), r"MatMul: out 0: expected float32 4x5, got float64 4x5"),
  (np.empty((5, 4), np.float32).T, r"MatMul: out 0: the array is not C-contiguous"),
  (np.broadcast_to(np.float32(0), (4, 5)), r"MatMul: out 0: the array is read-only"),
  ((), r"outputs=2|expected a tuple of 1"),
  ([1.0], r"MatMul: out 0: expected a dense NumPy array"),
])
def test_a_wrong_out_is_refused(context, out, text):
  with pytest.raises(ValueError, match=text):
    context.MatMul(np.ones((4, 6), np.float32), np.ones((6, 5), np.float32), out=out)


def test_several_outputs(context, rng):
  x = normal(rng, 2, 9)
  values, indices = context.TopK(x, [3])
  assert np.array_equal(values, -np.sort(-x)[:, :3]) and indices.dtype == np.int64
  assert len(context.Split(x, num_outputs=3, axis=1)) == 3
  assert len(context.Split(x, [4, 5], axis=1)) == 2
  assert len(context.Split(x, axis=1, outputs=9)) == 9
  with pytest.raises(ValueError, match="Split: say how many outputs"):
    context.Split(x, axis=1)
  y, h = context.RNN(normal(rng, 2, 1, 3), normal(rng, 1, 4, 3), normal(rng, 1, 4, 4),
                     hidden_size=4, outputs=2)
  assert y.shape == (2, 1, 1, 4) and np.array_equal(y[-1], h)


def test_older_opsets(context, rng):
  x = normal(rng, 3, 4)
  assert_near(context.ReduceSum(x, axes=[1], opset=11), x.sum(1, keepdims=True))
  assert_near(context.ReduceSum(x, [1]), x.sum(1, keepdims=True))
  with pytest.raises(ValueError, match="ReduceSum has no attribute axis"):
    context.ReduceSum(x, axis=[1])


# --- errors


class Tensor:
  pass


@pytest.mark.parametrize("call, text", [
  (lambda c, x: c.Conv(x, np.ones((8, 3, 3, 3), np.float32)), r"^Conv: .*channels"),
  (lambda c, x: c.Conv(x, x.astype(np.float64)), r"^Conv: input W must have the same type"),
  (lambda c, x: c.Conv(x), r"^Conv: input 1 \(W\) is missing"),
  (lambda c, x: c.Conv(x, x, stride=2), r"^Conv has no attribute stride; it has auto_pad, "),
  (lambda c, x: c.Conv(x, x, strides="2"), r"^Conv: attribute strides: expected a list of int"),
  (lambda c, x: c.Conv(x, x, strides=[2.5]), r"^Conv: attribute strides: expected a list of int"),
  (lambda c, x: c.Conv(x, x, None, None), r"^Conv: at most 3 inputs, got 4; attributes are given"),
  (lambda c, x: c.Conv(x, x, W=x), r"^Conv: input W is given twice"),
  (lambda c, x: c.Relu(x, outputs=0), r"^Relu: outputs: expected an integer from 1 to 1024"),
  (lambda c, x: c.Relu(x, opset=3), r"^Relu: opset: expected an integer from 6 to 28, got 3"),
  (lambda c, x: c.Relu(Tensor()), r"^Relu: input X: expected an array, got Tensor"),
  (lambda c, x: c.Relu(x + 1j), r"^Relu: input X: expected an array of numbers, got complex64"),
  (lambda c, x: c.Cast(x, to="float33"), r"^Cast: attribute to: expected an integer, got 'float"),
  (lambda c, x: c.Reshape(x, [7, -1]), r"^Reshape: "),
  (lambda c, x: c.Softmax(x, axis="float32"), r"^Softmax: attribute axis: expected an integer"),
  # Found out while it runs.
  (lambda c, x: c.ScatterND(x, np.array([[9, 9, 9, 9]]), x[0, 0, 0, :1]), r"^ScatterND: "),
  (lambda c, x: c.Expand(x[0, 0, :1, :1], [1 << 38]), r"^Expand: .*this machine has"),
])
def test_errors_name_the_operator_and_the_argument(context, rng, call, text):
  with pytest.raises(stretto.Error, match=text):
    call(context, normal(rng, 1, 4, 8, 8))


def test_unknown_operators_are_no_attributes(context):
  with pytest.raises(AttributeError, match="no operator Relu6; did you mean.*Relu"):
    _ = context.Relu6
  with pytest.raises(AttributeError, match="no operator If"):
    _ = ops.If
  with pytest.raises(AttributeError, match="no attribute 'conv3d'"):
    _ = ops.conv3d
  assert not hasattr(ops, "__path_of_nothing__")


def test_tensors_that_operators_cannot_take(context):
  torch = pytest.importorskip("torch")
  x = torch.ones(3, requires_grad=True)
  with pytest.raises(ValueError, match=r"^Relu: input X requires a gradient.*torch.no_grad\(\)"):
    context.Relu(x)
  with torch.no_grad():
    assert context.Relu(x).tolist() == [1] * 3
  assert context.Relu(torch.nn.Parameter(torch.ones(3), requires_grad=False)).tolist() == [1] * 3
  with pytest.raises(ValueError, match="Relu: input X"):
    context.Relu(torch.ones(3, device="meta"))
  with pytest.raises(ValueError, match="Relu: input X"):
    context.Relu(torch.ones(3).to_sparse())
  negated = torch.tensor([1 - 2j]).conj().imag
  assert negated.is_neg() and context.Neg(negated).tolist() == [-2]


@pytest.mark.parametrize("options, text", [
  ({"threads": 0}, "threads: expected 1 to 1024"), ({"capacity": 0}, "capacity: expected 1"),
  ({"accuracy": "high"}, "accuracy: expected"), ({"threads": "2"}, "threads: expected an integer")])
def test_options_out_of_range(options, text):
  with pytest.raises(ValueError, match=text):
    ops.Context(**options)


# --- what is kept


def test_what_is_compiled_is_kept_up_to_a_bound(rng):
  context = ops.Context(threads=1, capacity=2, tuning_cache="none")
  for n in (1, 2, 1, 3, 1, 2):
    context.Relu(normal(rng, n))
  counts = context.statistics()
  assert (counts.hits, counts.misses, counts.evictions, counts.entries) == (2, 4, 2, 2)
  context.clear()
  assert context.statistics().entries == 0
  assert np.array_equal(context.Relu(np.ones(1, np.float32)), [1])


def test_everything_that_matters_is_in_the_key(context, rng):
  x = normal(rng, 1, 2, 6, 6)
  w = normal(rng, 3, 2, 3, 3)
  calls = [
    lambda: context.Conv(x, w), lambda: context.Conv(x, w, pads=[1, 1, 1, 1]),
    lambda: context.Conv(x, w, strides=[2, 2]), lambda: context.Conv(x[:, :, :5], w),
    lambda: context.Conv(x.astype(np.float64), w.astype(np.float64)),
    lambda: context.Conv(x, w, np.ones(3, np.float32)),
    lambda: context.Conv(x, w, strides=[1, 2], pads=[0, 0, 0, 1]),
    lambda: context.Conv(x, w, strides=[1, 2], pads=[0, 0, 1, 0]),
  ]
  for n, call in enumerate(calls):
    call()
    assert context.statistics().misses == n + 1
  for call in calls:
    call()
  context.Conv(x, w, pads=[0, 0, 1, 0], strides=(1, 2))  # in another order, another sequence
  assert context.statistics().misses == len(calls)


def test_constants_are_copied_and_plain_weights_are_not(context, rng):
  x, w = normal(rng, 1, 8, 10, 10), normal(rng, 16, 8, 3, 3)
  constant = ops.constant(w)
  assert constant.shape == (16, 8, 3, 3) and constant.dtype == "float32"
  before = context.Conv(x, constant)
  assert_near(before, context.Conv(x, w))
  w *= 2
  assert np.array_equal(context.Conv(x, constant), before)
  assert_near(context.Conv(x, w), 2 * before)
  assert context.statistics().misses == 2
  assert np.array_equal(constant.array(), w / 2)


def test_large_halves_are_converted_once(context, rng):
  # More than 2^19 elements, so that folding leaves them alone.
  w = ops.constant(normal(rng, 1024, 640).astype(np.float16))
  for batch in (3, 4, 5):
    x = normal(rng, batch, 1024).astype(np.float16)
    want = (x.astype(np.float32) @ w.array().astype(np.float32)).astype(np.float16)
    assert_near(context.MatMul(x, w), want, 1e-3)  # halves


def test_what_a_constant_leaves_behind_goes_with_the_next_call(context):
  x = np.ones((4, 8), np.float32)
  w = ops.constant(np.ones((8, 8), np.float32))
  context.MatMul(x, w)
  context.Neg(x)
  del w
  context.Neg(x)  # compiles nothing
  assert context.statistics().entries == 1


def test_batches_share_the_packed_constant(context, rng):
  w = ops.constant(normal(rng, 64, 64, 3, 3))
  for batch in (1, 2, 3):
    x = normal(rng, batch, 64, 8, 8)
    assert_near(context.Conv(x, w), context.Conv(x, w.array()), 1e-4)  # Winograd may be chosen


# --- everywhere at once


def test_four_threads_call_at_once(rng):
  context = ops.Context(threads=2, capacity=6, tuning_cache="none")
  weights = [ops.constant(normal(rng, 8, 3 + t, 3, 3)) for t in range(4)]
  wrong = []

  def work(t):
    own = np.random.default_rng(t)
    x = normal(own, 1, 3 + t, 9 + t, 40)
    want = context.Conv(x, weights[t])
    for _ in range(60):
      if not np.array_equal(context.Conv(x, weights[t]), want):
        wrong.append(t)
      y = normal(own, 300 * (t + 1), 70)  # with threads, and while others wait
      if not np.array_equal(context.Add(y, y), y + y):
        wrong.append(t)

  threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join(120)
    assert not thread.is_alive()
  assert not wrong


def test_a_forked_child_calls(context, rng):
  x = normal(rng, 400, 700)
  want = context.Add(x, x)  # the threads run
  child = os.fork()
  if child == 0:
    os._exit(0 if np.array_equal(context.Add(x, x), want) else 1)
  assert os.waitpid(child, 0)[1] == 0


# --- names


def test_every_operator_has_a_name_and_a_docstring():
  names = [name for name in dir(ops) if name[0].isupper()]
  assert len(names) > 170 and {"Conv", "Binarizer", "Attention", "LSTM"} <= set(names)
  for name in names:
    thing = getattr(ops, name)
    if isinstance(thing, ops.Operator):
      assert thing.__name__ == name and thing.__doc__.startswith(name + "(")
  assert "strides: ints, optional" in ops.Conv.__doc__
  assert "group: int, default 1" in ops.Conv.__doc__
  assert "W: required (float32, float64)" in ops.Conv.__doc__
  assert ops.Conv is ops.Conv and repr(ops.Conv) == "<stretto.ops.Conv>"


def test_importing_makes_no_context():
  code = ("import sys, stretto.ops as o; assert o.default_context.cache_info().currsize == 0; "
          "assert 'torch' not in sys.modules")
  subprocess.run([sys.executable, "-c", code], check=True)


# --- with PyTorch's arguments


def torch_cases():
  torch = pytest.importorskip("torch")
  f = torch.nn.functional
  generator = torch.Generator().manual_seed(SEED)

  def t(*shape):
    return torch.randn(*shape, generator=generator)

  x, w, b = t(2, 4, 9, 11), t(6, 4, 3, 3), t(6)
  q, k, v = t(2, 3, 5, 8), t(2, 3, 7, 8), t(2, 3, 7, 6)
  mask = torch.rand(5, 7, generator=generator) > 0.3
  mask[:, 0] = True
  return {
    "conv2d": [(f.conv2d, (x, w)), (f.conv2d, (x, w, b, 2, 1)),
               (f.conv2d, (x, t(6, 2, 3, 3), b, (1, 2), (2, 0), (1, 2), 2)),
               (f.conv2d, (x, w, b, 1, "same")), (f.conv2d, (x, w, None, 2, "valid"))],
    "linear": [(f.linear, (t(5, 4), t(7, 4))), (f.linear, (t(5, 4), t(7, 4), t(7))),
               (f.linear, (t(2, 3, 4), t(7, 4), t(7))), (f.linear, (t(4), t(7, 4)))],
    "matmul": [(torch.matmul, (t(5, 4), t(4, 3))), (torch.matmul, (t(2, 5, 4), t(4, 3))),
               (torch.matmul, (t(2, 5, 4), t(2, 4, 3))), (torch.matmul, (t(4), t(4)))],
    "softmax": [(f.softmax, (x, -1)), (f.softmax, (x, 1))],
    "layer_norm": [(f.layer_norm, (x, (11,))),
                   (f.layer_norm, (x, (9, 11), t(9, 11), t(9, 11), 1e-3)),
                   (f.layer_norm, (x, (11,), t(11)))],
    "max_pool2d": [(f.max_pool2d, (x, 2)), (f.max_pool2d, (x, (3, 2), 2, 1)),
                   (f.max_pool2d, (x, 3, 2, 1, 2, True))],
    "avg_pool2d": [(f.avg_pool2d, (x, 2)), (f.avg_pool2d, (x, 3, 2, 1, True, False)),
                   (f.avg_pool2d, (x, (3, 2), 1, 1, False, True))],
    "relu": [(f.relu, (x,))],
    "gelu": [(f.gelu, (x,)), (lambda y, a: f.gelu(y, approximate=a), (x, "tanh"))],
    "attention": [(f.scaled_dot_product_attention, (q, k, v)),
                  (f.scaled_dot_product_attention, (q, k, v, mask)),
                  (f.scaled_dot_product_attention, (q, k, v, mask.float())),
                  (f.scaled_dot_product_attention, (q, q, q), {"is_causal": True}),
                  (f.scaled_dot_product_attention, (q, k, v), {"scale": 0.2})],
  }


SMALL = sorted(name for name in ops.__all__
               if name[0].islower() and name not in ("constant", "default_context"))


@pytest.mark.parametrize("name", SMALL)
def test_functions_are_those_of_pytorch(name, context):
  torch = pytest.importorskip("torch")
  for theirs, arguments, *named in torch_cases()[name]:
    names = named[0] if named else {}
    want = theirs(*arguments, **names)
    got = getattr(ops, name)(*arguments, **names, context=context)
    assert isinstance(got, torch.Tensor)
    assert_near(got, want)
    as_numpy = [a.numpy() if isinstance(a, torch.Tensor) else a for a in arguments]
    from_numpy = getattr(ops, name)(*as_numpy, **names, context=context)
    assert isinstance(from_numpy, np.ndarray)
    assert_near(from_numpy, want)
    if want.dim() > 1 and (name != "linear" or want.dim() == 2):
      out = torch.empty_like(want)
      assert getattr(ops, name)(*arguments, **names, out=out, context=context) is out
      assert_near(out, want)


def test_functions_take_integers_of_all_kinds(context, rng):
  x, w = normal(rng, 1, 2, 6, 8), normal(rng, 3, 2, 3, 3)
  two, axis = np.int64(2), np.int64(1)
  assert np.array_equal(ops.conv2d(x, w, stride=two, padding=axis, context=context),
                        ops.conv2d(x, w, stride=(2, two), padding=1, context=context))
  assert np.array_equal(ops.softmax(x, axis, context=context), ops.softmax(x, 1, context=context))
  assert np.array_equal(ops.layer_norm(x, 8, context=context),
                        ops.layer_norm(x, [np.int32(8)], context=context))
  for call in (lambda: ops.conv2d(x, w, stride=1.5), lambda: ops.max_pool2d(x, (2, 2, 2)),
               lambda: ops.layer_norm(x, 8.0), lambda: ops.conv2d(x, w, stride=2, padding="same")):
    with pytest.raises(stretto.InvalidArgumentError, match="expected|'same' needs a stride of 1"):
      call()


def test_functions_take_bfloat16(context):
  torch = pytest.importorskip("torch")
  x = torch.tensor([[1.0, 2, 3, 4]], dtype=torch.bfloat16)
  want = torch.nn.functional.layer_norm(x.float(), (4,))
  got = ops.layer_norm(x, (4,), context=context)
  assert got.dtype == torch.bfloat16
  assert_near(got.float(), want, 2**-7)


def test_the_fifth_argument_of_attention_is_not_taken_for_another(context):
  x = np.ones((1, 1, 2, 4), np.float32)
  with pytest.raises(TypeError):  # PyTorch's dropout
    ops.attention(x, x, x, None, 0.0, True)
