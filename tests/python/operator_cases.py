"""Models of one operator each: what test_operators_onnxruntime.py compares. A function per kind of
operator; every operator of the table stands in one of them."""

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, defs, numpy_helper

SEED = 11
OLDEST, NEWEST = 7, 24  # opsets: the oldest that is supported, and the newest that both read
NUMPY = {"f": np.float32, "d": np.float64, "i": np.int32, "l": np.int64, "?": np.bool_,
         "B": np.uint8, "b": np.int8, "e": np.float16}


@dataclass
class Draw:
  """An input to be filled: its shape, its type's letter, and how its values are chosen."""
  shape: tuple
  dtype: str = "f"
  low: float = -2
  high: float = 2

  def values(self, rng):
    dtype = NUMPY[self.dtype]
    if self.dtype == "?":
      return rng.integers(0, 2, self.shape).astype(np.bool_)
    if np.issubdtype(dtype, np.integer):
      low = max(0, self.low) if self.dtype == "B" else self.low
      return rng.integers(int(low), int(self.high) + 1, self.shape).astype(dtype)
    return np.asarray(rng.uniform(self.low, self.high, self.shape)).astype(dtype)


def x(*shape, dtype="f", low=-2, high=2):
  return Draw(shape, dtype, low, high)


def ints(*values):
  return np.array(values, np.int64)


def scalar(value, dtype="f"):
  return np.array(value, NUMPY[dtype])


@dataclass
class Case:
  """A node. Draws are inputs of the model, arrays are initialisers, None is an absent input."""
  op: str
  inputs: list
  attributes: dict = field(default_factory=dict)
  since: int = OLDEST
  until: int = NEWEST
  outputs: int = 1
  exact: bool = False

  def opsets(self):
    """Where the operator changed, from the oldest that has this form on."""
    versions = sorted({s.since_version for s in defs.get_all_schemas_with_history()
                       if s.name == self.op and s.domain == ""})
    first = max([v for v in versions if v <= self.since] or versions[:1])
    return [max(v, OLDEST) for v in versions
            if v >= first and self.since <= max(v, OLDEST) <= self.until] or [self.since]


UNARY = {op: (-3, 3) for op in (
  "Abs", "Atan", "Asinh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "HardSwish", "Identity",
  "Mish", "Neg", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign",
  "Tanh")}
UNARY |= {"Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.9, 0.9), "Acosh": (1, 5), "Log": (0.1, 5),
          "Sqrt": (0, 5), "Reciprocal": (0.3, 4), "Tan": (-1.2, 1.2)}
ARITHMETIC = ("Add", "Sub", "Mul", "Div")
COMPARISONS = ("Equal", "Greater", "Less")
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
              "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare")
