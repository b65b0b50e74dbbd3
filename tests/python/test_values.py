"""Models whose graph depends on values at run time, compared with ONNX Runtime."""

import threading

import numpy as np
import pytest

import stretto

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, numpy_helper, parser  # noqa: E402

QUICK = {"tuning": "off", "tuning_cache": "none", "threads": 1}

DETECTOR = """
<ir_version: 8, opset_import: ["" : 17]>
detector (float[1,3,32,32] image) => (float[n,4] boxes, int64[n] classes, int64 count)
<int64[1] most = {200}, float[1] overlap = {0.3}, float[1] least = {0.55}, int64[1] one = {1},
 int64[1] two = {2}>
{
  features = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (image, w)
  active = Relu (features)
  raw = Conv <kernel_shape = [1, 1]> (active, head)
  flat = Reshape (raw, places)
  scores_raw, centres, sizes = Split <axis = 1> (flat, parts)
  scores = Sigmoid (scores_raw)
  wide = Exp (sizes)
  low = Sub (centres, wide)
  high = Add (centres, wide)
  corners = Concat <axis = 1> (low, high)
  boxes_all = Transpose <perm = [0, 2, 1]> (corners)
  kept = NonMaxSuppression (boxes_all, scores, most, overlap, least)
  class_column = Slice (kept, one, two, one)
  classes = Squeeze (class_column, one)
  box_column = Slice (kept, two, three, one)
  rows = Squeeze (box_column, one)
  boxes_first = Squeeze (boxes_all, zero)
  boxes = Gather <axis = 0> (boxes_first, rows)
  shape = Shape (rows)
  count = Squeeze (shape, zero)
}
"""

DECODER = """
<ir_version: 8, opset_import: ["" : 17]>
decoder (float[1,8] start, int64 most, float stop) => (float[t,8] states, float[1,8] last)
<int64 one = {1}, bool yes = {1}>
{
  first = Identity (start)
  states, last = Loop (most, yes, start, start) <body = turn
      (int64 i, bool c, float[k,8] all, float[1,8] state) =>
      (bool more, float[m,8] all_out, float[1,8] state_out)
    <float scale = {1.5}>
    {
      mixed = MatMul (state, w)
      state_out = Tanh (mixed)
      all_out = Concat <axis = 0> (all, state_out)
      norm = ReduceSumSquare <keepdims = 0> (state_out)
      more = Greater (norm, stop)
    }>
}
"""

SPARSE = """
<ir_version: 8, opset_import: ["" : 17]>
sparse (float[4,6] x, int64[2] size) => (float[k] positive, float[a,b] resized, int64[r] ramp,
                                         float[c] sums)
<float zero = {0}, int64 step = {2}, int64 begin = {0}, int64[1] first = {0}>
{
  mask = Greater (x, zero)
  places = NonZero (mask)
  rows = Transpose <perm = [1, 0]> (places)
  positive = GatherND (x, rows)
  resized = Reshape (x, size)
  total = ReduceProd <keepdims = 0> (size)
  ramp = Range (begin, total, step)
  squares = Mul (positive, positive)
  n = Shape (squares)
  ones = ConstantOfShape <value = float[1] {1}> (n)
  both = Mul (ones, squares)
  sums = CumSum (both, first)
}
"""


def model(text, **constants):
  proto = parser.parse_model(text)
  proto.graph.initializer.extend(
    onnx.numpy_helper.from_array(value, name) for name, value in constants.items())
  return proto


def detector():
  rng = np.random.default_rng(1)
  return model(DETECTOR, w=(rng.normal(size=(16, 3, 3, 3)) / 5).astype(np.float32),
               head=(rng.normal(size=(6, 16, 1, 1)) / 2).astype(np.float32),
               places=np.array([1, 6, 256]), parts=np.array([2, 2, 2]), zero=np.array([0]),
               three=np.array([3]))


def decoder():
  rng = np.random.default_rng(2)
  return model(DECODER, w=(rng.normal(size=(8, 8)) / 2.5).astype(np.float32))


def same(proto, inputs, optimized=None):
  """Runs a model in both engines and compares all outputs."""
  fast = optimized or stretto.optimize(proto, **QUICK)
  expected = ort.InferenceSession(proto.SerializeToString()).run(None, inputs)
  got = list(fast.run(inputs).values())
  for a, b in zip(got, expected, strict=True):
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)  # sums of float32 products
  return fast


def test_a_detector_finds_what_onnxruntime_finds():
  proto, rng, fast = detector(), np.random.default_rng(3), None
  counts = set()
  for _ in range(3):
    image = rng.normal(size=(1, 3, 32, 32)).astype(np.float32)
    fast = same(proto, {"image": image}, fast)
    counts.add(int(fast(image)[2]))
  assert len(counts) > 1


def test_a_decoder_stops_when_its_values_say_so():
  proto, fast, lengths = decoder(), None, set()
  for stop in (1e9, 1.5, 1e-9):
    inputs = {"start": np.ones((1, 8), np.float32), "most": np.array(9),
              "stop": np.array(stop, np.float32)}
    fast = same(proto, inputs, fast)
    lengths.add(len(fast(inputs)[0]))
  assert len(lengths) > 1
  made = fast._session.programs
  fast(inputs)
  assert fast._session.programs == made


def test_shapes_that_come_of_values():
  proto, rng, fast = model(SPARSE), np.random.default_rng(4), None
  for size in ((3, 8), (12, 2), (-1, 6)):
    if size[0] < 0:
      with pytest.raises(stretto.InvalidArgumentError):
        fast(rng.normal(size=(4, 6)).astype(np.float32), np.array([5, 7]))
    else:
      inputs = {"x": rng.normal(size=(4, 6)).astype(np.float32), "size": np.array(size)}
      fast = fast or stretto.optimize(proto, **QUICK, inputs=inputs)
      fast = same(proto, inputs, fast)
  nothing = {"x": -np.ones((4, 6), np.float32), "size": np.array([24, 1])}
  same(proto, nothing, fast)


