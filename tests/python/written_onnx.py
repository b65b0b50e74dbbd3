"""What tests of ONNX files that we write have in common: peers that run them, and how near their
results must be."""

import closeness
import numpy as np
import onnx
from onnx import TensorProto

# Floats relative to the largest value: engines sum in other orders.
TOLERANCE = 1e-4
# Where values are rounded to 16 bits in between: one unit in the last place of either type.
HALF_TOLERANCES = {TensorProto.FLOAT16: 1e-3, TensorProto.BFLOAT16: 8e-3}


def run_peer(path, feeds):
  import onnxruntime as ort

  options = ort.SessionOptions()
  options.log_severity_level = 4
  options.intra_op_num_threads = 1
  return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(
    None, feeds)


def difference(got, want, tolerance=TOLERANCE):
  """None where an array is the other one, otherwise why not."""
  got, want = np.asarray(got), np.asarray(want)
  if want.dtype.name.startswith("float8") and got.dtype == np.uint8:  # ONNX Runtime gives the bits
    want = want.view(np.uint8)
  return closeness.difference(got, want, tolerance)


def checked(path):
  onnx.checker.check_model(str(path), full_check=True)
  return onnx.load(str(path))