BROADCASTS = (((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (1, 5)), ((1,), (2, 3)),
              ((), (3,)), ((0, 3), (3,)), ((2, 5, 3, 7), (5, 1, 1)))


def elementwise():
  for op, (low, high) in UNARY.items():
    for shape in ((3, 17), (1,), (), (0, 4), (2, 3, 5, 7)):
      yield Case(op, [x(*shape, low=low, high=high)])
  yield Case("IsNaN", [x(3, 5)])
  yield Case("Neg", [x(3, 5, dtype="l")], exact=True)
  yield Case("Abs", [x(3, 5, dtype="i")], exact=True)
  yield Case("Not", [x(3, 5, dtype="?")], exact=True)
  yield Case("BitwiseNot", [x(3, 5, dtype="i", high=99)], since=18, exact=True)
  for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    yield Case(op, [x(3, 5, dtype="i", high=99), x(5, dtype="i", high=99)], since=18, exact=True)
  for op, names in {"Celu": ["alpha"], "Elu": ["alpha"], "LeakyRelu": ["alpha"],
                    "ThresholdedRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"],
                    "Selu": ["alpha", "gamma"], "Shrink": ["bias", "lambd"]}.items():
    yield Case(op, [x(3, 17)])
    yield Case(op, [x(3, 17)], dict.fromkeys(names, 0.7))
  yield Case("Swish", [x(3, 17)], since=24)
  for approximate in ("none", "tanh"):
    yield Case("Gelu", [x(3, 17)], {"approximate": approximate}, since=20)
  for op in ARITHMETIC:
    for a, b in BROADCASTS:
      yield Case(op, [x(*a), x(*b, low=0.5)])
      yield Case(op, [x(*a), Draw(b, low=0.5).values(np.random.default_rng(SEED))])
    for dtype in "dil":
      yield Case(op, [x(3, 5, dtype=dtype, high=9), x(5, dtype=dtype, low=1, high=9)])
  for op in COMPARISONS:
    for dtype in "fil":
      yield Case(op, [x(3, 5, dtype=dtype), x(5, dtype=dtype)], since=9, exact=True)
  for op in ("GreaterOrEqual", "LessOrEqual"):
    yield Case(op, [x(3, 5), x(5)], since=12, exact=True)
  for op in ("And", "Or", "Xor"):
    yield Case(op, [x(3, 5, dtype="?"), x(5, dtype="?")], exact=True)
  for op in ("Max", "Mean", "Min", "Sum"):
    yield Case(op, [x(3, 5)], since=8)
    yield Case(op, [x(3, 5), x(5), x(3, 1), x(1)], since=8)
  yield Case("Pow", [x(3, 5, low=0.1), x(5)])
  yield Case("Pow", [x(3, 5), scalar(2)])
  yield Case("Pow", [x(3, 5), scalar(2, "l")], since=12)
  for fmod in (0, 1):
    yield Case("Mod", [x(3, 5, dtype="i", low=-9, high=9), x(5, dtype="i", low=1, high=4)],
               {"fmod": fmod}, since=10, exact=True)
  yield Case("Mod", [x(3, 5, low=-9, high=9), x(5, low=1, high=4)], {"fmod": 1}, since=10)
  yield Case("PRelu", [x(2, 3, 5), x(3, 1)])
  yield Case("PRelu", [x(2, 3, 5), x(1)])
  yield Case("Where", [x(3, 5, dtype="?"), x(3, 5), x(5)], since=9)
  yield Case("Where", [x(3, 1, dtype="?"), x(3, 5, dtype="l"), scalar(7, "l")], since=9, exact=True)
  yield Case("Clip", [x(3, 17)], {"min": -0.5, "max": 1.0}, until=10)
  yield Case("Clip", [x(3, 17)], {"max": 1.0}, until=10)
  for low, high in ((scalar(-0.5), scalar(1)), (scalar(-0.5), None), (None, scalar(1)),
                    (x(), x(low=2, high=3)), (None, None)):
    yield Case("Clip", [x(3, 17), low, high], since=11)
  for to in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL,
             TensorProto.DOUBLE, TensorProto.UINT8, TensorProto.FLOAT16):
    for dtype in "fl?":
      low = 0 if to == TensorProto.UINT8 else -9
      yield Case("Cast", [x(3, 5, dtype=dtype, low=low, high=9)], {"to": int(to)}, since=9)
  yield Case("CastLike", [x(3, 5, low=-9, high=9), x(1, dtype="l")], since=15, exact=True)