def test_it_is_saved_and_loaded(tmp_path):
  fast = stretto.optimize(detector(), **QUICK)
  image = np.random.default_rng(5).normal(size=(1, 3, 32, 32)).astype(np.float32)
  fast.save(tmp_path / "m.stretto")
  loaded = stretto.load(tmp_path / "m.stretto", threads=1)
  assert [spec.name for spec in loaded.outputs] == ["boxes", "classes", "count"]
  for a, b in zip(fast(image), loaded(image), strict=True):
    assert np.array_equal(a, b)
  with pytest.raises(stretto.UnsupportedError, match="in stages"):
    stretto.load(tmp_path / "m.stretto", verify=True)


def test_threads_share_a_model():
  fast = stretto.optimize(decoder(), **QUICK)
  inputs = [{"start": np.full((1, 8), 0.1 * i + 0.5, np.float32), "most": np.array(3 + i),
             "stop": np.array(0, np.float32)} for i in range(4)]
  expected = [fast(one) for one in inputs]
  wrong = []

  def work(i):
    for _ in range(20):
      got = fast(inputs[i])
      if not all(np.array_equal(a, b) for a, b in zip(got, expected[i], strict=True)):
        wrong.append(i)

  threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert not wrong


def test_the_report_says_that_it_runs_in_stages():
  fast = stretto.optimize(detector(), tuning="off", tuning_cache="none", threads=1)
  report = fast.report
  assert any("stages" in note for note in report["notes"])
  assert {step["op"] for step in report["stages"]["between"]} >= {"NonMaxSuppression"}
  assert report["errors"] and report["latency"]["after"]["median_ms"] > 0


def test_strings_sequences_and_optional_values():
  words = parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 20]>
    words (string[n] x) => (string[m] y, int64[n] lengths)
    { parts, lengths = StringSplit <delimiter = "-"> (x)
      y = Identity (x) }""")
  y, lengths = stretto.optimize(words, **QUICK)(np.array(["a-b", "", "ä-ö-ü"], dtype=object))
  assert y.dtype == object and y.tolist() == ["a-b", "", "ä-ö-ü"]
  assert lengths.tolist() == [2, 0, 3]
  maybe = parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 18]>
    maybe (optional(seq(float[2])) x) => (bool there)
    { there = OptionalHasElement (x) }""")
  fast = stretto.optimize(maybe, **QUICK)
  assert fast.inputs[0].dtype == "optional"
  assert not fast(None) and fast([np.zeros(2, np.float32)])
  with pytest.raises(stretto.InvalidArgumentError):
    stretto.optimize(words, **QUICK)(np.zeros(3, np.float32))


def test_what_a_branch_lacks_is_named_when_it_is_taken():
  text = """
    <ir_version: 8, opset_import: ["" : 17, "com.acme" : 1]>
    lack (float[2] x, bool c) => (float[2] y)
    { y = If (c) <then_branch = a () => (float[2] p) { p = com.acme.Magic (x) },
                  else_branch = b () => (float[2] q) { q = Neg (x) }> }"""
  fast = stretto.optimize(parser.parse_model(text), **QUICK, inputs={"c": np.array(False)})
  x = np.ones(2, np.float32)
  assert fast(x, np.array(False)).tolist() == [-1, -1]
  with pytest.raises(stretto.UnsupportedError, match="com.acme.Magic"):
    fast(x, np.array(True))


def test_weights_in_files_of_their_own_are_saved_with_the_model(tmp_path):
  onnx.save(detector(), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
  fast = stretto.optimize(tmp_path / "m.onnx", **QUICK)
  fast.save(tmp_path / "m.stretto")
  for file in tmp_path.glob("*"):
    if file.suffix != ".stretto":
      file.unlink()
  stretto.load(tmp_path / "m.stretto").save(tmp_path / "again.stretto")
  for name in ("m", "again"):
    image = {"image": np.ones((1, 3, 32, 32), np.float32)}
    same(detector(), image, stretto.load(tmp_path / f"{name}.stretto"))


def test_so_are_those_of_branches_that_were_not_taken(tmp_path):
  proto = parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]>
    pick (float[2] x, bool c) => (float[2] y)
    { y = If (c) <
        then_branch = a () => (float[2] p) <float[2] w = {2, 3}> { p = Mul (x, w) },
        else_branch = b () => (float[2] q)
          { v = Constant <value = float[2] {4, 5}> () q = Mul (x, v) }> }""")
  then, other = (attribute.g for attribute in proto.graph.node[0].attribute)
  for tensor in then.initializer[0], other.node[0].attribute[0].t:  # what is raw can go to a file
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
  onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0,
            location="w.bin", convert_attribute=True)
  assert (tmp_path / "w.bin").stat().st_size >= 16
  x = np.ones(2, np.float32)
  fast = stretto.optimize(tmp_path / "m.onnx", **QUICK, inputs={"c": np.array(True)})
  fast.save(tmp_path / "m.stretto")
  (tmp_path / "w.bin").unlink()
  loaded = stretto.load(tmp_path / "m.stretto")
  assert loaded(x, np.array(True)).tolist() == [2, 3]
  assert loaded(x, np.array(False)).tolist() == [4, 5]


def test_an_output_that_lies_about_its_type_is_an_error():
  proto = model(SPARSE)
  proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
  with pytest.raises(stretto.InvalidArgumentError, match="positive"):
    stretto.optimize(proto, **QUICK)(np.ones((4, 6), np.float32), np.array([24, 1]))
