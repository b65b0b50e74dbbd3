"""Whatever Stretto raises is a stretto.Error and one of Python's own classes: the same class from
C++, from the gradient engine and from Python code."""

import builtins
import errno
import inspect
import pickle
import re
import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from stretto._errors import format_error

import stretto
from stretto import comm

BASES = {
  stretto.InvalidArgumentError: ValueError,
  stretto.UnsupportedError: NotImplementedError,
  stretto.InternalError: RuntimeError,
  stretto.CommError: RuntimeError,
  stretto.FormatError: OSError,
}


@pytest.mark.parametrize("kind", BASES)
def test_every_class_is_an_error_of_stretto_and_of_python(kind):
  assert issubclass(kind, stretto.Error) and issubclass(kind, BASES[kind])
  assert kind.__module__ == "stretto" and getattr(stretto, kind.__name__) is kind


def refused(path):
  return [lambda: stretto.optimize(path), lambda: stretto.load(path)]


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_file_is_a_file_not_found_error_with_its_errno(which, tmp_path):
  path = tmp_path / ("nowhere.onnx", "nowhere.stretto")[which]
  with pytest.raises(FileNotFoundError, match=path.name) as caught:
    refused(path)[which]()
  error = caught.value
  assert isinstance(error, stretto.FormatError) and isinstance(error, stretto.Error)
  assert error.errno == errno.ENOENT and error.filename == str(path) and error.offset == -1
  assert type(error).__name__ == "FormatError"


@pytest.mark.parametrize("which", [0, 1])
def test_a_folder_is_an_is_a_directory_error(which, tmp_path):
  with pytest.raises(IsADirectoryError) as caught:
    refused(tmp_path)[which]()
  assert isinstance(caught.value, stretto.FormatError)


def test_a_path_below_a_file_cannot_be_written(cnn, tmp_path):
  (tmp_path / "file").write_text("")
  model = stretto.optimize(cnn, tuning="off")
  with pytest.raises(NotADirectoryError, match="m.stretto") as caught:
    model.save(tmp_path / "file" / "m.stretto")
  assert isinstance(caught.value, stretto.FormatError)
  with pytest.raises(NotADirectoryError, match="r.html") as caught:
    model.report.save(tmp_path / "file" / "r.html")
  assert isinstance(caught.value, stretto.FormatError)


def test_a_damaged_file_has_no_errno(tmp_path):
  path = tmp_path / "damaged.stretto"
  path.write_bytes(b"not an artefact at all, but long enough to hold a header" * 4)
  with pytest.raises(stretto.FormatError, match=path.name) as caught:
    stretto.load(path)
  assert caught.value.errno is None and caught.value.filename == str(path)
  assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("error", [
  stretto.InvalidArgumentError("a"), stretto.UnsupportedError("b"), stretto.InternalError("c"),
  stretto.CommError("d", 3, "10.0.0.1 - 10.0.0.2"), format_error("e", "file", 7),
  format_error("f", "file", -1, errno.ENOENT),
], ids=lambda error: str(error))
def test_errors_survive_pickling(error):
  """Worker processes send them to their parents."""
  copy = pickle.loads(pickle.dumps(error))
  assert type(copy) is type(error) and str(copy) == str(error)
  assert vars(copy) == vars(error)
  if isinstance(error, OSError):
    assert (copy.errno, copy.filename, copy.offset) == (error.errno, error.filename, error.offset)


def free_port():
  with socket.socket() as listener:
    listener.bind(("127.0.0.1", 0))
    return listener.getsockname()[1]


def test_a_rank_that_does_not_come_is_a_comm_error():
  options = comm.Options.from_environment()
  options.connect_timeout_s = 0.2
  with pytest.raises(stretto.CommError) as caught:
    comm.Engine(f"127.0.0.1:{free_port()}", 0, 2, options)
  assert isinstance(caught.value, stretto.Error) and isinstance(caught.value.rank, int)


@pytest.fixture
def alone(tmp_path):
  engine = comm.Engine(f"{tmp_path}/job", 0, 1)
  yield engine
  engine.close()


def test_the_engine_raises_the_same_classes(alone):
  with pytest.raises(stretto.InvalidArgumentError, match="float33"):
    alone.submit(kind=comm.ALL_REDUCE, dtype="float33", count=1)
  with pytest.raises(stretto.InvalidArgumentError, match="C-contiguous"):
    alone.all_reduce(np.zeros((4, 4), np.float32).T[1:])
  with pytest.raises(stretto.InvalidArgumentError, match="codec"):
    alone.submit(kind=comm.ALL_REDUCE, dtype="float32", count=1, codec="no_such_codec")
  alone.close()
  with pytest.raises(stretto.InvalidArgumentError, match="closed"):
    alone.all_reduce(np.zeros(4, np.float32))


def test_the_adapters_raise_the_same_classes():
  pytest.importorskip("torch")
  import stretto.horovod
  import stretto.torch

  assert stretto.torch.CommError is stretto.CommError
  assert stretto.horovod.HorovodInternalError is stretto.CommError
  with pytest.raises(stretto.InvalidArgumentError, match="init"):
    stretto.horovod.rank()
  assert issubclass(stretto.horovod._epochs.StoreLost, stretto.CommError)


ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_table_that_the_code_gives():
  sys.path.insert(0, str(ROOT / "docs/site"))
  import errors as page

  command = "python docs/site/errors.py --package build/dev/python"
  assert page.PAGE.read_text() == page.page(), f"write it anew: {command}"
  assert page.errors_table().count("\n") == 2 + len(stretto.Error.__subclasses__()), \
    "titles, their rule, and a row more than Stretto has classes: lack of memory"
  for kind in stretto.Error.__subclasses__():
    assert f"`{kind.__name__}`, " in page.errors_table()


def test_attributes_that_errors_document_are_there():
  examples = {"FormatError": format_error("text", "file", 1, 0), "CommError": stretto.CommError("")}
  for name, error in examples.items():
    for attribute in re.findall(r"^  (\w+):", inspect.getdoc(type(error)).split("Attributes:")[1],
                                re.M):
      assert hasattr(error, attribute), f"{name}.{attribute}"


def test_classes_of_python_that_the_page_names_are_raised():
  paragraph = (ROOT / "docs/errors.md").read_text().split("If the operating system")[1]
  for kind in re.findall(r"`(\w+Error)`", paragraph.split("\n\n")[0]):
    assert kind == "FormatError" or any(issubclass(c, getattr(builtins, kind))
                                        for c in stretto._errors._REFUSED.values()), kind