def rows():
  for shape, axis in (((3, 17), -1), ((2, 3, 5), 1), ((2, 3, 5), 0), ((1, 1), -1), ((2, 3, 5), -1)):
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
      yield Case(op, [x(*shape)], {"axis": axis}, since=11)
    for op in ("ArgMax", "ArgMin"):
      for keep in (0, 1):
        yield Case(op, [x(*shape)], {"axis": axis, "keepdims": keep}, since=11, exact=True)
  yield Case("Softmax", [x(2, 3, 5)])
  yield Case("ArgMax", [x(3, 9, dtype="i", low=0, high=2)], {"axis": 1, "select_last_index": 1},
             since=12, exact=True)
  for op in REDUCTIONS:
    low = 0.2 if op == "ReduceLogSum" else -2
    axes_as_input = 13 if op == "ReduceSum" else 18
    for keep in (0, 1):
      for axes in ([0], [1, -1], [0, 1, 2], None):
        data, kept = x(3, 5, 7, low=low), {"keepdims": keep}
        yield Case(op, [data], kept | ({"axes": axes} if axes else {}), since=11,
                   until=axes_as_input - 1)
        yield Case(op, [data] + ([ints(*axes)] if axes else []), kept, since=axes_as_input)
    yield Case(op, [x(3, 5, low=low)], {"noop_with_empty_axes": 1}, since=axes_as_input)
  for reverse in (0, 1):
    for exclusive in (0, 1):
      yield Case("CumSum", [x(3, 5), scalar(1, "i")], {"reverse": reverse, "exclusive": exclusive},
                 since=11)
  for largest in (0, 1):
    yield Case("TopK", [x(3, 9), ints(4)], {"axis": -1, "largest": largest}, since=11, outputs=2)
  yield Case("TopK", [x(3, 9), ints(2)], {"axis": 0}, since=10, outputs=2)
  yield Case("TopK", [x(3, 9)], {"axis": 1, "k": 3}, until=9, outputs=2)
  channels = [x(5, low=0.5), x(5)]
  for shape in ((2, 5, 7), (2, 5, 4, 3), (2, 5)):
    yield Case("BatchNormalization", [x(*shape), *[c.values(np.random.default_rng(i)) for i, c in
                                                   enumerate(channels)],
                                      np.zeros(5, np.float32), np.full(5, 0.7, np.float32)],
               {"epsilon": 1e-3})
  yield Case("InstanceNormalization", [x(2, 5, 7, 3), *channels], {"epsilon": 1e-3})
  yield Case("GroupNormalization", [x(2, 6, 7), x(6), x(6)], {"num_groups": 3}, since=21)
  yield Case("GroupNormalization", [x(2, 6, 7), x(3), x(3)], {"num_groups": 3}, since=18, until=20)
  yield Case("LayerNormalization", [x(2, 3, 7), x(7), x(7)], since=17)
  yield Case("LayerNormalization", [x(2, 3, 7), x(3, 7)], {"axis": 1, "epsilon": 1e-3}, since=17)
  yield Case("RMSNormalization", [x(2, 3, 7), x(7)], {"epsilon": 1e-3}, since=23)
  for size in (1, 3, 5):
    yield Case("LRN", [x(2, 7, 3, 3)], {"size": size, "alpha": 0.5, "beta": 0.7, "bias": 2.0})


def products():
  for a, b in (((3, 5), (5, 7)), ((2, 3, 5), (5, 7)), ((5,), (5, 7)), ((3, 5), (5,)), ((5,), (5,)),
               ((2, 1, 3, 5), (4, 5, 7)), ((1, 1), (1, 1)), ((33, 17), (17, 65))):
    yield Case("MatMul", [x(*a), x(*b)])
    yield Case("MatMul", [x(*a), Draw(b).values(np.random.default_rng(SEED))])
  for trans_a in (0, 1):
    for trans_b in (0, 1):
      a, b = ((5, 3) if trans_a else (3, 5)), ((7, 5) if trans_b else (5, 7))
      forms = {"transA": trans_a, "transB": trans_b}
      yield Case("Gemm", [x(*a), x(*b), x(7)], forms)
      yield Case("Gemm", [x(*a), Draw(b).values(np.random.default_rng(SEED)), x(3, 1)],
                 forms | {"alpha": 0.5, "beta": -2.0})
      yield Case("Gemm", [x(*a), x(*b)], forms, since=11)
  for equation, shapes in (("ij,jk->ik", ((3, 5), (5, 7))), ("ij->ji", ((3, 5),)),
                           ("bij,bjk->bik", ((2, 3, 5), (2, 5, 7))), ("i,i->", ((5,), (5,))),
                           ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
                           ("...ij,...jk->...ik", ((2, 3, 5), (2, 5, 7))), ("ii->i", ((4, 4),)),
                           ("ij,j", ((3, 5), (5,)))):
    yield Case("Einsum", [x(*s) for s in shapes], {"equation": equation}, since=12)


