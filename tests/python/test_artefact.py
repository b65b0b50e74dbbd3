"""Saving and loading: the same results, and no damaged file gets through."""

import os

import numpy as np
import onnx
import pytest
from conftest import model_of, value
from onnx import helper

import stretto


@pytest.fixture(scope="module")
def model(cnn):
  return stretto.optimize(cnn, tuning="off")


@pytest.fixture(scope="module")
def artefact(model, tmp_path_factory):
  path = tmp_path_factory.mktemp("artefact") / "m.stretto"
  model.save(path)
  return path


def test_a_loaded_model_is_the_saved_one(model, artefact, image):
  loaded = stretto.load(artefact)
  assert np.array_equal(loaded(image), model(image))
  assert loaded.inputs == model.inputs and loaded.outputs == model.outputs
  assert loaded.report["model"] == model.report["model"]


def test_threads_are_those_asked_for_or_the_cores_of_this_machine(cnn, image, model, tmp_path):
  path = str(tmp_path / "many.stretto")
  many = os.cpu_count() + 1
  stretto.optimize(cnn, tuning="off", threads=many, verify=False).save(path)
  clamped = stretto._stretto.load(path)
  assert clamped.threads < many
  assert len(clamped.notes) == 1 and f"optimised for {many} threads" in clamped.notes[0]
  assert stretto._stretto.load(path, threads=many).threads == many
  obeyed = stretto._stretto.load(path, threads=1)
  assert (obeyed.threads, obeyed.notes) == (1, [])
  want = model(image)
  for engine in (clamped, obeyed):
    assert np.abs(engine.run([image])[0] - want).max() <= 2e-5 * np.abs(want).max()
  with pytest.raises(stretto.InvalidArgumentError, match="threads: expected 0"):
    stretto._stretto.load(path, threads=-1)


def test_load_verifies_what_the_file_remembers(cnn, artefact, model, image, tmp_path, monkeypatch):
  assert np.array_equal(stretto.load(artefact, verify=True)(image), model(image))
  stretto.load(artefact, threads=1, verify=True)
  monkeypatch.setenv("STRETTO_ISA", "portable")
  stretto.load(artefact, verify=True)
  monkeypatch.delenv("STRETTO_ISA")
  given = tmp_path / "given.stretto"
  stretto.optimize(cnn, {"x": image}, tuning="off").save(given)
  stretto.load(given, verify=True)


def test_a_file_made_with_large_inputs_cannot_be_verified(tmp_path):
  large = value("x", [3 << 20])
  model = model_of([helper.make_node("Relu", ["x"], ["y"], "relu")], [large],
                   [value("y", [3 << 20])], {})
  path = tmp_path / "large.stretto"
  stretto.optimize(model, {"x": np.ones(3 << 20, np.float32)}, tuning="off").save(path)
  for read in (stretto.load, stretto.optimize):
    read(path)
    read(path, verify=False)
    with pytest.raises(stretto.UnsupportedError, match="large.stretto: holds no sample outputs"):
      read(path, verify=True)


def test_optimize_of_an_artefact_loads_it(artefact, model, image):
  assert np.array_equal(stretto.optimize(str(artefact))(image), model(image))


@pytest.mark.parametrize("option, given", [
  ("inputs", {"x": np.zeros((1, 3, 16, 16), np.float32)}), ("level", "half"),
  ("accuracy", "strict"), ("shapes", {"x": (1, 3, 16, 16)}), ("tuning", "off"), ("tuning", 3.0),
  ("disable", ["fuse-epilogue"]),
  ("tuning_cache", "cache.tsv"), ("force", {"conv2d": "direct"}), ("peers", ["onnxruntime"]),
])
def test_optimize_of_an_artefact_refuses_what_it_cannot_obey(option, given, artefact):
  with pytest.raises(stretto.InvalidArgumentError, match=rf"^{option}: .*ONNX file"):
    stretto.optimize(artefact, **{option: given})


def test_optimize_of_an_artefact_obeys_report_and_takes_defaults(artefact, model, tmp_path):
  page, data = tmp_path / "r.html", tmp_path / "r.json"
  stretto.optimize(artefact, report=page, tuning="quick", disable=[], peers=[], inputs={})
  assert page.read_text("utf-8").startswith("<!doctype html>")
  stretto.optimize(artefact, report=data)
  assert stretto.Report.from_json(data.read_text()) == model.report


@pytest.mark.parametrize("read", [stretto.load, stretto.optimize])
def test_the_threads_asked_for_are_used(read, artefact, model, image):
  for threads in (1, 2):
    loaded = read(artefact, threads=threads)
    assert loaded.threads == threads
    assert np.abs(loaded(image) - model(image)).max() <= 2e-5 * np.abs(model(image)).max()
  for threads in (-1, 1025):
    with pytest.raises(stretto.InvalidArgumentError, match="threads"):
      read(artefact, threads=threads)


def test_an_artefact_for_more_threads_than_this_machine_has_is_clamped_with_a_warning(
    cnn, tmp_path, caplog):
  path = tmp_path / "many.stretto"
  many = len(os.sched_getaffinity(0)) + 1
  stretto.optimize(cnn, tuning="off", threads=many).save(path)
  assert stretto.load(path).threads < many
  [record] = [r for r in caplog.records if r.name == "stretto"]
  assert record.levelname == "WARNING"
  assert str(path) in record.getMessage() and f"{many} threads" in record.getMessage()


