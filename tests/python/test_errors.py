"""Whatever Stretto raises is a stretto.Error and one of Python's own classes: the same class from
C++, from the gradient engine and from Python code."""

import builtins
import errno
import pickle
import re
import socket
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


# docs/errors.md is written by hand. These tests read the code beside it.

ROOT = Path(__file__).resolve().parents[2]


def rows_of_the_page():
  """(C++ cell, Python cell, C status, exit code) of every row."""
  lines = re.findall(r"^\| (.+) \|$", (ROOT / "docs/errors.md").read_text(), re.M)
  cells = [line.split(" | ") for line in lines]
  return [(cpp, python, status.strip("`"), int(code)) for _, cpp, python, status, code in cells
          if code.isdigit()]


def words(cell):
  return re.findall(r"`([^`]+)`", cell)


def test_the_page_has_every_class_of_python_with_its_bases_and_attributes():
  found = {}
  for _, cell, _, _ in rows_of_the_page():
    name, *others = words(cell)
    found[name] = others
  assert set(found) == {kind.__name__ for kind in stretto.Error.__subclasses__()} | {"MemoryError"}
  examples = {"FormatError": format_error("text", "file", 1, 0), "CommError": stretto.CommError("")}
  for kind, base in BASES.items():
    assert found[kind.__name__][0] == base.__name__, kind
    for attribute in found[kind.__name__][1:]:
      assert hasattr(examples[kind.__name__], attribute), attribute
  text = (ROOT / "docs/errors.md").read_text()
  paragraph = text.split("If the operating system")[1].split("\n\n")[0]
  for kind in re.findall(r"`(\w+Error)`", paragraph):
    assert kind == "FormatError" or any(issubclass(c, getattr(builtins, kind))
                                        for c in stretto._errors._REFUSED.values()), kind


def test_the_page_has_every_class_of_cpp_with_its_base_and_accessors():
  header = (ROOT / "src/stretto/base/error.h").read_text()
  classes = {name: (base, body) for name, base, body in re.findall(
    r"^class (\w+) : public (std::\w+), public Error \{(.*?)^\};", header, re.M | re.S)}
  found = {words(cell)[0]: words(cell)[1:] for cell, *_ in rows_of_the_page()}
  assert set(found) == {*classes, "std::bad_alloc"}
  for name, (base, body) in classes.items():
    assert found[name][0] == base, name
    accessors = {f"{accessor}()" for accessor in re.findall(r"(\w+)\(\) const \{ return \w+_; \}",
                                                            body)}
    assert set(found[name][1:]) == accessors, name


def caught(text, kind):
  """What a list of catch clauses does with a C++ class, up to the next clause."""
  clauses = re.findall(r"catch \(const (?:stretto::)?([\w:]+)&(?: \w+)?\) \{(.*?)(?=\} catch|\n\})",
                       text, re.S)
  return next(body for name, body in clauses if name in (kind, "std::exception"))


def test_the_page_has_the_statuses_of_c():
  header = (ROOT / "src/stretto/stretto_c.h").read_text()
  statuses = set(re.findall(r"^  (STRETTO_\w+) = \d+,? +/\*", header, re.M))
  assert len(statuses) == 5
  assert {status for _, _, status, _ in rows_of_the_page()} == statuses
  guard = (ROOT / "src/stretto/stretto_c_guard.h").read_text()
  for cell, _, status, _ in rows_of_the_page():
    assert status in caught(guard, words(cell)[0]), cell


def test_the_page_has_the_exit_codes_of_the_command():
  codes = dict(re.findall(r"(k\w+) = (\d)", (ROOT / "cli/verbs.h").read_text()))
  main = (ROOT / "cli/main.cc").read_text()
  for cell, _, _, code in rows_of_the_page():
    name = re.search(r"\bk(?:Ok|Failed|BadUsage|Environment)\b", caught(main, words(cell)[0]))[0]
    assert int(codes[name]) == code, cell