def recurrent():
  rng = np.random.default_rng(SEED)

  def weight(*shape):
    return Draw(shape, low=-0.5, high=0.5).values(rng)

  def layer(op, direction, attributes, size=(5, 3, 7, 19), bias=True, lengths=False, states=False,
            peephole=False):
    steps, batch, inputs, hidden = size
    directions = 2 if direction == "bidirectional" else 1
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[op] * hidden
    state = x(directions, batch, hidden) if states else None
    given = [x(steps, batch, inputs), weight(directions, rows, inputs),
             weight(directions, rows, hidden), weight(directions, 2 * rows) if bias else None,
             x(batch, dtype="i", low=1, high=steps) if lengths else None, state]
    if op == "LSTM":
      given += [state, weight(directions, 3 * hidden) if peephole else None]
    while given[-1] is None:
      given.pop()
    return Case(op, given, {"hidden_size": hidden, "direction": direction} | attributes,
                outputs=3 if op == "LSTM" else 2)

  own = {"LSTM": [{"input_forget": 1}], "GRU": [{"linear_before_reset": 1}], "RNN": []}
  functions = {"LSTM": ["HardSigmoid", "Softsign", "Relu"], "GRU": ["HardSigmoid", "ScaledTanh"],
               "RNN": ["LeakyRelu"]}
  for op, forms in own.items():
    for direction in ("forward", "reverse", "bidirectional"):
      for attributes in ({}, *forms):
        yield layer(op, direction, attributes)
        yield layer(op, direction, attributes, bias=False, states=True)
        yield layer(op, direction, attributes, lengths=True, states=True, peephole=True)
      count = 2 if direction == "bidirectional" else 1
      yield layer(op, direction, {"clip": 0.4})
      yield layer(op, direction, {"activations": functions[op] * count,
                                  "activation_alpha": [0.3, 0.7] * count,
                                  "activation_beta": [0.4, 0.6] * count})
      yield layer(op, direction, {}, size=(1, 1, 1, 1))
      yield layer(op, direction, {}, size=(9, 1, 33, 70), states=True)


