"""The C library by its header: options, notes, statuses and errors, without a line of C++."""

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import stretto

OK, INVALID_ARGUMENT, FORMAT_ERROR = 0, 1, 3


class LoadOptions(ctypes.Structure):
  _fields_ = [("threads", ctypes.c_int32), ("verify", ctypes.c_int32)]


class OptimizeOptions(ctypes.Structure):
  _fields_ = [("level", ctypes.c_char_p), ("accuracy", ctypes.c_char_p),
              ("tuning", ctypes.c_char_p), ("threads", ctypes.c_int32),
              ("lengths", ctypes.c_char_p)]


@pytest.fixture(scope="module")
def library():
  build = os.environ.get("STRETTO_BUILD")
  path = Path(build or "", "libstretto_c.so")
  if not build or not path.exists():
    pytest.skip("no libstretto_c.so: set STRETTO_BUILD to a build folder (./dev test does)")
  library = ctypes.CDLL(str(path))
  library.stretto_optimize.restype = ctypes.c_void_p
  library.stretto_optimize.argtypes = [ctypes.c_char_p, ctypes.POINTER(OptimizeOptions)]
  library.stretto_load.restype = ctypes.c_void_p
  library.stretto_load.argtypes = [ctypes.c_char_p, ctypes.POINTER(LoadOptions)]
  library.stretto_model_free.argtypes = [ctypes.c_void_p]
  library.stretto_note_count.argtypes = [ctypes.c_void_p]
  library.stretto_note.restype = ctypes.c_char_p
  library.stretto_note.argtypes = [ctypes.c_void_p, ctypes.c_int32]
  library.stretto_session_new.restype = ctypes.c_void_p
  library.stretto_session_new.argtypes = [ctypes.c_void_p, ctypes.c_int32]
  library.stretto_session_free.argtypes = [ctypes.c_void_p]
  library.stretto_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
  library.stretto_last_error.restype = ctypes.c_char_p
  return library


@pytest.fixture(scope="module")
def model(cnn):
  return stretto.optimize(cnn, tuning="off", threads=os.cpu_count() + 1)


@pytest.fixture(scope="module")
def artefact(model, tmp_path_factory):
  path = tmp_path_factory.mktemp("c") / "m.stretto"
  model.save(path)
  return str(path).encode()


def run(library, handle, image):
  session = library.stretto_session_new(handle, 0)
  assert session, library.stretto_last_error()
  output = np.zeros((1, 10), np.float32)
  status = library.stretto_run(session, (ctypes.c_void_p * 1)(image.ctypes.data),
                               (ctypes.c_void_p * 1)(output.ctypes.data))
  assert status == OK, library.stretto_last_error()
  library.stretto_session_free(session)
  return output


@pytest.mark.parametrize("options, notes", [
  (None, 1), (LoadOptions(0, 0), 1), (LoadOptions(1, 0), 0), (LoadOptions(2, 1), 0),
])
def test_options_of_load(options, notes, library, artefact, model, image):
  handle = library.stretto_load(artefact, options)
  assert handle, library.stretto_last_error()
  assert library.stretto_note_count(handle) == notes
  for index in range(notes):
    assert b"usable core" in library.stretto_note(handle, index)
  assert library.stretto_note(handle, notes) is None
  assert library.stretto_note(handle, -1) is None
  want = model(image)
  # Another number of threads may choose other kernels: fp32 sums in another order.
  assert np.abs(run(library, handle, image) - want).max() <= 2e-5 * np.abs(want).max()
  library.stretto_model_free(handle)


def test_options_of_optimize(library, cnn_path, model, image):
  file = str(cnn_path).encode()
  handle = library.stretto_optimize(file, OptimizeOptions(tuning=b"off", threads=1))
  assert handle, library.stretto_last_error()
  want = model(image)
  assert np.abs(run(library, handle, image) - want).max() <= 2e-5 * np.abs(want).max()
  library.stretto_model_free(handle)
  padded = OptimizeOptions(tuning=b"off", threads=1, lengths=b"attention_mask")
  assert library.stretto_optimize(file, padded) is None
  assert library.stretto_last_status() == INVALID_ARGUMENT
  assert b"attention_mask" in library.stretto_last_error()


def test_mistakes_have_a_status_and_a_text(library, artefact):
  assert library.stretto_load(artefact, LoadOptions(-1, 0)) is None
  assert library.stretto_last_status() == INVALID_ARGUMENT
  assert b"threads: expected 0" in library.stretto_last_error()
  assert library.stretto_load(b"nowhere.stretto", None) is None
  assert library.stretto_last_status() == FORMAT_ERROR
  assert b"nowhere.stretto" in library.stretto_last_error()
  assert library.stretto_load(None, None) is None
  assert library.stretto_last_status() == INVALID_ARGUMENT
  assert library.stretto_note_count(None) == 0


def test_random_numbers_follow_the_seed(library, tmp_path):
  values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 10]) for name in "xy"]
  graph = helper.make_graph([helper.make_node("RandomNormalLike", ["x"], ["y"])], "noise",
                            values[:1], values[1:])
  path = tmp_path / "m.stretto"
  stretto.optimize(helper.make_model(graph).SerializeToString(), tuning="off").save(path)
  handle = library.stretto_load(str(path).encode(), None)
  library.stretto_manual_seed.argtypes = [ctypes.c_uint64]
  runs = []
  for seed in (7, 8, 7):
    library.stretto_manual_seed(seed)
    runs.append(run(library, handle, np.zeros((1, 10), np.float32)))
  assert np.array_equal(runs[0], runs[2]) and not np.array_equal(runs[0], runs[1])
  library.stretto_model_free(handle)