def test_another_instruction_set_still_gives_the_result(artefact, model, image, monkeypatch):
  want = model(image)
  for isa in ("portable", "avx2"):
    monkeypatch.setenv("STRETTO_ISA", isa)
    got = stretto.load(artefact)(image)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("keep", [0, 1, 7, 64, 0.5, 0.99, -1])
def test_a_truncated_artefact_is_a_format_error(keep, artefact, tmp_path):
  whole = artefact.read_bytes()
  size = keep if isinstance(keep, int) else int(len(whole) * keep)
  cut = tmp_path / "cut.stretto"
  cut.write_bytes(whole[:size])
  with pytest.raises(stretto.FormatError, match="cut.stretto"):
    stretto.load(cut)


def test_no_altered_byte_goes_unnoticed(artefact, tmp_path):
  whole = artefact.read_bytes()
  altered = tmp_path / "altered.stretto"
  seed = 11
  for at in np.random.default_rng(seed).integers(0, len(whole), 60):
    changed = bytearray(whole)
    changed[at] ^= 0x40
    altered.write_bytes(changed)
    try:
      stretto.load(altered)
    except stretto.FormatError:
      continue
    pytest.fail(f"byte {at} of {len(whole)} was altered and nobody noticed")


@pytest.mark.parametrize("given, words", [
  ({"threads": "2"}, "threads: expected an integer"), ({"threads": -1}, "threads"),
  ({"threads": 10**12}, "threads"), ({"path": 3}, "path: expected a path"),
  ({"path": "a\0b"}, "path: .* null"), ({"path": "\udcff.stretto"}, "path: .* UTF-8"),
])
def test_load_names_what_is_of_a_wrong_type(given, words, artefact):
  with pytest.raises(stretto.InvalidArgumentError, match=words):
    stretto.load(**{"path": artefact, **given})


def test_paths_may_be_bytes(artefact, model, tmp_path):
  assert stretto.load(os.fsencode(artefact)).name == model.name
  model.save(os.fsencode(tmp_path / "m.stretto"))
  model.report.save(os.fsencode(tmp_path / "r.json"))
  report = (tmp_path / "r.json").read_text()
  assert stretto.Report.from_json(report) == model.report
  assert (tmp_path / "m.stretto").exists()


@pytest.mark.parametrize("text", ["nonsense", "[1]", ""])
def test_a_report_is_read_from_a_json_object_only(text):
  with pytest.raises(stretto.InvalidArgumentError, match="report"):
    stretto.Report.from_json(text)


def test_files_of_other_kinds_are_format_errors(cnn_path, tmp_path):
  for content in (b"", b"hello", cnn_path.read_bytes()):
    other = tmp_path / "other.stretto"
    other.write_bytes(content)
    with pytest.raises(OSError, match="other.stretto"):
      stretto.load(other)


def test_saving_where_nothing_can_be_written_is_an_oserror(model, tmp_path):
  (tmp_path / "file").write_bytes(b"")
  with pytest.raises(OSError, match="m.stretto"):
    model.save(tmp_path / "file" / "m.stretto")


def test_the_artefact_can_be_replaced_while_a_model_of_it_lives(model, image, tmp_path):
  path = tmp_path / "m.stretto"
  model.save(path)
  loaded = stretto.load(path)
  want = loaded(image)
  model.save(path)
  assert np.array_equal(loaded(image), want)


def test_saving_does_not_replace_what_the_model_was_made_from(cnn, tmp_path, monkeypatch):
  onnx.save(onnx.ModelProto.FromString(cnn.SerializeToString()), tmp_path / "m.onnx",
            save_as_external_data=True, location="m.data", size_threshold=0)
  (tmp_path / "link.stretto").symlink_to("m.onnx")
  monkeypatch.chdir(tmp_path)
  model = stretto.optimize("m.onnx", tuning="off", threads=1, verify=False)
  monkeypatch.chdir("/")
  for name in ("m.onnx", "m.data", "link.stretto"):
    before = (tmp_path / name).read_bytes()
    with pytest.raises(stretto.InvalidArgumentError, match=f"{name} is a file of the model"):
      model.save(tmp_path / name)
    assert (tmp_path / name).read_bytes() == before
  model.save(tmp_path / "m.stretto")
  stretto.load(tmp_path / "m.stretto").save(tmp_path / "m.stretto")


def test_saving_makes_no_folder(model, tmp_path):
  with pytest.raises(FileNotFoundError, match="there is no folder .*typo"):
    model.save(tmp_path / "typo" / "m.stretto")
  assert not (tmp_path / "typo").exists()


def test_a_wrong_instruction_set_is_no_fault_of_the_file(artefact, monkeypatch):
  monkeypatch.setenv("STRETTO_ISA", "foo")
  with pytest.raises(stretto.InvalidArgumentError, match="^STRETTO_ISA: expected portable, avx2"):
    stretto.load(artefact)