def windows():
  def weight(*shape):
    return Draw(shape).values(np.random.default_rng(SEED))

  same = ({}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}, {"auto_pad": "VALID"},
          {"pads": [1, 0, 2, 1]})
  for pads in same:
    for strides in ([1, 1], [2, 1]):
      forms = pads | {"strides": strides}
      yield Case("Conv", [x(2, 3, 9, 8), weight(5, 3, 3, 2), weight(5)], forms)
      yield Case("MaxPool", [x(2, 3, 9, 8)], forms | {"kernel_shape": [3, 2]})
      yield Case("AveragePool", [x(2, 3, 9, 8)], forms | {"kernel_shape": [3, 2]})
  for groups, channels, out in ((1, 16, 16), (2, 4, 6), (4, 4, 4), (16, 16, 16), (8, 32, 32)):
    for extent in (1, 3, 5):
      for stride in (1, 2):
        forms = {"group": groups, "strides": [stride] * 2, "pads": [extent // 2] * 4}
        filters = weight(out, channels // groups, extent, extent)
        yield Case("Conv", [x(1, channels, 11, 10), filters], forms)
  yield Case("Conv", [x(1, 3, 9, 9), weight(4, 3, 3, 3)], {"dilations": [2, 2]})
  yield Case("Conv", [x(1, 3, 17), weight(4, 3, 3)], {"pads": [1, 1]})
  yield Case("Conv", [x(1, 2, 5, 5, 5), weight(3, 2, 3, 3, 3)])
  yield Case("Conv", [x(1, 3, 9, 9), x(4, 3, 3, 3), x(4)])
  for groups in (1, 2):
    for forms in ({}, {"strides": [2, 2]}, {"strides": [2, 2], "pads": [1, 1, 1, 1]},
                  {"strides": [2, 2], "output_padding": [1, 1], "pads": [1, 1, 1, 1]},
                  {"strides": [2, 3], "output_shape": [10, 13]}, {"dilations": [2, 1]}):
      yield Case("ConvTranspose", [x(1, 4, 5, 4), weight(4, 3, 3, 3), weight(3 * groups)],
                 forms | {"group": groups})
  yield Case("ConvTranspose", [x(1, 16, 7, 7), weight(16, 16, 4, 4)],
             {"strides": [2, 2], "pads": [1, 1, 1, 1]})
  yield Case("ConvTranspose", [x(1, 2, 7), weight(2, 3, 4)], {"strides": [2]})
  for op in ("MaxPool", "AveragePool"):
    yield Case(op, [x(1, 3, 17)], {"kernel_shape": [3], "strides": [2]})
    yield Case(op, [x(1, 2, 5, 5, 5)], {"kernel_shape": [2, 2, 2]})
    yield Case(op, [x(1, 3, 9, 9)], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
               since=10)
  yield Case("MaxPool", [x(1, 3, 9, 9)], {"kernel_shape": [3, 3], "dilations": [2, 2]}, since=10)
  yield Case("MaxPool", [x(1, 3, 7, 7)], {"kernel_shape": [3, 3]}, since=8, outputs=2)
  yield Case("AveragePool", [x(1, 3, 9, 9)],
             {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1})
  for op in ("GlobalAveragePool", "GlobalMaxPool"):
    for shape in ((2, 5, 7, 3), (1, 17, 1, 1), (2, 3, 9)):
      yield Case(op, [x(*shape)])


def resizes():
  image = x(1, 3, 5, 6)
  none = np.zeros(0, np.float32)  # how opset 11 leaves an input out

  def resize(scales, sizes, attributes, since=11):
    if since < 13:
      given = [none, none if scales is None else scales] + ([] if sizes is None else [sizes])
      yield Case("Resize", [image, *given], attributes, since=since, until=12)
    yield Case("Resize", [image, None, scales, sizes], attributes, since=max(since, 13))

  for scale in (2.0, 0.5, 1.7):
    scales = np.array([1, 1, scale, scale], np.float32)
    if scale > 1:
      yield Case("Upsample", [image, scales], {"mode": "nearest"}, since=9, until=9)
    yield Case("Resize", [image, scales], {"mode": "nearest"}, since=10, until=10)
    for mode in ("nearest", "linear", "cubic"):
      for transform in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
        forms = {"mode": mode, "coordinate_transformation_mode": transform}
        yield from resize(scales, None, forms)
  for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
    yield from resize(None, ints(1, 3, 8, 9), {"mode": "nearest", "nearest_mode": nearest})
  for mode in ("linear", "cubic"):
    yield from resize(None, ints(1, 3, 3, 4), {"mode": mode, "antialias": 1}, since=18)


def movement():
  yield Case("Transpose", [x(2, 3, 4)])
  for perm in ([0, 2, 1], [2, 1, 0], [1, 0, 2]):
    yield Case("Transpose", [x(9, 17, 5)], {"perm": perm})
    yield Case("Transpose", [x(2, 3, 4, dtype="l")], {"perm": perm})
  for axis in (0, 1, -1):
    yield Case("Concat", [x(2, 3, 4), x(2, 3, 4)], {"axis": axis})
    yield Case("Flatten", [x(2, 3, 4)], {"axis": axis}, since=11)
    yield Case("Gather", [x(5, 6, 7), ints(3, 0, -1)], {"axis": axis}, since=11)
    yield Case("Gather", [x(5, 6, 7), x(2, 2, dtype="l", low=0, high=4)], {"axis": axis}, since=11)
    yield Case("GatherElements", [x(5, 5, 5), x(5, 5, 5, dtype="l", low=-5, high=4)],
               {"axis": axis}, since=11)
    # Every index once: which of several updates wins is undefined.
    order = np.tile(ints(3, 2, 1, 0), (4, 1))
    order = order.T if axis == 0 else order
    yield Case("ScatterElements", [x(4, 4), order, x(4, 4)], {"axis": axis},
               since=11)
  for reduction in ("add", "mul"):
    yield Case("ScatterElements", [x(4, 4), np.array([[0, 0, 1, 3]]), x(1, 4)],
               {"axis": 0, "reduction": reduction}, since=16)
    yield Case("ScatterND", [x(4, 4), np.array([[0], [0], [3]]), x(3, 4)],
               {"reduction": reduction}, since=16)
  yield Case("ScatterND", [x(4, 4), np.array([[1], [3]]), x(2, 4)], since=11)
  yield Case("GatherND", [x(4, 5, 6), np.array([[0, 1], [3, -1]])], since=11)
  yield Case("GatherND", [x(2, 5, 6), np.array([[[1]], [[4]]])], {"batch_dims": 1}, since=12)
  yield Case("Expand", [x(3, 1), ints(2, 3, 5)], since=8)
  yield Case("Tile", [x(2, 3), ints(2, 3)])
  yield Case("Slice", [x(5, 6, 7)], {"starts": [1, 0], "ends": [4, -1], "axes": [0, 2]}, until=9)
  for starts, ends, axes, steps in (((1, 0), (4, -1), (0, 2), None), ((-1,), (-9,), (1,), (-2,)),
                                    ((0, 0, 0), (5, 3, 99), None, (2, 1, 3)),
                                    ((0,), (0,), (0,), (1,))):
    yield Case("Slice", [x(5, 6, 7), ints(*starts), ints(*ends), ints(*axes) if axes else None,
                         ints(*steps) if steps else None], since=10)
  yield Case("Split", [x(6, 5)], {"axis": 0}, until=12, outputs=3)
  yield Case("Split", [x(6, 5)], {"axis": 0, "split": [1, 2, 3]}, until=12, outputs=3)
  yield Case("Split", [x(6, 5), ints(1, 2, 3)], {"axis": 0}, since=13, outputs=3)
  yield Case("Split", [x(6, 7)], {"axis": 1, "num_outputs": 3}, since=18, outputs=3)
  yield Case("Reshape", [x(2, 3, 4), ints(0, -1)])
  yield Case("Reshape", [x(2, 0, 4), ints(0, 4, 7)], {"allowzero": 1}, since=14)
  yield Case("Squeeze", [x(1, 3, 1, 5)], {"axes": [0, 2]}, until=12)
  yield Case("Squeeze", [x(1, 3, 1, 5), ints(0, -2)], since=13)
  yield Case("Squeeze", [x(1, 3, 1, 5)])
  yield Case("Unsqueeze", [x(3, 5)], {"axes": [0, 3]}, until=12)
  yield Case("Unsqueeze", [x(3, 5), ints(0, -1)], since=13)
  for mode in ("constant", "reflect", "edge"):
    yield Case("Pad", [x(3, 5)], {"mode": mode, "pads": [1, 2, 0, 1], "value": 0.5}, until=10)
    yield Case("Pad", [x(3, 5), ints(1, 2, 0, 1)], {"mode": mode}, since=11)
  yield Case("Pad", [x(3, 5), ints(-1, 2, 0, 1), scalar(0.5)], since=11)
  yield Case("Pad", [x(3, 5), ints(2, 1), None, ints(1)], since=18)
  yield Case("Pad", [x(3, 5), ints(1, 2, 2, 1)], {"mode": "wrap"}, since=19)
  for mode in ("DCR", "CRD"):
    yield Case("DepthToSpace", [x(2, 12, 3, 2)], {"blocksize": 2, "mode": mode}, since=11)
  yield Case("SpaceToDepth", [x(2, 3, 4, 6)], {"blocksize": 2})
  for upper in (0, 1):
    yield Case("Trilu", [x(2, 4, 5), scalar(1, "l")], {"upper": upper}, since=14)
  yield Case("OneHot", [x(2, 3, dtype="l", low=-5, high=6), scalar(5, "l"),
                        np.array([-1, 2], np.float32)], {"axis": 1}, since=9)
  yield Case("Shape", [x(2, 3, 4)], exact=True)
  yield Case("Shape", [x(2, 3, 4)], {"start": 1, "end": -1}, since=15, exact=True)
  yield Case("Size", [x(2, 3, 4)], exact=True)
  yield Case("Constant", [], {"value": numpy_helper.from_array(np.arange(6.0).reshape(2, 3))})
  yield Case("ConstantOfShape", [ints(2, 3)],
             {"value": numpy_helper.from_array(np.array([7], np.int64))}, since=9, exact=True)
  yield Case("Range", [scalar(1), scalar(6), scalar(2)], since=11)


def integers():
  for direction in ("LEFT", "RIGHT"):
    yield Case("BitShift", [x(3, 5, dtype="B", high=99), x(5, dtype="B", low=0, high=9)],
               {"direction": direction}, since=11, exact=True)
  yield Case("BitCast", [x(3, 5)], {"to": int(TensorProto.INT32)}, since=26, exact=True)
  yield Case("IsInf", [x(3, 5)], since=10)
  for shape, scale in (((3, 5), scalar(0.1)), ((3, 5, 2), np.array([0.1, 0.2, 0.3, 0.1, 0.7],
                                                                  np.float32))):
    for zero in ("B", "b"):
      zeros = np.full(scale.shape, 3, NUMPY[zero])
      yield Case("QuantizeLinear", [x(*shape, high=9), scale, zeros], since=13, exact=True)
      yield Case("DequantizeLinear", [x(*shape, dtype=zero, high=99), scale, zeros], since=13)
  yield Case("QuantizeLinear", [x(3, 5), scalar(0.1)], since=13, exact=True)
  numbers = np.array([[2, 0, 1, 2], [0, 0, 3, 0], [2, 0, 1, 2]], np.float32)
  yield Case("NonZero", [numbers], since=9, exact=True)
  for forms in ({}, {"axis": 0}, {"axis": 1}, {"sorted": 0}):
    yield Case("Unique", [numbers], forms, since=11, outputs=4, exact=True)
  condition = np.array([1, 0, 1], np.bool_)
  yield Case("Compress", [x(3, 5), condition], {"axis": 0}, since=9)
  yield Case("Compress", [x(3, 5), condition], since=9)


def places():
  for mode in ("linear", "nearest", "cubic"):
    for padding in ("zeros", "border", "reflection"):
      for align in (0, 1):
        forms = {"mode": mode, "padding_mode": padding, "align_corners": align}
        yield Case("GridSample", [x(2, 3, 5, 4), x(2, 3, 6, 2)], forms, since=20)
  yield Case("GridSample", [x(1, 2, 3, 4, 5), x(1, 2, 3, 4, 3)], since=20)
  rois = np.array([[0, 0, 5, 4], [1, 2, 3.5, 8], [2, 2, 2, 2]], np.float32)
  for coordinates in ("half_pixel", "output_half_pixel"):
    for mode in ("avg", "max"):
      yield Case("RoiAlign", [x(2, 3, 9, 8, low=0), rois, ints(0, 1, 1)],
                 {"coordinate_transformation_mode": coordinates, "mode": mode, "output_height": 3,
                  "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.8}, since=16)
  yield Case("DeformConv", [x(1, 4, 6, 5), x(4, 2, 3, 3), x(1, 36, 4, 3), x(4), x(1, 18, 4, 3)],
             {"group": 2, "offset_group": 2}, since=19)
  yield Case("Col2Im", [x(1, 12, 20), ints(5, 6), ints(2, 2)], since=18)
  yield Case("Col2Im", [x(1, 12, 12), ints(5, 6), ints(2, 2)], {"pads": [0, 1, 0, 1],
                                                                "strides": [2, 1],
                                                                "dilations": [2, 2]}, since=18)
  boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [0, 10.1, 1, 9.1]]],
                   np.float32)
  scores = np.array([[[0.9, 0.75, 0.6, 0.95], [0.1, 0.7, 0.3, 0.2]]], np.float32)
  for centre in (0, 1):
    yield Case("NonMaxSuppression", [boxes, scores, ints(3), scalar(0.5), scalar(0.15)],
               {"center_point_box": centre}, since=11, exact=True)
  yield Case("NonMaxSuppression", [boxes, scores, ints(2)], since=11, exact=True)
  places = np.array([[[[0, 3], [9, 15]]]], np.int64)
  yield Case("MaxUnpool", [x(1, 1, 2, 2), places], {"kernel_shape": [2, 2], "strides": [2, 2]},
             since=11)
  for p in (1, 2, 3):
    yield Case("LpPool", [x(1, 3, 9, 9)], {"kernel_shape": [3, 2], "strides": [2, 2], "p": p},
               since=18)


def signals():
  for forms in ({}, {"inverse": 1}):
    for size in (8, 12, 7):
      yield Case("DFT", [x(2, size, 3, 2), None, scalar(1, "l")], forms, since=20)
  yield Case("DFT", [x(2, 9, 1), None, scalar(1, "l")], {"onesided": 1}, since=20)
  yield Case("STFT", [x(2, 20, 1), scalar(3, "l"), x(8), scalar(8, "l")], {"onesided": 1}, since=17)
  for size in (1, 2, 5):
    yield Case("Det", [x(3, size, size)], since=11)
  yield Case("CumProd", [x(3, 5), scalar(1, "l")], since=26)
  for mode in ("TF", "IDF", "TFIDF"):
    yield Case("TfIdfVectorizer", [x(2, 9, dtype="l", low=1, high=4)],
               {"mode": mode, "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 2,
                "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2, 3],
                "pool_int64s": [2, 3, 1, 2, 3, 4], "weights": [1.0, 2.0, 0.5, 3.0]}, since=9)
  yield Case("ReverseSequence", [x(4, 3, 2), ints(1, 4, 0)], since=10)
  yield Case("ReverseSequence", [x(3, 4, 2), ints(1, 4, 0)], {"batch_axis": 0, "time_axis": 1},
             since=10)
  yield Case("TensorScatter", [x(2, 3, 5, 4), x(2, 3, 2, 4), ints(1, 3)], since=24)
  yield Case("TensorScatter", [x(2, 3, 5, 4), x(2, 3, 2, 4), ints(1, 4)], {"mode": "circular"},
             since=24)
  yield Case("LinearAttention", [x(2, 3, 8), x(2, 3, 8), x(2, 3, 10)],
             {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}, since=27,
             outputs=2)
  classes = np.array([0, 4, 2, 2], np.int64)
  for reduction in ("none", "sum", "mean"):
    yield Case("NegativeLogLikelihoodLoss", [x(4, 5), classes], {"reduction": reduction}, since=13)
    yield Case("NegativeLogLikelihoodLoss", [x(4, 5), classes, x(5, low=0.2)],
               {"reduction": reduction, "ignore_index": 2}, since=13)


ALL = [*elementwise(), *rows(), *products(), *recurrent(), *windows(), *resizes(), *movement(),
       *integers(), *places(), *signals()]
